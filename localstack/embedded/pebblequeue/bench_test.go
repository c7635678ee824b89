package pebblequeue

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

var payload = []byte(`{"workspace":"ws_01J8Z3","run":"01J8Z3K4M5N6P7Q8R9S0T1V2W3","task":17,"attempt":1,"due":1732000000000}`)

// BenchmarkLatency sends one message to a waiting receiver on idle queues.
func BenchmarkLatency(b *testing.B) {
	qs := open(b, filepath.Join(b.TempDir(), "queue"), queue.Definition{Name: "q", Visibility: time.Minute})
	ctx := b.Context()
	arrived := make(chan time.Time)
	go func() {
		for {
			ds, err := qs.Receive(ctx, "q", 10, queue.MaxWait)
			if err != nil {
				return
			}
			now := time.Now()
			for _, d := range ds {
				_ = qs.Delete(ctx, "q", d.Receipt)
				arrived <- now
			}
		}
	}()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		require.NoError(b, qs.Send(ctx, "q", queue.Message{Body: payload, Group: "ws"}))
		took = append(took, (<-arrived).Sub(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds()), "p95-µs")
}

// BenchmarkThroughput sends, receives and deletes from 16 goroutines.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []int{1, 10} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			qs := open(b, filepath.Join(b.TempDir(), "queue"), queue.Definition{Name: "q", Visibility: time.Minute})
			msgs := make([]queue.Message, size)
			for i := range msgs {
				msgs[i] = queue.Message{Body: payload, Group: fmt.Sprint("ws", i%3)}
			}
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					round(b, qs, msgs, func() error { return qs.Send(b.Context(), "q", msgs...) })
				}
			})
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

func round(b *testing.B, qs *Queues, msgs []queue.Message, send func() error) {
	if err := send(); err != nil {
		b.Error(err)
		return
	}
	ds, err := qs.Receive(context.Background(), "q", len(msgs), 0)
	if err != nil {
		b.Error(err)
		return
	}
	var receipts [queue.MaxBatch]string
	for i, d := range ds {
		receipts[i] = d.Receipt
	}
	if err := qs.Delete(context.Background(), "q", receipts[:len(ds)]...); err != nil {
		b.Error(err)
	}
}

// BenchmarkStart loads a backlog of 100,000 messages and reads its statistics.
func BenchmarkStart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "queue")
	def := queue.Definition{Name: "q", Visibility: time.Minute}
	b.Run("fill", func(b *testing.B) {
		qs := open(b, path, def)
		msgs := make([]queue.Message, 1000)
		for i := range msgs {
			msgs[i] = queue.Message{Body: payload, Group: fmt.Sprint("ws", i%10)}
		}
		for range 100 {
			require.NoError(b, qs.Send(b.Context(), "q", msgs...))
		}
		for b.Loop() {
			_, _ = qs.Stats(b.Context(), "q")
		}
	})
	b.Run("load", func(b *testing.B) {
		qs := open(b, path, def)
		for b.Loop() {
			again, err := New(b.Context(), qs.db, qs.clock, []queue.Definition{def})
			require.NoError(b, err)
			stats, err := again.Stats(b.Context(), "q")
			require.NoError(b, err)
			require.Equal(b, 100_000, stats.Visible)
		}
	})
}
