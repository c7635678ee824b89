package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
)

// image is the content of a store's files by name.
type image map[string][]byte

// snapshot reads the files of a store's directory.
func snapshot(t testing.TB, fs vfs.FS) image {
	t.Helper()
	out := image{}
	names, err := fs.List("store")
	require.NoError(t, err)
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		file, err := fs.Open(fs.PathJoin("store", name))
		require.NoError(t, err)
		if info, err := file.Stat(); err == nil && !info.IsDir() {
			data, err := io.ReadAll(file)
			require.NoError(t, err)
			out[name] = data
		}
		require.NoError(t, file.Close())
	}
	return out
}

// disk returns a file system with the files.
func (i image) disk(t testing.TB) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("store", 0o700))
	for name, data := range i {
		file, err := fs.Create(fs.PathJoin("store", name), vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		_, err = file.Write(data)
		require.NoError(t, errors.Join(err, file.Close()))
	}
	return fs
}

// named returns the names of the files of a kind, in order.
func (i image) named(prefix, suffix string) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(i)) {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			found = append(found, name)
		}
	}
	return found
}

func (i image) newest(prefix, suffix string) string {
	found := i.named(prefix, suffix)
	return found[len(found)-1]
}

// liveLogs returns the logs that are not in tables yet, which come last.
func (i image) liveLogs(t testing.TB) []string {
	found, err := inspect(i.disk(t), "store", thisBoot)
	require.NoError(t, err)
	var names []string
	for _, log := range found.logs {
		names = append(names, log.name)
	}
	return names
}

// slowTables is a file system that creates no table while it is held.
type slowTables struct {
	vfs.FS
	held atomic.Bool
}

func (s *slowTables) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	for s.held.Load() && strings.HasSuffix(name, ".sst") {
		time.Sleep(time.Millisecond)
	}
	return s.FS.Create(name, category)
}

const thisBoot = "this start of the machine"

func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, memTable: 64 << 10, boot: thisBoot, Log: slog.New(slog.DiscardHandler)}
}

// busy makes two images of one store: one after a kill with two logs that are
// not in tables yet, and one after closing it. Each has some tables and the
// acknowledged number of commits.
func busy(t testing.TB, full bool) (killed image, killedLinks int, closed image, closedLinks int) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	fs := &slowTables{FS: disk}
	o := testOptions(fs)
	o.FullSync = full
	db, err := Open("store", o)
	require.NoError(t, err)
	c, rng := &chain{db: db}, rand.New(rand.NewPCG(1, 2))
	write := func(n int) {
		for range n {
			require.NoError(t, c.link(t.Context(), rng))
		}
	}
	for db.pebble.Metrics().Flush.Count < 3 { // until there are some tables
		write(50)
	}
	fs.held.Store(true)
	for len(killed.liveLogs(t)) < 2 { // again if an earlier flush emptied them
		for db.pebble.Metrics().MemTable.Count < 3 {
			write(1)
		}
		write(30)
		db.waitDurable()
		require.NoError(t, db.pebble.LogData(nil, pebble.Sync))
		killedLinks = length(t, db)
		killed = snapshot(t, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})) // all of the same moment
	}
	fs.held.Store(false)
	write(50)
	closedLinks = length(t, db)
	require.NoError(t, db.Close())
	return killed, killedLinks, snapshot(t, fs), closedLinks
}

// outcome is the result of opening a store.
type outcome struct {
	refused *Damage
	unread  error // error of a read
	links   int
}

// try opens an image and reads all of it.
func try(t testing.TB, i image, boot string) outcome {
	t.Helper()
	fs := i.disk(t)
	o := testOptions(fs)
	o.boot = boot
	db, err := Open("store", o)
	if err != nil {
		var damage *Damage
		require.ErrorAs(t, err, &damage, "%v", err)
		require.ErrorIs(t, err, ErrDamaged)
		assert.NotContains(t, err.Error(), "\n")
		assert.Contains(t, err.Error(), "restore a backup")
		assert.Equal(t, i, snapshot(t, fs), "nothing was changed")
		return outcome{refused: damage}
	}
	defer func() { require.NoError(t, db.Close()) }()
	out := outcome{}
	out.unread = db.Scan(t.Context(), []byte("a"), []byte("z"), false, func(key, _ []byte) (bool, error) {
		if strings.HasPrefix(string(key), "link") {
			out.links++
		}
		return true, nil
	})
	if out.unread != nil {
		require.ErrorIs(t, out.unread, ErrDamaged)
		assert.Equal(t, errs.Unavailable, errs.CodeOf(out.unread))
		require.ErrorIs(t, db.Damaged(), ErrDamaged, "the store is unhealthy")
		return out
	}
	require.NoError(t, db.Damaged())
	value, _ := get1(t, db, "count")
	assert.Equal(t, fmt.Sprint(out.links), cmp.Or(value, "0"), "a link is missing")
	return out
}

// with returns the image with a file changed; nil removes it.
func (i image) with(name string, change func([]byte) []byte) image {
	out := maps.Clone(i)
	if data := change(slices.Clone(i[name])); data != nil {
		out[name] = data
	} else {
		delete(out, name)
	}
	return out
}

func gone([]byte) []byte  { return nil }
func empty([]byte) []byte { return []byte{} }
func half(data []byte) []byte {
	return data[:len(data)/2]
}

// flip inverts 16 bytes in the middle.
func flip(data []byte) []byte {
	for at := range min(16, len(data)) {
		data[min(len(data)/2+at, len(data)-1)] ^= 0xff
	}
	return data
}

// zero clears 2 KB of a log, as a power cut may.
func zero(data []byte) []byte {
	clear(data[8*sector:][:4*sector])
	return data
}

func tail(data []byte) []byte {
	data[len(data)-3] ^= 0xff
	return data
}

// TestDamage damages each kind of file in each way. A torn end of the newest
// log is the effect of a crash and is cut; anything else is rejected, or
// reported when it is read.
func TestDamage(t *testing.T) {
	t.Parallel()
	killed, killedLinks, closed, closedLinks := busy(t, false)
	live := killed.liveLogs(t)
	require.GreaterOrEqual(t, len(live), 2, "a kill finds more than one log")
	closedLive := closed.liveLogs(t)
	first, last := live[0], live[len(live)-1]
	closedLast := closedLive[len(closedLive)-1]
	table := closed.newest("", ".sst")
	const opens, refused, either, unread = "opens", "is refused", "opens or is refused", "cannot be read"
	for name, c := range map[string]struct {
		image image
		links int // number of commits it has, or has all but the last few of
		boot  string
		want  string
		says  []string
	}{
		"as killed":       {killed, killedLinks, thisBoot, opens, nil},
		"as closed":       {closed, closedLinks, thisBoot, opens, nil},
		"after a restart": {killed, killedLinks, "another", opens, nil},

		"newest log, flipped in the middle":             {killed.with(last, flip), 0, thisBoot, refused, []string{last, "intact records follow", "millrace repair"}},
		"newest log, flipped, after a restart":          {killed.with(last, flip), 0, "another", refused, []string{last, "intact records follow"}},
		"newest log, a gap":                             {killed.with(last, zero), 0, thisBoot, refused, []string{last, "intact records follow"}},
		"newest log, a torn end":                        {killed.with(last, tail), killedLinks, thisBoot, opens, nil},
		"newest log, short":                             {killed.with(last, func(b []byte) []byte { return b[:len(b)-5] }), killedLinks, thisBoot, opens, nil},
		"newest log, missing":                           {closed.with(closedLast, gone), 0, thisBoot, refused, []string{"missing", "millrace repair"}},
		"newest log of a closed store, flipped":         {closed.with(closedLast, flip), 0, thisBoot, refused, []string{closedLast, "not intact"}},
		"newest log of a closed store, its last record": {closed.with(closedLast, func(b []byte) []byte { b[len(b)-logHeader-30] ^= 1; return b }), 0, thisBoot, refused, []string{closedLast, "not intact"}},
		"older log, flipped":                            {killed.with(first, flip), 0, thisBoot, refused, []string{first, "not the last log"}},
		"older log, a gap after a restart":              {killed.with(first, zero), 0, "another", refused, []string{first, "not the last log"}},
		"older log, another number":                     {killed.with(first, otherNumber), 0, thisBoot, refused, []string{first, "not the last log"}},
		"older log, short":                              {killed.with(first, half), 0, thisBoot, refused, []string{first, "not the last log"}},
		"older log, empty":                              {killed.with(first, empty), 0, thisBoot, refused, nil},
		"older log, missing":                            {killed.with(first, gone), 0, thisBoot, refused, []string{first, "is missing"}},

		"table, flipped": {closed.with(table, flip), 0, thisBoot, unread, nil},
		"table, its end": {closed.with(table, tail), 0, thisBoot, unread, nil},
		"table, short":   {closed.with(table, half), 0, thisBoot, refused, []string{"size mismatch"}},
		"table, empty":   {closed.with(table, empty), 0, thisBoot, refused, []string{"size mismatch"}},
		"table, missing": {closed.with(table, gone), 0, thisBoot, refused, []string{strings.TrimSuffix(table, ".sst")}},

		"manifest, flipped":             {closed.with(closed.newest("MANIFEST-", ""), flip), 0, thisBoot, refused, []string{"MANIFEST-", "not intact"}},
		"manifest, its beginning":       {closed.with(closed.newest("MANIFEST-", ""), func(b []byte) []byte { b[9] ^= 1; return b }), 0, thisBoot, refused, []string{"MANIFEST-"}},
		"manifest, short":               {closed.with(closed.newest("MANIFEST-", ""), half), 0, thisBoot, refused, nil},
		"manifest, without its last":    {closed.with(closed.newest("MANIFEST-", ""), tail), closedLinks, thisBoot, either, nil},
		"manifest, empty":               {closed.with(closed.newest("MANIFEST-", ""), empty), 0, thisBoot, refused, []string{"MANIFEST-", "no intact record"}},
		"manifest, missing":             {closed.with(closed.newest("MANIFEST-", ""), gone), 0, thisBoot, refused, []string{"MANIFEST-"}},
		"manifest marker, missing":      {closed.with(closed.newest("marker.manifest", ""), gone), 0, thisBoot, refused, []string{"marker.manifest.* is missing"}},
		"manifest marker, another name": {renamed(closed, closed.newest("marker.manifest", ""), "marker.manifest.000001.MANIFEST-000777"), 0, thisBoot, refused, []string{"MANIFEST-000777"}},
		"a marker that is none":         {renamed(closed, closed.newest("marker.manifest", ""), "marker.manifesX"), 0, thisBoot, refused, []string{"marker"}},
		"format marker, missing":        {closed.with(closed.newest("marker.format", ""), gone), 0, thisBoot, refused, []string{"marker.format-version.* is missing"}},
		"format marker, another":        {renamed(closed, closed.newest("marker.format", ""), "marker.format-version.000001.099"), 0, thisBoot, refused, []string{"marker"}},

		// These contain no writes.
		"options, missing":  {closed.with(closed.newest("OPTIONS-", ""), gone), closedLinks, thisBoot, opens, nil},
		"options, empty":    {closed.with(closed.newest("OPTIONS-", ""), empty), closedLinks, thisBoot, opens, nil},
		"boot, missing":     {killed.with(bootFile, gone), killedLinks, thisBoot, opens, nil},
		"boot, flipped":     {killed.with(bootFile, flip), killedLinks, thisBoot, opens, nil},
		"everything is new": {image{}, 0, thisBoot, opens, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := try(t, c.image, c.boot)
			want := c.want
			if want == either { // a compaction may have been lost
				want = opens
				if got.refused != nil {
					want = refused
				}
			}
			switch want {
			case opens:
				require.Nil(t, got.refused)
				require.NoError(t, got.unread)
				assert.InDelta(t, c.links, got.links, 2)
			case refused:
				require.NotNil(t, got.refused, "it has %d links", got.links)
				for _, part := range c.says {
					assert.ErrorContains(t, got.refused, part)
				}
			case unread:
				require.Nil(t, got.refused)
				require.Error(t, got.unread)
				assert.ErrorContains(t, got.unread, table)
			}
		})
	}
}

// otherNumber changes the second chunk to one that Pebble takes for the log's
// end.
func otherNumber(data []byte) []byte {
	at := logHeader + int(data[4]) + int(data[5])<<8
	data[at+7]++
	return data
}

func renamed(i image, from, to string) image {
	out := maps.Clone(i)
	out[to] = out[from]
	delete(out, from)
	return out
}

// TestPowerCutLeavesGap: after a power cut the newest log may have a gap, and
// the rest is discarded after a copy was made.
func TestPowerCutLeavesGap(t *testing.T) {
	t.Parallel()
	for name, full := range map[string]bool{"": false, "full sync": true} {
		killed, links, _, _ := busy(t, full)
		live := killed.liveLogs(t)
		last := live[len(live)-1]
		damaged := killed.with(last, zero)
		fs := damaged.disk(t)
		o := testOptions(fs)
		o.boot = "another"
		for range 2 { // the second time nothing more is lost
			db, err := Open("store", o)
			require.NoError(t, err, name)
			has := length(t, db)
			assert.Less(t, has, links-4)
			assert.Greater(t, has, links-150)
			require.NoError(t, db.Close())
		}
		file, err := fs.Open(fs.PathJoin("store", asideDir, last))
		require.NoError(t, err)
		kept, err := io.ReadAll(file)
		require.NoError(t, errors.Join(err, file.Close()))
		assert.Equal(t, damaged[last], kept)
	}
}

// TestExistingStoreIsNotRecreated, not even if its directory is missing.
func TestExistingStoreIsNotRecreated(t *testing.T) {
	t.Parallel()
	o := testOptions(vfs.NewMem())
	o.MustExist = true
	_, err := Open("store", o)
	require.ErrorIs(t, err, ErrDamaged)
	o.MustExist = false
	db, err := Open("store", o)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	o.MustExist = true
	db, err = Open("store", o)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// TestRepair checks that damaged logs are cut and copied aside, and that all
// writes before the damage are kept. For other damage, only a backup helps.
func TestRepair(t *testing.T) {
	t.Parallel()
	killed, _, closed, closedLinks := busy(t, false)
	live := killed.liveLogs(t)
	closedLive := closed.liveLogs(t)
	for name, c := range map[string]struct {
		image image
		aside []string
	}{
		"newest":  {killed.with(live[len(live)-1], flip), live[len(live)-1:]},
		"older":   {killed.with(live[0], flip), live},
		"missing": {killed.with(live[0], gone), live[1:]},
		"all":     {closed.with(closedLive[len(closedLive)-1], gone), nil},
		"nothing": {closed, nil},
	} {
		fs := c.image.disk(t)
		repaired, err := Repair("store", fs)
		require.NoError(t, err, name)
		assert.Equal(t, name == "nothing", repaired == nil, name)
		var want []string
		for _, log := range c.aside {
			want = append(want, fs.PathJoin("store", asideDir, log))
		}
		if repaired != nil {
			assert.Equal(t, want, repaired.Aside, name)
		}
		for range 2 {
			db, err := Open("store", testOptions(fs))
			require.NoError(t, err, name)
			has := length(t, db)
			assert.Positive(t, has, name)
			if name == "nothing" {
				assert.Equal(t, closedLinks, has)
			}
			require.NoError(t, db.Close())
		}
		again, err := Repair("store", fs)
		require.NoError(t, err, name)
		assert.Nil(t, again, name)
	}
	i := closed.with(closed.newest("MANIFEST-", ""), flip)
	fs := i.disk(t)
	_, err := Repair("store", fs)
	require.ErrorIs(t, err, ErrDamaged)
	assert.NotContains(t, err.Error(), "repair")
	assert.Equal(t, i, snapshot(t, fs))
	_, err = Repair("nowhere", fs)
	require.Error(t, err)
}

// TestDamagedStoreNeverLosesAcknowledgedWritesSilently flips bytes and
// truncates files at random. A store then has all acknowledged writes, or is
// rejected, or a read fails; except for the end of the newest log, which a
// crash may have torn.
func TestDamagedStoreNeverLosesAcknowledgedWritesSilently(t *testing.T) {
	t.Parallel()
	killed, killedLinks, closed, closedLinks := busy(t, false)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	count := map[string]int{}
	killedLive, closedLive := killed.liveLogs(t), closed.liveLogs(t)
	for range 150 {
		i, links, live := killed, killedLinks, killedLive
		if rng.IntN(2) == 0 {
			i, links, live = closed, closedLinks, closedLive
		}
		last := live[len(live)-1]
		names := slices.Sorted(maps.Keys(i))
		name := names[rng.IntN(len(names))]
		if rng.IntN(2) == 0 {
			name = live[rng.IntN(len(live))]
		}
		at, way := 0, rng.IntN(4)
		damaged := i.with(name, func(data []byte) []byte {
			if way == 0 && name != last || len(data) == 0 {
				return nil
			}
			at = rng.IntN(len(data))
			if way == 1 && name != last {
				return data[:at]
			}
			for n := range 1 + rng.IntN(24) {
				data[min(at+n, len(data)-1)] ^= byte(1 + rng.IntN(255))
			}
			return data
		})
		torn := name == last && at > len(i[last])-2000
		got := try(t, damaged, thisBoot)
		require.False(t, t.Failed(), "%s from byte %d of %d, way %d", name, at, len(i[name]), way)
		switch {
		case got.refused != nil:
			count["refused"]++
		case got.unread != nil:
			count["unread"]++
		case got.links == links:
			count["whole"]++
		default:
			count["torn"]++
			require.True(t, torn, "%s from byte %d of %d, way %d: %d links of %d", name, at, len(i[name]), way, got.links, links)
			require.Greater(t, got.links, links-8)
		}
	}
	t.Logf("%v", count)
	assert.Greater(t, count["refused"], 25)
	assert.Greater(t, count["unread"], 0)
}
