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

// ErrDamaged: a file of the store is not as it was written. It is matched by a
// [Damage] of Open, and by the errors of reads that meet a damaged table.
var ErrDamaged = errors.New("store: the database is damaged")

// Damage is why a store is not opened: what was acknowledged is missing from it,
// or may be. Nothing in the directory was changed.
type Damage struct {
	Dir  string // of the store
	File string // its name in Dir; "" if it is not known which
	What string // what is wrong with it
	// Aside are the copies that [Repair] made of logs.
	Aside []string

	// log is set if Repair can cut the logs, at the offset cut of this one.
	log *logFile
	cut int64
}

// Error is one sentence: which file, what is wrong, and what to do.
func (d *Damage) Error() string {
	what := d.What
	if d.File != "" {
		what = d.File + " " + what
	}
	remedy := "restore a backup"
	if d.log != nil {
		remedy += ", or run millrace-local repair, which keeps the damaged part aside and gives up what was written after it"
	}
	return fmt.Sprintf("%v: in %s %s; nothing was changed: %s", ErrDamaged, d.Dir, what, remedy)
}

// Is matches ErrDamaged.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// damaged tells what Pebble's Open found of a store that was there. Errors of the
// file system are not damage.
func damaged(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) || vfs.IsNoSpaceError(err) {
		return fmt.Errorf("store: %w", err)
	}
	return &Damage{Dir: dir, What: "Pebble finds: " + oneLine(err.Error())}
}

// Unreadable makes of what a read met of a damaged file an error that matches
// ErrDamaged and answers a request as unavailable, and notes it for [DB.Damaged].
// Other errors, and nil, it returns. Whoever uses an [DB.Iterator] calls it.
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

// noteDamage logs each damaged file once; the store is unhealthy from then on.
func (db *DB) noteDamage(file string, err error) error {
	damage := &Damage{Dir: db.dir, File: file, What: "cannot be read: " + oneLine(err.Error())}
	if _, known := db.damage.LoadOrStore(file, damage); !known {
		db.log.Error("store: a file is damaged: what it has cannot be read, restore a backup", "file", file, "error", oneLine(err.Error()))
	}
	return unavailable(damage)
}

// Damaged is what reads and compactions since Open met of damaged files, or nil.
func (db *DB) Damaged() error {
	var found error
	db.damage.Range(func(_, damage any) bool {
		found = damage.(*Damage)
		return false
	})
	return found
}

// oneLine shortens a message of Pebble.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return text
}

// unavailable is what a request is told that met damage.
func unavailable(cause error) error {
	return errs.Wrap(errs.Unavailable, cause, "A part of the database is damaged and cannot be read; its operator has to restore a backup")
}
