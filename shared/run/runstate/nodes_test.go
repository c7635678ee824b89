package runstate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

const width = 1200 // of the map, whose instances lie in several partitions

// nodes stores the nodes of a run: a task, a map of it, and their joins.
func nodes(t *testing.T) (table.Table, *runstate.Run, *engine.Plan) {
	t.Helper()
	store := memory.Table(t, clock.System{})
	run := &runstate.Run{Org: "org", ID: "run"}
	p := engine.NewPlan([]engine.TaskDef{{}, {Deps: []int{0}, Mapped: true}, {Deps: []int{1}, Mapped: true}})
	w := width
	var writes []table.Write
	put := func(n engine.Node, item runstate.Node) {
		item.Key = runstate.NodeKey(run.Org, run.ID, n)
		writes = append(writes, table.Put{Item: item})
	}
	put(0, runstate.Node{
		Status: engine.Failed, Attempt: 2, Nonce: "me", OK: []int{7}, Output: strings.Repeat("o", 9000), OutputRef: "ref",
		ErrorType: "E", Error: "text", List: "[1]", ListHash: "hash", History: []runstate.Attempt{{Attempt: 1, Error: "text"}},
	})
	put(1, runstate.Node{Status: engine.Running, Width: &w})
	put(2, runstate.Node{OK: []int{1}}) // not evaluated
	first, end, firstJoin, endJoin := p.MapNodes(1, width)
	for n := first; n < end; n++ {
		put(n, runstate.Node{Status: engine.Succeeded, Output: strings.Repeat("o", 3000)})
	}
	for n := firstJoin; n < endJoin; n++ {
		put(n, runstate.Node{OK: []int{int(n)}})
	}
	require.NoError(t, store.BatchWrite(t.Context(), writes))
	return store, run, p
}

// TestLight: a light node has all but what may be large.
func TestLight(t *testing.T) {
	t.Parallel()
	store, run, p := nodes(t)
	whole, err := runstate.LoadNodes(t.Context(), store, run, p, true)
	require.NoError(t, err)
	light, err := runstate.LoadNodes(t.Context(), store, run, p, true, runstate.Light)
	require.NoError(t, err)
	for _, item := range whole {
		item.Output, item.List, item.Error, item.History = "", "", "", nil
	}
	assert.Equal(t, whole, light)

	one, err := runstate.LoadNode(t.Context(), store, run.Org, run.ID, 0, runstate.Light)
	require.NoError(t, err)
	assert.Equal(t, whole[0], one)
	some, err := runstate.LoadAll(t.Context(), store, run.Org, run.ID, []engine.Node{0, 3}, runstate.Light)
	require.NoError(t, err)
	assert.Equal(t, map[engine.Node]*runstate.Node{0: one}, some)
	none, err := runstate.LoadNode(t.Context(), store, run.Org, run.ID, 3, runstate.Light)
	require.NoError(t, err)
	assert.Nil(t, none)
}

// TestNodes reads a run's nodes in the order of their numbers, map by map.
func TestNodes(t *testing.T) {
	t.Parallel()
	store, run, p := nodes(t)
	first, end, firstJoin, endJoin := p.MapNodes(1, width)
	want := []engine.Node{0, 1, 2}
	for n := first; n < end; n++ {
		want = append(want, n)
	}
	numbers := func(joins bool) (got []engine.Node) {
		for n, err := range runstate.Nodes(t.Context(), store, run, p, joins, runstate.Only(runstate.NodeStatus)) {
			require.NoError(t, err)
			assert.Empty(t, n.Output)
			assert.Equal(t, n.Number() < firstJoin && n.Number() != 2, n.Status != "")
			got = append(got, n.Number())
		}
		return got
	}
	assert.Equal(t, want, numbers(false), "a map's width is read, whoever asks for it")
	for n := firstJoin; n < endJoin; n++ {
		want = append(want, n)
	}
	assert.Equal(t, want, numbers(true))
}

// TestNodesOfAReaderWhoLeaves: no more is read than the page it stopped at.
func TestNodesOfAReaderWhoLeaves(t *testing.T) {
	t.Parallel()
	store, run, p := nodes(t)
	meter := &table.Meter{}
	first, end, _, _ := p.MapNodes(1, width)
	for _, err := range runstate.SpanNodes(table.WithMeter(t.Context(), meter), store, run.Org, run.ID, runstate.Span{From: first, To: end}) {
		require.NoError(t, err)
		break
	}
	assert.Equal(t, 1, meter.Usage().Requests[table.OpQuery])
}

// broken is a table of which no query succeeds after the first.
type broken struct {
	table.Table
	asked int
}

var errBroken = errors.New("broken")

func (b *broken) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if b.asked++; b.asked > 1 {
		return table.Page{}, errBroken
	}
	return b.Table.Query(ctx, q)
}

func TestNodesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	store, run, p := nodes(t)
	_, err := runstate.LoadNodes(t.Context(), &broken{Table: store}, run, p, true)
	require.ErrorIs(t, err, errBroken)
	errs := 0
	for n, err := range runstate.Nodes(t.Context(), &broken{Table: store}, run, p, true) {
		if err != nil {
			assert.Nil(t, n)
			errs++
		}
	}
	assert.Equal(t, 1, errs, "it ends with the first error")
}
