package sandboxlogs

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"millrace/shared/run/sandbox/ticket"
)

// Limits of one attempt in one environment of this function. A runner posts at
// most twice a second while its task writes, and once for each file, whose links
// have a limit of their own: files must not displace the log. The gateway limits
// the total of all attempts.
const (
	linksPerSecond = 20
	linksAtOnce    = 50
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

type limit struct{ posts, bytes, links *rate.Limiter }

func newLimits() *limits {
	seen, err := lru.New[attemptKey, *limit](attemptsKnown)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &limits{seen: seen}
}

// of returns the limiters of an attempt.
func (l *limits) of(a ticket.Attempt) *limit {
	key := attemptKey{a.Run, a.Node, a.Number}
	l.mu.Lock()
	defer l.mu.Unlock()
	own, known := l.seen.Get(key)
	if !known {
		own = &limit{
			rate.NewLimiter(postsPerSecond, postsAtOnce), rate.NewLimiter(bytesPerSecond, bytesAtOnce), rate.NewLimiter(linksPerSecond, linksAtOnce),
		}
		l.seen.Add(key, own)
	}
	return own
}

// admit accepts a post of size bytes, one for the link of a file or else one of
// the log, or returns the retry delay.
func (l *limits) admit(a ticket.Attempt, size int, link bool, now time.Time) time.Duration {
	own := l.of(a)
	posts := own.posts
	if link {
		posts = own.links
	}
	if !posts.AllowN(now, 1) || !own.bytes.AllowN(now, size) {
		return time.Second
	}
	return 0
}
