package sensors

import (
	"net/url"
	"strings"
	"time"

	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Poll is the kind of timed work that polling sensors are. They follow the time
// of a tick that has one.
var Poll = due.Kind{Name: "sensor", TakesNow: true}

// Polls is what a polling sensor tells about its polls. Times are those of ticks
// that have one. Other sensors have none of it.
type Polls struct {
	NextPollAt    clock.Millis `table:"next_poll_at,omitempty" json:"next_poll_at,omitzero" doc:"Of a polling sensor: it is polled by the first tick from then on. Absent once it has stopped"`
	LastPolledAt  clock.Millis `table:"last_polled_at,omitempty" json:"last_polled_at,omitzero"`
	LastStatus    int          `table:"last_status,omitempty" json:"last_status,omitzero" doc:"HTTP status of the last response; absent if the last poll had none"`
	LastMatchedAt clock.Millis `table:"last_matched_at,omitempty" json:"last_matched_at,omitzero" doc:"When a poll last matched and started a run"`
	LastRunID     string       `table:"last_run_id,omitempty" json:"last_run_id,omitzero" doc:"The run that it started"`
	StoppedAt     clock.Millis `table:"stopped_at,omitempty" json:"stopped_at,omitzero" doc:"When a polling sensor stopped for good, which it does after its first match, unless it has allow_concurrent"`
	// Matched means that the poll that is due matched, and its run is to be
	// started.
	Matched bool `table:"matched,omitempty" json:"-"`
}

// Attributes that polls change.
const (
	attrNextPoll    = "next_poll_at"
	attrPolled      = "last_polled_at"
	attrStatus      = "last_status"
	attrMatchedAt   = "last_matched_at"
	attrRun         = "last_run_id"
	attrStopped     = "stopped_at"
	attrMatched     = "matched"
	attrLastError   = "last_error"
	attrLastErrorAt = "last_error_at"
)

// begin makes a new sensor due for the first time, at once, if it is polled.
func (s *service) begin(made *Sensor, key table.Key) {
	if made.SensorType == polling {
		now := s.clock.Now()
		made.Entry, made.NextPollAt = Poll.Entry(key, now), clock.ToMillis(now)
	}
}

// Defaults of the config of a polling sensor.
const (
	defaultInterval = 300 * time.Second
	defaultTimeout  = 10 * time.Second
)

// interval returns the time between two polls.
func (c *Config) interval() time.Duration { return seconds(c.IntervalSeconds, defaultInterval) }

// timeout returns the time that a request may take.
func (c *Config) timeout() time.Duration { return seconds(c.TimeoutSeconds, defaultTimeout) }

func seconds(n *int64, absent time.Duration) time.Duration {
	if n == nil {
		return absent
	}
	return time.Duration(*n) * time.Second
}

// match returns the rule by which responses match.
func (c *Config) match() match {
	m := match{path: text(c.JSONPath), value: c.ExpectedValue}
	if c.ExpectedStatus != nil {
		m.status = int(*c.ExpectedStatus)
	}
	return m
}

// Bounds of the headers of a polling sensor.
const (
	maxHeaders     = 50
	maxHeaderBytes = 16 << 10 // of names and values
)

// maxValueBytes bounds expected_value, so that there is room in the sensor's
// item for what its polls tell.
const maxValueBytes = 32 << 10

// Expressions are refused, not sent as they are.
const (
	expression   = "${{"
	noExpression = "expressions and secrets are not replaced here"
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
		if strings.Contains(*c.URL, expression) {
			out = append(out, fault("url", noExpression))
		}
	}
	if len(c.ExpectedValue) > maxValueBytes {
		out = append(out, fault("expected_value", "a value has at most 32 KB"))
	}
	if c.JSONPath != nil {
		for step := range strings.SplitSeq(*c.JSONPath, ".") {
			if step == "" {
				out = append(out, fault("json_path", "a path has keys and indices joined by single dots, such as a.b.0.c"))
				break
			}
		}
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
		if strings.Contains(value, expression) {
			return []errs.Detail{{Type: "value_error", Loc: append(configLoc("headers"), name), Msg: noExpression}}
		}
	}
	if len(c.Headers) > maxHeaders || size > maxHeaderBytes {
		return []errs.Detail{fault("headers", "there are at most 50 headers, of 16 KB in all")}
	}
	return nil
}
