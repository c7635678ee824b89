package ids

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// The slug of a ULID contains its time, so that the ULID is found by ranges of
// ids without an index. The time counts in spans of about four minutes and
// wraps around after about 25 days. The rest is a hash of the random part of
// the id.
const (
	slugSpan  = 1 << 18 // milliseconds
	slugSpans = 1 << 13
	slugRest  = 59_625 // slugSpans * slugRest is the number of slugs
	slugs     = slugSpans * slugRest
	// Slugs of similar times must not look alike: they are n*slugMix mod slugs,
	// with which it has no common divisor.
	slugMix   = 192_837_463
	slugUnmix = 21_095_527 // the inverse of slugMix
)

// IsSlug reports whether s may be a slug.
func IsSlug(s string) bool {
	_, ok := slugNumber(s)
	return ok
}

// slugNumber returns the number of a slug.
func slugNumber(s string) (n uint64, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 4 {
		return 0, false
	}
	number, err := strconv.ParseUint(parts[3], 10, 32)
	if err != nil || number < 1000 || number > 9999 || len(parts[3]) != 4 {
		return 0, false
	}
	n = number - 1000
	for i, words := range [][]string{animals, colours, moods} { // the last word first
		at := slices.Index(words, parts[2-i])
		if at < 0 {
			return 0, false
		}
		n = n*uint64(len(words)) + uint64(at)
	}
	return n, true
}

// SlugOf returns the slug of a ULID, empty if id is not a ULID.
func SlugOf(id string) string {
	parsed, err := ulid.ParseStrict(id)
	if err != nil {
		return ""
	}
	rest := uint64(0)
	for _, b := range parsed.Entropy() {
		rest = (rest<<8 | uint64(b)) % slugRest
	}
	n := parsed.Time()/slugSpan%slugSpans*slugRest + rest
	return slug(n * slugMix % slugs)
}

// SlugTimes returns the spans of time, with the end excluded, in which a ULID
// with the slug may have been created: those between since and until, the
// newest first.
func SlugTimes(s string, since, until time.Time) [][2]time.Time {
	n, ok := slugNumber(s)
	if !ok {
		return nil
	}
	const round = slugSpan * slugSpans
	span := int64(n*slugUnmix%slugs) / slugRest * slugSpan
	var out [][2]time.Time
	for from := until.UnixMilli()/round*round + span; from+slugSpan > since.UnixMilli() && from+slugSpan > 0; from -= round {
		if from <= until.UnixMilli() {
			out = append(out, [2]time.Time{time.UnixMilli(max(from, 0)), time.UnixMilli(from + slugSpan)})
		}
	}
	return out
}
