package store

// Compactions is how many memtables were flushed to tables since Open, and how
// many compactions of tables were made.
func (db *DB) Compactions() (flushes, compactions int64) {
	m := db.pebble.Metrics()
	return m.Flush.Count, m.Compact.Count
}
