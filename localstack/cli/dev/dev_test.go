package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/cli/flows"
	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

func TestChooseTakesFlowOfFileSavedLast(t *testing.T) {
	t.Parallel()
	two := []flows.Flow{{Name: "a", File: "a.py"}, {Name: "b", File: "b.py"}, {Name: "c", File: "b.py"}}
	for name, c := range map[string]struct {
		flows        []flows.Flow
		before, file string
		want         string
	}{
		"the first":            {two, "", "", "a"},
		"of the file":          {two, "a", "/p/b.py", "b"},
		"one of the file":      {two, "c", "/p/b.py", "c"},
		"of another module":    {two, "c", "/p/lib.py", "c"},
		"one that was removed": {two, "gone", "/p/lib.py", "a"},
		"none":                 {nil, "a", "/p/a.py", ""},
	} {
		l := loop{Options: Options{Dir: "/p"}, flows: c.flows, flow: c.before, file: c.file}
		l.choose()
		assert.Equal(t, c.want, l.flow, name)
	}
}

// TestKeysSendRequests presses keys after the code was deployed.
func TestKeysSendRequests(t *testing.T) {
	t.Parallel()
	var asked []string
	detail := `{"detail":"no"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a request of this test
		asked = append(asked, r.Method+" "+r.URL.String()+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"items":[{"run_id":"R1"}]}`)
			return
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, detail)
	}))
	t.Cleanup(server.Close)
	var shown bytes.Buffer
	ctx, quit := context.WithCancel(t.Context())
	l := loop{
		Options: Options{API: &client.Client{BaseURL: server.URL}, Out: output.New(&shown, false), Open: func(string) error { return errors.New("none here") }},
		hash:    "abc", flow: "daily", quit: quit, unwatch: func() {},
	}
	press := func(key byte) string {
		asked = nil
		shown.Reset()
		l.press(ctx, key)
		return shown.String()
	}
	assert.Contains(t, press('r'), " no\n")
	assert.Equal(t, []string{`POST /runs {"deployment":"daily"}`}, asked)
	detail = `{"detail":[{"loc":["body","parameters","n"],"msg":"n is required"}]}`
	assert.Contains(t, press('r'), " body.parameters.n: n is required\nr gives no parameters: let them have defaults, or run it with millrace run daily -p NAME=VALUE -w\n")
	press('f')
	assert.Equal(t, []string{"GET /runs?limit=1&flow_name=daily ", "POST /runs/R1/retry-from-failed?flow_version=dev-abc "}, asked)
	assert.Contains(t, press('o'), server.URL+"/docs (no browser was opened: none here)")
	assert.Contains(t, press('?'), Help)
	l.wrong = true
	assert.Contains(t, press('r'), "mend it first")
	assert.Empty(t, asked, "old code is not run")
	l.busy = true
	assert.Empty(t, press('r'), "it waits for the code")
	assert.Equal(t, byte('r'), l.waiting)
	press('q')
	assert.Error(t, ctx.Err())
}
