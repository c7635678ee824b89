// Package cache provides a least-recently-used cache bounded by bytes.
package cache

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// overhead is the memory of an entry besides its declared bytes: its places in
// the list and the map, its key and its value's header.
const overhead = 256

// Weighted is an LRU cache of values of different sizes. It is safe for
// concurrent use.
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

// NewWeighted returns a cache that holds at most most bytes.
func NewWeighted[K comparable, V any](most int) *Weighted[K, V] {
	c := &Weighted[K, V]{most: most}
	var err error
	c.lru, err = simplelru.NewLRU(math.MaxInt, func(_ K, e entry[V]) { c.bytes -= e.bytes })
	if err != nil {
		panic(err) // only for a capacity below one
	}
	return c
}

// Get returns the value of a key. ok is false if it is not cached.
func (c *Weighted[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(key)
	return e.value, ok
}

// Add stores a value of about the given number of bytes, replacing the key's
// previous one, and evicts the least recently used values to make room. A value
// that is larger than the cache is not stored.
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

// Bytes returns the number of bytes stored.
func (c *Weighted[K, V]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Len returns the number of values stored.
func (c *Weighted[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Len()
}
