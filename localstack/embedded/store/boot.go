package store

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// bootFile tells in which start of the machine a store was opened last, how, and
// which log is the newest. What a process wrote outlives it whole: only with the
// machine may a part of a log be lost that is not the end, or its name.
const bootFile = "boot.json"

type bootMark struct {
	Boot     string `json:"boot"`
	FullSync bool   `json:"full_sync"`
	Log      uint64 `json:"log"` // 0: not known
}

// readBoot reads bootFile; what there is none of is empty.
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

// write writes bootFile. It is not synced: what a power cut takes of it is of
// another start anyway.
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

// outage is what a power cut may have done to the newest log.
type outage int

const (
	held     outage = iota // the machine has been up since
	cutZeros               // sectors that were not written are zero
	cutAny                 // or have what was there when the file was another log
)

// since tells what may have happened since a store was opened last.
func (m bootMark) since(boot string) outage {
	switch {
	case boot != "" && m.Boot == boot:
		return held
	case m.FullSync:
		return cutAny
	}
	return cutZeros
}

// prepare checks the store that Pebble is about to open, and says whether there is
// one. A gap that a power cut may have left in the newest log is not damage: with
// it ends what is kept, and the log is copied aside.
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
