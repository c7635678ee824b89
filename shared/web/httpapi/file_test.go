package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/web/httpapi"
)

// files returns an API that serves files.
func files() *httpapi.API {
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	g := httpapi.Group{API: a, Function: "files", Reads: tenant.Public}
	text := strings.Repeat("text ", 1000)
	for path, file := range map[string]httpapi.File{
		"/plain":   {Type: "text/plain", Data: []byte(text), Header: http.Header{"X-More": {"a"}}},
		"/packed":  {Type: "text/plain", Packed: httpapi.Pack([]byte(text)), Cache: "public, immutable"},
		"/damaged": {Type: "text/plain", Packed: httpapi.InGzip([]byte(text))},
	} {
		httpapi.Get(g, path, func(context.Context, *httpapi.None) (httpapi.File, error) { return file, nil }, "Get a file", httpapi.ID(path), httpapi.AnyQuery)
	}
	httpapi.Get(g, "/old", func(context.Context, *httpapi.None) (httpapi.Redirect, error) {
		return httpapi.Redirect{Location: "plain"}, nil
	}, "Lead to another", httpapi.ID("old"), httpapi.Status(302))
	return a
}

func TestFiles(t *testing.T) {
	t.Parallel()
	h := files().Handler()
	get := func(path string, header ...string) *httptest.ResponseRecorder {
		r := request(t, "GET", path, "", "")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	plain := get("/plain")
	assert.Equal(t, 200, plain.Code)
	assert.Len(t, plain.Body.String(), 5000)
	assert.Equal(t, []string{"text/plain", "public, no-cache", "a"},
		[]string{plain.Header().Get("Content-Type"), plain.Header().Get("Cache-Control"), plain.Header().Get("X-More")})

	packed, unpacked := get("/packed", "Accept-Encoding", "br, gzip"), get("/packed")
	assert.Equal(t, "gzip", packed.Header().Get("Content-Encoding"))
	assert.Less(t, packed.Body.Len(), 200)
	assert.Equal(t, plain.Body.String(), unpacked.Body.String())
	assert.Empty(t, unpacked.Header().Get("Content-Encoding"))
	assert.Equal(t, "public, immutable", unpacked.Header().Get("Cache-Control"))
	assert.Equal(t, "Accept-Encoding", unpacked.Header().Get("Vary"))

	tags := map[string]bool{}
	for _, known := range []*httptest.ResponseRecorder{plain, packed, unpacked} {
		tag := known.Header().Get("ETag")
		require.Regexp(t, `^"[A-Za-z0-9_-]{20}(-gzip)?"$`, tag)
		tags[tag] = true
		again := get("/packed", "If-None-Match", tag, "Accept-Encoding", known.Header().Get("Content-Encoding"))
		if known == plain {
			again = get("/plain", "If-None-Match", tag)
		}
		assert.Equal(t, http.StatusNotModified, again.Code)
		assert.Zero(t, again.Body.Len())
		assert.Equal(t, tag, again.Header().Get("ETag"))
	}
	assert.Len(t, tags, 3, "each form has a tag of its own")
	assert.Equal(t, 200, get("/plain", "If-None-Match", `"other"`).Code)

	slash := get("/plain/?a=b")
	assert.Equal(t, http.StatusPermanentRedirect, slash.Code, "links in it would lead elsewhere")
	assert.Equal(t, "../plain?a=b", slash.Header().Get("Location"))
	old := get("/old")
	assert.Equal(t, 302, old.Code)
	assert.Equal(t, "plain", old.Header().Get("Location"))

	damaged := get("/damaged")
	assert.Equal(t, 500, damaged.Code)
	assert.JSONEq(t, `{"detail": "Internal server error"}`, damaged.Body.String())
	assert.Equal(t, "no-store", damaged.Header().Get("Cache-Control"))
	for _, op := range files().Operations() {
		assert.Equal(t, op.ID != "old", op.Stream, "%s: its bytes may be no text", op.ID)
	}
}
