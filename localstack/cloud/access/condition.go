package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// condition compares the values of a condition key.
type condition struct {
	qualifier string // ForAllValues, ForAnyValue, or none for keys of one value
	operator  operator
	key       string
	values    []string
}

// operator compares a value of the request with one of the policy.
type operator struct {
	compare func(pattern, value string) bool
	not     bool // holds if none of the policy's values match
}

// operators are those that templates use, and their negations.
var operators = map[string]operator{
	"StringEquals":    {compare: equal},
	"StringNotEquals": {compare: equal, not: true},
	"StringLike":      {compare: like},
	"StringNotLike":   {compare: like, not: true},
	"Bool":            {compare: strings.EqualFold},
}

// equal compares a text without wildcards.
func equal(pattern, value string) bool {
	p, v := []rune(pattern), []rune(value)
	return slices.EqualFunc(p, v, func(a, b rune) bool { return literal(a) == b })
}

// keys are the condition keys that [Calls] sets, where a request has them.
var keys = []string{
	"aws:PrincipalTag/*", attributeNames, leadingKeys, "events:source", "kms:EncryptionContext:*", "kms:EncryptionContextKeys", "kms:ViaService",
	"s3:prefix", "ses:FromAddress",
}

// conditions reads the conditions of a statement. Operators and keys that are
// not known here are errors.
func conditions(read map[string]map[string]words) ([]condition, error) {
	var out []condition
	for _, name := range slices.Sorted(maps.Keys(read)) {
		qualifier, plain, qualified := strings.Cut(name, ":")
		if !qualified {
			qualifier, plain = "", name
		} else if qualifier != "ForAllValues" && qualifier != "ForAnyValue" {
			return nil, fmt.Errorf("the condition %s is not known here", name)
		}
		op, known := operators[plain]
		if !known {
			return nil, fmt.Errorf("the condition %s is not known here", name)
		}
		for _, key := range slices.Sorted(maps.Keys(read[name])) {
			if !anyLike(keys, key) {
				return nil, fmt.Errorf("the condition key %s is not known here", key)
			}
			out = append(out, condition{qualifier: qualifier, operator: op, key: key, values: read[name][key]})
		}
	}
	return out, nil
}

// holds evaluates the condition. A key of several values without a qualifier is
// an error: AWS's answer is not defined.
func (c condition) holds(in Context) (bool, error) {
	values, has := in[c.key]
	switch c.qualifier {
	case "ForAllValues": // also of none
		return !slices.ContainsFunc(values, func(v string) bool { return !c.one(v, in) }), nil
	case "ForAnyValue":
		return slices.ContainsFunc(values, func(v string) bool { return c.one(v, in) }), nil
	}
	if !has {
		return c.operator.not, nil
	}
	if len(values) != 1 {
		return false, fmt.Errorf("%s has %d values in the request: the condition needs ForAllValues or ForAnyValue", c.key, len(values))
	}
	return c.one(values[0], in), nil
}

// one compares one value of the request with those of the policy.
func (c condition) one(value string, in Context) bool {
	matched := slices.ContainsFunc(c.values, func(pattern string) bool {
		filled, ok := fill(pattern, in)
		return ok && c.operator.compare(filled, value)
	})
	return matched != c.operator.not
}
