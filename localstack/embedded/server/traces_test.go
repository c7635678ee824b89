package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/web/httpapi"
)

// keysOnly is an object store of keys.
type keysOnly struct {
	blob.Store
	keys []string
}

func (k *keysOnly) List(_ context.Context, prefix, after string, limit int) (out []blob.Object, next string, err error) {
	slices.Sort(k.keys)
	for _, key := range k.keys {
		if strings.HasPrefix(key, prefix) && key > after && len(out) < limit {
			out = append(out, blob.Object{Key: key})
		}
	}
	return out, "", nil
}

func (k *keysOnly) Delete(_ context.Context, keys ...string) error {
	k.keys = slices.DeleteFunc(k.keys, func(key string) bool { return slices.Contains(keys, key) })
	return nil
}

func TestExpiredTracesAreRemoved(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	store, kept := &keysOnly{}, []string{"org_1/artifacts/a.zip", "_platform/exceptionsz/x", "_platform/messages/x"}
	for hours := range 60 * 24 {
		key := httpapi.TraceKey(now.Add(-time.Duration(hours)*time.Hour), "org_1", fmt.Sprint(hours))
		store.keys = append(store.keys, key, key+"2")
		if hours < 30*24 {
			kept = append(kept, key, key+"2")
		}
	}
	store.keys = append(store.keys, kept[:3]...)
	removed, err := expiredTraces(store, clock.Func(func() time.Time { return now }))(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2*30*24, removed)
	assert.ElementsMatch(t, kept, store.keys)
	removed, err = expiredTraces(store, clock.Func(func() time.Time { return now }))(t.Context())
	require.NoError(t, err)
	assert.Zero(t, removed)
}
