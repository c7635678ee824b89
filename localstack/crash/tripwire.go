package crash

import (
	"context"
	"encoding/binary"
	"os"
	"time"
)

// tripwire counts the commits that a server makes, from outside: SQLite keeps a
// count of them at the head of the index of its write-ahead log, a file that it
// shares with other processes. A server that starts counts from zero.
type tripwire struct {
	path string // of the index: the store's path + "-shm"
	last uint32
	seen int
}

// The place of the count in the index: the third of its 32-bit words.
const countOffset = 8

// poll is how often the count is looked at; a commit takes some 50 µs.
const poll = 20 * time.Microsecond

// newTripwire takes what an earlier server left there for granted.
func newTripwire(path string) *tripwire {
	t := &tripwire{path: path}
	if n, err := t.read(); err == nil {
		t.last = n
	}
	return t
}

func (t *tripwire) read() (uint32, error) {
	f, err := os.Open(t.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return count(f)
}

func count(f *os.File) (uint32, error) {
	var word [4]byte
	if _, err := f.ReadAt(word[:], countOffset); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint32(word[:]), nil
}

// wait returns when n commits were seen, or ctx ends.
func (t *tripwire) wait(ctx context.Context, n int) {
	var f *os.File
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	for ctx.Err() == nil && t.seen < n {
		if f == nil {
			f, _ = os.Open(t.path) // not there before the first server is
		}
		if f != nil {
			if now, err := count(f); err == nil {
				switch {
				case now > t.last:
					t.seen += int(now - t.last)
				case now < t.last: // begun anew
					t.seen += int(now)
				}
				t.last = now
			}
		}
		time.Sleep(poll)
	}
}
