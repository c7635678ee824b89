package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/embedded/server"
)

// TestOperatorSwitchesBackfills off and on; others cannot.
func TestOperatorSwitchesBackfills(t *testing.T) {
	_, c := serve(t, nil)
	body := func(enabled string) string { return `{"org_id":"` + c.OrgID + `","enabled":` + enabled + `}` }
	send := func(bearer, body string) int {
		return post(t, c.BaseURL+server.BackfillsPath, body, "Authorization", "Bearer "+bearer).status
	}
	for name, try := range map[string]struct {
		bearer, body string
		want         int
	}{
		"an owner's key":   {c.APIKey, body("false"), 401},
		"no JSON":          {c.LocalSecret, "{", 422},
		"a field missing":  {c.LocalSecret, `{"org_id":"` + c.OrgID + `"}`, 422},
		"an unknown field": {c.LocalSecret, `{"org_id":"x","enabled":true,"a":1}`, 422},
		"no workspace":     {c.LocalSecret, `{"org_id":"org_none","enabled":false}`, 404},
	} {
		assert.Equal(t, try.want, send(try.bearer, try.body), name)
	}
	for _, step := range []struct {
		enabled string
		want    int
	}{{"true", 200}, {"false", 503}, {"false", 503}, {"true", 200}} {
		assert.Equal(t, http.StatusOK, send(c.LocalSecret, body(step.enabled)))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.BaseURL+"/backfills", nil)
		assert.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+c.APIKey)
		res, err := http.DefaultClient.Do(req)
		if assert.NoError(t, err) {
			assert.Equal(t, step.want, res.StatusCode)
			assert.NoError(t, res.Body.Close())
		}
	}
}
