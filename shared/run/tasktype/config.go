package tasktype

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"millrace/shared/run/flowspec"
)

func checkTransform(c *flowspec.Object) {
	c.Only("expression")
	c.Require("expression")
}

func checkWait(c *flowspec.Object) {
	c.Only("seconds")
	c.Require("seconds")
	c.Number("seconds", 0, flowspec.MaxFlowTimeout)
}

const maxHeaderName = 128 // bytes

var (
	methods    = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // and at most maxHeaderName
)

// checkHTTP checks the config of an http task; method is GET if left out.
func checkHTTP(c *flowspec.Object) {
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
	if c.Given("json") && c.Has("body") {
		c.Fault(nil, []any{"body"}, "give json or body, not both")
	}
	c.Text("body")
	checkStatus(c)
}

func checkStatus(c *flowspec.Object) {
	const name = "expected_status"
	if list, ok := c.Value(name).([]any); ok {
		for i, v := range list {
			if n, ok := flowspec.Integer(v); !flowspec.IsTemplate(v) && (!ok || n < 100 || n > 599) {
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
