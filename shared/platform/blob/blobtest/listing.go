package blobtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// walk lists all objects below prefix in pages of limit.
func (s *suite) walk(t *testing.T, prefix string, limit int) []string {
	t.Helper()
	var keys []string
	for after := ""; ; {
		objects, next, err := s.store.List(t.Context(), s.key(prefix), after, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(objects), limit)
		for _, o := range objects {
			keys = append(keys, o.Key[len(s.org)+1:])
		}
		if after = next; after == "" {
			return keys
		}
		require.NotEmpty(t, objects, "a page before the last is not empty")
	}
}

func testListPages(t *testing.T, s *suite) {
	var want []string
	for i := range 25 {
		path := fmt.Sprintf("list/%d/%02d", i%3, i)
		want = append(want, path)
		s.put(t, path, "x")
	}
	slices.Sort(want)
	for _, limit := range []int{1, 7, 24, 25, 26, 1000} {
		assert.Equal(t, want, s.walk(t, "", limit), "pages of %d", limit)
	}
	for _, limit := range []int{0, -1, 1001} {
		objects, next, err := s.store.List(t.Context(), s.key(""), "", limit)
		require.NoError(t, err)
		assert.Len(t, objects, 25)
		assert.Empty(t, next)
	}
	objects, _, err := s.store.List(t.Context(), s.key(""), s.key("list/1/13"), 2)
	require.NoError(t, err)
	require.Len(t, objects, 2)
	assert.Equal(t, s.key("list/1/16"), objects[0].Key)
	assert.EqualValues(t, 1, objects[0].Size)
	assert.False(t, objects[0].Modified.IsZero())
	head, err := s.store.Head(t.Context(), objects[0].Key)
	require.NoError(t, err)
	assert.Equal(t, head.ETag, objects[0].ETag)
	objects, next, err := s.store.List(t.Context(), s.key(""), s.key("zzz"), 10)
	require.NoError(t, err)
	assert.Empty(t, objects)
	assert.Empty(t, next)
}

func testListPrefix(t *testing.T, s *suite) {
	for _, path := range []string{"logs/a", "logs/ab", "logs/b/c", "logs2/a", "lo"} {
		s.put(t, path, "x")
	}
	for prefix, want := range map[string][]string{
		"logs/":   {"logs/a", "logs/ab", "logs/b/c"},
		"logs":    {"logs/a", "logs/ab", "logs/b/c", "logs2/a"},
		"logs/a":  {"logs/a", "logs/ab"},
		"logs/b":  {"logs/b/c"},
		"logs/b/": {"logs/b/c"},
		"lo":      {"lo", "logs/a", "logs/ab", "logs/b/c", "logs2/a"},
		"nothing": nil,
		"logs/z":  nil,
	} {
		assert.Equal(t, want, s.walk(t, prefix, 2), prefix)
	}
}

// testListOrder uses names around the slash, for which byte order and the order
// of a directory walk differ.
func testListOrder(t *testing.T, s *suite) {
	paths := []string{"a/1", "a-b", "a.b", "a/b/c", "a/b-c", "a0", "A", "ab/c", "a!x/y", "é", "z"}
	for _, path := range paths {
		s.put(t, path, "x")
	}
	slices.Sort(paths)
	for _, limit := range []int{1, 2, 3, 1000} {
		assert.Equal(t, paths, s.walk(t, "", limit), "pages of %d", limit)
	}
}
