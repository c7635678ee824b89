package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Error is a response that is not 2xx.
type Error struct {
	Method, Path string
	Status       int
	Body         string
	RequestID    string        // id of the request in the server's log
	RetryAfter   time.Duration // of the header; 0 if there is none
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s answered %d: %s", e.Method, e.Path, e.Status, e.Body)
}

// Detail returns the server's message: its detail, one line for each entry of a
// list, or the status if the response is not one of the API.
func (e *Error) Detail() string {
	var answer struct {
		Detail json.RawMessage `json:"detail"`
	}
	status := fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	if json.Unmarshal([]byte(e.Body), &answer) != nil {
		return status
	}
	var text string
	if json.Unmarshal(answer.Detail, &text) == nil {
		return cmp.Or(text, status)
	}
	var entries []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(answer.Detail, &entries) != nil || len(entries) == 0 {
		return status
	}
	lines := make([]string, len(entries))
	for i, entry := range entries {
		lines[i] = location(entry.Loc) + ": " + entry.Msg
	}
	return strings.Join(lines, "\n")
}

// location formats the location of an error, as in body.tasks[3].name.
func location(loc []any) string {
	var b strings.Builder
	for _, part := range loc {
		switch part := part.(type) {
		case float64:
			fmt.Fprintf(&b, "[%d]", int(part))
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, part)
		}
	}
	return b.String()
}
