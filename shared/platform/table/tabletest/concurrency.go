package tabletest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const crowd = 100

// at runs fn in n concurrent goroutines and waits for all.
func at(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

var concurrency = map[string]func(*suite){
	"OneCounterAndOneSet": func(s *suite) {
		at(crowd, func(i int) {
			_, err := s.Update(s.ctx, table.Update{Key: s.key("a"), Do: []table.Action{
				table.Add("n", 1), table.AddToSet("who", i)}})
			assert.NoError(s, err)
		})
		got := s.stored(s.key("a"))
		assert.EqualValues(s, crowd, got["n"].Int())
		assert.Equal(s, crowd, got["who"].Len())
	},
	"AClaimIsWonOnce": func(s *suite) {
		s.given("a", "state", "QUEUED")
		var won atomic.Int32
		var winner atomic.Int64
		at(crowd, func(i int) {
			_, err := s.Update(s.ctx, table.Update{Key: s.key("a"), If: table.Absent("owner"),
				Do: []table.Action{table.Set("owner", i)}})
			if err == nil {
				won.Add(1)
				winner.Store(int64(i))
				return
			}
			var failed *table.ConditionError
			if assert.ErrorAs(s, err, &failed) {
				assert.NotNil(s, failed.Old["owner"])
			}
		})
		assert.EqualValues(s, 1, won.Load())
		assert.Equal(s, winner.Load(), s.stored(s.key("a"))["owner"].Int())
	},
	"TransfersKeepTheSum": func(s *suite) {
		accounts := numbered(5)
		for _, sk := range accounts {
			s.given(sk, "n", 100)
		}
		at(20, func(i int) {
			for j := range 10 {
				from, to := accounts[(i+j)%5], accounts[(i+2*j+1)%5]
				if from == to {
					continue
				}
				err := s.transact(
					table.Update{Key: s.key(from), Do: []table.Action{table.Add("n", -30)}, If: table.Ge("n", 30)},
					table.Update{Key: s.key(to), Do: []table.Action{table.Add("n", 30)}})
				if err != nil {
					assert.ErrorIs(s, err, table.ErrConditionFailed)
				}
			}
		})
		sum := int64(0)
		for _, item := range s.all(table.Query{PK: s.prefix, Consistent: true}) {
			assert.GreaterOrEqual(s, item["n"].Int(), int64(0))
			sum += item["n"].Int()
		}
		assert.EqualValues(s, 500, sum)
	},
	"AReaderSeesWhatWasAcknowledged": func(s *suite) {
		at(10, func(i int) {
			key := s.key(numbered(10)[i])
			for n := range int64(20) {
				got, err := s.Update(s.ctx, table.Update{Key: key, Do: []table.Action{table.Add("n", 1)}})
				if assert.NoError(s, err) {
					assert.Equal(s, n+1, got["n"].Int())
				}
				got, err = s.Get(s.ctx, key, table.Consistent)
				if assert.NoError(s, err) {
					assert.Equal(s, n+1, got["n"].Int())
				}
			}
		})
	},
	"AnEndedContextEndsTheCall": func(s *suite) {
		ctx, cancel := context.WithCancel(s.ctx)
		cancel()
		_, err := s.Get(ctx, s.key("a"))
		require.ErrorIs(s, err, context.Canceled)
		err = s.Put(ctx, table.Put{Item: s.item("a")})
		require.ErrorIs(s, err, context.Canceled)
		require.False(s, errors.Is(err, table.ErrThrottled))
		_, err = s.Query(ctx, table.Query{PK: s.prefix})
		require.ErrorIs(s, err, context.Canceled)
		require.ErrorIs(s, s.Transact(ctx, table.Put{Item: s.item("a")}), context.Canceled)
		assert.Nil(s, s.stored(s.key("a")))
	},
}
