package crash

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tripwire counts the commits that a server makes, from outside: those to the
// journal by its growth, and those to the database by the count that SQLite
// keeps at the head of the index of its own log, a file that it shares with
// other processes. A server that starts counts those from zero.
type tripwire struct {
	store string // path of the database
	last  uint32 // SQLite's count
	seen  int

	index   *os.File
	journal *os.File
	number  int // of the journal, -1: none was seen
	size    int64
}

// The place of the count in the index: the third of its 32-bit words.
const countOffset = 8

// poll is how often they are looked at; a commit takes some 20 µs.
const poll = 10 * time.Microsecond

// newTripwire takes what an earlier server left for granted.
func newTripwire(store string) *tripwire {
	t := &tripwire{store: store, number: -1}
	t.count()
	t.number = t.newest()
	t.seen = 0
	return t
}

func (t *tripwire) close() {
	t.index.Close()   // which is fine for none
	t.journal.Close() // likewise
}

// count looks at SQLite's count.
func (t *tripwire) count() {
	if t.index == nil {
		t.index, _ = os.Open(t.store + "-shm") // not there before the first server is
	}
	var word [4]byte
	if t.index == nil {
		return
	}
	if _, err := t.index.ReadAt(word[:], countOffset); err != nil {
		return
	}
	now := binary.NativeEndian.Uint32(word[:])
	switch {
	case now > t.last:
		t.seen += int(now - t.last)
	case now < t.last: // begun anew
		t.seen += int(now)
	}
	t.last = now
}

// name is the path of a journal file.
func (t *tripwire) name(number int) string { return t.store + ".redo." + strconv.Itoa(number) }

// newest is the number of the last journal file there is, -1 for none.
func (t *tripwire) newest() int {
	files, _ := filepath.Glob(t.store + ".redo.*")
	last := -1
	for _, file := range files {
		if n, err := strconv.Atoi(strings.TrimPrefix(file, t.store+".redo.")); err == nil {
			last = max(last, n)
		}
	}
	return last
}

// grow looks at the journal.
func (t *tripwire) grow() {
	if f, err := os.Open(t.name(t.number + 1)); err == nil {
		t.journal.Close()
		t.journal, t.size, t.number = f, 0, t.number+1
	}
	if t.journal == nil {
		return
	}
	if info, err := t.journal.Stat(); err == nil && info.Size() != t.size {
		t.size = info.Size()
		t.seen++
	}
}

// wait returns when n commits were seen, or ctx ends.
func (t *tripwire) wait(ctx context.Context, n int) {
	for looks := 0; ctx.Err() == nil && t.seen < n; looks++ {
		t.count()
		t.grow()
		if looks%1000 == 0 { // a number may have been passed over
			if newest := t.newest(); newest > t.number+1 {
				t.number = newest - 1
			}
		}
		time.Sleep(poll)
	}
}

// tear adds to the last journal file what a server leaves that is killed in the
// middle of a write: the head of a frame and a part of its body. It reports
// whether there is a journal.
func (t *tripwire) tear(body []byte, whole int) (bool, error) {
	n := t.newest()
	if n < 0 {
		return false, nil
	}
	f, err := os.OpenFile(t.name(n), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := binary.BigEndian.AppendUint32(nil, uint32(whole))
	_, err = f.Write(slices.Concat(head, body))
	return true, err
}
