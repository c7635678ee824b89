package memory

import (
	"cmp"
	"slices"
	"strings"

	"millrace/shared/table"
)

// partition names a partition of the table or of an index.
type partition struct {
	index table.Index
	pk    string
}

// row is an item in its partition, or its place in an index, where item is nil.
type row struct {
	sort string // the sort key by which the partition is ordered
	key  table.Key
	item table.Item
}

// rows is a partition in order.
type rows []row

func (a row) compare(b row) int {
	return cmp.Or(strings.Compare(a.sort, b.sort), strings.Compare(a.key.PK, b.key.PK), strings.Compare(a.key.SK, b.key.SK))
}

// load returns the stored item, which is never changed; nil if there is none.
func (t *Table) load(key table.Key) table.Item {
	part := t.parts[partition{pk: key.PK}]
	if i, ok := slices.BinarySearchFunc(part, row{sort: key.SK, key: key}, row.compare); ok {
		return part[i].item
	}
	return nil
}

// store puts a row into its place.
func (t *Table) store(p partition, r row) {
	part := t.parts[p]
	i, there := slices.BinarySearchFunc(part, r, row.compare)
	if there {
		part[i] = r
		return
	}
	t.parts[p] = slices.Insert(part, i, r)
}

// remove takes a row away.
func (t *Table) remove(p partition, r row) {
	part := t.parts[p]
	i, there := slices.BinarySearchFunc(part, r, row.compare)
	switch {
	case !there:
	case len(part) == 1:
		delete(t.parts, p)
	default:
		t.parts[p] = slices.Delete(part, i, i+1)
	}
}
