package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble opens some damaged stores as if they were shorter: it reads the newest
// log and the manifest up to the first record that is not intact, ignores a
// missing log, and creates a new store if the file that names the manifest is
// missing. A store is therefore checked before Pebble opens it: starting from
// the manifest, every batch must exist up to the last one, which may be torn,
// because that is how a process or a machine dies. Pebble itself detects
// missing or truncated tables when it opens a store, and damage inside of
// tables when it reads them.

// inspection is the result of checking a store.
type inspection struct {
	exists bool
	logs   []*logFile // the logs that Pebble will read, in order
	// torn is the newest log if it has a gap that a power cut may have caused.
	torn *logFile
}

// logFile is a log as it was read.
type logFile struct {
	name   string
	number uint64
	chunkReader
	first, next uint64 // number of the first write, 0 if there is none, and of the one after the last
}

// edit is the accumulated state of a manifest's records.
type edit struct {
	minLog uint64 // older logs are in tables
	last   uint64 // number of the last write at that time
}

// firstWrite is the number of a Pebble store's first write.
const firstWrite = 10

// inspect reads manifest and logs of a store. boot is the current boot's id, ""
// if unknown. Errors: *Damage, and those of reading.
func inspect(fs vfs.FS, dir, boot string) (found inspection, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return found, fmt.Errorf("store: %w", err)
	}
	damage := func(file, what string, args ...any) error {
		return &Damage{Dir: dir, File: file, What: fmt.Sprintf(what, args...)}
	}
	tables := slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".sst") })
	options, hasOptions := newest(names, "OPTIONS-")
	db, err := pebble.Peek(dir, fs)
	if err != nil {
		return found, damage("", "a marker file cannot be read: %s", oneLine(err.Error()))
	}
	if !db.Exists {
		// An interrupted first start has neither tables nor options.
		if tables || hasOptions {
			return found, damage("", "the file marker.manifest.* is missing, which names the manifest")
		}
		return found, nil
	}
	found.exists = true
	if hasOptions && db.FormatMajorVersion == pebble.FormatDefault {
		return found, damage("", "the file marker.format-version.* is missing")
	}
	state, err := readManifest(fs, dir, filepath.Base(db.ManifestFilename))
	if err != nil {
		return found, err
	}
	if found.logs, err = readLogs(fs, dir, names, state.minLog); err != nil {
		return found, err
	}
	mark := readBoot(fs, dir)
	since := mark.since(boot)
	if missing, ok := found.missing(state, mark, since, options, tables); ok {
		return found, &Damage{
			Dir: dir, File: logName(missing), What: "is missing", log: &logFile{name: logName(missing), number: missing},
		}
	}
	return found, found.check(dir, state, since)
}

// missing returns the number of a log that must exist and does not. The first
// log of a process is created before its options are written and may have any
// number from the manifest's on; if the manifest names a later one, it is that
// log. Between the two, while a store is opened, there may be no log, or one
// without writes.
func (f *inspection) missing(state edit, mark bootMark, since outage, options uint64, tables bool) (number uint64, is bool) {
	if len(f.logs) == 0 {
		number = max(state.minLog, mark.Log)
		return number, options > state.minLog || mark.Log >= max(state.minLog, 1) || options == 0 && tables
	}
	first, last := f.logs[0], f.logs[len(f.logs)-1]
	written := slices.ContainsFunc(f.logs, func(log *logFile) bool { return log.first != 0 })
	switch {
	case options > state.minLog && first.number > options, options != 0 && options < state.minLog && first.number != state.minLog && written:
		return state.minLog, true
	case since == held && mark.Log > last.number:
		return mark.Log, true
	}
	return 0, false
}

// check checks that the logs continue where the tables end, without gaps.
func (f *inspection) check(dir string, state edit, since outage) error {
	var before *logFile // the last one with a batch
	for i, log := range f.logs {
		newest, next := i == len(f.logs)-1, max(state.last+1, firstWrite)
		if before != nil {
			next = before.next
		}
		damage := func(cut int64, what string, args ...any) error {
			return &Damage{Dir: dir, File: log.name, What: fmt.Sprintf(what, args...), log: log, cut: cut}
		}
		switch {
		case log.first > next, before != nil && log.first != 0 && log.first != next:
			return damage(0, "begins with write %d, and those from %d on are in no file: a log before it is missing", log.first, next)
		case !newest && (!log.closed || log.behind >= 0):
			return damage(log.end, "is not intact at byte %d of %d, and is not the last log", log.end, log.size)
		case log.behind >= 0 && (since == held || since == cutZeros && !log.gap):
			return damage(log.end, "is not intact at byte %d of %d, and %d intact records follow", log.end, log.size, log.others)
		case log.behind >= 0:
			f.torn = log
		}
		if log.first != 0 {
			before = log
		}
	}
	return nil
}

// readManifest reads the state of a manifest.
func readManifest(fs vfs.FS, dir, name string) (state edit, err error) {
	file, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return state, &Damage{Dir: dir, File: name, What: "cannot be opened: " + oneLine(err.Error())}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	const enough = 256 // the fields that are read come first in an edit
	records := 0
	c := chunkReader{r: file}
	if err := c.scan(enough, func(head []byte) { records++; state.read(head) }); err != nil {
		return state, fmt.Errorf("store: %s: %w", name, err)
	}
	switch {
	case records == 0:
		err = &Damage{Dir: dir, File: name, What: fmt.Sprintf("has no intact record in its %d bytes", c.size)}
	case c.behind >= 0:
		err = &Damage{Dir: dir, File: name, What: fmt.Sprintf("is not intact at byte %d of %d, and %d intact records follow", c.end, c.size, c.others)}
	}
	return state, err
}

// read reads the first fields of an edit in Pebble's encoding. Tags and numbers
// are varints.
func (e *edit) read(data []byte) {
	number := func() uint64 {
		v, n := binary.Uvarint(data)
		data = data[max(n, 0):]
		return v
	}
	for len(data) > 0 {
		switch tag := number(); tag {
		case 1: // the name of the comparer
			length := number()
			data = data[min(length, uint64(len(data))):]
		case 2:
			e.minLog = max(e.minLog, number())
		case 4:
			e.last = max(e.last, number())
		case 3, 9, 106: // next file, previous log, removed backing
			number()
		case 105: // created backing, with its size
			number()
			number()
		default:
			return
		}
	}
}

// readLogs reads the logs with a number of at least from.
func readLogs(fs vfs.FS, dir string, names []string, from uint64) (logs []*logFile, err error) {
	for _, name := range names {
		if number, ok := logNumber(name); ok && number >= from {
			logs = append(logs, &logFile{name: name, number: number})
		}
	}
	slices.SortFunc(logs, func(a, b *logFile) int { return int(int64(a.number - b.number)) })
	for _, log := range logs {
		if err := log.read(fs, dir); err != nil {
			return nil, fmt.Errorf("store: %s: %w", log.name, err)
		}
	}
	return logs, nil
}

// read reads a log. A batch begins with the number of its first write (8 bytes)
// and the count of its writes (4).
func (l *logFile) read(fs vfs.FS, dir string) error {
	file, err := fs.Open(fs.PathJoin(dir, l.name), vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	low := uint32(l.number)
	l.chunkReader = chunkReader{r: file, number: &low}
	err = l.scan(12, func(head []byte) {
		if len(head) < 12 {
			return
		}
		begin, writes := binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint32(head[8:])
		if writes == 0 { // an empty batch, written only to sync the log
			return
		}
		if l.first == 0 {
			l.first = begin
		}
		l.next = begin + uint64(writes)
	})
	l.r = nil
	return errors.Join(err, file.Close())
}

// logNumber returns the number of a log. ok is false if the file is not a log.
func logNumber(name string) (number uint64, ok bool) {
	base, ok := strings.CutSuffix(name, ".log")
	number, err := strconv.ParseUint(base, 10, 64)
	return number, ok && err == nil
}

func logName(number uint64) string { return fmt.Sprintf("%06d.log", number) }

// newest returns the highest number of the files of a kind.
func newest(names []string, prefix string) (number uint64, found bool) {
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseUint(rest, 10, 64); ok && err == nil {
			number, found = max(number, n), true
		}
	}
	return number, found
}
