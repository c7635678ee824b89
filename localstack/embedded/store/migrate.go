package store

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Migrate brings an owner's tables up to date. steps[i] is a script that leads
// from version i to i+1; those the file has already seen are skipped, so a step
// is never changed once released, only added. Each step is applied whole or not
// at all. ErrNewer if the file has seen more steps than these.
func (db *DB) Migrate(owner string, steps ...string) error {
	for i := range steps {
		err := db.Write(context.Background(), func(conn *sqlite.Conn) error {
			version, err := ownerVersion(conn, owner)
			if err != nil {
				return err
			}
			if version > len(steps) {
				return fmt.Errorf("%w: %s is at %d, this program knows %d", ErrNewer, owner, version, len(steps))
			}
			if version > i {
				return nil
			}
			// The version is written first so that a failing script counts as a
			// failure after a change, which is rolled back.
			err = sqlitex.Execute(conn, "INSERT OR REPLACE INTO migrations (owner, version) VALUES (?, ?)",
				&sqlitex.ExecOptions{Args: []any{owner, i + 1}})
			if err != nil {
				return err
			}
			return sqlitex.ExecuteScript(conn, steps[i], nil)
		})
		if err != nil {
			return fmt.Errorf("store: migrate %s to version %d: %w", owner, i+1, err)
		}
	}
	return nil
}

func ownerVersion(conn *sqlite.Conn, owner string) (version int, err error) {
	err = sqlitex.Execute(conn, "SELECT version FROM migrations WHERE owner = ?", &sqlitex.ExecOptions{
		Args: []any{owner},
		ResultFunc: func(stmt *sqlite.Stmt) error {
			version = stmt.ColumnInt(0)
			return nil
		},
	})
	return version, err
}
