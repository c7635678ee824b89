// Package cache keeps values in memory within a budget of bytes, the ones used
// last.
package cache

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// overhead is what an entry takes besides the bytes that are told of it: its
// places in the list and the map, its key and its value's header.
const overhead = 256

// Weighted is a cache of values of different sizes. Safe for concurrent use.
type Weighted[K comparable, V any] struct {
	most int

	mu    sync.Mutex
	bytes int
	lru   *simplelru.LRU[K, entry[V]]
}

type entry[V any] struct {
	value V
	bytes int
}

// NewWeighted makes a cache that holds no more than so many bytes.
func NewWeighted[K comparable, V any](most int) *Weighted[K, V] {
	c := &Weighted[K, V]{most: most}
	var err error
	c.lru, err = simplelru.NewLRU(math.MaxInt, func(_ K, e entry[V]) { c.bytes -= e.bytes })
	if err != nil {
		panic(err) // a number of entries below one
	}
	return c
}

// Get returns the value of a key, if it is kept.
func (c *Weighted[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(key)
	return e.value, ok
}

// Add keeps a value of so many bytes, as far as the caller can tell, in place of
// the key's last; others that were used longest ago make room. A value that is
// larger than the cache is not kept.
func (c *Weighted[K, V]) Add(key K, value V, bytes int) {
	bytes += overhead
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key)
	if bytes > c.most {
		return
	}
	for c.bytes+bytes > c.most { //guard:cache/bytes false
		c.lru.RemoveOldest()
	}
	c.bytes += bytes
	c.lru.Add(key, entry[V]{value, bytes})
}

// Bytes is how many bytes are kept.
func (c *Weighted[K, V]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Len is how many values are kept.
func (c *Weighted[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Len()
}
