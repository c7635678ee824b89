package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// asideDir is the directory in a store for copies of discarded parts of logs.
const asideDir = "aside"

// Repair repairs a store that [Open] rejects for damage in its logs, so that it
// opens with all writes before the damage. It first copies the damaged log and
// all later ones aside. It returns the damage, nil if there was none. Errors:
// ErrInUse, and a *Damage that only a backup can repair. A nil file system
// means the operating system's.
func Repair(dir string, fs vfs.FS) (_ *Damage, err error) {
	if fs == nil {
		fs = vfs.Default
	}
	private := &files{FS: fs, log: slog.New(slog.DiscardHandler)}
	if _, err := fs.Stat(dir); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := lock(dir, private, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	found, err := inspect(private, dir, readBoot(private, dir).Boot)
	var damage *Damage
	if !errors.As(err, &damage) || damage.log == nil {
		return nil, err
	}
	for _, log := range found.logs {
		if log.number < damage.log.number {
			continue
		}
		copied, err := keepAside(private, dir, log.name)
		if err != nil {
			return nil, err
		}
		damage.Aside = append(damage.Aside, copied)
	}
	if err := (bootMark{Log: damage.log.number}).write(private, dir); err != nil {
		return nil, err
	}
	// From the last log on, so that an interrupted repair leaves a store that can
	// be repaired again.
	for i := len(found.logs) - 1; i >= 0 && found.logs[i].number > damage.log.number; i-- {
		if err := private.Remove(private.PathJoin(dir, found.logs[i].name)); err != nil {
			return nil, err
		}
	}
	return damage, cut(private, dir, damage.log.name, damage.cut)
}

// cut truncates a log, which may be missing.
func cut(fs vfs.FS, dir, name string, size int64) error {
	path := fs.PathJoin(dir, name)
	var data []byte
	if size > 0 {
		file, err := fs.Open(path)
		if err != nil {
			return err
		}
		data = make([]byte, size)
		_, err = io.ReadFull(file, data)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	temporary := fs.PathJoin(dir, asideDir, name+".cut")
	if err := errors.Join(fs.MkdirAll(fs.PathJoin(dir, asideDir), 0o700), writeSynced(fs, temporary, data)); err != nil {
		return err
	}
	return errors.Join(fs.Rename(temporary, path), syncDir(fs, dir))
}

// keepAside copies a log to asideDir and returns the copy's name.
func keepAside(fs vfs.FS, dir, name string) (string, error) {
	folder := fs.PathJoin(dir, asideDir)
	if err := fs.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	file, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	aside := fs.PathJoin(folder, name)
	return aside, errors.Join(writeSynced(fs, aside, data), syncDir(fs, folder), syncDir(fs, dir))
}

func writeSynced(fs vfs.FS, name string, data []byte) error {
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
