package sensors

import (
	"net/url"
	"strings"

	"millrace/shared/kit/due"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Poll is the kind of timed work that polling sensors are. They follow the time
// of a tick that has one.
var Poll = due.Kind{Name: "sensor", TakesNow: true}

// begin makes a new sensor due for the first time, at once, if it is polled.
func (s *service) begin(made *Sensor, key table.Key) {
	if made.SensorType == polling {
		made.Entry = Poll.Entry(key, s.clock.Now())
	}
}

// Bounds of the headers of a polling sensor.
const (
	maxHeaders     = 50
	maxHeaderBytes = 16 << 10 // of names and values
)

// checkPolling returns what is wrong with the config of a polling sensor.
func (c *Config) checkPolling() (out []errs.Detail) {
	switch {
	case c.URL == nil:
		out = append(out, missing("url"))
	default:
		u, err := url.Parse(*c.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			out = append(out, fault("url", "this is not an absolute URL of http or https"))
		}
	}
	if c.JSONPath != nil {
		for step := range strings.SplitSeq(*c.JSONPath, ".") {
			if step == "" {
				out = append(out, fault("json_path", "a path has keys and indices joined by single dots, such as a.b.0.c"))
				break
			}
		}
	}
	if c.ExpectedValue != nil && c.JSONPath == nil {
		out = append(out, missing("json_path"))
	}
	return append(out, c.checkHeaders()...)
}

func (c *Config) checkHeaders() []errs.Detail {
	size := 0
	for name, value := range c.Headers {
		size += len(name) + len(value)
		if !validHeader(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F }) {
			return []errs.Detail{{Type: "value_error", Loc: append(configLoc("headers"), name), Msg: "this is not the name of a header, or its value has control characters"}}
		}
	}
	if len(c.Headers) > maxHeaders || size > maxHeaderBytes {
		return []errs.Detail{fault("headers", "there are at most 50 headers, of 16 KB in all")}
	}
	return nil
}
