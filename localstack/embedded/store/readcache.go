package store

import (
	"hash/maphash"
	"sync/atomic"
)

// Limits of the read cache: at most 4 MB.
const (
	readSlots = 2048
	readBytes = 2 << 10 // of a key and its value
)

// readCache holds recently read, durable values. Some items are read by every request
// and rarely written, and Pebble looks for those in one level after the other; longest
// for one that does not exist. Writes never enter the cache, only reads do.
//
// A key has one slot, which it shares with others. Before a commit becomes visible the
// versions of its keys' slots become odd, and afterwards even again. That invalidates
// the values cached before, and an odd version accepts no new ones.
type readCache struct {
	seed  maphash.Seed
	slots [readSlots]readSlot
}

type readSlot struct {
	version atomic.Uint64
	value   atomic.Pointer[cachedValue]
}

type cachedValue struct {
	version uint64 // of the slot, from before the read
	key     string
	value   Value
}

func newReadCache() *readCache { return &readCache{seed: maphash.MakeSeed()} }

func (r *readCache) slot(key []byte) *readSlot {
	return &r.slots[maphash.Bytes(r.seed, key)%readSlots]
}

// get returns the current value of a key, which may be that it does not exist; ok is
// false if the cache does not have it.
func (s *readSlot) get(key []byte) (value Value, ok bool) {
	v := s.value.Load()
	if v == nil || v.key != string(key) || v.version != s.version.Load() { //guard:store/reads drop operand 3
		return Value{}, false
	}
	return v.value, true
}

// keep caches a durable value that was read after the slot had a version.
func (s *readSlot) keep(version uint64, key []byte, value Value) {
	if version%2 == 0 && len(key)+len(value.Data) <= readBytes { //guard:store/reads-apply drop operand 1
		s.value.Store(&cachedValue{version, string(key), value})
	}
}

// begin is called under the lock of commits, before a write of a key becomes visible,
// for a slot any number of times.
func (s *readSlot) begin() {
	if v := s.version.Load(); v%2 == 0 {
		s.version.Store(v + 1)
	}
}

// end is called when the writes are visible.
func (s *readSlot) end() {
	if v := s.version.Load(); v%2 != 0 {
		s.version.Store(v + 1)
	}
}

// clear releases the cache's memory.
func (r *readCache) clear() {
	for i := range r.slots {
		r.slots[i].value.Store(nil)
	}
}
