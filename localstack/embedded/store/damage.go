package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"millrace/shared/platform/errs"
)

// ErrDamaged means that a file of the store is not as it was written. It
// matches a [Damage] of Open, and the errors of reads of a damaged table.
var ErrDamaged = errors.New("store: the database is damaged")

// Damage is the reason why a store was not opened: acknowledged writes are
// missing, or may be. Nothing in the directory was changed.
type Damage struct {
	Dir  string // of the store
	File string // its name in Dir; "" if unknown
	What string // what is wrong with it
	// Aside are the copies of logs that [Repair] made.
	Aside []string

	// log is set if Repair can cut the logs, at offset cut of this one.
	log *logFile
	cut int64
}

// Error returns one sentence: which file, what is wrong, and what to do.
func (d *Damage) Error() string {
	what := d.What
	if d.File != "" {
		what = d.File + " " + what
	}
	remedy := "restore a backup"
	if d.log != nil {
		remedy += ", or run millrace repair, which keeps the damaged part aside and gives up what was written after it"
	}
	return fmt.Sprintf("%v: in %s %s; nothing was changed: %s", ErrDamaged, d.Dir, what, remedy)
}

// Is matches ErrDamaged.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// damaged converts an error of Pebble's Open for an existing store. Errors of
// the file system are not damage.
func damaged(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) || vfs.IsNoSpaceError(err) {
		return fmt.Errorf("store: %w", err)
	}
	return &Damage{Dir: dir, What: "Pebble finds: " + oneLine(err.Error())}
}

// Unreadable converts the error of a read of a damaged file to one that matches
// ErrDamaged and is reported to clients as unavailable, and records it for
// [DB.Damaged]. It returns other errors, and nil, unchanged. Users of
// [DB.Iterator] must call it.
func (db *DB) Unreadable(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) {
		return err
	}
	file := "a table"
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		file = filepath.Base(info.Path)
	}
	return db.noteDamage(file, err)
}

// noteDamage logs each damaged file once. The store is unhealthy from then on.
func (db *DB) noteDamage(file string, err error) error {
	damage := &Damage{Dir: db.dir, File: file, What: "cannot be read: " + oneLine(err.Error())}
	if _, known := db.damage.LoadOrStore(file, damage); !known {
		db.log.Error("store: a file is damaged: what it has cannot be read, restore a backup", "file", file, "error", oneLine(err.Error()))
	}
	return unavailable(damage)
}

// Damaged returns the damage that reads and compactions have met since Open, or
// nil.
func (db *DB) Damaged() error {
	var found error
	db.damage.Range(func(_, damage any) bool {
		found = damage.(*Damage)
		return false
	})
	return found
}

// oneLine shortens a message of Pebble to one line.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return text
}

// unavailable returns the error for a request that met damage.
func unavailable(cause error) error {
	return errs.Wrap(errs.Unavailable, cause, "A part of the database is damaged and cannot be read; its operator has to restore a backup")
}
