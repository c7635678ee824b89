package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// parts answers like the API, and as it is told when parts are put.
type parts struct {
	script
	sent []string
}

func (p *parts) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	answer := func(text string) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Etag": {"tag"}}, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
	switch req.URL.Path {
	case "/artifacts/initiate":
		return answer(`{"upload_id":"u","artifact_key":"k","part_size":3,"parts":[{"part_number":1,"upload_url":"http://s3.test/1"},{"part_number":2,"upload_url":"http://s3.test/2"}]}`)
	case "/artifacts/complete":
		return answer(`{"flow_name":"f"}`)
	}
	p.sent = append(p.sent, string(body))
	res, err := p.script.RoundTrip(req)
	if err == nil && res.StatusCode == 200 {
		return answer("")
	}
	return res, err
}

func TestPartIsSentAgain(t *testing.T) {
	t.Parallel()
	type answers = []func() (*http.Response, error)
	ok := status(200, "")
	for name, c := range map[string]struct {
		answers answers
		sent    []string
		waited  time.Duration
		fails   string
	}{
		"at once":      {answers{ok}, []string{"abc", "de"}, 0, ""},
		"S3 is busy":   {answers{status(503, ""), ok, status(500, ""), ok}, []string{"abc", "abc", "de", "de"}, 2 * time.Second, ""},
		"a connection": {answers{refused, refused, ok}, []string{"abc", "abc", "abc", "de"}, 3 * time.Second, ""},
		"for ever":     {answers{status(503, "")}, []string{"abc", "abc", "abc", "abc", "abc", "abc"}, 31 * time.Second, "part 1: the object store answered 503"},
		"a refusal":    {answers{status(403, "")}, []string{"abc"}, 0, "part 1: the object store answered 403"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				from := time.Now()
				p := &parts{script: script{answers: c.answers}}
				got, err := (&client.Client{BaseURL: "http://a.test", HTTP: &http.Client{Transport: p}}).Upload(t.Context(), client.Upload{Zip: []byte("abcde")})
				if c.fails == "" {
					require.NoError(t, err)
					assert.Equal(t, "f", got.FlowName)
				} else {
					require.ErrorContains(t, err, c.fails)
				}
				assert.Equal(t, c.sent, p.sent)
				assert.Equal(t, c.waited, time.Since(from))
			})
		})
	}
}
