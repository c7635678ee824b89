package server

import (
	"context"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/web/httpapi"
)

// expiredTraces returns a sweep that removes exception traces after
// httpapi.TraceDays, as a rule of the bucket does on AWS.
func expiredTraces(store blob.Store, now clock.Clock) func(context.Context) (int, error) {
	return func(ctx context.Context) (removed int, err error) {
		for {
			after := httpapi.TracesBefore(now.Now().AddDate(0, 0, -httpapi.TraceDays))
			expired, _, err := store.List(ctx, httpapi.TracePrefix, after, blob.MaxPageSize)
			if err != nil || len(expired) == 0 {
				return removed, err
			}
			keys := make([]string, len(expired))
			for i, o := range expired {
				keys[i] = o.Key
			}
			if err := store.Delete(ctx, keys...); err != nil {
				return removed, err
			}
			removed += len(keys)
		}
	}
}
