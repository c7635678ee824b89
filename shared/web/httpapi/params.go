package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"millrace/shared/platform/errs"
)

// fromHuma is what huma makes its errors with: it gives the validation of
// parameters, and of resolvers, the interface's form, and joins what is wrong
// with the body.
func fromHuma(c *call, status int, msg string, found []error) *answered {
	var details []errs.Detail
	for _, err := range found {
		if e, ok := errors.AsType[*errs.Error](err); ok {
			if len(e.Details) == 0 {
				return toAnswer(e)
			}
			details = append(details, e.Details...)
		} else if d, ok := errors.AsType[*huma.ErrorDetail](err); ok {
			details = append(details, paramDetail(d))
		} else if err != nil && status < http.StatusInternalServerError {
			details = append(details, errs.Detail{Type: "value_error", Loc: []any{}, Msg: clip(err.Error())})
		}
	}
	details = append(details, c.details...)
	switch {
	case status >= http.StatusInternalServerError:
		return toAnswer(errs.New(errs.Internal, ""))
	case len(details) > 0:
		return toAnswer(errs.Validation(details...))
	}
	return &answered{Detail: msg, status: status, headers: http.Header{}}
}

// kinds are the types and messages of the entries for parameters, by the
// beginning of huma's message.
var kinds = []struct{ prefix, kind, msg string }{
	{"invalid integer", "int_parsing", "Input should be a valid integer, unable to parse string as an integer"},
	{"invalid float", "float_parsing", "Input should be a valid number, unable to parse string as a number"},
	{"invalid boolean", "bool_parsing", "Input should be a valid boolean, unable to interpret input"},
	{"invalid date/time", "datetime_parsing", "Input should be a valid datetime in RFC 3339"},
	{"required ", "missing", "Field required"},
	{"expected value to be one of ", "enum", ""},
	{"expected number >= ", "greater_than_equal", "Input should be greater than or equal to "},
	{"expected number > ", "greater_than", "Input should be greater than "},
	{"expected number <= ", "less_than_equal", "Input should be less than or equal to "},
	{"expected number < ", "less_than", "Input should be less than "},
	{"expected number to be a multiple of ", "multiple_of", "Input should be a multiple of "},
	{"expected length >= ", "string_too_short", "String should have at least %s"},
	{"expected length <= ", "string_too_long", "String should have at most %s"},
	{"expected array length >= ", "too_short", "List should have at least %s"},
	{"expected array length <= ", "too_long", "List should have at most %s"},
	{"expected string to match pattern ", "string_pattern_mismatch", "String should match pattern "},
	{"expected string to be RFC 3339 date", "datetime_parsing", "Input should be a valid datetime"},
}

// paramDetail turns one of huma's entries into the interface's.
func paramDetail(d *huma.ErrorDetail) errs.Detail {
	out := errs.Detail{Type: "value_error", Loc: locOf(d.Location), Msg: clip(d.Message), Input: d.Value}
	if s, ok := d.Value.(string); ok {
		out.Input = clip(s)
	}
	for _, k := range kinds {
		rest, ok := strings.CutPrefix(d.Message, k.prefix)
		if !ok {
			continue
		}
		out.Type = k.kind
		switch {
		case k.kind == "missing":
			out.Msg, out.Input = k.msg, nil
		case k.kind == "enum":
			out.Msg = "Input should be " + enumOf(rest)
		case strings.HasSuffix(k.msg, "%s"):
			n, _ := strconv.Atoi(rest)
			noun := "character"
			if strings.HasPrefix(k.kind, "too") {
				noun = "item"
			}
			out.Msg = fmt.Sprintf(k.msg, plural(n, noun))
		case strings.HasSuffix(k.msg, " "):
			out.Msg = k.msg + rest
		default:
			out.Msg = k.msg
		}
		break
	}
	return out
}

// enumOf rewrites huma's list of choices, "a, b, c" in quotes.
func enumOf(list string) string {
	var choices []any
	for choice := range strings.SplitSeq(strings.Trim(list, `"`), ", ") {
		choices = append(choices, choice)
	}
	return oneOf(choices)
}

// locOf splits huma's location, query.limit or body.tasks[0].name. A parameter
// has no parts, whatever its name holds.
func locOf(location string) []any {
	in, rest, _ := strings.Cut(location, ".")
	loc := []any{in}
	if rest == "" {
		return loc
	}
	if in != "body" {
		return append(loc, rest)
	}
	for part := range strings.FieldsFuncSeq(rest, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		loc = append(loc, pathStep(part))
	}
	return loc
}

// pathStep is a number where a path goes into an array.
func pathStep(token string) any {
	if n, err := strconv.Atoi(token); err == nil {
		return n
	}
	return token
}
