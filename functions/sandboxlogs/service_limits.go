package sandboxlogs

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"millrace/shared/run/sandbox/ticket"
)

// Limits of one attempt in one environment of this function. A runner posts at
// most twice a second while its task writes; the gateway limits the total of
// all attempts.
const (
	postsPerSecond = 5
	postsAtOnce    = 50
	bytesPerSecond = 512 << 10
	bytesAtOnce    = 16 << 20
	attemptsKnown  = 4096
)

// limits holds the limiters of the most recent attempts.
type limits struct {
	mu   sync.Mutex // makes get-or-add atomic
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

// admit accepts a post of size bytes, or returns the retry delay.
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
