package crash

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"millrace/localstack/embedded/datadir"
)

// tripwire counts the commits that a server makes, from outside, by the growth of
// the newest log of its store.
type tripwire struct {
	dir  string // of the store
	seen int

	name string // of the log
	log  *os.File
	size int64
}

// poll is how often the log is looked at, and listEvery after how many looks
// whether there is a newer one; a commit takes some 20 µs.
const (
	poll      = 10 * time.Microsecond
	listEvery = 100
)

// newTripwire takes what an earlier server left for granted.
func newTripwire(dir string) *tripwire {
	t := &tripwire{dir: datadir.Store(dir)}
	t.open()
	return t
}

func (t *tripwire) close() {
	t.log.Close() // which is fine for none
}

// newest is the path of the newest log, "" for none. Their names are numbers of
// the same length.
func (t *tripwire) newest() string {
	logs, _ := filepath.Glob(filepath.Join(t.dir, "*.log"))
	newest := ""
	for _, name := range logs {
		newest = max(newest, name)
	}
	return newest
}

// open turns to the newest log.
func (t *tripwire) open() {
	name := t.newest()
	if name == t.name {
		return
	}
	if f, err := os.Open(name); err == nil {
		t.log.Close()
		t.name, t.log, t.size = name, f, 0
	}
}

// wait returns when n commits were seen, or ctx ends.
func (t *tripwire) wait(ctx context.Context, n int) {
	for looks := 0; ctx.Err() == nil && t.seen < n; looks++ {
		if looks%listEvery == 0 {
			t.open()
		}
		if t.log != nil {
			if info, err := t.log.Stat(); err == nil && info.Size() != t.size {
				t.size = info.Size()
				t.seen++
			}
		}
		time.Sleep(poll)
	}
}

// tear adds to the newest log what a server leaves that is killed in the middle
// of a write, and reports whether there is a log.
func (t *tripwire) tear(tail []byte) (bool, error) {
	name := t.newest()
	if name == "" {
		return false, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = f.Write(tail)
	return true, err
}
