package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"millrace/shared/blob"
	"millrace/shared/flowspec"
	"millrace/shared/table"
)

// MaxSpecBytes bounds a flow_spec, as JSON: what a request body can carry.
const MaxSpecBytes = 4 << 20

// storedSpec is a flow_spec by its content. It is written before the version
// that names it and never removed: runs read it after their flow is deleted.
type storedSpec struct {
	table.Key
	Content   string `table:"content,omitempty"`    // JSON, up to InlineBytes
	ObjectKey string `table:"object_key,omitempty"` // of a larger one
}

func specKey(org, hash string) table.Key {
	return table.Key{PK: org + "#spec#" + hash, SK: "spec"}
}

// putSpec stores a flow_spec's JSON under its hash; again is harmless.
func putSpec(ctx context.Context, t table.Table, b blob.Store, org, hash string, content []byte) error {
	item := storedSpec{Key: specKey(org, hash), Content: string(content)}
	if len(content) > InlineBytes {
		key, err := blob.Key(org, "specs", hash+".json")
		if err != nil {
			return fmt.Errorf("store flow_spec: %w", err)
		}
		if _, err := blob.PutBytes(ctx, b, key, content, blob.PutOptions{ContentType: "application/json"}); err != nil {
			return fmt.Errorf("store flow_spec: %w", err)
		}
		item.Content, item.ObjectKey = "", key
	}
	if err := t.Put(ctx, table.Put{Item: item}); err != nil {
		return fmt.Errorf("store flow_spec: %w", err)
	}
	return nil
}

// LoadSpec returns a flow_spec's JSON as it was registered. A hash that was
// never registered is a failure of the service, not a 404.
func LoadSpec(ctx context.Context, t table.Table, b blob.Store, org, hash string) ([]byte, error) {
	item, found, err := load[storedSpec](ctx, t, specKey(org, hash))
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("flow_spec %s is missing", hash)
	case item.ObjectKey == "":
		return []byte(item.Content), nil
	}
	content, _, err := blob.GetBytes(ctx, b, item.ObjectKey, MaxSpecBytes)
	if err != nil {
		return nil, fmt.Errorf("read flow_spec: %w", err)
	}
	return content, nil
}

// flowCache keeps parsed flows by workspace and hash. Large ones have a few
// places of their own, so that the cache stays small in memory.
type flowCache struct {
	small, large *lru.Cache[string, *flowspec.Flow]
}

var flows = sync.OnceValue(func() flowCache {
	small, errSmall := lru.New[string, *flowspec.Flow](512)
	large, errLarge := lru.New[string, *flowspec.Flow](4)
	if err := errors.Join(errSmall, errLarge); err != nil {
		panic(err) // a size that is not positive
	}
	return flowCache{small, large}
})

func (c flowCache) get(key string) (*flowspec.Flow, bool) {
	if flow, ok := c.small.Get(key); ok {
		return flow, true
	}
	return c.large.Get(key)
}

func (c flowCache) add(key string, flow *flowspec.Flow, size int) {
	if size > InlineBytes {
		c.large.Add(key, flow)
	} else {
		c.small.Add(key, flow)
	}
}

// LoadFlow returns the parsed flow of a [Version]'s SpecHash; callers share it
// and must not change it. What was loaded once is kept in memory.
func LoadFlow(ctx context.Context, t table.Table, b blob.Store, org, specHash string) (*flowspec.Flow, error) {
	key := org + "#" + specHash
	if flow, ok := flows().get(key); ok {
		return flow, nil
	}
	content, err := LoadSpec(ctx, t, b, org, specHash)
	if err != nil {
		return nil, err
	}
	flow, err := flowspec.Load(content)
	if err != nil {
		return nil, fmt.Errorf("parse flow_spec %s: %w", specHash, err)
	}
	flows().add(key, flow, len(content))
	return flow, nil
}
