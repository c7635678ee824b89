package tabletest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"millrace/shared/platform/table"
)

// model is the content of a table: a plain map, sorted when it is read. It
// implements order, ranges, index membership and atomicity of transactions
// independently of the drivers. Single conditions and actions are left to
// table.Holds and table.Apply, which have their own tests.
type model map[table.Key]table.Item

// next returns the item after a write (nil: none), or why the write fails.
func (m model) next(w table.Write) (table.Item, table.Reason) {
	old := m[w.Target()]
	var cond table.Cond
	item := old
	var err error
	switch w := w.(type) {
	case table.Put:
		cond, item = w.If, w.Item.(table.Item)
	case table.Update:
		if cond = w.If; table.Holds(cond, old) {
			item, err = table.Apply(w.Key, old, w.Do)
		}
	case table.Delete:
		cond, item = w.If, nil
	case table.Check:
		cond = w.If
	}
	switch {
	case !table.Holds(cond, old):
		return nil, table.Reason{Err: table.ErrConditionFailed, Old: old}
	case errors.Is(err, table.ErrInvalid):
		return nil, table.Reason{Err: table.ErrInvalid}
	case err != nil, item.Size() > table.MaxItemBytes:
		return nil, table.Reason{Err: table.ErrLimit}
	}
	return item, table.Reason{}
}

// write applies all of the writes, or none and returns the reason for each.
func (m model) write(writes ...table.Write) (reasons []table.Reason, rejected bool) {
	after := model{}
	for _, w := range writes {
		item, reason := m.next(w)
		after[w.Target()] = item
		reasons = append(reasons, reason)
		rejected = rejected || reason.Err != nil
	}
	if rejected {
		return reasons, true
	}
	for key, item := range after {
		if item == nil {
			delete(m, key)
		} else {
			m[key] = item
		}
	}
	return reasons, false
}

// row is an item's key in a partition of the table or of an index, and the item
// that a query returns for it.
type row struct {
	at   string // sort key in the partition
	key  table.Key
	item table.Item
}

// rows returns the rows of a partition, in order. Rows with the same index key
// are in the order of their item keys.
func (m model) rows(x table.Index, pk string) []row {
	pkName, skName := "pk", "sk"
	if x != "" {
		pkName, skName = string(x)+"_pk", string(x)+"_sk"
	}
	var out []row
	for key, item := range m {
		if item[pkName].Str() != pk || item[skName].Kind() != table.String {
			continue
		}
		found := item
		if x != "" {
			found = table.Item{"pk": item["pk"], "sk": item["sk"], pkName: item[pkName], skName: item[skName]}
		}
		out = append(out, row{at: item[skName].Str(), key: key, item: found})
	}
	slices.SortFunc(out, compareRows)
	return out
}

func compareRows(a, b row) int {
	return cmp.Or(strings.Compare(a.at, b.at), strings.Compare(a.key.PK, b.key.PK), strings.Compare(a.key.SK, b.key.SK))
}

// inRange reports whether a range contains the sort key.
func inRange(r table.Range, sk string) bool {
	order := strings.Compare(sk, r.From)
	return map[table.RangeKind]bool{
		table.RangeAll:     true,
		table.RangeEqual:   order == 0,
		table.RangePrefix:  strings.HasPrefix(sk, r.From),
		table.RangeBetween: order >= 0 && strings.Compare(sk, r.To) <= 0,
		table.RangeAtLeast: order >= 0,
		table.RangeAfter:   order > 0,
		table.RangeAtMost:  order <= 0,
		table.RangeBefore:  order < 0,
	}[r.Kind]
}

// within returns the rows in a range.
func within(r table.Range, rows []row) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(x row) bool { return !inRange(r, x.at) })
}

// passing returns the items of rows that pass a filter.
func passing(filter table.Cond, rows []row) (items []table.Item) {
	for _, x := range rows {
		if table.Holds(filter, x.item) {
			items = append(items, x.item)
		}
	}
	return items
}

// projected returns items with only the given attributes; without names,
// unchanged.
func projected(items []table.Item, only []string) []table.Item {
	if len(only) == 0 {
		return items
	}
	out := make([]table.Item, len(items))
	for i, item := range items {
		out[i] = maps.Clone(item)
		maps.DeleteFunc(out[i], func(name string, _ table.Value) bool {
			return name != "pk" && name != "sk" && !slices.Contains(only, name)
		})
	}
	return out
}

// bytes returns the size of rows, which limits a page.
func bytes(rows []row) (n int) {
	for _, x := range rows {
		n += x.item.Size()
	}
	return n
}

func sameItem(a, b table.Item) bool {
	return (a == nil) == (b == nil) && maps.EqualFunc(a, b, table.Value.Equal)
}

func sameItems(a, b []table.Item) bool { return slices.EqualFunc(a, b, sameItem) }
