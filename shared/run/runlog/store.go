package runlog

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/shared/account/quota"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// Store writes and reads logs. It is safe for concurrent use.
type Store struct {
	Table table.Table
	Blob  blob.Store
	Clock clock.Clock
	Log   *slog.Logger
	// FlushInterval is the maximum time an event is buffered; 0 means
	// [FlushInterval]. It is real time, so tests that count requests set it longer
	// than any run takes.
	FlushInterval time.Duration
	// Exclusive means that no other process writes logs, so that anything this process
	// has not written does not exist.
	Exclusive bool
	// Quota has the retention of runs; nil: archives never expire.
	Quota *quota.Quota

	held    atomic.Int64  // bytes in the buffers
	written atomic.Uint64 // number of batches whose write was begun

	mu      sync.Mutex
	runs    map[runID]*buffer
	known   map[runID]knowledge
	entropy *ulid.MonotonicEntropy
	last    uint64 // milliseconds of the last id
	writer  uint32 // a number that few other processes share
}

// knowledge is what a process remembers of a run's log. Losing it only costs
// requests.
type knowledge struct {
	shards   int  // known partitions in use; 0: one
	archived bool // the archive exists
}

// maxKnown is the number of runs that a process remembers.
const maxKnown = 4096

// scratch are buffers for encoding events.
var scratch = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (s *Store) buffer(id runID, create bool) *buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.runs[id]
	if b == nil && create {
		if s.runs == nil {
			s.runs = map[runID]*buffer{}
		}
		b = &buffer{id: id, held: &s.held, linger: cmp.Or(s.FlushInterval, FlushInterval), writing: make(chan struct{}, 1)}
		s.runs[id] = b
	}
	return b
}

func (s *Store) buffers() []*buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*buffer, 0, len(s.runs))
	for _, b := range s.runs {
		all = append(all, b)
	}
	return all
}

// retire removes an empty buffer. The caller holds writing.
func (s *Store) retire(b *buffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.runs[b.id] != b || b.events > 0 || b.queued > 0 || b.lost > 0 || b.unchecked {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	b.dead = true
	delete(s.runs, b.id)
}

// knows returns what is remembered of a run's log.
func (s *Store) knows(id runID) knowledge {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id]
}

// learn remembers the content of a run's head.
func (s *Store) learn(id runID, head archive) {
	k := knowledge{shards: head.Shards, archived: head.stands()}
	if k == (knowledge{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.known[id]; !found && len(s.known) >= maxKnown {
		for any := range s.known {
			delete(s.known, any)
			break
		}
	}
	if s.known == nil {
		s.known = map[runID]knowledge{}
	}
	s.known[id] = k
}

// partition returns the partition to which this process writes batches of a
// run: the first one, or, once the log is spread, one of all.
func (s *Store) partition(id runID) string {
	all := runstate.LogPartitions(id.org, id.run)
	shards := s.knows(id).shards
	if shards <= 1 {
		return all[0]
	}
	h := fnv.New32a()
	_, _ = h.Write(binary.BigEndian.AppendUint32([]byte(id.run), s.number()))
	return all[h.Sum32()%uint32(min(shards, len(all)))]
}

// number is generated once for each Store.
func (s *Store) number() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.writer == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		s.writer = binary.BigEndian.Uint32(b[:])
	}
	return s.writer
}

// draw returns an id that sorts after those drawn before by this store.
func (s *Store) draw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entropy == nil {
		s.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	s.last = max(s.last, ulid.Timestamp(s.Clock.Now()))
	id, err := ulid.New(s.last, s.entropy)
	if err != nil { // the ids of this millisecond are used up
		s.last++
		id = ulid.MustNew(s.last, s.entropy)
	}
	return id.String()
}
