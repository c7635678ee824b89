package httpapi

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
)

// constraints checks a string against its schema.
func (c *checker) constraints(s *shape, v string, input any) {
	k := s.schema
	if k == nil {
		return
	}
	if n := utf8.RuneCountInString(v); k.MinLength != nil && n < *k.MinLength {
		c.add("string_too_short", fmt.Sprintf("String should have at least %s", plural(*k.MinLength, "character")), input)
	} else if k.MaxLength != nil && n > *k.MaxLength {
		c.add("string_too_long", fmt.Sprintf("String should have at most %s", plural(*k.MaxLength, "character")), input)
	}
	if s.pattern != nil && !s.pattern.MatchString(v) {
		c.add("string_pattern_mismatch", fmt.Sprintf("String should match pattern '%s'", k.Pattern), input)
	}
	if len(k.Enum) > 0 && !slices.Contains(k.Enum, any(v)) {
		c.add("enum", "Input should be "+oneOf(k.Enum), input)
	}
	switch {
	case k.Format == titleFormat:
		c.title(v, input)
	case k.Format != "" && s.text == nil:
		c.format(k, v, input)
	}
}

// title checks a title, of which MinLength says whether it may be empty.
func (c *checker) title(v string, input any) {
	if strings.ContainsFunc(v, unicode.IsControl) {
		c.add("string_unicode", "Input should be one line without control characters", input)
	} else if v != "" && strings.TrimSpace(v) == "" {
		c.add("value_error", "Input should not be blank", input)
	}
}

// format checks a format tag by huma's rules.
func (c *checker) format(k *huma.Schema, v string, input any) {
	var found huma.ValidateResult
	huma.Validate(nil, &huma.Schema{Type: huma.TypeString, Format: k.Format}, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, &found)
	if len(found.Errors) > 0 {
		kind := "value_error"
		if strings.HasPrefix(k.Format, "date") {
			kind = "datetime_parsing"
		}
		c.add(kind, fmt.Sprintf("Input should be a valid %s", k.Format), input)
	}
}

// number checks an integer or a number, given as its JSON text.
func (c *checker) number(s *shape, raw jsontext.Value) {
	text := string(raw)
	var input any
	if !s.secret {
		input = echo(raw)
	}
	v, _ := strconv.ParseFloat(text, 64) // scan has checked the range
	if s.kind == integerShape && !c.integer(s, text, v, input) {
		return
	}
	c.bounds(s.schema, v, input)
}

func (c *checker) integer(s *shape, text string, v float64, input any) bool {
	if strings.ContainsAny(text, ".eE") {
		if v != math.Trunc(v) {
			c.add("int_from_float", "Input should be a valid integer, got a number with a fractional part", input)
		} else {
			c.add("int_type", "Input should be a valid integer, written without fraction and exponent", input)
		}
		return false
	}
	var err error
	if s.unsigned {
		if v < 0 {
			c.add("greater_than_equal", "Input should be greater than or equal to 0", input)
			return false
		}
		_, err = strconv.ParseUint(strings.TrimPrefix(text, "-"), 10, s.bits)
	} else {
		_, err = strconv.ParseInt(text, 10, s.bits)
	}
	if err != nil {
		c.add("int_parsing_size", "Input is too large to be an integer here", input)
		return false
	}
	return true
}

func (c *checker) bounds(k *huma.Schema, v float64, input any) {
	if k == nil {
		return
	}
	switch {
	case k.Minimum != nil && v < *k.Minimum:
		c.add("greater_than_equal", "Input should be greater than or equal to "+number(*k.Minimum), input)
	case k.ExclusiveMinimum != nil && v <= *k.ExclusiveMinimum:
		c.add("greater_than", "Input should be greater than "+number(*k.ExclusiveMinimum), input)
	case k.Maximum != nil && v > *k.Maximum:
		c.add("less_than_equal", "Input should be less than or equal to "+number(*k.Maximum), input)
	case k.ExclusiveMaximum != nil && v >= *k.ExclusiveMaximum:
		c.add("less_than", "Input should be less than "+number(*k.ExclusiveMaximum), input)
	case k.MultipleOf != nil && math.Mod(v, *k.MultipleOf) != 0:
		c.add("multiple_of", "Input should be a multiple of "+number(*k.MultipleOf), input)
	case len(k.Enum) > 0 && !slices.ContainsFunc(k.Enum, func(e any) bool { return fmt.Sprint(e) == number(v) }):
		c.add("enum", "Input should be "+oneOf(k.Enum), input)
	}
}

// size checks the number of items of an array, or members of a map.
func (c *checker) size(s *shape, n int) {
	k := s.schema
	if k == nil {
		return
	}
	least, most, what := k.MinItems, k.MaxItems, "List"
	if s.kind == mapShape {
		least, most, what = k.MinProperties, k.MaxProperties, "Dictionary"
	}
	if least != nil && n < *least {
		c.add("too_short", fmt.Sprintf("%s should have at least %s after validation, not %d", what, plural(*least, "item"), n), nil)
	}
	if most != nil && n > *most {
		c.add("too_long", fmt.Sprintf("%s should have at most %s after validation, not %d", what, plural(*most, "item"), n), nil)
	}
}

// schemaType checks a free-form or self-decoding value against the type in its
// schema.
func (c *checker) schemaType(s *shape, raw jsontext.Value) {
	if s.schema == nil || s.schema.Type == "" {
		return
	}
	kind := raw.Kind()
	want := map[string]string{
		huma.TypeObject: "{", huma.TypeArray: "[", huma.TypeString: `"`,
		huma.TypeBoolean: "tf", huma.TypeInteger: "0", huma.TypeNumber: "0",
	}[s.schema.Type]
	if want != "" && !strings.Contains(want, string(rune(kind))) {
		c.add(s.schema.Type+"_type", "Input should be a valid "+s.schema.Type, echo(raw))
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// oneOf formats choices: 'a', 'b' or 'c'.
func oneOf(choices []any) string {
	quoted := make([]string, len(choices))
	for i, c := range choices {
		if s, ok := c.(string); ok {
			quoted[i] = "'" + s + "'"
		} else {
			quoted[i] = fmt.Sprint(c)
		}
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}
