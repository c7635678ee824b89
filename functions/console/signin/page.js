// Signs a user in at the identity provider (authorization code with PKCE), and
// approves the device authorization whose code the user types. The token lives
// in this page's memory only.
'use strict'

const settings = document.body.dataset
const stored = 'millrace.sign-in' // state, nonce and verifier of a sign-in that is under way
let token = ''

const element = (id) => document.getElementById(id)

function show(id) {
  for (const other of ['start', 'approval', 'done']) element(other).hidden = other !== id
}

function fault(text) {
  element('fault').textContent = text
  element('fault').hidden = text === ''
}

const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)))

// claims of a token that came from the provider itself; the server verifies it.
function claims(jwt) {
  const body = atob(jwt.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(body, (c) => c.charCodeAt(0))))
}

async function signIn() {
  if (!window.isSecureContext) {
    fault('A browser signs in over https, or at an address of this machine such as 127.0.0.1.')
    return
  }
  const attempt = { state: random(), nonce: random(), verifier: random() }
  sessionStorage.setItem(stored, JSON.stringify(attempt))
  const challenge = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(attempt.verifier))
  const to = new URL(settings.authorize)
  const query = {
    response_type: 'code', client_id: settings.client, redirect_uri: settings.callback, scope: 'openid email',
    state: attempt.state, nonce: attempt.nonce, code_challenge: base64url(new Uint8Array(challenge)), code_challenge_method: 'S256',
  }
  for (const [name, value] of Object.entries(query)) to.searchParams.set(name, value)
  location.assign(to)
}

// signedIn exchanges the code with which the provider sent the browser back.
async function signedIn(answer) {
  const attempt = JSON.parse(sessionStorage.getItem(stored) ?? 'null')
  sessionStorage.removeItem(stored)
  history.replaceState(null, '', location.pathname)
  if (attempt === null || answer.get('state') !== attempt.state) throw new Error('This sign-in was not begun in this page. Sign in again.')
  if (answer.has('error')) throw new Error('The identity provider refused the sign-in: ' + (answer.get('error_description') ?? answer.get('error')))
  const response = await fetch(settings.token, {
    method: 'POST', credentials: 'omit', referrerPolicy: 'no-referrer',
    body: new URLSearchParams({
      grant_type: 'authorization_code', client_id: settings.client, redirect_uri: settings.callback,
      code: answer.get('code') ?? '', code_verifier: attempt.verifier,
    }),
  })
  const tokens = await response.json().catch(() => ({}))
  if (!response.ok || !tokens.id_token) throw new Error('The identity provider gave no token: ' + (tokens.error_description ?? tokens.error ?? response.status))
  const who = claims(tokens.id_token)
  if (who.nonce !== attempt.nonce) throw new Error('The token is not of this sign-in. Sign in again.')
  token = tokens.id_token
  element('email').textContent = who.email ?? ''
}

// call calls the API. It throws an error with the server's words.
async function call(method, path, body, workspace) {
  const headers = { Authorization: 'Bearer ' + token }
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  if (workspace) headers['X-Org-Id'] = workspace
  const response = await fetch('.' + path, { method, headers, credentials: 'omit', body: body && JSON.stringify(body) })
  const answer = await response.json().catch(() => ({}))
  if (response.ok) return answer
  const detail = Array.isArray(answer.detail) ? answer.detail.map((entry) => entry.msg).join('. ') : answer.detail
  throw new Error(detail ?? 'The server answered ' + response.status)
}

async function offerWorkspaces() {
  const workspaces = (await call('GET', '/orgs')).items.filter((w) => !w.suspended)
  for (const workspace of workspaces) element('workspace').append(new Option(workspace.name, workspace.org_id))
  element('choice').hidden = workspaces.length < 2
}

async function approve(event) {
  event.preventDefault()
  const code = element('code').value.replaceAll(/[\s-]/g, '')
  if (!/^[0-9]{8}$/.test(code)) {
    fault('The code has eight digits.')
    return
  }
  element('approve').disabled = true
  fault('')
  try {
    const answer = await call('POST', '/auth/device/approve', { user_code: code }, element('workspace').value)
    element('where').textContent = ' as ' + answer.user_email + (answer.workspace_name ? ', in the workspace ' + answer.workspace_name : '')
    token = ''
    show('done')
  } catch (error) {
    fault(error.message)
  } finally {
    element('approve').disabled = false
  }
}

async function begin() {
  if (!settings.authorize) {
    fault('No sign-in is configured for this server. Use an API key.')
    return
  }
  const home = new URL(settings.callback)
  if (home.origin !== location.origin || home.pathname !== location.pathname) {
    location.replace(home) // the only address that the provider sends users back to
    return
  }
  element('sign-in').addEventListener('click', () => signIn().catch((error) => fault(error.message)))
  element('approval').addEventListener('submit', approve)
  const answer = new URLSearchParams(location.search)
  if (!answer.has('code') && !answer.has('error')) {
    show('start')
    return
  }
  try {
    await signedIn(answer)
    await offerWorkspaces()
    show('approval')
    element('code').focus()
  } catch (error) {
    fault(error.message)
    show('start')
  }
}

begin()
