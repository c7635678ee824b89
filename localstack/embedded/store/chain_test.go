package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/shared/platform/table"
)

// chain makes commits that each increment a counter and add a key with its
// value, so that the content after a crash shows whether it is a prefix of the
// commits.
type chain struct {
	db    *DB
	acked atomic.Int64
	more  chan struct{}
	end   context.CancelFunc
	wg    sync.WaitGroup
}

func linkKey(n int) []byte { return fmt.Appendf(nil, "link%09d", n) }

// link makes the next commit. Every third is followed by a CommitLater, and a
// quarter are acknowledged by those that follow them.
func (c *chain) link(ctx context.Context, rng *rand.Rand) error {
	value := strings.Repeat("x", 20+rng.IntN(600))
	n := 0
	step := func(b *Batch) error {
		before, _, err := b.Get([]byte("count"))
		if err != nil {
			return err
		}
		n = 0
		_, _ = fmt.Sscan(before, &n)
		n++
		if err := b.Set(linkKey(n), []byte(value)); err != nil {
			return err
		}
		return b.Set([]byte("count"), fmt.Append(nil, n))
	}
	if rng.IntN(4) == 0 {
		return c.db.Commit(table.SyncLater(ctx), step)
	}
	if err := c.db.Commit(ctx, step); err != nil {
		return err
	}
	for {
		acked := c.acked.Load()
		if int64(n) <= acked || c.acked.CompareAndSwap(acked, int64(n)) {
			break
		}
	}
	if n%3 == 0 {
		return c.db.CommitLater(ctx, step)
	}
	return nil
}

// run makes commits from several goroutines until stop.
func (c *chain) run(t testing.TB, writers int) {
	ctx, cancel := context.WithCancel(context.Background())
	c.end, c.more = cancel, make(chan struct{}, 1)
	for w := range writers {
		rng := rand.New(rand.NewPCG(uint64(w), 7))
		c.wg.Go(func() {
			for ctx.Err() == nil {
				if err := c.link(ctx, rng); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				select {
				case c.more <- struct{}{}:
				default:
				}
			}
		})
	}
}

// atLeast waits until n commits were acknowledged.
func (c *chain) atLeast(t testing.TB, n int) {
	for c.acknowledged() < n {
		<-c.more
	}
}

func (c *chain) acknowledged() int { return int(c.acked.Load()) }

func (c *chain) stop() {
	c.end()
	c.wg.Wait()
}

// length returns the number of commits in a store. It fails if one is missing.
func length(t testing.TB, db *DB) int {
	t.Helper()
	value, _ := get1(t, db, "count")
	n, found := 0, 0
	_, _ = fmt.Sscan(value, &n)
	require.NoError(t, db.Scan(t.Context(), []byte("link"), []byte("linl"), false, func(key, _ []byte) (bool, error) {
		found++
		require.Equal(t, string(linkKey(found)), string(key), "a link is missing")
		return true, nil
	}))
	require.Equal(t, n, found, "the count is not that of the links")
	return n
}
