package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/quota"
	"millrace/shared/platform/errs"
)

// used counts the things of a month, as Take's count does.
func (w *world) used(ctx context.Context, month time.Time) (int64, error) {
	if month.Day() != 1 || month.Hour() != 0 || month.Location() != time.UTC {
		return 0, errors.New("no month begins at " + month.String())
	}
	return w.count(ctx)
}

func (w *world) takeMonthly(q *quota.Quota) error {
	err := q.TakeMonthly(context.Background(), quota.MonthlyRuns, "acme", w.used)
	if err == nil {
		w.add(1)
	}
	return err
}

func exhausted(t *testing.T, err error, after time.Duration, message string) {
	t.Helper()
	require.ErrorIs(t, err, quota.ErrMonth)
	e, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok)
	assert.Equal(t, errs.TooMany, e.Code)
	assert.Equal(t, after, e.RetryAfter)
	assert.Equal(t, message, e.Message)
}

func TestMonthlyQuotaIsExactAndBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "runs-per-month=5")
	w.now = time.Date(2026, 12, 31, 23, 0, 0, 0, time.FixedZone("", 3600)) // 22:00 in UTC
	w.live = 2
	a, b := w.process(), w.process()
	require.NoError(t, w.takeMonthly(a))
	require.NoError(t, w.takeMonthly(b))
	require.NoError(t, w.takeMonthly(a))
	for _, q := range []*quota.Quota{a, b, w.process()} {
		exhausted(t, w.takeMonthly(q), 2*time.Hour, "Monthly quota exceeded: the workspace has used 5 runs in December 2026; "+
			"at most 5 are allowed in a calendar month (limit runs-per-month). It begins anew at 2027-01-01T00:00:00Z, unless the operator raises the limit")
	}
	w.advance(2*time.Hour - time.Second)
	exhaustedError := w.takeMonthly(a)
	require.ErrorIs(t, exhaustedError, quota.ErrMonth, "a second before")
	w.advance(time.Second)
	w.live = 0
	for range 5 {
		require.NoError(t, w.takeMonthly(a))
	}
	require.ErrorIs(t, w.takeMonthly(b), quota.ErrMonth)
}

func TestPermitsOfAMonthAreNotOfTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "runs-per-month=100000")
	w.now = time.Date(2026, 11, 30, 23, 59, 50, 0, time.UTC)
	q := w.process()
	for range 1000 { // so that the process holds a slice
		require.NoError(t, w.takeMonthly(q))
	}
	w.advance(15 * time.Second)
	w.live = 100_000
	var err error
	for range 30 { // some may be had on credit
		err = w.takeMonthly(q)
	}
	require.ErrorIs(t, err, quota.ErrMonth, "the slice is void")
}

func TestSpentIsCheckedNowAndThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "gb-seconds-per-month=100")
	q := w.process()
	check := func() error { return q.CheckMonthly(context.Background(), quota.MonthlyCompute, "acme", w.used) }
	w.live = 99
	for range 100 {
		require.NoError(t, check())
	}
	assert.Equal(t, 1, w.counts)
	w.live = 120
	require.NoError(t, check(), "it is not counted for each")
	w.advance(31 * time.Second)
	exhausted(t, check(), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC).Sub(w.Now()), "Monthly quota exceeded: the workspace has used 120 GB-seconds of Python tasks in March 2026; "+
		"at most 100 are allowed in a calendar month (limit gb-seconds-per-month). It begins anew at 2026-04-01T00:00:00Z, unless the operator raises the limit")
	w.slow = 10 * time.Second
	w.advance(31 * time.Second)
	require.Error(t, check())
	counts := w.counts
	w.advance(199 * time.Second)
	require.Error(t, check())
	assert.Equal(t, counts, w.counts, "what takes long to count is counted seldom")
	w.slow, w.live = 0, 0
	w.advance(30 * 24 * time.Hour)
	require.NoError(t, check(), "the next month")

	broken := func(context.Context, time.Time) (int64, error) { return 0, errors.New("broken") }
	require.NoError(t, w.process().CheckMonthly(context.Background(), quota.MonthlyCompute, "acme", broken), "nobody is refused for what cannot be counted")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, w.process().CheckMonthly(ended, quota.MonthlyCompute, "acme", broken), context.Canceled)
}

func TestPlans(t *testing.T) {
	t.Parallel()
	for _, p := range quota.Plans {
		values, err := quota.ParseValues([]string{"runs-per-month=7", "plan=" + p.Name})
		require.NoError(t, err)
		assert.Equal(t, p.Values, values)
		values, err = quota.ParseValues([]string{"plan=" + p.Name, "runs-per-month=7"})
		require.NoError(t, err)
		assert.Equal(t, int64(7), values[quota.MonthlyRuns], "what is set after the plan")
	}
	_, err := quota.ParseValues([]string{"plan=gold"})
	require.EqualError(t, err, `unknown plan "gold"; the plans are free, team, business, unlimited`)

	w := newWorld(t, "plan=free")
	q := w.process()
	uses, err := q.Uses(t.Context(), func(_ context.Context, month time.Time) (map[quota.Name]int64, error) {
		return map[quota.Name]int64{quota.MonthlyRuns: 3}, nil
	})
	require.NoError(t, err)
	begin, end := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	assert.Equal(t, []quota.Use{
		{Name: quota.MonthlyRuns, Used: 3, Limit: 10_000, Begin: begin, End: end},
		{Name: quota.MonthlyCompute, Used: 0, Limit: 100_000, Begin: begin, End: end},
	}, uses)

	none := newWorld(t)
	require.NoError(t, none.takeMonthly(none.process()))
	assert.Zero(t, none.counts, "nothing is counted without a limit")
	require.NoError(t, none.takeMonthly(nil))
}
