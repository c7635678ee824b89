package executor_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/kit/outbound/outboundtest"
	"millrace/shared/run/executor"
)

type answer struct {
	Status  int
	Headers map[string]string
	Body    string
	JSON    json.RawMessage
}

// echo responds with the request it got, and the status in its path.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Set-Cookie", "session=abcdef")
	if to := r.URL.Query().Get("to"); to != "" {
		w.Header().Set("Location", to)
	}
	status := http.StatusOK
	_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "host": r.Host, "query": r.URL.RawQuery, "type": r.Header.Get("Content-Type"), "agent": r.UserAgent(),
		"auth": r.Header.Get("Authorization"), "x": r.Header.Get("X-Day"), "n": r.Header.Get("X-N"), "body": string(body),
	})
}

func TestHTTPRequests(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(echo))
	defer s.Close()
	for name, test := range map[string]struct {
		config string
		want   map[string]string
	}{
		"get":       {`{"url":"URL/?a=b"}`, map[string]string{"method": "GET", "query": "a=b", "type": "", "agent": "millrace", "body": ""}},
		"json":      {`{"method":"post","url":"URL","json":{"day":"${{ params.day }}","up":"${{ tasks.up.output }}"}}`, map[string]string{"method": "POST", "type": "application/json", "body": `{"day":"monday","up":[1,2]}`}},
		"json null": {`{"method":"PUT","url":"URL","json":null}`, map[string]string{"method": "PUT", "body": "null"}},
		"body":      {`{"method":"PATCH","url":"URL","body":"day ${{ params.day }}","headers":{"Content-Type":"text/x"}}`, map[string]string{"method": "PATCH", "type": "text/x", "body": "day monday"}},
		"headers":   {`{"method":"DELETE","url":"URL","headers":{"x-day":"${{ params.day }}","X-N":"${{ size(tasks.up.output) }}","Host":"other.test","user-agent":"mine"}}`, map[string]string{"method": "DELETE", "x": "monday", "n": "2", "host": "other.test", "agent": "mine"}},
		"url":       {`{"url":"URL/200/${{ params.day }}?d=${{ params.day }}"}`, map[string]string{"query": "d=monday"}},
	} {
		a, log := attempt(t, httpTask(strings.ReplaceAll(test.config, "URL", s.URL)))
		r := caller(t, true).Execute(t.Context(), a)
		require.Nil(t, r.Failure, name)
		var out answer
		require.NoError(t, json.Unmarshal(r.Output.JSON, &out))
		assert.EqualValues(t, len(r.Output.JSON), r.Output.Size)
		var got map[string]string
		require.NoError(t, json.Unmarshal(out.JSON, &got), name)
		for k, want := range test.want {
			assert.Equal(t, want, got[k], "%s: %s", name, k)
		}
		assert.Equal(t, 200, out.Status)
		assert.Equal(t, "application/json; charset=utf-8", out.Headers["content-type"])
		assert.NotContains(t, out.Headers, "set-cookie")
		assert.Len(t, log.text(), 1)
		assert.NotContains(t, log.text()[0], "?", "a query may hold a credential")
	}
}

func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(echo))
	defer s.Close()
	for _, test := range []struct {
		path, expects string
		ok            bool
	}{
		{"/200", ``, true}, {"/299", ``, true}, {"/300", ``, false}, {"/404", ``, false}, {"/500", ``, false}, {"/304", ``, false},
		{"/404", `404`, true}, {"/200", `404`, false}, {"/404", `[200,404]`, true}, {"/500", `[200,404]`, false}, {"/200", `200.5`, false},
		{"/404", `"${{ 400 + 4 }}"`, true}, {"/404", `"404"`, false},
		{"/302?to=/200", ``, true}, {"/302?to=/200", `302`, true}, {"/302?to=/200", `200`, true}, {"/302?to=/404", `[404]`, true}, {"/302?to=/404", ``, false},
	} {
		config := `{"url":"` + s.URL + test.path + `"`
		if test.expects != "" {
			config += `,"expected_status":` + test.expects
		}
		a, _ := attempt(t, httpTask(config+"}"))
		r := caller(t, true).Execute(t.Context(), a)
		assert.Equal(t, test.ok, r.Failure == nil, "%+v: %+v", test, r.Failure)
		if r.Failure != nil {
			assert.Equal(t, executor.HTTPFailed, r.Failure.Type)
			assert.False(t, r.Failure.Final, "the next answer may be another")
			assert.NotContains(t, r.Failure.Message, "?")
		} else if test.expects == "302" {
			assert.Contains(t, string(r.Output.JSON), `"status":302`)
		}
	}
}

// TestLargeResponsesReserveMemory checks that memory is reserved for a response
// that is not small, by its Content-Length if it has one, and that the output
// has the whole response.
func TestLargeResponsesReserveMemory(t *testing.T) {
	t.Parallel()
	list := "[" + strings.Repeat(`{"a":"<é>"},`, 50_000) + "1]"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/told" {
			w.Header().Set("Content-Length", strconv.Itoa(len(list)))
		}
		_, _ = io.WriteString(w, list[:len(list)/2])
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, list[len(list)/2:])
	}))
	defer s.Close()
	for path, want := range map[string]int64{"/told": 4 * int64(len(list)), "/": 4 * executor.MaxResponse} {
		a, _ := attempt(t, httpTask(`{"url":"`+s.URL+path+`"}`))
		var held []int64
		a.Hold = func(_ context.Context, bytes int64) error {
			held = append(held, bytes)
			return nil
		}
		r := caller(t, true).Execute(t.Context(), a)
		require.Nil(t, r.Failure)
		assert.Equal(t, []int64{want}, held)
		var out answer
		require.NoError(t, json.Unmarshal(r.Output.JSON, &out))
		assert.Equal(t, list, out.Body)
		assert.Equal(t, list, string(out.JSON))

		a.Hold = func(context.Context, int64) error { return context.DeadlineExceeded }
		r = caller(t, true).Execute(t.Context(), a)
		require.NotNil(t, r.Failure, "there is no memory for it")
	}
}

func TestHTTPBodies(t *testing.T) {
	t.Parallel()
	kind, body := "", ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		if r.URL.Path == "/big" {
			for range executor.MaxResponse>>20 + 1 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	for _, test := range []struct{ kind, body, json string }{
		{"application/json", `{"n":12345678901234567890}`, `{"n":12345678901234567890}`},
		{"Application/Problem+JSON", `[1]`, `[1]`},
		{"application/json", `{"n":`, `null`},
		{"application/json", "", `null`},
		{"text/plain", `{"n":1}`, `null`},
		{"application/json", "\"\xff\"", `null`},
	} {
		kind, body = test.kind, test.body
		a, _ := attempt(t, httpTask(`{"url":"`+s.URL+`"}`))
		r := caller(t, true).Execute(t.Context(), a)
		require.Nil(t, r.Failure)
		var out answer
		require.NoError(t, json.Unmarshal(r.Output.JSON, &out))
		assert.Equal(t, test.json, string(out.JSON), "%+v", test)
		assert.Equal(t, strings.ToValidUTF8(test.body, "\ufffd"), out.Body)
	}
	a, _ := attempt(t, httpTask(`{"url":"`+s.URL+`/big"}`))
	r := caller(t, true).Execute(t.Context(), a)
	require.NotNil(t, r.Failure)
	assert.Contains(t, r.Failure.Message, "more than 33554432 bytes")
}

func TestHTTPFailures(t *testing.T) {
	t.Parallel()
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hang.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
	}))
	defer cut.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, test := range map[string]struct {
		config   string
		loopback bool
		kind     string
		final    bool
		message  string
	}{
		"time":       {`{"url":"` + hang.URL + `/?key=private"}`, true, executor.TaskTimeout, false, "the task ran past its timeout_secs (60)"},
		"cut":        {`{"url":"` + cut.URL + `/?key=private"}`, true, executor.HTTPFailed, false, "the call failed: unexpected EOF"},
		"refused":    {`{"url":"` + gone.URL + `/?key=private"}`, true, executor.HTTPFailed, false, "the call failed: dial: connect: connection refused"},
		"denied":     {`{"url":"` + cut.URL + `/?key=private"}`, false, executor.HTTPFailed, true, "may not reach"},
		"scheme":     {`{"url":"${{ 'ftp://private/' + params.day }}"}`, true, executor.HTTPFailed, true, "config.url is not an absolute http or https URL"},
		"no url":     {`{"url":"${{ 1 }}"}`, true, executor.HTTPFailed, true, "config.url is not an absolute"},
		"body":       {`{"url":"http://a.test","body":"${{ [1] }}"}`, true, executor.HTTPFailed, true, "config.body must be a string"},
		"method":     {`{"url":"http://a.test","method":"${{ 'A B' }}"}`, true, executor.HTTPFailed, true, "method"},
		"expression": {`{"url":"http://a.test/${{ params.none }}"}`, true, executor.Expression, true, "config: "},
		"secret":     {`{"url":"http://a.test/${{ secrets.none }}"}`, true, executor.Expression, true, "there is no secret named none"},
	} {
		a, log := attempt(t, httpTask(test.config))
		if name == "time" {
			a.Timeout = 50 * time.Millisecond
		}
		r := caller(t, test.loopback).Execute(t.Context(), a)
		require.NotNil(t, r.Failure, name)
		assert.Equal(t, test.kind, r.Failure.Type, name)
		assert.Equal(t, test.final, r.Failure.Final, name)
		assert.Equal(t, name == "time", r.Failure.TimedOut, name)
		assert.Contains(t, r.Failure.Message, test.message, name)
		assert.NotContains(t, r.Failure.Message+strings.Join(log.text(), ""), "private", name)
		assert.NotContains(t, r.Failure.Message, "127.0.0.1", name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, _ := attempt(t, httpTask(`{"url":"`+hang.URL+`"}`))
	r := caller(t, true).Execute(ctx, a)
	require.NotNil(t, r.Failure)
	assert.False(t, r.Failure.TimedOut, "a worker that stops is no time-out")
}

func TestHTTPRefusesForbiddenAddresses(t *testing.T) {
	t.Parallel()
	outboundtest.Refuses(t, "config.url leads to an address that flows may not reach", func(t *testing.T, c *http.Client, url string) string {
		a, _ := attempt(t, httpTask(`{"url":"`+url+`"}`))
		r := executor.HTTP{Client: c}.Execute(t.Context(), a)
		if r.Failure == nil {
			return ""
		}
		assert.True(t, r.Failure.Final, url)
		return r.Failure.Message
	})
}

// TestHTTPSecrets checks that a service that echoes a request does not put its
// secret into outputs, failures or logs.
func TestHTTPSecrets(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("Authorization") + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		if r.URL.Query().Has("fail") {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_ = json.NewEncoder(w).Encode([]string{strings.Repeat("x", 270), got, base64.StdEncoding.EncodeToString([]byte("user:" + secret)), url.QueryEscape(secret)})
	}))
	defer s.Close()
	for _, query := range []string{"", "?fail"} {
		a, log := attempt(t, httpTask(`{"url":"`+s.URL+`/hook/${{ secrets.token }}`+query+`","headers":{"Authorization":"Bearer ${{ secrets.token }}"}}`))
		r := caller(t, true).Execute(t.Context(), a)
		all := strings.Join(log.text(), "\n") + string(r.Output.JSON)
		if query == "" {
			require.Nil(t, r.Failure)
			assert.True(t, json.Valid(r.Output.JSON))
			assert.EqualValues(t, len(r.Output.JSON), r.Output.Size)
			assert.Contains(t, all, "Bearer ***")
		} else {
			require.NotNil(t, r.Failure)
			all += r.Failure.Message
		}
		for _, part := range []string{"hunter", base64.StdEncoding.EncodeToString([]byte("user:" + secret))[8:24]} {
			assert.NotContains(t, all, part)
		}
	}
}

func TestErrorOfRefusedAddressNamesSetting(t *testing.T) {
	t.Parallel()
	call := caller(t, false)
	for help, want := range map[string]string{
		"":                        "config.url leads to an address that flows may not reach",
		"start it with --allow-x": "config.url leads to an address that flows may not reach: start it with --allow-x",
	} {
		call.Help = help
		a, _ := attempt(t, httpTask(`{"url":"http://127.0.0.1:9/"}`))
		result := call.Execute(t.Context(), a)
		require.NotNil(t, result.Failure)
		assert.Equal(t, want, result.Failure.Message)
	}
}
