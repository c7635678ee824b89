package httpapi_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/web/httpapi"
)

type namedIn struct {
	Flow  string `path:"flow" is:"name"`
	Where string `query:"where" is:"name or empty"`
	Body  struct {
		Name string  `json:"name" is:"name"`
		Or   *string `json:"or,omitempty" is:"name or empty"`
	}
}

func TestNamesOfBodiesAndParameters(t *testing.T) {
	t.Parallel()
	a := httpapi.New(httpapi.Config{Authenticator: known, Log: slog.New(slog.DiscardHandler)})
	g := httpapi.Group{API: a, Function: "test", Writes: tenant.Needs(tenant.FlowsWrite)}
	httpapi.Post(g, "/named/{flow}", func(context.Context, *namedIn) (httpapi.None, error) { return httpapi.None{}, nil }, "Name", httpapi.ID("named"))
	long := strings.Repeat("x", 128)
	for name, valid := range map[string]bool{
		"a": true, "1.0": true, "A-b_c.d": true, long: true,
		"": false, "-a": false, ".a": false, "a b": false, "ä": false, "a#b": false, long + "x": false,
	} {
		for place, at := range map[string]struct {
			flow, where, body string
			valid             bool
		}{
			"path":               {name, "", `{"name":"x"}`, valid},
			"query":              {"x", name, `{"name":"x"}`, valid || name == ""},
			"body":               {"x", "", `{"name":"` + name + `"}`, valid},
			"body, may be empty": {"x", "", `{"name":"x","or":"` + name + `"}`, valid || name == ""},
		} {
			if at.flow == "" {
				continue // another path
			}
			r := httptest.NewRequest("POST", "/named/"+url.PathEscape(at.flow)+"?where="+url.QueryEscape(at.where), strings.NewReader(at.body))
			r.Header.Set("Authorization", "Bearer owner")
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, r)
			assert.Equal(t, at.valid, w.Code < 300, "%s %q: %d %s", place, name, w.Code, w.Body)
			if !at.valid {
				assert.Equal(t, 422, w.Code, "%s %q", place, name)
			}
		}
	}
}

func TestUnknownConstraintPanics(t *testing.T) {
	t.Parallel()
	a := httpapi.New(httpapi.Config{})
	g := httpapi.Group{API: a, Function: "test", Reads: tenant.Needs(tenant.FlowsRead)}
	type unknown struct {
		Flow string `path:"flow" is:"surname"`
	}
	type number struct {
		Flow int `path:"flow" is:"name"`
	}
	require.PanicsWithValue(t, `httpapi: field Flow cannot be "surname"`, func() {
		httpapi.Get(g, "/a/{flow}", func(context.Context, *unknown) (httpapi.None, error) { return httpapi.None{}, nil }, "A", httpapi.ID("a"))
	})
	require.PanicsWithValue(t, `httpapi: field Flow cannot be "name"`, func() {
		httpapi.Get(g, "/b/{flow}", func(context.Context, *number) (httpapi.None, error) { return httpapi.None{}, nil }, "B", httpapi.ID("b"))
	})
}
