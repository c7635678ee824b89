package store

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var cuts = flag.Int("cuts", 12, "power cuts in each mode and file system")

// lineage is the number of power cuts of one store before a new one is created.
const lineage = 20

// power is a file system that simulates power cuts.
type power interface {
	fs() vfs.FS
	cut(rng *rand.Rand, percent int) (power, error)
}

// blockPower loses blocks of 4 KB and names of files; see vfs.NewCrashableMem.
type blockPower struct{ *vfs.MemFS }

func (p blockPower) fs() vfs.FS { return p.MemFS }

func (p blockPower) cut(rng *rand.Rand, percent int) (power, error) {
	return blockPower{p.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})}, nil
}

// sectorPower loses sectors of 512 bytes.
type sectorPower struct{ *sectors }

func (p sectorPower) fs() vfs.FS { return p.sectors }

func (p sectorPower) cut(rng *rand.Rand, percent int) (power, error) {
	left, err := p.sectors.cut(rng, percent)
	return sectorPower{left}, err
}

// TestPowerCuts cuts the power of a busy store repeatedly. It must always open
// and contain a prefix of the commits; with FullSync, all acknowledged ones.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		full  bool
		power func() power
	}{
		"full sync, blocks":  {true, func() power { return blockPower{vfs.NewCrashableMem()} }},
		"full sync, sectors": {true, func() power { return sectorPower{newSectors(vfs.NewMem())} }},
		"blocks":             {false, func() power { return blockPower{vfs.NewCrashableMem()} }},
		"sectors":            {false, func() power { return sectorPower{newSectors(vfs.NewMem())} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			p, lost, logs := power(nil), 0, 0
			open := func() *DB {
				db, err := Open("store", Options{FS: p.fs(), FullSync: c.full, memTable: 64 << 10})
				require.NoError(t, err, "the store does not open")
				return db
			}
			for n := range *cuts {
				if n%lineage == 0 {
					p = c.power()
				}
				db := open()
				begun := length(t, db)
				writers := &chain{db: db}
				writers.acked.Store(int64(begun))
				writers.run(t, 1+rng.IntN(4))
				writers.atLeast(t, begun+1+rng.IntN(400)) // a log holds about 150
				acked := writers.acknowledged()
				left, err := p.cut(rng, rng.IntN(101))
				require.NoError(t, err)
				writers.stop()
				made := writers.acknowledged()
				logs += int(db.pebble.Metrics().Flush.Count)
				require.NoError(t, db.Close())
				p = left
				after := open()
				has := length(t, after)
				require.NoError(t, after.Close())
				if c.full {
					assert.GreaterOrEqual(t, has, acked, "what was acknowledged is lost")
				}
				assert.LessOrEqual(t, has, made+made/3+8)
				if has < acked {
					lost++
				}
			}
			t.Logf("%d cuts, %d of which lost acknowledged commits, %d logs in all", *cuts, lost, logs)
			assert.Greater(t, logs, *cuts/4, "some cuts fall where logs begin and end")
		})
	}
}
