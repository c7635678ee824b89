package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"millrace/shared/platform/errs"
)

// CheckTags returns the violations of tags: at most MaxTags, keys of 1 to
// MaxTagKey and values of up to MaxTagValue characters.
func CheckTags(loc []any, tags map[string]string) []errs.Detail {
	if len(tags) > MaxTags {
		return []errs.Detail{fault(loc, len(tags), "at most 50 tags are kept")}
	}
	var out []errs.Detail
	for key, value := range tags {
		switch n := utf8.RuneCountInString(key); {
		case n == 0 || n > MaxTagKey:
			out = append(out, fault(loc, n, "a tag's key has 1 to 128 characters"))
		case utf8.RuneCountInString(value) > MaxTagValue:
			out = append(out, fault(at(loc, key), utf8.RuneCountInString(value), "a tag's value has at most 256 characters"))
		}
	}
	return out
}

// CheckSlugs returns the violations of dep_package_slugs: at most MaxSlugs,
// each a name.
func CheckSlugs(loc []any, slugs []string) []errs.Detail {
	if len(slugs) > MaxSlugs {
		return []errs.Detail{fault(loc, len(slugs), "at most 50 packages can be named")}
	}
	var out []errs.Detail
	for i, slug := range slugs {
		if !ValidName(slug) {
			out = append(out, fault(at(loc, i), nil, "a package's slug consists of letters, digits, '.', '_' and '-'"))
		}
	}
	return out
}

func fault(loc []any, input any, msg string) errs.Detail {
	return errs.Detail{Type: "value_error", Loc: loc, Msg: msg, Input: input}
}

// at returns a copy of a path with a further step.
func at(loc []any, step any) []any { return append(append([]any{}, loc...), step) }

// injected are the parameters that the service sets unless the caller does.
var injected = []string{"data_interval_start", "logical_date", "ds", "objstore_bucket", "objstore_key"}

// Injected reports whether the service sets a parameter unless the caller does.
// A flow's schema need not contain it.
func Injected(key string) bool { return slices.Contains(injected, key) }

// CheckParameters returns the violations of a run's or deployment's parameters
// that do not depend on the flow's schema: reserved keys, in order, and a size
// over MaxParameterBytes.
func CheckParameters(loc []any, params map[string]json.RawMessage) []errs.Detail {
	var out []errs.Detail
	size := 0
	for _, key := range slices.Sorted(maps.Keys(params)) {
		size += len(key) + len(params[key]) + 4 // quotes, colon, comma
		if strings.HasPrefix(key, ReservedParameter) {
			out = append(out, fault(at(loc, key), key, "parameters that begin with "+ReservedParameter+" are reserved"))
		}
	}
	if size > MaxParameterBytes {
		out = append(out, fault(loc, size, fmt.Sprintf("parameters have at most %d bytes as JSON, these have %d", MaxParameterBytes, size)))
	}
	return out
}
