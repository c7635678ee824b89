package sqltable

import (
	"cmp"
	"slices"

	"millrace/shared/table"
)

// view is what the memory has of a query's answer.
type view struct {
	whole  bool     // it is all of it
	rows   []placed // in the order of the query
	hidden keys     // what the database may have of these is out of date
	lost   uint64   // for remember
	frozen uint64   // for moved
}

type placed struct {
	at   table.Position
	item table.Item
}

type keys map[table.Key]struct{}

// hides reports whether a row of the database is out of date.
func (v *view) hides(at table.Position) bool {
	_, hidden := v.hidden[at.Key]
	return hidden
}

// moved reports whether rows that the view has not seen may have come into the
// database since.
func (m *memory) moved(v view) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.frozen != v.frozen
}

// view looks at the rows that a query's page may show.
func (m *memory) view(q table.Query, start table.Position) view {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v := view{lost: m.lost, frozen: m.frozen}
	if q.Index == "" {
		m.viewTable(&v, q, start)
	} else {
		m.viewIndex(&v, q, start)
	}
	slices.SortFunc(v.rows, func(a, b placed) int {
		if q.Reverse {
			a, b = b, a
		}
		return compare(a.at, b.at)
	})
	return v
}

func (m *memory) viewTable(v *view, q table.Query, start table.Position) {
	p := m.parts[q.PK]
	if p == nil {
		v.whole = m.absent(q.PK)
		return
	}
	p.used.Store(m.clock.Add(1))
	if v.whole = p.whole; !v.whole {
		v.hidden = make(keys, len(p.rows))
	}
	for sk, r := range p.rows {
		at := table.Position{Key: table.Key{PK: q.PK, SK: sk}}
		if !v.whole {
			v.hidden[at.Key] = struct{}{}
		}
		if r.item != nil && shows(q, start, at) {
			v.rows = append(v.rows, placed{at, r.item})
		}
	}
}

// viewIndex looks at the dirty rows: the database has the entries of all others.
func (m *memory) viewIndex(v *view, q table.Query, start table.Position) {
	pk, _ := q.Index.Attributes()
	for r := range m.dirty {
		is := r.item[pk].Str() == q.PK
		if !is && r.base[pk].Str() != q.PK && r.next[pk].Str() != q.PK {
			continue
		}
		if v.hidden == nil {
			v.hidden = keys{}
		}
		key := table.Key{PK: r.part.pk, SK: r.sk}
		v.hidden[key] = struct{}{}
		entry, stands := r.item.Entry(q.Index)
		at := table.Position{Entry: entry, Key: key}
		if is && stands && shows(q, start, at) {
			v.rows = append(v.rows, placed{at, table.EntryItem(q.Index, entry, key)})
		}
	}
}

// shows reports whether a row is in a query's range and behind its start.
func shows(q table.Query, start, at table.Position) bool {
	sk := at.Key.SK
	if q.Index != "" {
		sk = at.Entry.SK
	}
	return q.Range.Contains(sk) && (start == table.Position{} || before(q.Reverse, start, at))
}

// before reports whether a comes before b in a query's order.
func before(reverse bool, a, b table.Position) bool {
	if reverse {
		a, b = b, a
	}
	return compare(a, b) < 0
}

func compare(a, b table.Position) int {
	return cmp.Or(cmp.Compare(a.Entry.SK, b.Entry.SK), cmp.Compare(a.Key.PK, b.Key.PK), cmp.Compare(a.Key.SK, b.Key.SK))
}
