package ids_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/platform/ids"
)

// TestSlugTimesContainID checks that the spans of time of a slug contain the
// time of its id, are few, and lie between the bounds.
func TestSlugTimesContainID(t *testing.T) {
	t.Parallel()
	first := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	now := first.AddDate(3, 0, 0)
	seen := map[string]int{}
	for range 2_000 {
		at := first.Add(time.Duration(rand.Int64N(int64(now.Sub(first)))))
		id := ids.New(at)
		slug := ids.SlugOf(id)
		assert.Equal(t, slug, ids.SlugOf(id))
		assert.Regexp(t, `^[a-z]+-[a-z]+-[a-z]+-[1-9]\d{3}$`, slug)
		assert.True(t, ids.IsSlug(slug))
		seen[slug]++
		spans := ids.SlugTimes(slug, first, now)
		assert.LessOrEqual(t, len(spans), 46, "one in every 25 days")
		within := 0
		for i, span := range spans {
			assert.True(t, span[1].After(first) && !span[0].After(now))
			assert.True(t, i == 0 || span[0].Before(spans[i-1][0]), "the newest first")
			if ids.First(span[0]) <= id && id < ids.First(span[1]) {
				within++
			}
		}
		assert.Equal(t, 1, within, "%s of %s", slug, at)
	}
	assert.Greater(t, len(seen), 1_990)
}

// TestSlugsOfOneInstantDiffer checks runs that are accepted together.
func TestSlugsOfOneInstantDiffer(t *testing.T) {
	t.Parallel()
	at, slugs := time.UnixMilli(1_790_000_000_000), map[string]bool{}
	for range 20 {
		slugs[ids.SlugOf(ids.New(at))] = true
	}
	assert.GreaterOrEqual(t, len(slugs), 18)
}

func TestInvalidSlugs(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "calm-amber-otter", "calm-amber-otter-0999", "calm-amber-otter-10000", "calm-amber-otter-+999", "Calm-amber-otter-4821", "amber-calm-otter-4821", "calm-amber-otter-4821-x"} {
		assert.False(t, ids.IsSlug(s), s)
		assert.Empty(t, ids.SlugTimes(s, time.UnixMilli(0), time.UnixMilli(1)), s)
	}
	assert.True(t, ids.IsSlug(ids.Slug()))
	assert.Empty(t, ids.SlugOf("01"))
}
