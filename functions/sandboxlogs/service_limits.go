package sandboxlogs

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"millrace/shared/run/sandbox/ticket"
)

// What one attempt may hand over to one environment of this function. A runner
// posts twice a second at most while its task writes; the gateway bounds all
// attempts together.
const (
	postsPerSecond = 5
	postsAtOnce    = 50
	bytesPerSecond = 512 << 10
	bytesAtOnce    = 16 << 20
	attemptsKnown  = 4096
)

// limits are the limiters of the attempts seen last.
type limits struct {
	mu   sync.Mutex // makes getting and adding one step
	seen *lru.Cache[attemptKey, *limit]
}

type attemptKey struct {
	run          string
	node, number int
}

type limit struct{ posts, bytes *rate.Limiter }

func newLimits() *limits {
	seen, err := lru.New[attemptKey, *limit](attemptsKnown)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &limits{seen: seen}
}

// admit takes a post of some bytes, or tells when to try it again.
func (l *limits) admit(a ticket.Attempt, size int, now time.Time) time.Duration {
	key := attemptKey{a.Run, a.Node, a.Number}
	l.mu.Lock()
	own, known := l.seen.Get(key)
	if !known {
		own = &limit{rate.NewLimiter(postsPerSecond, postsAtOnce), rate.NewLimiter(bytesPerSecond, bytesAtOnce)}
		l.seen.Add(key, own)
	}
	l.mu.Unlock()
	if !own.posts.AllowN(now, 1) || !own.bytes.AllowN(now, size) {
		return time.Second
	}
	return 0
}
