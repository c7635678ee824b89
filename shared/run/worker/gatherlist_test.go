package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// slowStore is an object store that responds after a second and counts its
// requests.
type slowStore struct {
	blobtest.Memory
	now, most, asked atomic.Int64
}

func (s *slowStore) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	s.asked.Add(1)
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	select {
	case <-ctx.Done():
		return nil, blob.Object{}, ctx.Err()
	case <-time.After(time.Second):
	}
	return s.Memory.Get(ctx, key, rng)
}

// gatherWorld has a map's instances, whose outputs are to be listed.
type gatherWorld struct {
	table  table.Table
	blob   *slowStore
	writes []table.Write
}

func newGatherWorld(t *testing.T) *gatherWorld {
	return &gatherWorld{table: memory.Table(t, clock.System{}), blob: &slowStore{}}
}

func (w *gatherWorld) inline(n int, json string) {
	w.writes = append(w.writes, table.Put{Item: runstate.Node{
		Key: runstate.NodeKey("org", "run", engine.Node(n)), Status: engine.Succeeded, Output: json,
	}})
}

func (w *gatherWorld) object(ctx context.Context, n int, json string) error {
	key := fmt.Sprint("org/", n)
	w.writes = append(w.writes, table.Put{Item: runstate.Node{
		Key: runstate.NodeKey("org", "run", engine.Node(n)), Status: engine.Succeeded, OutputRef: key, OutputSize: int64(len(json)),
	}})
	_, err := blob.PutBytes(ctx, w.blob, key, []byte(json), blob.PutOptions{})
	return err
}

func (w *gatherWorld) failed(n int, as engine.Status) {
	w.writes = append(w.writes, table.Put{Item: runstate.Node{Key: runstate.NodeKey("org", "run", engine.Node(n)), Status: as, Error: "no"}})
}

// list writes the list of the first width nodes.
func (w *gatherWorld) list(ctx context.Context, width int, to io.Writer) error {
	if err := w.table.BatchWrite(ctx, w.writes); err != nil {
		return err
	}
	w.writes = nil
	return WriteOutputs(ctx, w.table, w.blob, "org", "run", runstate.Span{From: 0, To: engine.Node(width)}, to)
}

// TestWriteOutputs compares lists of all kinds of outputs with those that json
// makes of them.
func TestWriteOutputs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		width := rapid.IntRange(1, 700).Draw(rt, "width") // nodes are stored in partitions of 500
		kinds := rapid.SliceOfN(rapid.IntRange(0, 5), width, width).Draw(rt, "kinds")
		lengths := rapid.SliceOfN(rapid.SampledFrom([]int{0, 10, 2000}), width, width).Draw(rt, "lengths")
		large := rapid.IntRange(0, width-1).Draw(rt, "large")
		want := make([]any, width)
		var got bytes.Buffer
		var most int64
		var err error
		synctest.Test(t, func(t *testing.T) {
			w := newGatherWorld(t)
			for n := range width {
				text := strings.Repeat("é", lengths[n])
				if n == large && kinds[n] == 2 {
					text = strings.Repeat("x", aheadMost)
				}
				switch kinds[n] {
				case 0: // never reached
					continue
				case 1:
					w.failed(n, []engine.Status{engine.Failed, engine.Skipped, engine.TimedOut, ""}[n%4])
					continue
				case 2:
					require.NoError(t, w.object(t.Context(), n, `"`+text+`"`))
				default:
					w.inline(n, `"`+text+`"`)
				}
				want[n] = text
			}
			err = w.list(t.Context(), width, &got)
			most = w.blob.most.Load()
		})
		require.NoError(rt, err)
		raw, err := json.Marshal(want)
		require.NoError(rt, err)
		require.Equal(rt, string(raw), got.String())
		require.LessOrEqual(rt, most, int64(aheadReads+1), "what is read ahead, and a large one")
	})
}

// TestOutputsAreReadAhead checks that sixteen outputs in the object store are
// read at once, fewer if they are large.
func TestOutputsAreReadAhead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bytes int
		want  time.Duration
		most  int64
	}{
		"small":             {100, 4 * time.Second, aheadReads},
		"large":             {aheadMost - 100, 13 * time.Second, aheadBytes/aheadMost + 1},
		"too large to hold": {aheadMost + 100, 64 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newGatherWorld(t)
				const width = 64
				for n := range width {
					require.NoError(t, w.object(t.Context(), n, `"`+strings.Repeat("x", c.bytes-2)+`"`))
				}
				began := time.Now()
				require.NoError(t, w.list(t.Context(), width, io.Discard))
				assert.LessOrEqual(t, time.Since(began), c.want)
				assert.Equal(t, c.most, w.blob.most.Load())
				assert.EqualValues(t, width, w.blob.asked.Load())
			})
		})
	}
}

// full is a writer to a disk that is full after some bytes.
type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteOutputsErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const width = 100
		w := newGatherWorld(t)
		for n := range width {
			require.NoError(t, w.object(t.Context(), n, `"`+strings.Repeat("x", 4000)+`"`))
		}
		require.ErrorIs(t, w.list(t.Context(), width, &full{left: 100_000}), errFull)

		require.NoError(t, w.blob.Delete(t.Context(), "org/0"))
		w.blob.asked.Store(0)
		require.ErrorIs(t, w.list(t.Context(), width, io.Discard), blob.ErrNotFound)
		assert.Less(t, w.blob.asked.Load(), int64(width), "no more is read than was begun")

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, w.list(ctx, width, io.Discard), context.Canceled)
	})
}

// TestLargestList checks that a list may have as many bytes as an output. A
// larger one is too large even if outputs cannot be read.
func TestLargestList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newGatherWorld(t)
		of := func(sizes ...int64) error {
			for n, size := range sizes {
				w.writes = append(w.writes, table.Put{Item: runstate.Node{
					Key: runstate.NodeKey("org", "run", engine.Node(n)), Status: engine.Succeeded, OutputRef: "none", OutputSize: size,
				}})
			}
			return w.list(t.Context(), len(sizes), io.Discard)
		}
		const half = MaxOutput / 2
		require.ErrorIs(t, of(half, half-3), blob.ErrNotFound, "with two brackets and a comma it is as large as it may be")
		for _, more := range []int64{1, 2, half} {
			large, ok := errors.AsType[tooLarge](of(half, half-3+more))
			require.True(t, ok)
			assert.EqualValues(t, MaxOutput+more, large)
		}
	})
}
