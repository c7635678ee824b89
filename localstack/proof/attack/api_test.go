package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// answerPatience is how long the response to a random request may take. Bounded
// work takes a second, but the machine may be busy.
const answerPatience = 30 * time.Second

// fuzzer sends random requests to all operations.
type fuzzer struct {
	*attacker
	doc  document
	ops  []*operation
	http *http.Client
}

// fuzzAPI sends requests to all operations with all kinds of credentials.
func fuzzAPI(a *attacker) {
	f := &fuzzer{attacker: a, http: newHTTP(answerPatience)}
	var err error
	if f.doc, f.ops, err = a.describe(); err != nil {
		a.problem("the document: %v", err)
		return
	}
	a.each(8, size(1200, 25_000), f.one)
}

// caller sends a request: with which credential, and whose responses it must
// not see.
type caller struct {
	name, authorization string
	own                 *estate   // nil: none
	foreign             []*estate // whose canaries its responses must never contain
	reads               bool      // it may only change what is not its own
}

func (f *fuzzer) caller(rng *rand.Rand) caller {
	ours, theirs := f.Ours, f.Theirs
	both := []*estate{ours, theirs}
	switch draw := rng.IntN(20); {
	case draw < 9:
		return caller{name: "owner", authorization: "Bearer " + ours.Owner, own: ours, foreign: both[1:]}
	case draw < 12:
		return caller{name: "viewer", authorization: "Bearer " + ours.Viewer, own: ours, foreign: both[1:], reads: true}
	case draw < 16:
		return caller{name: "stranger", authorization: "Bearer " + theirs.Owner, own: theirs, foreign: both[:1]}
	case draw < 18:
		return caller{name: "nobody", foreign: both, reads: true}
	}
	odd := []string{
		"Bearer", "Bearer ", "bearer\t" + ours.Canary, "Basic " + ours.Owner, "Bearer " + ours.Owner[:len(ours.Owner)-1], "Bearer " + flip(rng, ours.Owner),
		"Bearer svc_" + strings.Repeat("a", 60), "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer " + strings.Repeat("x", 10_000), "Bearer " + ours.Owner + " " + ours.Owner,
	}
	return caller{name: "forger", authorization: odd[rng.IntN(len(odd))], foreign: both, reads: true}
}

// names are the names in a caller's requests: of strangers' things, of
// expendable things, and, for requests without changes, of its own.
func (c *caller) names(f *fuzzer, changes bool) names {
	out := names{
		"flow_version": {"1", "2", "3", "latest", "versions"}, "environment": {"default", "prod", ""},
		"execution_mode": {"nano", "medium"}, "default_executor": {"python"}, "size_bytes": {1, 100, 5 << 20},
		"scopes":    {[]any{"flows.read"}, []any{}, []any{"nonsense"}},
		"flow_name": {"scratch", "scratch-2"}, "deployment_name": {"scratch"}, "deployment": {"scratch"},
		"limit": {1, 0, -1, 500, 100_000}, "execute": {true, false}, "parameters": {object{"note": "x"}},
	}
	seen := []*estate{f.Theirs, f.Ours}
	if c.own != nil && changes && !c.reads {
		seen = slices.DeleteFunc(seen, func(e *estate) bool { return e == c.own })
	}
	for _, e := range seen {
		for name, v := range map[string]string{
			"flow_name": e.Flow, "deployment_name": e.Deployment, "deployment": e.Deployment, "run_id": e.Run, "run_a": e.Run, "run_b": e.Slug,
			"key_id": e.KeyID, "upload_id": e.UploadID, "artifact_key": e.ArtifactKey, "artifact_store_uri": e.ArtifactURI, "next_token": e.Cursor,
		} {
			out[name] = append(out[name], v)
		}
		out["run_id"] = append(out["run_id"], e.Slug)
		out["next_token"] = append(out["next_token"], e.LogCursor)
	}
	return out
}

// one sends one request.
func (f *fuzzer) one(rng *rand.Rand, _ int) {
	op := f.ops[rng.IntN(len(f.ops))]
	c := f.caller(rng)
	d := &drawer{Rand: rng, schemas: f.doc.Components.Schemas, names: c.names(f, op.method != http.MethodGet)}
	d.names["flow_spec"] = []any{flowSpec(rng)}
	changes := 0
	if rng.IntN(4) > 0 {
		changes = 1 + rng.IntN(3)
	}
	r := f.valid(d, op)
	r.header.Set("Authorization", c.authorization)
	for range changes {
		r.mutate(rng, f)
	}
	req, err := r.request(f.Credentials.BaseURL)
	if err != nil {
		return // Go's client does not send such requests: fuzzRaw does
	}
	began := time.Now()
	res, err := f.http.Do(req)
	if err != nil {
		f.lost(err)
		if took := time.Since(began); took > answerPatience/2 {
			f.problem("%s: no answer within %s: %v", r, took, err)
		}
		return
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	f.answer(fmt.Sprint(res.StatusCode))
	f.judge(r.String()+" as "+c.name, res, body)
	elsewhere := r.misdirected || strings.HasSuffix(r.path, "/") || strings.Contains(r.path, "//") // an empty name leads to another operation
	if _, documented := op.Responses[fmt.Sprint(res.StatusCode)]; !documented && !elsewhere {
		f.problem("%s as %s: %d is not documented: %.300s", r, c.name, res.StatusCode, body)
	}
	for _, e := range c.foreign {
		if bytes.Contains(body, []byte(e.Canary)) {
			f.problem("%s as %s: the answer holds what is another workspace's: %.300s", r, c.name, body)
		}
	}
}

// refusals are the responses of Go's server to malformed requests.
var refusals = []int{
	http.StatusBadRequest, http.StatusExpectationFailed, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
}

// judge checks a response of the API against the common shape.
func (a *attacker) judge(what string, res *http.Response, body []byte) {
	if res.Close && slices.Contains(refusals, res.StatusCode) && res.Header.Get("X-Request-Id") == "" {
		return
	}
	if res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable {
		a.problem("%s: %d: %.300s", what, res.StatusCode, body)
		return
	}
	if res.Header.Get("X-Request-Id") == "" {
		a.problem("%s: %d without X-Request-Id", what, res.StatusCode)
	}
	if res.StatusCode < 400 || res.Request != nil && res.Request.Method == http.MethodHead {
		return
	}
	var fault struct {
		Detail json.RawMessage `json:"detail"`
	}
	if err := json.Unmarshal(body, &fault); err != nil || len(fault.Detail) == 0 {
		a.problem("%s: %d in no shape: %.300s", what, res.StatusCode, body)
		return
	}
	if res.StatusCode == http.StatusUnprocessableEntity && fault.Detail[0] == '[' {
		var entries []struct {
			Type *string `json:"type"`
			Loc  []any   `json:"loc"`
			Msg  *string `json:"msg"`
		}
		if err := json.Unmarshal(fault.Detail, &entries); err != nil || len(entries) == 0 {
			a.problem("%s: 422 in no shape: %.300s", what, body)
			return
		}
		for _, e := range entries {
			if e.Type == nil || e.Msg == nil || len(e.Loc) == 0 {
				a.problem("%s: 422 with an entry in no shape: %.300s", what, body)
				return
			}
		}
	}
	if (res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) && res.Header.Get("Retry-After") == "" {
		a.problem("%s: %d without Retry-After: %.300s", what, res.StatusCode, body)
	}
}

// valid draws a request that matches an operation's description.
func (f *fuzzer) valid(d *drawer, op *operation) *request {
	r := &request{method: op.method, path: op.path, query: url.Values{}, header: http.Header{}}
	for _, p := range op.Parameters {
		text := fmt.Sprint(d.value(p.Name, p.Schema, 0))
		switch {
		case p.In == "path":
			r.path = strings.ReplaceAll(r.path, "{"+p.Name+"}", url.PathEscape(text))
		case d.IntN(2) == 0:
		case p.In == "query":
			r.query.Set(p.Name, text)
		default:
			r.header.Set(p.Name, text)
		}
	}
	if content, ok := op.Body.Content["application/json"]; ok {
		r.value, r.hasBody = d.value("", content.Schema, 0), true
		r.header.Set("Content-Type", "application/json")
	}
	return r
}
