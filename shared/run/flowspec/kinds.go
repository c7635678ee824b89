package flowspec

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Kind is a type of task, as far as registering a flow needs to know it.
type Kind struct {
	Name            string
	NeedsEntrypoint bool            // the task names a function; other types refuse one
	MaxTimeoutSecs  int             // 0 for [MaxFlowTimeout]
	NeedsConfig     bool            // config may not be left out
	Expressions     []string        // fields of config that are expressions as a whole, without ${{ }}
	CheckConfig     func(c *Object) // reports what is wrong with config; nil allows anything
}

// Kinds are the known types of tasks, by name.
type Kinds map[string]Kind

// With returns the kinds and further ones, the latter before the former.
func (k Kinds) With(more ...Kind) Kinds {
	out := maps.Clone(k)
	for _, kind := range more {
		out[kind.Name] = kind
	}
	return out
}

// Names lists the kinds, sorted.
func (k Kinds) Names() []string { return slices.Sorted(maps.Keys(k)) }

const waitType = "wait"

// Builtin returns the types that need nothing but a worker: python, http,
// transform and wait.
func Builtin() Kinds {
	return Kinds{
		"python": {Name: "python", NeedsEntrypoint: true, MaxTimeoutSecs: 840},
		"http":   {Name: "http", MaxTimeoutSecs: 840, NeedsConfig: true, CheckConfig: checkHTTP},
		"transform": {Name: "transform", NeedsConfig: true, Expressions: []string{"expression"}, CheckConfig: func(c *Object) {
			c.Only("expression")
			c.Require("expression")
		}},
		waitType: {Name: waitType, NeedsConfig: true, CheckConfig: func(c *Object) {
			c.Only("seconds")
			c.Require("seconds")
			c.Number("seconds", 0, MaxFlowTimeout)
		}},
	}
}

var (
	methods    = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // and at most maxHeaderName
)

// checkHTTP checks the config of an http task; method is GET if left out.
func checkHTTP(c *Object) {
	c.Only("method", "url", "headers", "json", "body", "expected_status")
	c.Require("url")
	if m, ok := c.Text("method"); ok && !slices.Contains(methods, strings.ToUpper(m)) {
		c.Fault(m, []any{"method"}, "method must be one of %s", strings.Join(methods, ", "))
	}
	if s, ok := c.Text("url"); ok {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			c.Fault(s, []any{"url"}, "url must be an absolute http or https URL")
		}
	}
	if h := c.Object("headers"); h != nil {
		for _, k := range h.Keys() {
			if len(k) > maxHeaderName || !headerName.MatchString(k) {
				h.Fault(k, []any{k}, "this is not the name of a header")
			}
			if v, ok := h.Text(k); ok && strings.ContainsAny(v, "\r\n\x00") {
				h.Fault(nil, []any{k}, "a header's value may not contain line breaks")
			}
			if h.Value(k) == nil {
				h.Fault(nil, []any{k}, "a header's value must be a string")
			}
		}
	}
	if _, has := c.fields["json"]; has && c.Has("body") {
		c.Fault(nil, []any{"body"}, "give json or body, not both")
	}
	c.Text("body")
	checkStatus(c)
}

func checkStatus(c *Object) {
	const name = "expected_status"
	if list, ok := c.Value(name).([]any); ok {
		for i, v := range list {
			if n, ok := whole(v); !isTemplate(v) && (!ok || n < 100 || n > 599) {
				c.Fault(v, []any{name, i}, "a status is a whole number from 100 to 599")
			}
		}
		if len(list) == 0 {
			c.Fault(nil, []any{name}, "expected_status must name at least one status")
		}
		return
	}
	c.Int(name, 100, 599)
}
