package table

import "context"

type reclaimKey struct{}

// Reclaiming returns a context for writes that free space or finish work. A
// driver that refuses writes because its disk is nearly full accepts them.
func Reclaiming(ctx context.Context) context.Context {
	return context.WithValue(ctx, reclaimKey{}, true)
}

// IsReclaiming reports whether the context was made by [Reclaiming].
func IsReclaiming(ctx context.Context) bool { return ctx.Value(reclaimKey{}) != nil }
