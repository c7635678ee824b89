package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/memory"
	"millrace/shared/account/audit"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
)

// book is a record that uses every feature.
type book struct {
	record.Meta
	Title  string            `table:"title" json:"title"`
	Pages  int               `table:"pages,omitempty" json:"pages"`
	Tags   map[string]string `table:"tags,omitempty" json:"tags"`
	Lock   vault.Sealed      `table:"lock,omitempty" json:"lock"`
	Hidden string            `table:"hidden,omitempty" json:"-"`
}

var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

type shelf struct {
	record.Set[book, *book]
	now time.Time
}

func newShelf(t testing.TB, wrap func(table.Table) table.Table) *shelf {
	t.Helper()
	s := &shelf{now: epoch}
	now := clock.Func(func() time.Time { return s.now })
	var tbl table.Table = memory.Table(t, now)
	if wrap != nil {
		tbl = wrap(tbl)
	}
	limits, err := quota.ParseValues([]string{string(quota.Drafts) + "=20"})
	require.NoError(t, err)
	s.Set = record.New[book](record.Kind{Folder: "books", Type: "book", Noun: "Book", Limit: quota.Drafts},
		record.Store{Table: tbl, Clock: now, Quota: quota.New(quota.Config{Table: tbl, Clock: now, Values: limits})})
	return s
}

func as(org, email string) context.Context {
	return tenant.With(context.Background(), tenant.Principal{OrgID: org, Email: email, Role: tenant.Owner})
}

// entries returns the audit entries of a workspace, oldest first.
func (s *shelf) entries(t testing.TB, org string) (out []string) {
	t.Helper()
	for r, err := range audit.Entries(context.Background(), s.Table, org, time.Time{}, time.Time{}) {
		require.NoError(t, err)
		out = append(out, fmt.Sprintf("%s %s %s %s>%s", r.ActorEmail, r.Action, r.ResourceID, r.Before, r.After))
	}
	return out
}

func TestRecordIsStampedAndAudited(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	ann, bob := as("acme", "ann@acme.test"), as("acme", "bob@acme.test")
	made, err := s.Create(ann, "go", book{Title: "Go", Lock: vault.Sealed("sealed"), Hidden: "inside"})
	require.NoError(t, err)
	assert.Equal(t, "ann@acme.test", made.CreatedBy)
	s.now = epoch.Add(time.Hour)
	changed, err := s.Update(bob, "go", "rename", func(b *book) error { b.Title = "Go 2"; return nil })
	require.NoError(t, err)
	view, err := json.Marshal(changed)
	require.NoError(t, err)
	assert.JSONEq(t, `{"title":"Go 2","pages":0,"tags":null,"lock":"***","created_at":"2026-03-04T05:06:07.000Z","created_by":"ann@acme.test",
		"updated_at":"2026-03-04T06:06:07.000Z","updated_by":"bob@acme.test"}`, string(view))
	got, err := s.Get(ann, "go")
	require.NoError(t, err)
	assert.Equal(t, "inside", got.Hidden)
	assert.Equal(t, vault.Sealed("sealed"), got.Lock)
	s.now = epoch.Add(2 * time.Hour) // entries of one millisecond are not ordered
	gone, err := s.Delete(bob, "go", nil)
	require.NoError(t, err)
	assert.Equal(t, "Go 2", gone.Title)

	entries := s.entries(t, "acme")
	require.Len(t, entries, 3)
	assert.True(t, strings.HasPrefix(entries[0], "ann@acme.test create go >{"), entries[0])
	assert.True(t, strings.HasPrefix(entries[1], `bob@acme.test rename go {`), entries[1])
	assert.Contains(t, entries[1], `"title":"Go"`)
	assert.Contains(t, entries[1], `"title":"Go 2"`)
	assert.True(t, strings.HasSuffix(entries[2], "}>"), entries[2])
	for _, e := range entries {
		assert.NotContains(t, e, "inside")
		assert.NotContains(t, e, "c2VhbGVk", "not as base64 either")
		assert.NotContains(t, e, "sealed")
		assert.NotContains(t, e, "revision")
	}
}

func TestUnchangedRecordIsNotWritten(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	ctx := as("acme", "ann@acme.test")
	_, err := s.Create(ctx, "go", book{Title: "Go"})
	require.NoError(t, err)
	s.now = epoch.Add(time.Hour)
	same, err := s.Update(ctx, "go", "update", func(b *book) error { b.Title = "Go"; return nil })
	require.NoError(t, err)
	assert.Equal(t, clock.ToMillis(epoch), same.UpdatedAt)
	refusal := errs.New(errs.Conflict, "no")
	_, err = s.Update(ctx, "go", "update", func(b *book) error { b.Title = "no"; return refusal })
	require.ErrorIs(t, err, refusal)
	_, err = s.Delete(ctx, "go", func(*book) error { return refusal })
	require.ErrorIs(t, err, refusal)
	assert.Len(t, s.entries(t, "acme"), 1)
}

func TestErrorsNameRecord(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	ctx := as("acme", "ann@acme.test")
	_, err := s.Get(ctx, "go")
	assert.EqualError(t, err, "not_found: Book 'go' not found")
	_, err = s.Update(ctx, "go", "update", func(*book) error { return nil })
	assert.Equal(t, errs.NotFound, errs.CodeOf(err))
	_, err = s.Delete(ctx, "go", nil)
	assert.Equal(t, errs.NotFound, errs.CodeOf(err))
	_, err = s.Create(ctx, "go", book{})
	require.NoError(t, err)
	_, err = s.Create(ctx, "go", book{})
	assert.EqualError(t, err, "conflict: Book 'go' exists already")
	_, err = s.Get(as("other", "x"), "go")
	assert.Equal(t, errs.NotFound, errs.CodeOf(err), "another workspace's")
	assert.Panics(t, func() { _, _ = s.Get(as("", "x"), "go") }, "of no workspace")
	assert.Panics(t, func() { _, _ = s.Create(context.Background(), "go", book{}) })
}

func TestLimitIsEnforced(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	ctx := as("acme", "ann@acme.test")
	for i := range 20 {
		_, err := s.Create(ctx, fmt.Sprint(i), book{})
		require.NoError(t, err)
	}
	_, err := s.Create(ctx, "more", book{})
	require.Equal(t, errs.TooMany, errs.CodeOf(err))
	_, err = s.Update(ctx, "1", "update", func(b *book) error { b.Pages = 9; return nil })
	require.NoError(t, err, "what is there can be changed")
	assert.Len(t, s.entries(t, "acme"), 21)
}

// withPage returns a book with one more page, a new one if there is none.
func withPage(now *book) (book, error) {
	if now == nil {
		return book{Pages: 1}, nil
	}
	next := *now
	next.Pages++
	return next, nil
}

func TestConcurrentChangesAllSucceed(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	ctx := as("acme", "ann@acme.test")
	var wg sync.WaitGroup
	var mu sync.Mutex
	const each = 8 // together they stay below the limit, which counts those that try
	made := 0
	for range each {
		wg.Go(func() {
			_, err := s.Create(ctx, "go", book{})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else {
				assert.Equal(t, errs.Conflict, errs.CodeOf(err))
			}
		})
		wg.Go(func() {
			_, err := s.Write(ctx, "count", record.Change[book]{Action: "count", Next: withPage})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	assert.Equal(t, 1, made)
	counted, err := s.Get(ctx, "count")
	require.NoError(t, err)
	assert.Equal(t, each, counted.Pages)
	assert.Len(t, s.entries(t, "acme"), each+1)
}

// TestRecordIsMadeOnce has two writers find no record before either makes it.
func TestRecordIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	var found, writers sync.WaitGroup
	found.Add(2)
	for range 2 {
		writers.Go(func() {
			first := true
			_, err := s.Write(as("acme", "ann@acme.test"), "count", record.Change[book]{Action: "count", Next: func(now *book) (book, error) {
				if first {
					first = false
					assert.Nil(t, now)
					found.Done()
					found.Wait()
				}
				return withPage(now)
			}})
			assert.NoError(t, err)
		})
	}
	writers.Wait()
	counted, err := s.Get(as("acme", "ann@acme.test"), "count")
	require.NoError(t, err)
	assert.Equal(t, 2, counted.Pages)
	assert.Len(t, s.entries(t, "acme"), 2)
}

// failing is a table whose next writes fail.
type failing struct {
	table.Table
	errs []error
}

func (f *failing) Transact(ctx context.Context, writes ...table.Write) error {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return err
	}
	return f.Table.Transact(ctx, writes...)
}

func TestOnlyContentionIsRetried(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		errs []error
		want error
	}{
		"a conflict":         {[]error{table.ErrConflict, table.ErrConflict}, nil},
		"a failed condition": {[]error{table.ErrConditionFailed}, nil},
		"a throttle":         {[]error{table.ErrThrottled}, table.ErrThrottled},
		"another error":      {[]error{broken}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, func(inner table.Table) table.Table { return &failing{Table: inner, errs: test.errs} })
			_, err := s.Create(as("acme", "ann@acme.test"), "go", book{})
			require.ErrorIs(t, err, test.want)
		})
	}
	endless := make([]error, 100)
	for i := range endless {
		endless[i] = table.ErrConflict
	}
	s := newShelf(t, func(inner table.Table) table.Table { return &failing{Table: inner, errs: endless} })
	_, err := s.Create(as("acme", "ann@acme.test"), "go", book{})
	assert.EqualError(t, err, "conflict: Others are changing Book 'go'; try again")
}

// TestSetBehavesLikeMap compares random operations with a map of ids to
// records.
func TestSetBehavesLikeMap(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	s.Limit = ""
	orgs := 0
	rapid.Check(t, func(rt *rapid.T) {
		orgs++
		org := fmt.Sprint("org", orgs)
		ctx := as(org, "ann@acme.test")
		want, changes := map[string]int{}, 0
		id := rapid.SampledFrom([]string{"a", "a#1", "a#2", "b", "b#1"})
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(rt *rapid.T) {
				i, n := id.Draw(rt, "id"), rapid.IntRange(1, 3).Draw(rt, "pages")
				_, err := s.Create(ctx, i, book{Pages: n})
				if _, there := want[i]; there {
					assert.Equal(rt, errs.Conflict, errs.CodeOf(err))
					return
				}
				require.NoError(rt, err)
				want[i] = n
				changes++
			},
			"update": func(rt *rapid.T) {
				i, n := id.Draw(rt, "id"), rapid.IntRange(1, 3).Draw(rt, "pages")
				_, err := s.Update(ctx, i, "update", func(b *book) error { b.Pages = n; return nil })
				old, there := want[i]
				if !there {
					assert.Equal(rt, errs.NotFound, errs.CodeOf(err))
					return
				}
				require.NoError(rt, err)
				if want[i] = n; n != old {
					changes++
				}
			},
			"delete": func(rt *rapid.T) {
				i := id.Draw(rt, "id")
				_, err := s.Delete(ctx, i, nil)
				if _, there := want[i]; !there {
					assert.Equal(rt, errs.NotFound, errs.CodeOf(err))
					return
				}
				require.NoError(rt, err)
				delete(want, i)
				changes++
			},
			"": func(rt *rapid.T) {
				prefix := rapid.SampledFrom([]string{"", "a", "a#", "c"}).Draw(rt, "prefix")
				keys := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(k string) bool { return !strings.HasPrefix(k, prefix) })
				all, err := s.List(ctx, prefix, 100, nil)
				require.NoError(rt, err)
				require.Len(rt, all, len(keys))
				for i, k := range keys {
					assert.Equal(rt, k, all[i].SK)
					assert.Equal(rt, want[k], all[i].Pages)
				}
				last := len(keys) - 1
				only, err := s.List(ctx, prefix, 0, func(b *book) bool { return last >= 0 && b.SK == keys[last] })
				require.NoError(rt, err)
				assert.Len(rt, only, min(1, len(keys)), "0 is no bound")
				few, err := s.List(ctx, prefix, 1, func(b *book) bool { return b.Pages > 1 })
				require.NoError(rt, err)
				assert.LessOrEqual(rt, len(few), 1)
				thick := func(b *book) bool { return b.Pages > 1 }
				for name, keep := range map[string]func(*book) bool{"all": nil, "some": thick} {
					whole, err := s.List(ctx, "", 0, keep)
					require.NoError(rt, err)
					var pages []book
					for after, more := "", true; more; more = after != "" {
						page, next, err := s.Page(ctx, after, 2, keep)
						require.NoError(rt, err)
						assert.True(rt, next == "" || len(page) == 2, "only the last page of %s is short", name)
						pages, after = append(pages, page...), next
					}
					assert.Equal(rt, append([]book{}, whole...), append([]book{}, pages...), name)
				}
				assert.Len(rt, s.entries(t, org), changes)
			},
		})
	})
}

func TestFieldsNeedTags(t *testing.T) {
	t.Parallel()
	type silent struct {
		record.Meta
		Name string `table:"name"`
	}
	type nameless struct {
		record.Meta
		Name string `table:"name" json:",omitempty"`
	}
	assert.Panics(t, func() { record.New[silent](record.Kind{}, record.Store{}) })
	assert.Panics(t, func() { record.New[nameless](record.Kind{}, record.Store{}) })
}
