package httpapi_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/httpapi"
)

// TestQuietSuccessesAreNotMeasured: of operations whose requests are many, only
// failures are measured, and logged above the level debug.
func TestQuietSuccessesAreNotMeasured(t *testing.T) {
	t.Parallel()
	var lines, metrics bytes.Buffer
	m := telemetry.NewMetrics("Test", &metrics)
	api := httpapi.New(httpapi.Config{
		Title: "Test", Log: telemetry.NewLogger(&lines, telemetry.JSON, slog.LevelInfo), Metrics: m, Clock: clock.System{},
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "beat", Method: "POST", Path: "/beat", Function: "beats", Access: tenant.Public, Quiet: true,
		Credential: func(_ context.Context, bearer string) error {
			if bearer != "known" {
				return errs.New(errs.Unauthenticated, "no")
			}
			return nil
		},
	}, func(context.Context, *httpapi.None) (httpapi.None, error) { return httpapi.None{}, nil })
	for bearer, want := range map[string]int{"known": 204, "other": 401} {
		lines.Reset()
		metrics.Reset()
		r := httptest.NewRequest("POST", "/beat", strings.NewReader("this is not JSON"))
		r.Header.Set("Authorization", "Bearer "+bearer)
		if want == 204 {
			r.Body = http.NoBody
		}
		w := httptest.NewRecorder()
		api.Handler().ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, "the credential is checked before the body")
		require.NoError(t, m.Flush(time.Now(), telemetry.Subject{}))
		assert.Equal(t, want == 204, lines.Len() == 0, lines.String())
		assert.Equal(t, want == 204, metrics.Len() == 0, metrics.String())
	}
}
