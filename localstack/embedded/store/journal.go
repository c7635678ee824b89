package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
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
// last group whose records of this owner are in the database.
const (
	frameHeader = 8
	maxFrame    = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged: a frame is not whole, as a kill leaves the last one.
var errDamaged = errors.New("store: journal frame is not whole")

// journal is the file that is being written; the committer alone uses it.
type journal struct {
	path   string // without the number
	sync   bool
	number int      // of the file
	file   *os.File // nil until something is written
	size   int64
	broken error // the file may hold what was refused: nothing more is taken
}

// write appends a frame whose header is still empty.
func (j *journal) write(frame []byte) error {
	if j.broken != nil {
		return j.broken
	}
	body := frame[frameHeader:]
	if len(body) > maxFrame {
		return fmt.Errorf("store: group of %d bytes", len(body))
	}
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	binary.BigEndian.PutUint32(frame[4:], crc32.Checksum(body, castagnoli))
	if j.file == nil {
		f, err := os.OpenFile(j.name(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("store: journal: %w", err)
		}
		j.file = f
		if j.sync {
			if err := syncDir(filepath.Dir(j.path)); err != nil {
				return err
			}
		}
	}
	_, err := j.file.WriteAt(frame, j.size)
	if err == nil && j.sync {
		err = j.file.Sync()
	}
	if err != nil {
		err = fmt.Errorf("store: journal: %w", err)
		if cut := j.file.Truncate(j.size); cut != nil {
			j.broken = errors.Join(err, cut)
		}
		return err
	}
	j.size += int64(len(frame))
	return nil
}

// syncDir makes a new file's name survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("store: journal: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("store: journal: %w", err)
	}
	return nil
}

func (j *journal) name() string { return j.path + strconv.Itoa(j.number) }

// rotate ends the file and returns its name, "" if there is none.
func (j *journal) rotate() (string, error) {
	if j.file == nil {
		return "", nil
	}
	name, err := j.name(), j.file.Close()
	j.file, j.size, j.broken = nil, 0, nil
	j.number++
	return name, err
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
// file, and a gap in the numbers, as a power cut may leave, ends all.
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
		r.files = append(r.files, name)
		data, err := os.ReadFile(name)
		if err != nil {
			return r, fmt.Errorf("store: journal: %w", err)
		}
		for whole && len(data) > 0 {
			group, records, rest, err := parseFrame(data)
			if err != nil || group > r.last+1 {
				// Of a kill it is the last frame, and nobody was told it is kept: the
				// next process went on from the number before it.
				log.Warn("journal ends early", "file", name, "bytes", len(data), "group", group, "expected", r.last+1)
				whole = err != nil
				break
			}
			r.last = max(r.last, group)
			for _, rec := range records {
				if rec.group > folded[rec.owner] {
					r.records = append(r.records, rec)
				}
			}
			data = rest
		}
	}
	return r, nil
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
