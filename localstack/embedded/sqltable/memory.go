package sqltable

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"millrace/shared/table"
)

// The sizes of the memory.
const (
	memoryBudget = 16 << 20 // bytes, by estimate, of rows that could be read again
	wholeRows    = 1000     // a partition with more rows is not kept as a whole
	wholeBytes   = 2 << 20
)

// memory holds every row that is in the journal and not in the database yet,
// and rows that were read or written lately. It is the truth about the rows it
// has. It keeps rows by their partition, so that it can know a partition as a
// whole: then what it has no row of does not exist, and no query need look
// further.
type memory struct {
	mu     sync.RWMutex
	parts  map[string]*part
	dirty  map[*row]struct{} // not in the database, as they are
	bytes  int               // by estimate
	budget int               // of bytes
	read   int               // bytes added by reads since rows were last evicted
	lost   uint64            // how often rows that the database has were forgotten
	frozen uint64            // how often the dirty rows were taken to be folded
	clock  atomic.Int64      // counts uses, to tell which partitions are used least
	ends   ends
}

// part is the rows of one partition.
type part struct {
	pk    string
	rows  map[string]*row
	whole bool // it has all rows there are
	large bool // never to be whole: clean rows are forgotten at once
	// family says that every partition of the memory whose key begins with this
	// one's and # is whole, or was, and that the others have no rows.
	family bool
	// last is behind which the database has no rows, if bounded is set: what is
	// only ever added to at its end need not be looked for there.
	last    string
	bounded bool
	dirty   int
	bytes   int
	used    atomic.Int64
}

// row is an item, or the knowledge that there is none.
type row struct {
	part  *part
	sk    string
	item  table.Item // nil: there is none; never changed, only replaced
	size  int        // of item, as DynamoDB counts
	turn  uint64     // counts replacements
	dirty bool
	base  table.Item // of a dirty row: as it is in the database
	next  table.Item // and as the database will have it after the fold under way
}

// cost estimates the memory of a row.
func cost(sk string, item table.Item, size int) int { return 160 + len(sk) + 96*len(item) + size }

func newMemory() *memory {
	return &memory{parts: map[string]*part{}, ends: ends{}, dirty: map[*row]struct{}{}, budget: memoryBudget}
}

// look is what the memory knows of a key.
type look struct {
	item  table.Item
	size  int
	known bool
	lost  uint64 // for remember
}

// get looks a row up.
func (m *memory) get(key table.Key) look {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.find(key)
}

// find is get for a caller that holds mu.
func (m *memory) find(key table.Key) look {
	p := m.parts[key.PK]
	if p == nil {
		return look{known: m.absent(key.PK), lost: m.lost}
	}
	p.used.Store(m.clock.Add(1))
	if r := p.rows[key.SK]; r != nil {
		return look{item: r.item, size: r.size, known: true}
	}
	return look{known: p.whole || p.bounded && key.SK > p.last, lost: m.lost}
}

// heads calls yield with the partitions of the memory of whose family pk is.
func (m *memory) heads(pk string) func(yield func(*part) bool) {
	return func(yield func(*part) bool) {
		for i := range len(pk) {
			if pk[i] != '#' {
				continue
			}
			if p := m.parts[pk[:i]]; p != nil && !yield(p) {
				return
			}
		}
	}
}

// related reports whether pk, which the memory has not, is of a family that it
// has: then it is empty.
func (m *memory) related(pk string) bool {
	for p := range m.heads(pk) {
		if p.family {
			p.used.Store(m.clock.Add(1))
			return true
		}
	}
	return false
}

// absent reports whether the database is known to have nothing of pk, which the
// memory has not.
func (m *memory) absent(pk string) bool { return m.related(pk) || m.ends.behind(pk) }

// size tells whether a partition is known not to fit, and whether its end is
// known then.
func (m *memory) size(pk string) (large, bounded bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p := m.parts[pk]
	if p == nil {
		return false, false
	}
	return p.large, p.bounded
}

// reading is what was read of a partition of the database.
type reading struct {
	pk     string
	lost   uint64 // what the memory said before
	family bool   // rows has all of the family's
	whole  bool   // rows has all of the partition's
	large  bool   // it does not fit; last is its last sort key
	last   string
	rows   map[table.Key]table.Item // nil: there is none
	begin  string                   // of partition keys, "" for none; end is their last
	end    string
}

// remember notes what was read. If rows were forgotten since, what was read may
// be old, and is not kept.
func (m *memory) remember(r reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost != r.lost {
		return
	}
	held := m.bytes
	p := m.part(r.pk)
	if r.large {
		p.large, p.whole = true, false
		if !p.bounded {
			p.last, p.bounded = max(p.last, r.last), true
		}
	}
	for key, item := range r.rows {
		if of := m.part(key.PK); of.rows[key.SK] == nil {
			m.add(of, key.SK, item, item.Size())
		}
	}
	for key := range r.rows { // only now: a whole partition that grows large knows its end
		if of := m.part(key.PK); of != p {
			of.whole = !of.large
		}
	}
	if r.begin != "" {
		m.ended(r.begin, r.end)
	}
	p.whole = p.whole || r.whole && !p.large
	p.family = p.family || r.family
	// As a rule memory is freed after a fold.
	if m.read += m.bytes - held; m.read > m.budget/2 && m.bytes > m.budget && m.evict() {
		m.lost++
	}
}

// part returns a partition, making it if need be.
func (m *memory) part(pk string) *part {
	p := m.parts[pk]
	if p == nil {
		behind := m.ends.behind(pk)
		p = &part{pk: pk, rows: map[string]*row{}, whole: behind || m.related(pk), family: behind}
		m.parts[pk] = p
		m.bytes += 200 + len(pk)
	}
	p.used.Store(m.clock.Add(1))
	return p
}

func (m *memory) add(p *part, sk string, item table.Item, size int) *row {
	r := &row{part: p, sk: sk}
	p.rows[sk] = r
	m.set(r, item, size)
	n := cost(sk, nil, 0)
	m.bytes, p.bytes = m.bytes+n, p.bytes+n
	if len(p.rows) > wholeRows || p.bytes > wholeBytes {
		if p.whole { // so the database has no row that is not here
			p.bounded = true
			for sk := range p.rows {
				p.last = max(p.last, sk)
			}
		}
		p.large, p.whole = true, false
	}
	return r
}

// set replaces a row's item.
func (m *memory) set(r *row, item table.Item, size int) {
	n := 96*(len(item)-len(r.item)) + size - r.size
	m.bytes, r.part.bytes = m.bytes+n, r.part.bytes+n
	r.item, r.size = item, size
	r.turn++
}

// forget drops a row that is clean.
func (m *memory) forget(r *row) {
	n := cost(r.sk, r.item, r.size)
	m.bytes, r.part.bytes = m.bytes-n, r.part.bytes-n
	delete(r.part.rows, r.sk)
	r.part.whole = false
}

// write makes a staged change visible. A row that the memory has no longer is
// clean, so what it was before the group is what the database has.
func (m *memory) write(key table.Key, s *staged) {
	p := m.part(key.PK)
	r := p.rows[key.SK]
	if r == nil {
		r = m.add(p, key.SK, s.before, s.before.Size())
	}
	if !r.dirty {
		r.dirty, r.base = true, r.item
		m.dirty[r] = struct{}{}
		p.dirty++
	}
	m.set(r, s.item, s.size)
}

// fold is one row to be brought into the database.
type fold struct {
	row        *row
	turn       uint64
	pk, sk     string
	base, item table.Item // as the database has it, and is to have it
}

// freeze lists the dirty rows.
func (m *memory) freeze() []fold {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen++
	folds := make([]fold, 0, len(m.dirty))
	for r := range m.dirty {
		r.next = r.item
		folds = append(folds, fold{row: r, turn: r.turn, pk: r.part.pk, sk: r.sk, base: r.base, item: r.item})
	}
	slices.SortFunc(folds, func(a, b fold) int { // neighbours share pages
		return cmp.Or(cmp.Compare(a.pk, b.pk), cmp.Compare(a.sk, b.sk))
	})
	return folds
}

// folded notes that rows are in the database as they were frozen.
func (m *memory) folded(folds []fold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	forgot, grown := false, ""
	for _, f := range folds {
		r := f.row
		r.next = nil
		if f.item != nil && f.pk != grown {
			grown = f.pk
			m.ends.grow(grown)
		}
		if r.turn != f.turn {
			r.base = f.item
			continue
		}
		r.dirty, r.base = false, nil
		delete(m.dirty, r)
		r.part.dirty--
		if r.item != nil {
			r.part.last = max(r.part.last, r.sk)
		}
		if r.part.large {
			m.forget(r)
			forgot = true
		}
	}
	if m.bytes > m.budget {
		forgot = m.evict() || forgot
	}
	if forgot {
		m.lost++
	}
}

// evict forgets the partitions used least that have no dirty row, until a
// quarter of the budget is free.
func (m *memory) evict() (forgot bool) {
	m.read = 0
	clean := make([]*part, 0, len(m.parts))
	for _, p := range m.parts {
		if p.dirty == 0 {
			clean = append(clean, p)
		}
	}
	slices.SortFunc(clean, func(a, b *part) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, p := range clean {
		if m.bytes <= m.budget*3/4 {
			break
		}
		m.bytes -= p.bytes + 200 + len(p.pk)
		delete(m.parts, p.pk)
		for head := range m.heads(p.pk) {
			head.family = false
		}
		forgot = true
	}
	if m.bytes <= m.budget {
		return forgot
	}
	for _, p := range m.parts {
		for _, r := range p.rows {
			if p.dirty > 0 && !r.dirty {
				m.forget(r)
				forgot = true
			}
		}
	}
	return forgot
}
