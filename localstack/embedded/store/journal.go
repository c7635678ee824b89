package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The journal is a row of files beside the database, <path>.redo.<n>, that hold
// what was acknowledged and is not in the database yet. A file is frames, one
// for each group of commits:
//
//	4 bytes   length of the body, big endian
//	4 bytes   CRC-32C of the body
//	body      the group's number (uvarint), then its records: the owner's name
//	          and the record, each after its length in 4 bytes
//
// Groups are numbered without a gap. The table folded holds, for each owner, the
// last group whose records of this owner are in the database. A group that could
// not be written whole is refused, and its number is the next one's: should both
// be found, in two files, the second is what counts.
const (
	frameHeader = 8
	maxFrame    = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged: a frame is not whole, as a kill leaves the last one.
var errDamaged = errors.New("store: journal frame is not whole")

// journal is the file that is being written; the committer alone uses it.
type journal struct {
	path   string               // without the number
	sync   func(*os.File) error // nil: nothing waits for the disk
	number int                  // of the file
	file   *os.File             // nil until something is written
	size   int64
	given  []string // files given up, which hold groups all the same
	before int64    // bytes of those
}

// write appends a frame whose header is still empty.
func (j *journal) write(frame []byte) error {
	body := frame[frameHeader:]
	if len(body) > maxFrame {
		return fmt.Errorf("store: group of %d bytes", len(body))
	}
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	binary.BigEndian.PutUint32(frame[4:], crc32.Checksum(body, castagnoli))
	if err := j.open(); err != nil {
		return fmt.Errorf("store: journal: %w", err)
	}
	_, err := j.file.WriteAt(frame, j.size)
	var unsure error
	if err == nil && j.sync != nil {
		unsure = j.sync(j.file)
	}
	if err == nil && unsure == nil {
		j.size += int64(len(frame))
		return nil
	}
	// What is refused must not be found again. A file that cannot be cut, or of
	// which a sync has failed, is never trusted again.
	if cut := j.file.Truncate(j.size); cut != nil || unsure != nil {
		unsure = errors.Join(unsure, cut, j.giveUp())
	}
	return fmt.Errorf("store: journal: %w", errors.Join(err, unsure))
}

// open begins a file if there is none.
func (j *journal) open() error {
	if j.file != nil {
		return nil
	}
	f, err := os.OpenFile(j.name(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			j.number++
		}
		return err
	}
	j.file = f
	if j.sync != nil {
		if err := syncDir(filepath.Dir(j.path), j.sync); err != nil {
			return errors.Join(err, j.giveUp())
		}
	}
	return nil
}

// giveUp has the next write begin another file.
func (j *journal) giveUp() error {
	name, err := j.name(), j.file.Close()
	if j.size > 0 {
		j.given = append(j.given, name)
		j.before += j.size
	} else {
		err = errors.Join(err, os.Remove(name))
	}
	j.file, j.size = nil, 0
	j.number++
	return err
}

// syncDir makes the names of its files survive a power cut.
func syncDir(dir string, sync func(*os.File) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(sync(d), d.Close())
}

func (j *journal) name() string { return j.path + strconv.Itoa(j.number) }

// bytes is how much there is to fold.
func (j *journal) bytes() int64 { return j.before + j.size }

// rotate ends the file and returns the names of what there is to fold.
func (j *journal) rotate() (names []string, err error) {
	if j.file != nil {
		err = j.giveUp()
	}
	names, j.given, j.before = j.given, nil, 0
	return names, err
}

// appendRecord appends what stage makes, after the owner's name; nothing if it
// makes nothing or fails.
func appendRecord(frame []byte, owner string, stage func([]byte) ([]byte, error)) ([]byte, error) {
	start := len(frame)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(owner)))
	frame = append(frame, owner...)
	at := len(frame)
	frame = append(frame, 0, 0, 0, 0)
	out, err := stage(frame)
	if err != nil || len(out) == at+4 {
		return frame[:start], err
	}
	binary.BigEndian.PutUint32(out[at:], uint32(len(out)-at-4))
	return out, nil
}

// record is one record of a group that was read back.
type record struct {
	group int64
	owner string
	data  []byte
}

// parseFrame reads the first frame of data and returns the rest.
func parseFrame(data []byte) (group int64, records []record, rest []byte, err error) {
	if len(data) < frameHeader {
		return 0, nil, nil, errDamaged
	}
	size := binary.BigEndian.Uint32(data)
	sum := binary.BigEndian.Uint32(data[4:])
	data = data[frameHeader:]
	if size == 0 || uint64(size) > uint64(len(data)) || crc32.Checksum(data[:size], castagnoli) != sum {
		return 0, nil, nil, errDamaged
	}
	body, rest := data[:size], data[size:]
	number, n := binary.Uvarint(body)
	if n <= 0 {
		return 0, nil, nil, errDamaged
	}
	for body = body[n:]; len(body) > 0; {
		var owner, text []byte
		var ok bool
		if owner, body, ok = cut(body); ok {
			text, body, ok = cut(body)
		}
		if !ok {
			return 0, nil, nil, errDamaged
		}
		records = append(records, record{group: int64(number), owner: string(owner), data: text})
	}
	return int64(number), records, rest, nil
}

func cut(b []byte) (part, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// recovered is what earlier processes left in their journals.
type recovered struct {
	files   []string
	records []record // that some owner may not have folded
	last    int64    // number of the last group
	next    int      // number of the next file
}

// recoverJournal reads the journals beside a database whose owners have folded
// up to the given groups. A frame that is not whole ends what can be read of its
// file, and a gap in the numbers, as a power cut may leave, ends all. What is
// behind is removed, for the numbers are used anew; what is read is on the disk
// before anything is built upon it.
func recoverJournal(path string, folded map[string]int64, log *slog.Logger) (recovered, error) {
	var r recovered
	for _, n := range folded {
		r.last = max(r.last, n)
	}
	numbers, err := journals(path)
	if err != nil {
		return r, err
	}
	whole := true
	for _, number := range numbers {
		r.next = number + 1
		name := path + strconv.Itoa(number)
		if whole {
			r.files = append(r.files, name)
			whole, err = r.read(name, folded, log)
		} else {
			err = os.Remove(name)
		}
		if err != nil {
			return r, fmt.Errorf("store: journal: %w", err)
		}
	}
	if !whole {
		err = syncDir(filepath.Dir(path), (*os.File).Sync)
	}
	return r, err
}

// read reads one file; false if there is a gap in the numbers.
func (r *recovered) read(name string, folded map[string]int64, log *slog.Logger) (whole bool, err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return false, err
	}
	for rest := data; len(rest) > 0; {
		group, records, behind, err := parseFrame(rest)
		if err != nil || group > r.last+1 {
			// Of a kill it is the last frame, and nobody was told it is kept: the
			// next process goes on from the number before it.
			log.Warn("journal ends early", "file", name, "bytes", len(rest), "group", group, "expected", r.last+1)
			cut := f.Truncate(int64(len(data) - len(rest)))
			return err != nil, errors.Join(cut, f.Sync())
		}
		r.last = max(r.last, group)
		for n := len(r.records); n > 0 && r.records[n-1].group >= group; n-- {
			r.records = r.records[:n-1] // it was refused
		}
		for _, rec := range records {
			if rec.group > folded[rec.owner] {
				r.records = append(r.records, rec)
			}
		}
		rest = behind
	}
	return true, f.Sync()
}

func journals(path string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: journal: %w", err)
	}
	var numbers []int
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), filepath.Base(path)); ok {
			if n, err := strconv.Atoi(text); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
