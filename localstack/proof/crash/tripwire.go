package crash

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"millrace/localstack/embedded/datadir"
)

// tripwire counts the commits of a server from outside, by the growth of the
// newest log of its store.
type tripwire struct {
	dir  string // of the store
	seen int

	name string // of the log
	log  *os.File
	size int64
}

// poll is how often the log is checked, and listEvery after how many checks to
// look for a newer one. A commit takes about 20 µs.
const (
	poll      = 10 * time.Microsecond
	listEvery = 100
)

// newTripwire ignores what an earlier server has written.
func newTripwire(dir string) *tripwire {
	t := &tripwire{dir: datadir.Store(dir)}
	t.open()
	return t
}

func (t *tripwire) close() {
	t.log.Close() // nil is fine
}

// newest returns the path of the newest log, "" if there is none. Log names are
// numbers of equal length.
func (t *tripwire) newest() string {
	logs, _ := filepath.Glob(filepath.Join(t.dir, "*.log"))
	newest := ""
	for _, name := range logs {
		newest = max(newest, name)
	}
	return newest
}

// open opens the newest log.
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

// wait returns after n commits, or when ctx ends.
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

// tear appends to the newest log what a server killed during a write leaves,
// and reports whether there is a log.
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
