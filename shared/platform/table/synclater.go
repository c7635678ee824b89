package table

import "context"

type syncLaterKey struct{}

// SyncLater returns a context for a write that another one follows at once. The
// write may return before it is durable. It becomes durable before any later
// write of the process to the table or its queues does, and before anybody reads
// it. Who acknowledges it makes one of these follow first. Drivers whose every
// write is durable ignore it.
func SyncLater(ctx context.Context) context.Context {
	return context.WithValue(ctx, syncLaterKey{}, true)
}

// SyncsLater reports whether the context was made by [SyncLater].
func SyncsLater(ctx context.Context) bool { return ctx.Value(syncLaterKey{}) != nil }
