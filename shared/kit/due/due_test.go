package due_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

var (
	kind = due.Kind{Name: "poll", TakesNow: true}
	noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	key  = table.Key{PK: "org_1#polls", SK: "p1"}
)

type record struct {
	table.Key
	due.Entry
	N int `table:"n,omitempty"`
}

func TestKindCheck(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"poll", "sla-breach", "a", "s3", strings.Repeat("a", 40)} {
		require.NoError(t, due.Kind{Name: name}.Check(), name)
	}
	for _, name := range []string{"", "Poll", "1", "0", "-a", "a#b", "a b", "ü", strings.Repeat("a", 41)} {
		require.Error(t, due.Kind{Name: name}.Check(), name)
	}
}

// TestKindsHaveTheirOwnPartitions checks that a read of runs or of a kind
// returns no entries of another kind.
func TestKindsHaveTheirOwnPartitions(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for shard := range runstate.DueShards {
		seen[runstate.DuePartition(shard)] = true
	}
	for _, name := range []string{"poll", "poll-1", "poll1", "p"} {
		for shard := range due.Shards {
			p := due.Kind{Name: name}.Partition(shard)
			assert.False(t, seen[p], p)
			seen[p] = true
		}
	}
	assert.Len(t, seen, runstate.DueShards+4*due.Shards)
}

func TestEntry(t *testing.T) {
	t.Parallel()
	e := kind.Entry(key, noon)
	assert.Equal(t, clock.ToMillis(noon), e.DueAt)
	assert.Equal(t, due.Entry{}, kind.Entry(key, time.Time{}))
	up, ok := due.Up(e.DueSK)
	require.True(t, ok)
	assert.Equal(t, noon, up)

	shards := map[string]int{}
	for i := range 1600 {
		shards[kind.Entry(table.Key{PK: key.PK, SK: strings.Repeat("x", i)}, noon).DuePK]++
	}
	assert.Len(t, shards, due.Shards, "items of one partition spread")
	for _, bad := range []table.Key{{}, {SK: "p1"}, {PK: "#polls", SK: "p1"}} {
		assert.Panics(t, func() { kind.Entry(bad, noon) }, "%v has no workspace", bad)
	}
}

// TestEntriesSortByTime includes the smallest and largest times.
func TestEntriesSortByTime(t *testing.T) {
	t.Parallel()
	times := []time.Time{
		time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.UnixMilli(1), time.UnixMilli(999), noon, noon.Add(time.Millisecond),
		time.Date(2286, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	var keys []string
	for _, at := range times {
		e := kind.Entry(key, at)
		keys = append(keys, e.DueSK)
		was, ok := due.At(e.DueSK)
		require.True(t, ok)
		assert.Equal(t, e.DueAt, clock.ToMillis(was), "%s is not lost between index and item", at)
	}
	assert.True(t, slices.IsSorted(keys), "%q", keys)
	until := due.Until(noon)
	assert.True(t, until.Contains(kind.Entry(key, noon).DueSK))
	assert.False(t, until.Contains(kind.Entry(key, noon.Add(time.Millisecond)).DueSK))
}

func TestPostponed(t *testing.T) {
	t.Parallel()
	e := kind.Entry(key, noon)
	for again, want := range map[time.Time]time.Time{noon.Add(time.Hour): noon.Add(time.Hour), noon.Add(-time.Hour): noon} {
		sk, ok := due.Postponed(e.DueSK, again)
		require.True(t, ok)
		up, _ := due.Up(sk)
		assert.Equal(t, want, up)
		at, _ := due.At(sk)
		assert.Equal(t, noon, at)
	}
	for _, bad := range []string{"", "x", e.DueSK[:13], e.DueSK + "1", "#" + e.DueSK} {
		_, ok := due.Postponed(bad, noon)
		assert.False(t, ok, bad)
	}
}

// TestTaskActsOnce checks that only one of a task's writes is applied.
func TestTaskActsOnce(t *testing.T) {
	t.Parallel()
	task := due.Task{Kind: kind.Name, Key: key, At: noon}
	later := kind.Entry(key, noon.Add(time.Hour))
	for name, c := range map[string]struct {
		before []table.Write
		write  table.Write
		want   *record // nil: the condition fails
	}{
		"moved":              {nil, due.Move(task, noon.Add(time.Hour), table.Add("n", 1)), &record{key, later, 1}},
		"ended":              {nil, due.End(task), &record{Key: key}},
		"moved again":        {[]table.Write{due.Move(task, noon.Add(time.Hour))}, due.Move(task, noon.Add(time.Hour)), nil},
		"ended when moved":   {[]table.Write{due.Move(task, noon.Add(time.Hour))}, due.End(task), nil},
		"ended again":        {[]table.Write{due.End(task)}, due.End(task), nil},
		"moved when ended":   {[]table.Write{due.End(task)}, due.Move(task, noon), nil},
		"moved when deleted": {[]table.Write{table.Delete{Key: key}}, due.Move(task, noon), nil},
		"moved when postponed": {
			[]table.Write{table.Update{Key: key, Do: []table.Action{table.Set("due_sk", kind.Entry(key, noon.Add(time.Minute)).DueSK)}}},
			due.Move(task, noon.Add(time.Hour)), &record{Key: key, Entry: later},
		},
	} {
		tbl := memory.Table(t, clock.System{})
		require.NoError(t, tbl.Put(t.Context(), table.Put{Item: record{Key: key, Entry: kind.Entry(key, noon)}}), name)
		for _, w := range c.before {
			require.NoError(t, tbl.Transact(t.Context(), w), name)
		}
		err := tbl.Transact(t.Context(), c.write)
		if c.want == nil {
			require.ErrorIs(t, err, table.ErrConditionFailed, name)
			continue
		}
		require.NoError(t, err, name)
		got, err := table.Load[record](t.Context(), tbl, key)
		require.NoError(t, err, name)
		assert.Equal(t, *c.want, got, name)
	}
}

func TestTaskRoundTripsThroughQueue(t *testing.T) {
	t.Parallel()
	sk, ok := due.Postponed(kind.Entry(key, noon).DueSK, noon.Add(time.Minute))
	require.True(t, ok)
	brought := noon.Add(time.Second)
	for _, c := range []struct {
		kind         due.Kind
		brought, now time.Time
	}{
		{kind, brought, brought},
		{kind, time.Time{}, noon.Add(time.Hour)},
		{due.Kind{Name: "deadline"}, brought, noon.Add(time.Hour)},
	} {
		m, err := due.Message(c.kind, key, sk, c.brought)
		require.NoError(t, err)
		assert.Equal(t, "org_1", m.Group)
		got, err := due.ReadTask(m.Body, noon.Add(time.Hour))
		require.NoError(t, err)
		assert.Equal(t, due.Task{Kind: c.kind.Name, Key: key, At: noon, Now: c.now}, got)
	}
	_, err := due.Message(kind, key, "x", time.Time{})
	require.Error(t, err)
	for _, bad := range unreadable {
		_, err := due.ReadTask([]byte(bad), noon)
		require.Error(t, err, bad)
	}
}

var unreadable = []string{
	``, `x`, `[]`, `{}`, `{"kind":"poll"}`, `{"kind":"poll","pk":"org_1#polls","sk":"p1"}`,
	`{"kind":"poll","pk":"","sk":"p1","at":"2026-01-31T12:00:00Z"}`, `{"kind":"poll","pk":"#polls","sk":"p1","at":"2026-01-31T12:00:00Z"}`,
	`{"kind":"poll","pk":"org_1#polls","sk":"","at":"2026-01-31T12:00:00Z"}`, `{"kind":"P","pk":"org_1#polls","sk":"p1","at":"2026-01-31T12:00:00Z"}`,
	`{"kind":"poll","pk":"org_1#polls","sk":"p1","at":"noon"}`,
}

func FuzzReadTask(f *testing.F) {
	for _, body := range unreadable {
		f.Add(body)
	}
	m, err := due.Message(kind, key, kind.Entry(key, noon).DueSK, noon)
	require.NoError(f, err)
	f.Add(string(m.Body))
	f.Fuzz(func(t *testing.T, body string) {
		task, err := due.ReadTask([]byte(body), noon)
		if err != nil {
			return
		}
		assert.NotEmpty(t, task.Org())
		assert.False(t, task.Now.IsZero())
		assert.NotPanics(t, func() { due.Move(task, noon) })
	})
}
