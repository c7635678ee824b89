package registry

import (
	"context"
	"fmt"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
)

// MaxSpecBytes is the largest flow_spec as JSON: the size that a request body
// allows.
const MaxSpecBytes = 4 << 20

// storedSpec is a flow_spec by its content. It is written before the version
// that refers to it and never deleted: runs read it after their flow is
// deleted.
type storedSpec struct {
	table.Key
	Content   string `table:"content,omitempty"`    // JSON, up to InlineBytes
	ObjectKey string `table:"object_key,omitempty"` // of a larger spec
}

func specKey(org, hash string) table.Key {
	return table.Key{PK: org + "#spec#" + hash, SK: "spec"}
}

// putSpec stores a flow_spec's JSON under its hash. It may be called again.
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

// LoadSpec returns a flow_spec's JSON as it was registered. An unknown hash is
// an internal error, not a 404.
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
