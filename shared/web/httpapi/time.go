package httpapi

import (
	"strings"
	"time"

	"millrace/shared/platform/errs"
)

// layouts are the forms of a timestamp in a query; one without an offset is in
// UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", time.DateOnly}

// QueryTime parses a query parameter that is an ISO 8601 timestamp or date. The
// empty text is the zero time. Errors: errs.Unprocessable, naming the
// parameter.
func QueryTime(param, value string) (time.Time, error) {
	text := value
	if text == "" {
		return time.Time{}, nil
	}
	if date, hour, ok := strings.Cut(text, " "); ok { // a plus sign that a query string made a space, or ISO 8601 written as SQL does
		sep := "+"
		if len(date) == len(time.DateOnly) {
			sep = "T"
			hour = strings.Replace(hour, " ", "+", 1)
		}
		text = date + sep + hour
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errs.Validation(errs.Detail{
		Type: "datetime_parsing", Loc: []any{"query", param}, Msg: "Input should be a valid ISO 8601 timestamp", Input: value,
	})
}
