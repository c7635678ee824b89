package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/localbus"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/queuetest"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/tabletest"
)

// TestWithoutFaults: a plan without faults changes nothing.
func TestWithoutFaults(t *testing.T) {
	t.Parallel()
	store := memory.Table(t, clock.System{})
	plan := faults.NewPlan(t, 1, faults.Rates{}, store, clock.System{})
	tabletest.Exercise(t, func(*testing.T) table.Table { return plan.Process("p", nil).Table() })
	queuetest.Exercise(t, func(_ *testing.T, defs ...queue.Definition) queue.Queues {
		return plan.Process("p", nil).Queues(memory.Queues(t, clock.System{}, defs))
	})
}

// play makes the same requests and returns their results.
func play(t *testing.T, seed uint64) (log []string, counts map[string]int) {
	store := memory.Table(t, clock.System{})
	rates := faults.Rates{Throttle: .1, Before: .1, After: .1, Conflict: .1, Stale: .5, Lose: .1, Late: .1, Duplicate: .1}
	plan := faults.NewPlan(t, seed, rates, store, clock.System{})
	p := plan.Process("p", nil)
	tbl := p.Table()
	queues := p.Queues(memory.Queues(t, clock.System{}, []queue.Definition{{Name: "q", Visibility: time.Minute}}))
	for i := range 200 {
		key := table.Key{PK: "p", SK: fmt.Sprint(i)}
		_, err := tbl.Update(t.Context(), table.Update{Key: key, Do: []table.Action{table.Set("l1_pk", "list"), table.Set("l1_sk", fmt.Sprintf("%03d", i))}})
		_, missing := store.Get(t.Context(), key)
		page, stale := tbl.Query(t.Context(), table.Query{Index: table.ByList, PK: "list"})
		sent := queues.Send(t.Context(), "q", queue.Message{Body: []byte("1")})
		conflict := tbl.Transact(t.Context(), table.Put{Item: table.Item{"pk": table.V("t"), "sk": table.V(fmt.Sprint(i))}})
		log = append(log, fmt.Sprint(err, missing, len(page.Items), stale, sent, conflict))
		if errors.Is(err, faults.ErrInjected) || err == nil {
			continue
		}
		assert.ErrorIs(t, missing, table.ErrNotFound, "%v, and the write was done", err)
	}
	return log, plan.Counts()
}

func TestSeedsRepeat(t *testing.T) {
	t.Parallel()
	one, counts := play(t, 1)
	again, _ := play(t, 1)
	other, _ := play(t, 2)
	assert.Equal(t, one, again)
	assert.NotEqual(t, one, other)
	for _, kind := range []string{"throttle", "before", "after", "conflict", "stale", "lose", "late", "duplicate"} {
		assert.Positive(t, counts[kind], kind)
	}
}

// TestCrash: from its fatal write on, everything a process does fails, and
// another process sees what it did before.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		store := memory.Table(t, clock.System{})
		plan := faults.NewPlan(t, 1, faults.Rates{}, store, clock.System{})
		p := plan.Process("p", nil)
		p.CrashAt(2, after)
		tbl := p.Table()
		item := func(sk string) table.Put {
			return table.Put{Item: table.Item{"pk": table.V("p"), "sk": table.V(sk)}}
		}
		require.NoError(t, tbl.Put(t.Context(), item("1")))
		require.ErrorIs(t, tbl.Put(t.Context(), item("2")), faults.ErrDead)
		<-p.Died()
		require.ErrorIs(t, tbl.Put(t.Context(), item("3")), faults.ErrDead)
		_, err := tbl.Get(t.Context(), table.Key{PK: "p", SK: "1"})
		require.ErrorIs(t, err, faults.ErrDead)
		page, err := plan.Process("q", nil).Table().Query(t.Context(), table.Query{PK: "p"})
		require.NoError(t, err)
		assert.Len(t, page.Items, map[bool]int{false: 1, true: 2}[after])
	}
}

// TestStaleIndexCatchesUp: an index lags by seconds, not forever.
func TestStaleIndexCatchesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.Table(t, clock.System{})
		plan := faults.NewPlan(t, 1, faults.Rates{Stale: 1}, store, clock.System{})
		tbl := plan.Process("p", nil).Table()
		for i := range 50 {
			item := table.Item{"pk": table.V("p"), "sk": table.V(fmt.Sprint(i)), "l1_pk": table.V("l"), "l1_sk": table.V(fmt.Sprint(i))}
			require.NoError(t, tbl.Put(t.Context(), table.Put{Item: item}))
		}
		count := func() int {
			page, err := tbl.Query(t.Context(), table.Query{Index: table.ByList, PK: "l"})
			require.NoError(t, err)
			return len(page.Items)
		}
		assert.Less(t, count(), 50)
		time.Sleep(2 * time.Second)
		assert.Equal(t, 50, count())
		require.NoError(t, tbl.Delete(t.Context(), table.Delete{Key: table.Key{PK: "p", SK: "7"}}))
		time.Sleep(2 * time.Second)
		assert.Equal(t, 49, count())
	})
}

// TestOutage: during an outage of a port its requests fail or do not respond,
// those of others succeed, and faults are reported.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := faults.NewPlan(t, 1, faults.Rates{}, memory.Table(t, clock.System{}), clock.System{})
		p := plan.Process("p", nil)
		objects, events := p.Objects(&blobtest.Memory{}), p.Bus(localbus.New(nil, nil))
		put := func() error {
			_, err := blob.PutBytes(t.Context(), objects, "o/1", []byte("1"), blob.PutOptions{})
			return err
		}
		log := func(sk string) error {
			return p.Logs().Put(t.Context(), table.Put{Item: table.Item{"pk": table.V("p"), "sk": table.V(sk)}})
		}
		var told []string
		plan.Tell(func(r faults.Request, fault string) {
			told = append(told, fmt.Sprint(fault, " ", r.Port, " ", r.Operation))
		})
		now := time.Now()
		plan.Break(
			faults.Outage{Port: faults.Objects, From: now, Until: now.Add(time.Second), Rate: 1},
			faults.Outage{Port: faults.Logs, From: now.Add(time.Second), Until: now.Add(2 * time.Second), Rate: 1, Hang: true},
			faults.Outage{Port: faults.Bus, From: now, Until: now.Add(time.Second), Rate: 1},
		)
		require.ErrorIs(t, put(), faults.ErrInjected)
		require.ErrorIs(t, events.Publish(t.Context(), bus.Event{}), faults.ErrInjected)
		require.NoError(t, log("1"))
		time.Sleep(time.Second)
		require.NoError(t, put())
		_, _, err := blob.GetBytes(t.Context(), objects, "o/1", 10)
		require.NoError(t, err)
		_, err = objects.Head(t.Context(), "o/1")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = p.Logs().Get(ctx, table.Key{PK: "p", SK: "1"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, log("2"), faults.ErrInjected)
		assert.Equal(t, 1100*time.Millisecond+faults.Patience, time.Since(now))
		require.NoError(t, log("2"), "the outage is over")
		require.NoError(t, objects.Delete(t.Context(), "o/1"))
		assert.Equal(t, []string{"outage object PutObject", "outage bus Publish", "hang log Get", "hang log Put"}, told)
		p.Kill()
		require.ErrorIs(t, put(), faults.ErrDead)
		require.ErrorIs(t, objects.Delete(t.Context(), "o/1"), faults.ErrDead)
	})
}

// TestSteps: requests pass one by one, in the requested order.
func TestSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := faults.NewSteps()
		all := func(string) bool { return true }
		var passed []string
		for _, p := range []string{"a", "b", "c"} {
			go func() {
				if gate.Enter(t.Context(), faults.Request{Process: p}) == nil {
					passed = append(passed, p)
				}
			}()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { assert.ErrorIs(t, gate.Enter(ctx, faults.Request{Process: "d"}), context.Canceled) }()
		<-gate.Arrived()
		synctest.Wait()
		assert.Len(t, gate.Waiting(all), 4)
		cancel()
		synctest.Wait()
		require.True(t, gate.Pass(1, all))
		synctest.Wait()
		require.True(t, gate.Pass(0, func(p string) bool { return p == "c" }))
		synctest.Wait()
		require.False(t, gate.Pass(1, all))
		gate.Open()
		synctest.Wait()
		assert.Equal(t, []string{"b", "c", "a"}, passed)
		require.NoError(t, gate.Enter(t.Context(), faults.Request{}))
	})
}
