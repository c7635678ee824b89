package alert_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/run/alert"
)

// FuzzParseConfig checks that a configuration is either refused as the caller's
// fault, in the field, or sealed and shown without what is secret in it.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range [][2]string{
		{"chat", `{"webhook_url": "https://example.com/canary"}`},
		{"email", `{"to": ["ann@example.com", null, "canary"]}`},
		{"webhook", `{"url": "https://u:canary@example.com", "secret": "whsec_canary", "headers": {"A": "canary", "a": 1}}`},
		{"incident", `{"routing_key": "canary", "url": "https://[::1%25canary]/"}`},
		{"webhook", `{"url": "https://example.com", "url": 1, "canary": {}}`},
		{"chat", "\xff{"},
	} {
		f.Add(seed[0], seed[1])
	}
	v := testVault(f)
	f.Fuzz(func(t *testing.T, channelType, text string) {
		config, err := alert.ParseConfig(channelType, &text)
		if err != nil {
			require.Equal(t, errs.Unprocessable, errs.CodeOf(err))
			var fault *errs.Error
			require.ErrorAs(t, err, &fault)
			for _, d := range fault.Details {
				assert.Equal(t, []any{"body", "config_json"}, d.Loc[:2])
				assert.Nil(t, d.Input)
				assert.NotEmpty(t, d.Msg)
			}
			return
		}
		c := alert.Channel{Org: "org_1", ChannelID: "chn_1", Type: channelType}
		require.NoError(t, c.Seal(t.Context(), v, config))
		assert.True(t, json.Valid([]byte(c.ConfigJSON)))
		for _, secret := range []string{config.WebhookURL, config.URL, config.Secret, config.RoutingKey} {
			if len(secret) > len(`"routing_key":"***"`) { // others may be part of a name
				assert.False(t, strings.Contains(c.ConfigJSON, secret), "%s shows %s", c.ConfigJSON, secret)
			}
		}
	})
}
