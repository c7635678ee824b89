package attack

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// request is drawn and changed before it is sent.
type request struct {
	method, path string // path is escaped
	query        url.Values
	header       http.Header
	value        any // of the body, before encoding
	hasBody      bool
	garble       *rand.Rand // changes the bytes of the body; nil: unchanged
	unknown      bool       // the body's length is not announced
	misdirected  bool       // not for the operation that it was drawn for
}

// String returns the request for a problem.
func (r *request) String() string {
	return fmt.Sprintf("%s %.300s?%.200s %.400v %.600s", r.method, r.path, r.query.Encode(), r.header, r.body())
}

// body returns the body.
func (r *request) body() []byte {
	if !r.hasBody {
		return nil
	}
	var b bytes.Buffer
	encode(&b, r.value)
	return b.Bytes()
}

// request returns the request for Go's client.
func (r *request) request(base string) (*http.Request, error) {
	body := r.body()
	if r.garble != nil {
		body = garble(r.garble, body)
	}
	target, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	target.Opaque, target.RawQuery = r.path, r.query.Encode()
	if !strings.HasPrefix(r.path, "/") || strings.HasPrefix(r.path, "//") {
		target.Opaque = "//" + target.Host + r.path // an absolute URL
	}
	var content io.Reader
	if len(body) > 0 {
		content = bytes.NewReader(body)
	}
	if r.unknown {
		content = io.MultiReader(bytes.NewReader(body))
	}
	req, err := http.NewRequest(r.method, base, content)
	if err != nil {
		return nil, err
	}
	req.URL, req.Header = target, r.header
	if host := r.header.Get("Host"); host != "" {
		req.Host = host
		r.header.Del("Host")
	}
	return req, nil
}

// oddHeaders are headers that some servers trust.
var oddHeaders = [][2]string{
	{"Content-Type", "text/plain"}, {"Content-Type", "multipart/form-data; boundary=x"}, {"Content-Type", "application/json; charset=utf-16"},
	{"Content-Type", "application/xml"}, {"Content-Type", ""}, {"Content-Type", ";;;"}, {"Content-Encoding", "gzip"}, {"Accept", "text/html"}, {"Accept", "*/*;q=x"},
	{"Accept-Encoding", "gzip, br;q=0"}, {"X-Http-Method-Override", "DELETE"}, {"X-Org-Id", "nobody"}, {"X-Org-Id", "\xff"}, {"Idempotency-Key", "k"},
	{"Idempotency-Key", strings.Repeat("k", 3000)}, {"X-Request-Id", "<script>"}, {"X-Forwarded-For", "127.0.0.1"}, {"X-Forwarded-Host", "evil.example"},
	{"Host", "evil.example"}, {"Host", "localhost:1"}, {"Expect", "200-maybe"}, {"Range", "bytes=0-1,5-"}, {"If-Match", "*"}, {"Connection", "X-Org-Id"},
	{"Upgrade", "websocket"}, {"Te", "trailers"}, {"Cookie", "session=x"}, {"Origin", "https://evil.example"}, {"Traceparent", "00-" + strings.Repeat("f", 32) + "-0-zz"},
	{"X-Big", strings.Repeat("h", 30_000)},
}

// mutate changes one part of a request.
func (r *request) mutate(rng *rand.Rand, f *fuzzer) {
	switch rng.IntN(12) {
	case 0:
		methods := []string{"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "FOO", "get", "POST", "PUT", "PATCH", "DELETE"}
		if r.method == http.MethodGet {
			methods = methods[:7] // it names things that the caller may change
		}
		r.method, r.misdirected = pick(rng, methods), true
	case 1:
		r.misdirected = true
		tricks := []string{"/", "//", "/..", "/../../health", "/%2e%2e/", "%00", "%2f", "/.", ";x=y", "%ff", "%C0%AF", "/" + strings.Repeat("a", 9000), "%252e", "\\", "*"}
		at := strings.LastIndexByte(r.path, '/')
		trick := tricks[rng.IntN(len(tricks))]
		if rng.IntN(2) == 0 {
			r.path += trick
		} else {
			r.path = r.path[:at] + trick + r.path[at:]
		}
	case 2:
		r.misdirected = true // it may match another thing, or none
		parts := strings.Split(r.path, "/")
		parts[len(parts)-1] = url.PathEscape(text(nasty[rng.IntN(len(nasty))]))
		r.path = strings.Join(parts, "/")
	case 3:
		queries := []string{"limit", "next_token", "since", "environment", "unknown", "flow_name", "run_a", "a[b]", "\x00"}
		r.query.Add(queries[rng.IntN(len(queries))], text(nasty[rng.IntN(len(nasty))]))
	case 4:
		cursors := []string{f.Ours.Cursor, f.Theirs.Cursor, f.Ours.LogCursor, f.Theirs.LogCursor}
		cursor := cursors[rng.IntN(len(cursors))]
		if rng.IntN(2) == 0 {
			cursor = flip(rng, cursor)
		}
		r.query.Set("next_token", cursor)
	case 5, 6:
		h := oddHeaders[rng.IntN(len(oddHeaders))]
		r.header.Add(h[0], h[1])
		r.misdirected = r.misdirected || h[0] == "Content-Type" || h[0] == "Expect"
	case 7:
		orgs := []string{f.Ours.Org, f.Theirs.Org}
		r.header.Set("X-Org-Id", orgs[rng.IntN(2)])
	case 8:
		r.garble = rand.New(rand.NewPCG(rng.Uint64(), 0))
		r.unknown = rng.IntN(3) == 0
		r.hasBody = true
	default:
		r.value = mutate(rng, r.value)
		r.hasBody = true
	}
}

// text returns a value as part of a URL.
func text(v any) string {
	out := fmt.Sprint(v)
	return out[:min(len(out), 9000)]
}
