package record_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/audit"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// TestRecordStoredWithAnotherRevision reads, changes and deletes items as earlier
// versions of the service stored them.
func TestRecordStoredWithAnotherRevision(t *testing.T) {
	t.Parallel()
	ann := as("acme", "ann@acme.test")
	for name, revision := range map[string]table.Value{"none": {}, "number": table.V(7), "text": table.V("01K")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &overtaken{}
			s := newShelf(t, func(inner table.Table) table.Table { o.Table = inner; return o })
			item := table.Item{
				"pk": table.V("acme#books"), "sk": table.V("go"), "title": table.V("Go"), "created_at": table.V(5), "created_by": table.V("bob@acme.test"),
			}
			if revision.Kind() != table.None {
				item["revision"] = revision
			}
			require.NoError(t, o.Put(ann, table.Put{Item: item}))
			change := func() error {
				_, err := s.Update(ann, "go", "", func(b *book) error { b.Pages++; return nil })
				return err
			}
			o.by = func() { assert.NoError(t, change()) }
			require.NoError(t, change())
			got, err := s.Get(ann, "go")
			require.NoError(t, err)
			assert.Equal(t, 2, got.Pages, "neither change overwrites the other")
			assert.Equal(t, []any{"bob@acme.test", "ann@acme.test"}, []any{got.CreatedBy, got.UpdatedBy})

			require.NoError(t, o.Put(ann, table.Put{Item: item}))
			o.by = func() {
				_, err := s.Delete(ann, "go", nil)
				assert.NoError(t, err)
			}
			_, err = s.Delete(ann, "go", nil)
			assert.Equal(t, errs.NotFound, errs.CodeOf(err), "it is deleted once")
		})
	}
}

// stamp is a record that is never changed, is stored outside of its kind's
// partition, and is found by an index.
type stamp struct {
	record.Made
	table.ListEntries
	Land  string `table:"land"`
	Price int    `table:"price"`
}

func (s *stamp) Audited() any { return map[string]any{"land": s.Land} }

func TestRecordsOfIndexWithFurtherWrites(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	ann := as("acme", "ann@acme.test")
	stamps := record.New[stamp](record.Kind{
		Folder: "stamps", In: table.ByList, Type: "stamp", Noun: "Stamp", Limit: "drafts",
		At: func(org, id string) table.Key { return table.Key{PK: org + "#album#" + id, SK: "stamp"} },
	}, s.Store)
	for _, id := range []string{"b", "a"} {
		entries := table.ListEntries{L1PK: stamps.Partition(ann), L1SK: id}
		out, err := stamps.Write(ann, id, record.Change[stamp]{
			Next: func(now *stamp) (stamp, error) {
				require.Nil(t, now)
				return stamp{ListEntries: entries, Land: "NO", Made: record.Made{CreatedBy: "the post"}}, nil
			},
			Also: func(o record.Outcome[stamp]) []table.Write {
				copied := o.After
				copied.Key, copied.ListEntries = table.Key{PK: "lookup#" + id, SK: "x"}, table.ListEntries{}
				return []table.Write{table.Put{Item: copied, If: table.IsNew()}}
			},
		})
		require.NoError(t, err)
		assert.Equal(t, "the post", out.After.CreatedBy, "as the new record says")
		copied, err := table.Load[stamp](ann, s.Table, table.Key{PK: "lookup#" + id, SK: "x"}, table.Consistent)
		require.NoError(t, err)
		assert.Equal(t, out.After.CreatedAt, copied.CreatedAt, "what is written besides sees the record as it is stored")
	}
	all, err := stamps.List(ann, "", 10, nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "acme#album#a", all[0].PK, "in order of their ids")
	for i := range 18 {
		_, err := stamps.Create(ann, string(rune('c'+i)), stamp{ListEntries: table.ListEntries{L1PK: stamps.Partition(ann), L1SK: string(rune('c' + i))}})
		require.NoError(t, err)
	}
	_, err = stamps.Create(ann, "z", stamp{})
	assert.Equal(t, errs.TooMany, errs.CodeOf(err))
	assert.Contains(t, s.entries(t, "acme"), `ann@acme.test create a >{"land":"NO"}`)
}

func TestPreparedChangesAreOneTransaction(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	ann := as("acme", "ann@acme.test")
	_, err := s.Create(ann, "old", book{Title: "old"})
	require.NoError(t, err)
	move := func(ctx context.Context) error {
		return record.Retry(ctx, "the shelf", func() error {
			_, made, entry, err := s.Prepare(ctx, "new", record.Change[book]{Next: func(*book) (book, error) { return book{Title: "new"}, nil }})
			if err != nil {
				return err
			}
			_, gone, _, err := s.Prepare(ctx, "old", record.Change[book]{Next: func(now *book) (book, error) {
				if now == nil {
					return book{}, errs.New(errs.NotFound, "gone")
				}
				return book{}, record.ErrDelete
			}})
			if err != nil {
				return err
			}
			return s.Table.Transact(ctx, append(append(made, gone...), audit.Entry(ctx, s.now, entry))...)
		})
	}
	require.NoError(t, move(ann))
	assert.Equal(t, errs.NotFound, errs.CodeOf(move(ann)))
	all, err := s.List(ann, "", 10, nil)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "new", all[0].Title)
	assert.Len(t, s.entries(t, "acme"), 2)
}
