package tabletest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kb returns a text that makes an item of the capacity cases about n KB large,
// safely below the limit.
func kb(n int) string { return strings.Repeat("x", n*1024-512) }

// capacityCase is the cost of an operation. The items of given are stored
// first, under sort keys a, b ….
type capacityCase struct {
	name  string
	given [][]any
	do    func(ctx context.Context, s *suite) error
	table table.Units
	index map[table.Index]table.Units
}

// byOperation names the case of one request of every operation.
const byOperation = "one of each operation"

// capacityCases is the golden table, by DynamoDB's documented rules.
var capacityCases = []capacityCase{
	{name: "get, eventually", given: [][]any{{"x", kb(4)}}, do: getA(), table: reads(0.5)},
	{name: "get, consistently", given: [][]any{{"x", kb(4)}}, do: getA(table.Consistent), table: reads(1)},
	{name: "get of 5 KB", given: [][]any{{"x", kb(5)}}, do: getA(), table: reads(1)},
	{name: "get of 5 KB, consistently", given: [][]any{{"x", kb(5)}}, do: getA(table.Consistent), table: reads(2)},
	{name: "get of nothing", do: getA(), table: reads(0.5)},
	{name: "get of nothing, consistently", do: getA(table.Consistent), table: reads(1)},
	{name: "get of some attributes", given: [][]any{{"x", kb(5), "n", 1}}, do: getA(table.Consistent, table.Only("n")), table: reads(2)},
	{name: "batch get of some attributes", given: [][]any{{"x", kb(1)}, {"x", kb(5)}},
		do: func(ctx context.Context, s *suite) error {
			_, err := s.BatchGet(ctx, []table.Key{s.key("a"), s.key("b")}, table.Consistent, table.Only("n"))
			return err
		}, table: reads(1 + 2)},
	{name: "query of some attributes", given: [][]any{{"x", kb(4)}, {"x", kb(5)}},
		do: query(table.Query{Consistent: true, Only: []string{"n"}}), table: reads(3)},
	{name: "batch get rounds each", given: [][]any{{"x", kb(1)}, {"x", kb(5)}},
		do: func(ctx context.Context, s *suite) error {
			_, err := s.BatchGet(ctx, []table.Key{s.key("a"), s.key("b"), s.key("none")}, table.Consistent)
			return err
		}, table: reads(1 + 2 + 1)},
	{name: "query rounds the sum", given: [][]any{{"x", kb(1)}, {"x", kb(1)}, {"x", kb(2)}},
		do: query(table.Query{Consistent: true}), table: reads(1)},
	{name: "query, eventually", given: [][]any{{"x", kb(4)}, {"x", kb(4)}, {"x", kb(4)}},
		do: query(table.Query{}), table: reads(1.5)},
	{name: "query counts what the filter drops", given: [][]any{{"x", kb(8)}},
		do: query(table.Query{Filter: table.Exists("none"), Consistent: true}), table: reads(2)},
	{name: "query of nothing", do: query(table.Query{}), table: reads(0.5)},
	{name: "query of an index", do: query(table.Query{Index: table.Due}),
		index: map[table.Index]table.Units{table.Due: reads(0.5)}},

	{name: "put", do: putA(), table: writes(1)},
	{name: "put of 3 KB", do: putA("x", kb(3)), table: writes(3)},
	{name: "put over a larger one", given: [][]any{{"x", kb(5)}}, do: putA(), table: writes(5)},
	{name: "put in two indexes", do: putA("due_pk", "p", "due_sk", "1", "l1_pk", "p", "l1_sk", "1"), table: writes(1),
		index: map[table.Index]table.Units{table.Due: writes(1), table.ByList: writes(1)}},
	{name: "put with half an index key", do: putA("due_pk", "p"), table: writes(1)},
	{name: "put, condition failed", given: [][]any{{"x", kb(3)}}, do: failingWrite(table.Put{If: table.IsNew()}), table: writes(3)},
	{name: "put, condition failed on nothing", do: failingWrite(table.Put{If: table.IsStored()}), table: writes(1)},

	{name: "update", given: [][]any{{"x", kb(2)}}, do: updateA(table.Set("n", 1)), table: writes(2)},
	{name: "update makes an item", do: updateA(table.Set("n", 1)), table: writes(1)},
	{name: "update grows", given: [][]any{{"x", kb(1)}}, do: updateA(table.Set("y", kb(3))), table: writes(4)},
	{name: "update shrinks", given: [][]any{{"x", kb(4)}}, do: updateA(table.Remove("x")), table: writes(4)},
	{name: "update enters an index", given: [][]any{{}}, do: updateA(table.Set("due_pk", "p"), table.Set("due_sk", "1")),
		table: writes(1), index: map[table.Index]table.Units{table.Due: writes(1)}},
	{name: "update moves in an index", given: [][]any{{"due_pk", "p", "due_sk", "1"}}, do: updateA(table.Set("due_sk", "2")),
		table: writes(1), index: map[table.Index]table.Units{table.Due: writes(2)}},
	{name: "update leaves an index", given: [][]any{{"due_pk", "p", "due_sk", "1"}}, do: updateA(table.Remove("due_sk")),
		table: writes(1), index: map[table.Index]table.Units{table.Due: writes(1)}},
	{name: "update beside an index", given: [][]any{{"due_pk", "p", "due_sk", "1"}}, do: updateA(table.Set("n", 1)),
		table: writes(1)},

	{name: "delete", given: [][]any{{"x", kb(3)}}, do: deleteA(), table: writes(3)},
	{name: "delete of nothing", do: deleteA(), table: writes(1)},
	{name: "delete from an index", given: [][]any{{"due_pk", "p", "due_sk", "1"}}, do: deleteA(),
		table: writes(1), index: map[table.Index]table.Units{table.Due: writes(1)}},
	{name: "delete, condition failed", given: [][]any{{"x", kb(2)}}, do: failingWrite(table.Delete{If: table.IsNew()}), table: writes(2)},

	{name: "batch write rounds each", given: [][]any{{"x", kb(2)}},
		do: func(ctx context.Context, s *suite) error {
			return s.BatchWrite(ctx, []table.Write{
				table.Delete{Key: s.key("a")}, table.Put{Item: s.item("new", "x", kb(3))}, table.Put{Item: s.item("new2")}})
		}, table: writes(2 + 3 + 1)},

	{name: "transaction of two puts and a check", given: [][]any{{}},
		do: func(ctx context.Context, s *suite) error {
			return s.Transact(ctx, table.Check{Key: s.key("a"), If: table.IsStored()},
				table.Put{Item: s.item("new", "due_pk", "p", "due_sk", "1")}, table.Put{Item: s.item("new2")})
		}, table: writes(6), index: map[table.Index]table.Units{table.Due: writes(1)}},
	{name: "transaction doubles what is rounded", given: [][]any{{"x", kb(2)}},
		do: func(ctx context.Context, s *suite) error {
			return s.Transact(ctx, table.Put{Item: s.item("new", "x", kb(3))}, table.Delete{Key: s.key("a")})
		}, table: writes(6 + 4)},
	{name: "transaction, condition failed", given: [][]any{{"x", kb(3)}},
		do: func(ctx context.Context, s *suite) error {
			err := s.Transact(ctx, table.Put{Item: s.item("new", "due_pk", "p", "due_sk", "1")},
				table.Check{Key: s.key("a"), If: table.IsNew()})
			if !errors.Is(err, table.ErrConditionFailed) {
				return errors.New("the condition did not fail")
			}
			return nil
		}, table: writes(2 + 6)},
}

func reads(n float64) table.Units  { return table.Units{Read: n} }
func writes(n float64) table.Units { return table.Units{Write: n} }

func getA(opts ...table.ReadOption) func(context.Context, *suite) error {
	return func(ctx context.Context, s *suite) error {
		_, err := s.Get(ctx, s.key("a"), opts...)
		if errors.Is(err, table.ErrNotFound) {
			return nil
		}
		return err
	}
}

func query(q table.Query) func(context.Context, *suite) error {
	return func(ctx context.Context, s *suite) error {
		q := q
		q.PK = s.prefix
		_, err := s.Query(ctx, q)
		return err
	}
}

func putA(pairs ...any) func(context.Context, *suite) error {
	return func(ctx context.Context, s *suite) error {
		return s.Put(ctx, table.Put{Item: s.item("a", pairs...)})
	}
}

func updateA(do ...table.Action) func(context.Context, *suite) error {
	return func(ctx context.Context, s *suite) error {
		_, err := s.Update(ctx, table.Update{Key: s.key("a"), Do: do})
		return err
	}
}

func deleteA() func(context.Context, *suite) error {
	return func(ctx context.Context, s *suite) error {
		return s.Delete(ctx, table.Delete{Key: s.key("a")})
	}
}

// failingWrite writes item a with a condition that must fail.
func failingWrite(w table.Write) func(context.Context, *suite) error {
	return func(ctx context.Context, s *suite) error {
		var err error
		switch w := w.(type) {
		case table.Put:
			err = s.Put(ctx, table.Put{Item: s.item("a"), If: w.If})
		case table.Delete:
			err = s.Delete(ctx, table.Delete{Key: s.key("a"), If: w.If})
		}
		if !errors.Is(err, table.ErrConditionFailed) {
			return errors.New("the condition did not fail")
		}
		return nil
	}
}

var capacity = map[string]func(*suite){
	"OfEachOperation": func(s *suite) {
		for _, c := range capacityCases {
			in := newSuite(s.T, s.Table)
			for i, pairs := range c.given {
				in.given(string(rune('a'+i)), pairs...)
			}
			meter := &table.Meter{}
			require.NoError(s, c.do(table.WithMeter(s.ctx, meter), in), c.name)
			usage := meter.Usage()
			want := s.deviates.cost(c.name, Cost{c.table, c.index})
			assert.Equal(s, want, Cost{usage.Table, usage.Indexes}, c.name)
			assert.Len(s, usage.Requests, 1, c.name)
		}
		for name := range s.deviates.Capacity {
			assert.True(s, name == byOperation || slices.ContainsFunc(capacityCases, func(c capacityCase) bool {
				return c.name == name
			}), "there is no case %q to deviate from", name)
		}
	},
	"ByOperation": func(s *suite) {
		meter := &table.Meter{}
		ctx := table.WithMeter(s.ctx, meter)
		item := s.item("a")
		require.NoError(s, s.Put(ctx, table.Put{Item: item}))
		_, err := s.Update(ctx, table.Update{Key: item.Key(), Do: []table.Action{table.Set("n", 1)}})
		require.NoError(s, err)
		_, err = s.Get(ctx, item.Key())
		require.NoError(s, err)
		_, err = s.BatchGet(ctx, []table.Key{item.Key()})
		require.NoError(s, err)
		_, err = s.Query(ctx, table.Query{PK: s.prefix})
		require.NoError(s, err)
		require.NoError(s, s.Transact(ctx, table.Put{Item: item}))
		require.NoError(s, s.BatchWrite(ctx, []table.Write{table.Put{Item: item}}))
		require.NoError(s, s.Delete(ctx, table.Delete{Key: item.Key()}))
		assert.Equal(s, map[table.Operation]int{
			table.OpPut: 1, table.OpUpdate: 1, table.OpGet: 1, table.OpBatchGet: 1, table.OpQuery: 1,
			table.OpTransact: 1, table.OpBatchWrite: 1, table.OpDelete: 1,
		}, meter.Usage().Requests)
		want := s.deviates.cost(byOperation, Cost{Table: table.Units{Read: 1.5, Write: 6}})
		assert.Equal(s, want, Cost{meter.Usage().Table, meter.Usage().Indexes})
	},
}
