package store

import "context"

// Release gives back the memory of the blocks of tables that were read. They hold
// together more of the heap than their own size. What is needed is read again, from
// the operating system's cache.
func (db *DB) Release() {
	if db.enter(context.Background()) != nil {
		return // closed: it has given all of it back
	}
	defer db.use.RUnlock()
	db.cache.Reserve(int(db.cache.MaxSize()))()
}
