package store

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// bootFile records in which boot of the machine a store was last opened, how,
// and its newest log. Writes of a process survive its death completely: only a
// failure of the machine can lose parts of a log other than the end, or its
// name.
const bootFile = "boot.json"

type bootMark struct {
	Boot     string `json:"boot"`
	FullSync bool   `json:"full_sync"`
	Log      uint64 `json:"log"` // 0: unknown
}

// readBoot reads bootFile. Missing fields are empty.
func readBoot(fs vfs.FS, dir string) (mark bootMark) {
	file, err := fs.Open(fs.PathJoin(dir, bootFile))
	if err != nil {
		return bootMark{}
	}
	data, err := io.ReadAll(file)
	if errors.Join(err, file.Close()) != nil || json.Unmarshal(data, &mark) != nil {
		return bootMark{}
	}
	return mark
}

// write writes bootFile without syncing it: after a power cut the boot is
// another one anyway.
func (m bootMark) write(fs vfs.FS, dir string) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := fs.PathJoin(dir, bootFile)
	file, err := fs.Create(name+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return fs.Rename(name+".new", name)
}

// outage is the possible effect of a power cut on the newest log.
type outage int

const (
	held     outage = iota // none: the machine has been up since
	cutZeros               // unwritten sectors are zero
	cutAny                 // unwritten sectors contain anything, such as an older log's data
)

// since returns the possible effect since the store was last opened.
func (m bootMark) since(boot string) outage {
	switch {
	case boot != "" && m.Boot == boot:
		return held
	case m.FullSync:
		return cutAny
	}
	return cutZeros
}

// prepare checks the store that Pebble is about to open, and reports whether it
// exists. A gap in the newest log that a power cut may have caused is not
// damage: the log is cut there, after a copy was made.
func prepare(dir string, fs *files, opts Options) (there bool, err error) {
	found, err := inspect(fs, dir, opts.boot)
	if err != nil {
		return false, err
	}
	if !found.exists && opts.MustExist {
		return false, &Damage{Dir: dir, What: "there is no database any more"}
	}
	if found.torn == nil {
		return found.exists, nil
	}
	log, aside := found.torn, ""
	if !opts.ReadOnly {
		if aside, err = keepAside(fs, dir, log.name); err != nil {
			return true, err
		}
		if err := cut(fs, dir, log.name, log.end); err != nil {
			return true, err
		}
	}
	opts.Log.Error("store: a power cut took a part of the last writes: what was written after it is given up",
		slog.String("file", log.name), slog.Int64("offset", log.end), slog.Int("records", log.others), slog.String("copy", aside))
	return true, nil
}
