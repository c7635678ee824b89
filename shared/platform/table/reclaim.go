package table

import "context"

type reclaimKey struct{}

// Reclaiming returns a context whose writes make room or end work: a driver that
// refuses writes because its disk is nearly full accepts them.
func Reclaiming(ctx context.Context) context.Context {
	return context.WithValue(ctx, reclaimKey{}, true)
}

// IsReclaiming reports whether the context is one of [Reclaiming].
func IsReclaiming(ctx context.Context) bool { return ctx.Value(reclaimKey{}) != nil }
