// Renders the description next to this page. Nothing may come from, or go to,
// another host: no fonts, no telemetry, no proxy, no sharing, no assistant.
Scalar.createApiReference('#reference', {
  url: './openapi.json',
  withDefaultFonts: false,
  telemetry: false,
  proxyUrl: '',
  hideClientButton: true,
  showDeveloperTools: 'never',
  mcp: { disabled: true },
  agent: { disabled: true },
  persistAuth: false,
  authentication: { preferredSecurityScheme: 'bearer' },
})
