package blobtest

import (
	"mime"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

func testPresignGet(t *testing.T, s *suite) {
	s.put(t, "file", "downloaded")
	link, err := s.store.PresignGet(t.Context(), s.key("file"), time.Minute, "")
	require.NoError(t, err)
	status, header, body := request(t, "GET", link, nil)
	require.Equal(t, 200, status, "%s", body)
	assert.Equal(t, "downloaded", string(body))
	assert.Empty(t, header.Get("Content-Disposition"))
	link, err = s.store.PresignGet(t.Context(), s.key("absent"), time.Minute, "")
	require.NoError(t, err)
	status, _, _ = request(t, "GET", link, nil)
	assert.Equal(t, 404, status)
}

func testPresignFilename(t *testing.T, s *suite) {
	s.put(t, "file", "downloaded")
	for _, filename := range []string{"flow.zip", `a "b"; c.txt`, "größe 日.csv", "evil\r\nX-Injected: 1"} {
		link, err := s.store.PresignGet(t.Context(), s.key("file"), time.Minute, filename)
		require.NoError(t, err)
		status, header, body := request(t, "GET", link, nil)
		require.Equal(t, 200, status, "%q: %s", filename, body)
		assert.Equal(t, "downloaded", string(body))
		assert.Empty(t, header.Get("X-Injected"))
		kind, params, err := mime.ParseMediaType(header.Get("Content-Disposition"))
		require.NoError(t, err, header.Get("Content-Disposition"))
		assert.Equal(t, "attachment", kind)
		assert.Equal(t, filename, params["filename"])
	}
}

func testPresignPut(t *testing.T, s *suite) {
	link, err := s.store.PresignPut(t.Context(), s.key("up/loaded"), time.Minute)
	require.NoError(t, err)
	status, header, body := request(t, "PUT", link, []byte("from outside"))
	require.Equal(t, 200, status, string(body))
	assert.Equal(t, "from outside", s.get(t, "up/loaded"))
	head, err := s.store.Head(t.Context(), s.key("up/loaded"))
	require.NoError(t, err)
	assert.Equal(t, head.ETag, strings.Trim(header.Get("ETag"), `"`))
}

func testPresignTampered(t *testing.T, s *suite) {
	s.put(t, "mine", "mine")
	s.put(t, "other", "other")
	link, err := s.store.PresignGet(t.Context(), s.key("mine"), time.Minute, "")
	require.NoError(t, err)
	status, _, _ := request(t, "GET", link, nil)
	require.Equal(t, 200, status)

	query := func(change func(url.Values)) string {
		u, err := url.Parse(link)
		require.NoError(t, err)
		q := u.Query()
		change(q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for name, tt := range map[string]struct{ method, url string }{
		"other key":     {"GET", strings.Replace(link, "/mine?", "/other?", 1)},
		"write":         {"PUT", link},
		"delete":        {"DELETE", link},
		"longer":        {"GET", query(func(q url.Values) { q.Set("X-Amz-Expires", "3600") })},
		"later":         {"GET", query(func(q url.Values) { q.Set("X-Amz-Date", time.Now().UTC().Add(time.Minute).Format("20060102T150405Z")) })},
		"wrong sign":    {"GET", query(func(q url.Values) { q.Set("X-Amz-Signature", strings.Repeat("0", 64)) })},
		"more asked":    {"GET", query(func(q url.Values) { q.Set("response-content-type", "text/html") })},
		"anonymous":     {"GET", link[:strings.Index(link, "?")]},
		"anonymous put": {"PUT", link[:strings.Index(link, "?")]},
	} {
		require.NotEqual(t, "GET "+link, tt.method+" "+tt.url, name)
		status, _, body := request(t, tt.method, tt.url, nil)
		assert.Equal(t, 403, status, "%s: %s", name, body)
		assert.NotContains(t, string(body), "mine\n")
	}
	assert.Equal(t, "mine", s.get(t, "mine"))
	assert.Equal(t, "other", s.get(t, "other"))
}

func testPresignExpires(t *testing.T, s *suite) {
	s.put(t, "file", "x")
	get, err := s.store.PresignGet(t.Context(), s.key("file"), time.Second, "")
	require.NoError(t, err)
	put, err := s.store.PresignPut(t.Context(), s.key("late"), time.Second)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, _, _ := request(t, "GET", get, nil)
		return status == 403
	}, 10*time.Second, 50*time.Millisecond, "the URL never expires")
	status, _, _ := request(t, "PUT", put, []byte("x"))
	assert.Equal(t, 403, status)
	_, err = s.store.Head(t.Context(), s.key("late"))
	assert.ErrorIs(t, err, blob.ErrNotFound)
}

func testPresignArguments(t *testing.T, s *suite) {
	for _, ttl := range []time.Duration{0, -time.Minute, time.Millisecond, blob.MaxPresignTTL + time.Second} {
		_, err := s.store.PresignGet(t.Context(), s.key("a"), ttl, "")
		assert.ErrorIs(t, err, blob.ErrArgument)
		_, err = s.store.PresignPut(t.Context(), s.key("a"), ttl)
		assert.ErrorIs(t, err, blob.ErrArgument)
		_, err = s.store.PresignPart(t.Context(), s.key("a"), "upload", 1, 5, ttl)
		assert.ErrorIs(t, err, blob.ErrArgument)
	}
	for _, part := range []int{-1, 0, blob.MaxParts + 1} {
		_, err := s.store.PresignPart(t.Context(), s.key("a"), "upload", part, 5, time.Minute)
		assert.ErrorIs(t, err, blob.ErrArgument)
	}
	_, err := s.store.PresignPart(t.Context(), s.key("a"), "", 1, 5, time.Minute)
	assert.ErrorIs(t, err, blob.ErrArgument)
	_, err = s.store.PresignPart(t.Context(), s.key("a"), "upload", 1, 0, time.Minute)
	assert.ErrorIs(t, err, blob.ErrArgument)
}
