package usage

import (
	"context"
	"time"

	"millrace/shared/account/quota"
)

// Admit refuses a run of a workspace that has used up a monthly quota. Errors:
// errs.TooMany with the cause [quota.ErrMonth].
func (m Meter) Admit(ctx context.Context, q *quota.Quota, org string) error {
	err := q.CheckMonthly(ctx, quota.MonthlyCompute, org, func(ctx context.Context, at time.Time) (int64, error) {
		month, err := m.Of(ctx, org, at)
		return month.GBSeconds(), err
	})
	if err != nil {
		return err
	}
	return q.TakeMonthly(ctx, quota.MonthlyRuns, org, func(ctx context.Context, at time.Time) (int64, error) {
		month, err := m.Of(ctx, org, at)
		return month.Runs, err
	})
}

// Uses returns how much a workspace has used of each monthly quota.
func (m Meter) Uses(ctx context.Context, q *quota.Quota, org string) ([]quota.Use, error) {
	return q.Uses(ctx, func(ctx context.Context, at time.Time) (map[quota.Name]int64, error) {
		month, err := m.Of(ctx, org, at)
		return map[quota.Name]int64{quota.MonthlyRuns: month.Runs, quota.MonthlyCompute: month.GBSeconds()}, err
	})
}
