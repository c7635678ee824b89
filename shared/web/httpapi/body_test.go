package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/web/httpapi"
)

// FuzzBody sends arbitrary bodies: an accepted body is one strict JSON object,
// a rejected one is answered in the interface's form, and nothing fails.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"name":"a"}`, `{"name":"a","steps":[{"name":"x","sub":{"name":"y"}}],"tags":{"a":"b"}}`,
		`{"name":"a","anything":[[[1e5]]]}`, `{"name":"a","name":"b"}`, `{"name":"\ud800"}`, `{"name":"a"}}`, "\xff",
		`{"name":"a","data":"AAAA","at":"2026-01-01T00:00:00Z","mode":"fast","ratio":0.5,"note":null,"step":null}`,
	} {
		f.Add([]byte(seed))
	}
	h := fixture(f, nil).Handler()
	f.Fuzz(func(t *testing.T, data []byte) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/things", strings.NewReader(string(data)))
		r.Header.Set("Authorization", "Bearer owner")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 201:
			var sent, got map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(data, &sent), "encoding/json refuses what was taken")
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
			if anything, ok := sent["anything"]; ok && len(got["anything"]) > 0 {
				assert.JSONEq(t, string(anything), string(got["anything"]))
			}
		case 422:
			assertErrorShape(t, w.Body.Bytes())
		default:
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	})
}

func TestNumberOfReportedErrorsIsBounded(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	body := `{"name":"a","steps":[` + strings.Repeat(`{"name":1},`, 5000) + `{}]}`
	fixture(t, nil).Handler().ServeHTTP(w, request(t, "POST", "/things", "owner", body))
	assert.Equal(t, 422, w.Code)
	assert.Less(t, w.Body.Len(), 20_000)
}

func TestDefaultsInMapsAndSlices(t *testing.T) {
	t.Parallel()
	type nested struct {
		Size int     `json:"size" default:"3"`
		On   *bool   `json:"on" default:"true"`
		Set  []int   `json:"set" default:"[1,2]"`
		Name *string `json:"name" default:"x"`
	}
	type body struct {
		ByName map[string]nested    `json:"by_name,omitempty"`
		Deep   []map[string]*nested `json:"deep,omitempty"`
	}
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	httpapi.Register(a, httpapi.Operation{ID: "d", Method: "POST", Path: "/d", Access: tenant.Public},
		func(_ context.Context, in *struct{ Body body }) (body, error) {
			return in.Body, nil
		})
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, request(t, "POST", "/d", "", `{"by_name":{"a":{},"b":{"size":0,"on":false,"set":[],"name":null}},"deep":[{"k":{"size":4}}]}`))
	assert.JSONEq(t, `{"by_name":{"a":{"size":3,"on":true,"set":[1,2],"name":"x"},"b":{"size":0,"on":false,"set":[],"name":null}},
		"deep":[{"k":{"size":4,"on":true,"set":[1,2],"name":"x"}}]}`, w.Body.String())
}

func TestResponseEncodingFollowsEncodingJSON(t *testing.T) {
	t.Parallel()
	type out struct {
		Nil     []int           `json:"nil"`
		Map     map[string]int  `json:"map"`
		Zero    int             `json:"zero,omitempty"`
		Number  json.Number     `json:"number"`
		Pointer *int            `json:"pointer"`
		Raw     json.RawMessage `json:"raw"`
		HTML    string          `json:"html"`
	}
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	httpapi.Register(a, httpapi.Operation{ID: "o", Method: "GET", Path: "/o", Access: tenant.Public},
		func(context.Context, *httpapi.None) (out, error) {
			return out{Number: "12345678901234567890", Raw: json.RawMessage(`{"b":1,"a":2}`), HTML: "<&>"}, nil
		})
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, request(t, "GET", "/o", "", ""))
	assert.Equal(t, `{"nil":[],"map":{},"number":12345678901234567890,"pointer":null,"raw":{"b":1,"a":2},"html":"<&>"}`+"\n", w.Body.String())
}

type smallBody struct {
	Name  string `json:"name" minLength:"1"`
	Count int    `json:"count,omitempty" default:"1" maximum:"10"`
}

func small(a *httpapi.API, id string) {
	httpapi.Register(a, httpapi.Operation{ID: id, Method: "POST", Path: "/" + id + "/{x}", Access: tenant.Needs(tenant.FlowsWrite)},
		func(_ context.Context, in *struct {
			X    string `path:"x"`
			Body smallBody
		}) (smallBody, error) {
			return in.Body, nil
		})
}

// BenchmarkPost measures a small POST through the framework, with an empty
// handler and without access log.
func BenchmarkPost(b *testing.B) {
	a := httpapi.New(httpapi.Config{Authenticator: known, Log: slog.New(slog.DiscardHandler)})
	small(a, "small")
	h := a.Handler()
	body := strings.NewReader("")
	r := httptest.NewRequest("POST", "/small/1", nil)
	r.Header.Set("Authorization", "Bearer owner")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(`{"name":"a small body","count":3}`)
		r.Body, r.ContentLength = io.NopCloser(body), body.Size()
		w.Body.Reset()
		h.ServeHTTP(w, r)
	}
	require.Equal(b, 200, w.Code, w.Body.String())
}

// BenchmarkRegister registers 200 operations, each with a body.
func BenchmarkRegister(b *testing.B) {
	for b.Loop() {
		a := httpapi.New(httpapi.Config{})
		for i := range 200 {
			small(a, fmt.Sprint("op", i))
		}
	}
}

// TestNullsOfABody: null clears a field that an absent one keeps.
func TestNullsOfABody(t *testing.T) {
	t.Parallel()
	type patch struct {
		Nulls httpapi.Nulls  `json:"-"`
		Name  *string        `json:"name,omitempty"`
		Count *int           `json:"count,omitempty"`
		Inner map[string]any `json:"inner,omitempty"`
	}
	type in struct{ Body patch }
	var got patch
	api := fixture(t, nil)
	g := httpapi.Group{API: api, Function: "patches", Writes: tenant.Authenticated}
	httpapi.Patch(g, "/patches", func(_ context.Context, in *in) (struct{}, error) {
		got = in.Body
		return struct{}{}, nil
	}, "Patch", httpapi.ID("patches"))
	for body, want := range map[string][]string{
		`{}`: nil, `{"name":null}`: {"name"}, `{"name":"a","count":null}`: {"count"}, `{"inner":{"name":null}}`: nil,
	} {
		w := httptest.NewRecorder()
		api.Handler().ServeHTTP(w, request(t, "PATCH", "/patches", "owner", body))
		assert.Equal(t, 200, w.Code, w.Body)
		assert.Equal(t, httpapi.Nulls(want), got.Nulls, body)
		assert.Equal(t, len(want) > 0 && want[0] == "name", got.Nulls.Has("name"), body)
	}
}
