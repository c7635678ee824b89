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

func TestARefusalIsPlaced(t *testing.T) {
	t.Parallel()
	f := flows.Flow{Name: "daily", File: "flow.py", Line: 9, Lines: []string{"flow.py:3", ""}}
	refusal := func(detail string) error {
		return fmt.Errorf("complete: %w", &client.Error{Status: 422, Body: `{"detail":` + detail + `}`})
	}
	for detail, want := range map[string]string{
		`[{"loc":["body","flow_spec","tasks",0,"name"],"msg":"x"},{"loc":["body","flow_spec"],"msg":"y"}]`: "flow.py:3: body.flow_spec.tasks[0].name: x\nflow.py:9: body.flow_spec: y",
		`[{"loc":["body","flow_spec","tasks",1],"msg":"x"}]`:                                               "flow.py:9: body.flow_spec.tasks[1]: x",
		`[{"loc":["body","flow_spec","tasks",7],"msg":"x"}]`:                                               "flow.py:9: body.flow_spec.tasks[7]: x",
		`"too many versions"`: "flow.py:9: too many versions",
	} {
		assert.EqualError(t, placed(f, refusal(detail)), want)
	}
	assert.EqualError(t, placed(flows.Flow{Name: "daily"}, refusal(`"no"`)), "daily: no")
	assert.EqualError(t, placed(f, io.EOF), "EOF")
}

func TestTheFlowToRunIsThatOfTheFileSavedLast(t *testing.T) {
	t.Parallel()
	two := []flows.Flow{{Name: "a", File: "a.py"}, {Name: "b", File: "b.py"}, {Name: "c", File: "b.py"}}
	for name, c := range map[string]struct {
		flows        []flows.Flow
		before, file string
		want         string
	}{
		"the first":           {two, "", "", "a"},
		"of the file":         {two, "a", "/p/b.py", "b"},
		"one of the file":     {two, "c", "/p/b.py", "c"},
		"of another module":   {two, "c", "/p/lib.py", "c"},
		"one that is no more": {two, "gone", "/p/lib.py", "a"},
		"none":                {nil, "a", "/p/a.py", ""},
	} {
		l := loop{Options: Options{Dir: "/p"}, flows: c.flows, flow: c.before, file: c.file}
		l.choose()
		assert.Equal(t, c.want, l.flow, name)
	}
}

// TestKeysAskTheServer presses keys of a loop whose code is deployed.
func TestKeysAskTheServer(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // of a test
		asked = append(asked, r.Method+" "+r.URL.String()+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"items":[{"run_id":"R1"}]}`)
			return
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"detail":"no"}`)
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
