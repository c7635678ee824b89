package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

// TestReclaiming tests which operations write on a nearly full disk.
func TestReclaiming(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		op   httpapi.Operation
		want bool
	}{
		{httpapi.Operation{Method: "DELETE"}, true},
		{httpapi.Operation{Method: "POST", Reclaims: true}, true},
		{httpapi.Operation{Method: "POST"}, false},
		{httpapi.Operation{Method: "PUT"}, false},
		{httpapi.Operation{Method: "PATCH"}, false},
		{httpapi.Operation{Method: "GET"}, false},
	} {
		t.Run(fmt.Sprint(tt.op.Method, tt.op.Reclaims), func(t *testing.T) {
			t.Parallel()
			op, got := tt.op, false
			op.ID, op.Path, op.Access = "op", "/op", tenant.Public
			a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
			httpapi.Register(a, op, func(ctx context.Context, _ *httpapi.None) (httpapi.None, error) {
				got = table.IsReclaiming(ctx)
				return httpapi.None{}, nil
			})
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, request(t, op.Method, "/op", "", ""))
			assert.Equal(t, 204, w.Code)
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestUnavailableIsPassedOn, however a handler wraps it.
func TestUnavailableIsPassedOn(t *testing.T) {
	t.Parallel()
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	op := httpapi.Operation{ID: "op", Method: "POST", Path: "/op", Access: tenant.Public}
	httpapi.Register(a, op, func(context.Context, *httpapi.None) (httpapi.None, error) {
		full := errs.Wrap(errs.Unavailable, errors.New("a cause that is not sent"), "the disk is full: 3 MB are free")
		full.RetryAfter = 10 * time.Second
		return httpapi.None{}, fmt.Errorf("start run: %w", fmt.Errorf("put item: %w", full))
	})
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, request(t, "POST", "/op", "", ""))
	assert.Equal(t, 503, w.Code)
	assert.JSONEq(t, `{"detail":"the disk is full: 3 MB are free"}`, w.Body.String())
	assert.Equal(t, "10", w.Header().Get("Retry-After"))
}
