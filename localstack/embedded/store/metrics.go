package store

// Compactions returns the number of flushes of memtables to tables, and of
// compactions of tables, since Open.
func (db *DB) Compactions() (flushes, compactions int64) {
	m := db.pebble.Metrics()
	return m.Flush.Count, m.Compact.Count
}
