package server_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/embedded/server"
)

// TestDeviceIsApprovedInABrowser does what the page's script does, over the
// network: sign in with the one-time code, and approve a device.
func TestDeviceIsApprovedInABrowser(t *testing.T) {
	codes := make(chan string, 10)
	_, c := serve(t, func(cfg *server.Config) { cfg.SignInCode = func(code string) { codes <- code } })
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, to string, form url.Values, header ...string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		if form != nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := browser.Do(req)
		require.NoError(t, err)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res, string(data)
	}
	device := &client.Client{BaseURL: c.BaseURL}
	var begun struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	require.NoError(t, device.Do(t.Context(), "POST", "/auth/device/start", map[string]any{}, &begun))

	_, page := send("GET", c.BaseURL+"/cli-callback", nil)
	data := func(name string) string {
		found := regexp.MustCompile(`data-` + name + `="([^"]+)"`).FindStringSubmatch(page)
		require.NotNil(t, found, name)
		return found[1]
	}
	require.Equal(t, c.BaseURL+"/cli-callback", data("callback"))
	verifier := strings.Repeat("v", 43)
	sum := sha256.Sum256([]byte(verifier))
	ask := url.Values{
		"response_type": {"code"}, "client_id": {data("client")}, "redirect_uri": {data("callback")}, "state": {"s"}, "nonce": {"n"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	res, _ := send("GET", data("authorize")+"?"+ask.Encode(), nil)
	require.Equal(t, 200, res.StatusCode)
	ask.Set("code", <-codes)
	ask.Set("email", c.Email)
	for name, header := range map[string][]string{
		"of another site": {"Sec-Fetch-Site", "cross-site"}, "of another origin": {"Origin", "https://evil.example.com"},
	} {
		res, _ = send("POST", data("authorize"), ask, header...)
		assert.Equal(t, 403, res.StatusCode, name)
	}
	res, _ = send("POST", data("authorize"), ask, "Sec-Fetch-Site", "same-origin")
	require.Equal(t, 303, res.StatusCode)
	back, err := url.Parse(res.Header.Get("Location"))
	require.NoError(t, err)
	res, body := send("POST", data("token"), url.Values{
		"grant_type": {"authorization_code"}, "client_id": {data("client")}, "redirect_uri": {data("callback")},
		"code": {back.Query().Get("code")}, "code_verifier": {verifier},
	})
	require.Equal(t, 200, res.StatusCode, body)
	var tokens struct {
		IDToken string `json:"id_token"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &tokens))
	user := &client.Client{BaseURL: c.BaseURL, Token: tokens.IDToken}
	require.NoError(t, user.Do(t.Context(), "POST", "/auth/device/approve", map[string]any{"user_code": begun.UserCode}, nil))

	var made struct {
		AccessToken string `json:"access_token"`
		OrgID       string `json:"org_id"`
	}
	require.NoError(t, device.Do(t.Context(), "POST", "/auth/device/token", map[string]any{"device_code": begun.DeviceCode}, &made))
	assert.Equal(t, c.OrgID, made.OrgID)
	var me struct {
		Email string `json:"user_email"`
	}
	require.NoError(t, (&client.Client{BaseURL: c.BaseURL, Token: made.AccessToken}).Do(t.Context(), "GET", "/me", nil, &me))
	assert.Equal(t, c.Email, me.Email)

	// The other local routes still ask for the local secret.
	res, _ = send("GET", c.BaseURL+"/_local/metrics", nil)
	assert.Equal(t, 401, res.StatusCode)
}
