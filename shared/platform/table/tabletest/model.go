package tabletest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"millrace/shared/platform/table"
)

// model is what a table holds: a plain map, sorted when it is read. Order, ranges,
// membership of indexes and the atomicity of transactions are written here anew,
// so that they check the drivers' independently. What a single condition or
// action means is left to table.Holds and table.Apply, which have tests by cases
// of their own.
type model map[table.Key]table.Item

// next works out what a write makes of the item it is about (nil: none), or why
// it is refused.
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

// write applies all of the writes, or none and says why for each.
func (m model) write(writes ...table.Write) (reasons []table.Reason, refused bool) {
	after := model{}
	for _, w := range writes {
		item, reason := m.next(w)
		after[w.Target()] = item
		reasons = append(reasons, reason)
		refused = refused || reason.Err != nil
	}
	if refused {
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

// row is an item's place in a partition of the table or of an index, and what a
// query finds there.
type row struct {
	at   string // what the partition is sorted by
	key  table.Key
	item table.Item
}

// rows are those of a partition, in order. Where an index has several items at
// one place, they are in the order of their keys.
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

// inRange reports whether a range has the sort key.
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

// within are the rows of a range.
func within(r table.Range, rows []row) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(x row) bool { return !inRange(r, x.at) })
}

// passing are the items of rows that a filter lets through.
func passing(filter table.Cond, rows []row) (items []table.Item) {
	for _, x := range rows {
		if table.Holds(filter, x.item) {
			items = append(items, x.item)
		}
	}
	return items
}

// projected are items as a read of some attributes returns them; of none named,
// as they are.
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

// bytes is the size of rows, by which a page is cut.
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
