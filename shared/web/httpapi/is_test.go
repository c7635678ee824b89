package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
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

type titledIn struct {
	Body struct {
		Name string `json:"name" is:"title" minLength:"1" maxLength:"5"`
	}
}

func TestTitles(t *testing.T) {
	t.Parallel()
	a := httpapi.New(httpapi.Config{Authenticator: known, Log: slog.New(slog.DiscardHandler)})
	g := httpapi.Group{API: a, Function: "test", Writes: tenant.Needs(tenant.FlowsWrite)}
	httpapi.Post(g, "/titled", func(context.Context, *titledIn) (httpapi.None, error) { return httpapi.None{}, nil }, "Title", httpapi.ID("titled"))
	for title, msg := range map[string]string{
		"a": "", "a b": "", " a": "", "ä 😀": "", "#*/%": "", "…": "",
		"":             "String should have at least 1 character",
		"123456":       "String should have at most 5 characters",
		" ":            "Input should not be blank",
		"\u00a0\u3000": "Input should not be blank",
		"a\nb":         "Input should be one line without control characters",
		"\t":           "Input should be one line without control characters",
		"\x00":         "Input should be one line without control characters",
		"\x1b[1m":      "Input should be one line without control characters",
		"a\u0085":      "Input should be one line without control characters",
	} {
		body, err := json.Marshal(map[string]string{"name": title})
		require.NoError(t, err)
		r := httptest.NewRequest("POST", "/titled", bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer owner")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		if msg == "" {
			assert.Less(t, w.Code, 300, "%q: %s", title, w.Body)
			continue
		}
		assert.Equal(t, 422, w.Code, "%q", title)
		var res struct{ Detail []struct{ Msg string } }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &res))
		require.Len(t, res.Detail, 1, "%q: %s", title, w.Body)
		assert.Equal(t, msg, res.Detail[0].Msg, "%q", title)
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
