package store

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
)

// busyTimeout is how long a statement waits for another program's lock on the
// file, such as a sqlite3 shell's.
const busyTimeout = 10 * time.Second

func openWriter(path string, full bool) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	conn.SetBusyTimeout(busyTimeout)
	err = prepareFile(conn, full)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), conn.Close())
	}
	return conn, nil
}

func prepareFile(conn *sqlite.Conn, full bool) error {
	version, err := queryInt(conn, "PRAGMA user_version")
	if err != nil {
		return err
	}
	if version > layout {
		return fmt.Errorf("%w: layout %d, this program knows %d", ErrNewer, version, layout)
	}
	synchronous := "NORMAL"
	if full {
		synchronous = "FULL"
	}
	for _, sql := range []string{
		"PRAGMA synchronous = " + synchronous,
		"PRAGMA wal_autocheckpoint = 1000",
		"PRAGMA cache_size = -16384", // KiB
		"PRAGMA temp_store = MEMORY",
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		"CREATE TABLE IF NOT EXISTS migrations (owner TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
		"CREATE TABLE IF NOT EXISTS folded (owner TEXT PRIMARY KEY, grp INTEGER NOT NULL) WITHOUT ROWID",
		fmt.Sprintf("PRAGMA user_version = %d", layout),
	} {
		if err := exec(conn, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func openReader(path string) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	conn.SetBusyTimeout(busyTimeout)
	if err := exec(conn, "PRAGMA cache_size = -4096"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// exec runs a statement to its end; the connection keeps it prepared.
func exec(conn *sqlite.Conn, sql string) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	for {
		row, err := stmt.Step()
		if err != nil {
			return err
		}
		if !row {
			return nil
		}
	}
}

func queryInt(conn *sqlite.Conn, sql string) (int64, error) {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return 0, err
	}
	if _, err := stmt.Step(); err != nil {
		return 0, err
	}
	n := stmt.ColumnInt64(0)
	return n, stmt.Reset()
}

// totalChanges counts the rows the connection has ever changed, -1 if it cannot
// tell.
func totalChanges(conn *sqlite.Conn) int64 {
	n, err := queryInt(conn, "SELECT total_changes()")
	if err != nil {
		return -1
	}
	return n
}
