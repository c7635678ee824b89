package ids

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// A slug made of a ULID tells the time of it, and so it can be looked up by a range
// of ids without an index of its own: the time counts in spans of about four
// minutes and comes round again after about 25 days. The rest of it is a hash of
// what is random in the id.
const (
	slugSpan  = 1 << 18 // milliseconds
	slugSpans = 1 << 13
	slugRest  = 59_625 // slugSpans * slugRest is the number of slugs
	slugs     = slugSpans * slugRest
	// Slugs of one time are not to look alike: n*slugMix mod slugs, which has no
	// divisor in common with it.
	slugMix   = 192_837_463
	slugUnmix = 21_095_527 // its inverse
)

// IsSlug reports whether s may be a slug.
func IsSlug(s string) bool {
	_, ok := slugNumber(s)
	return ok
}

// slugNumber is what slug made s of.
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

// SlugOf returns the slug of a ULID; the empty string of what is none.
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

// SlugTimes yields the spans of time, the end excluded, in which a ULID may have
// been made whose slug it is: those between since and until, the newest first.
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
