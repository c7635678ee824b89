package record_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// overtaken is a table on which another writer intervenes just before the first
// write.
type overtaken struct {
	table.Table
	by func() // nil: nobody
}

func (o *overtaken) Transact(ctx context.Context, writes ...table.Write) error {
	if by := o.by; by != nil {
		o.by = nil
		by()
	}
	return o.Table.Transact(ctx, writes...)
}

// TestConcurrentWriteIsNotOverwritten writes a record after it was read and
// before it is written.
func TestConcurrentWriteIsNotOverwritten(t *testing.T) {
	t.Parallel()
	ann, bob := as("acme", "ann@acme.test"), as("acme", "bob@acme.test")
	page := func(b *book) error { b.Pages++; return nil }
	for name, test := range map[string]struct {
		there    bool // whether the record exists before
		bob, ann func(s *shelf) error
		want     error
		pages    int64
		changes  int
	}{
		"made": {
			bob:  func(s *shelf) error { _, err := s.Create(bob, "go", book{Pages: 5}); return err },
			ann:  func(s *shelf) error { _, err := s.Create(ann, "go", book{Pages: 9}); return err },
			want: errs.New(errs.Conflict, ""), pages: 5, changes: 1,
		},
		"changed": {
			there: true,
			bob:   func(s *shelf) error { _, err := s.Update(bob, "go", "update", page); return err },
			ann:   func(s *shelf) error { _, err := s.Update(ann, "go", "update", page); return err },
			pages: 2, changes: 3,
		},
		"deleted and made again": {
			there: true,
			bob: func(s *shelf) error {
				_, err := s.Delete(bob, "go", nil)
				require.NoError(t, err)
				_, err = s.Create(bob, "go", book{Pages: 5})
				return err
			},
			ann:   func(s *shelf) error { _, err := s.Update(ann, "go", "update", page); return err },
			pages: 6, changes: 4,
		},
		"touched": {
			there: true,
			bob: func(s *shelf) error {
				_, err := s.Table.Update(bob, table.Update{
					Key: s.Key(bob, "go"), Do: []table.Action{table.Set("pages", 5), record.Touch(epoch)},
				})
				return err
			},
			ann:   func(s *shelf) error { _, err := s.Update(ann, "go", "update", page); return err },
			pages: 6, changes: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &overtaken{}
			s := newShelf(t, func(inner table.Table) table.Table { o.Table = inner; return o })
			if test.there {
				_, err := s.Create(ann, "go", book{})
				require.NoError(t, err)
			}
			o.by = func() { assert.NoError(t, test.bob(s)) }
			assert.Equal(t, errs.CodeOf(test.want), errs.CodeOf(test.ann(s)))
			got, err := s.Get(ann, "go")
			require.NoError(t, err)
			assert.EqualValues(t, test.pages, got.Pages)
			assert.Len(t, s.entries(t, "acme"), test.changes)
		})
	}
}
