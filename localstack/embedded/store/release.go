package store

import "context"

// Release frees the cached blocks of tables, which together occupy more of the
// heap than their own size. They are read again, from the operating system's
// cache, when needed.
func (db *DB) Release() {
	if db.enter(context.Background()) != nil {
		return // closed: Close has freed everything
	}
	defer db.use.RUnlock()
	db.reads.clear()
	db.cache.Reserve(int(db.cache.MaxSize()))()
}
