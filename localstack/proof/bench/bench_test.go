package bench

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/account/identity"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

func TestCompareReportsRises(t *testing.T) {
	t.Parallel()
	want := []Count{{Work: "a", Tasks: 2, Write: 4.5, Read: 3, Requests: 2}, {Work: "gone", Write: 1}}
	got := []Count{{Work: "a", Tasks: 2, Write: 5, Read: 2.5, Requests: 2}, {Work: "new", Write: 9}}
	rose, fell := Compare(want, got)
	assert.Equal(t, []string{"a: write units 5, was 4.5"}, rose)
	assert.Equal(t, []string{"a: read units 2.5, was 3"}, fell)
	rose, fell = Compare(want, want)
	assert.Empty(t, rose)
	assert.Empty(t, fell)
}

func TestGoldenFileRoundTrips(t *testing.T) {
	t.Parallel()
	counts, err := Golden()
	require.NoError(t, err)
	require.NotEmpty(t, counts)
	assert.Equal(t, golden, Format(counts))
	for _, text := range []string{"a 1 2", "work 1 2 3 4 5 6 7 8 9 10 many"} {
		_, err := parse(text)
		assert.Error(t, err, text)
	}
}

func TestBudgetsNeedTheirCounts(t *testing.T) {
	t.Parallel()
	counts, err := Golden()
	require.NoError(t, err)
	_, err = CountBudgets(counts[1:])
	require.ErrorContains(t, err, acceptWork)
	// A count above its budget does not meet it.
	for i := range counts {
		if counts[i].Work == acceptKeyWork {
			counts[i].Write = acceptWrites + 1
		}
	}
	budgets, err := CountBudgets(counts)
	require.NoError(t, err)
	var failed []string
	for _, b := range budgets {
		if !b.Met() {
			failed = append(failed, b.Work+": "+b.What)
		}
	}
	assert.Equal(t, []string{acceptKeyWork + ": write units"}, failed)
}

func TestBillAddsUp(t *testing.T) {
	t.Parallel()
	lines := bill(
		Count{Write: 12, Read: 4, Requests: 1, Sends: 1, Calls: 4},
		Count{Tasks: 10, Write: 28, Read: 16, Requests: 2, Batches: 1, Calls: 50, Puts: 1, Gets: 1, Events: 1})
	want := map[string]float64{
		"DynamoDB write units": 4 * 0.625, "DynamoDB read units": 2 * 0.125, "SQS requests": 0.3 * 0.5,
		"Lambda GB-seconds":  (5 + 53) * 0.005 / 2 / 10 * 13.3334,
		"Lambda invocations": 0.2 * 0.2, "API Gateway requests": 0.35, "EventBridge events": 0.1, "S3 writes": 0.5, "S3 reads": 0.04,
	}
	total := 0.0
	for _, l := range lines {
		assert.InDelta(t, want[l.what], l.dollars(), 1e-9, l.what)
		total += want[l.what]
	}
	assert.Len(t, lines, len(want))
	assert.InDelta(t, total, sum(lines), 1e-9)
}

func TestSamples(t *testing.T) {
	t.Parallel()
	var s samples
	assert.Zero(t, s.median())
	for i := range 100 {
		s = append(s, time.Duration((i*37)%100+1))
	}
	assert.EqualValues(t, 51, s.median())
	assert.EqualValues(t, 96, s.at(0.95)[0])
	assert.EqualValues(t, 100, s.at(1)[0])
	for d, want := range map[time.Duration]string{
		1234 * time.Nanosecond: "1.2 µs", 123 * time.Microsecond: "0.12 ms", 1234 * time.Microsecond: "1.23 ms", 12340 * time.Microsecond: "12.3 ms", 123400 * time.Microsecond: "123 ms",
		1234 * time.Millisecond: "1.23 s", 12340 * time.Millisecond: "12.3 s",
	} {
		assert.Equal(t, want, span(d))
	}
	assert.Equal(t, "1,234,567", thousands(1234567))
	assert.Equal(t, "1,000", thousands(1000))
}

func TestRowsAreSelectedByName(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := Run(t.Context(), Options{Out: &out, Rows: regexp.MustCompile("no such row")})
	require.ErrorContains(t, err, "no row matches")
	b := &bench{Options: Options{Rows: regexp.MustCompile("^wanted"), Out: &out}, table: &printer{out: &out}}
	b.show(row{name: "wanted", median: "1 ms"}.in("2 ms", true))
	b.show(row{name: "not wanted"})
	b.show(row{name: "wanted too", bytes: 20 << 10}.in("2 ms", false))
	assert.Equal(t, 2, b.table.rows)
	assert.Regexp(t, `wanted +1 ms .* met\n`, out.String())
	assert.Regexp(t, `wanted too .*20 KB .*NOT MET\n`, out.String())
}

// TestHistoryMatchesRealRuns checks that a run of the generated history
// responds to requests like the run from which it was made.
func TestHistoryMatchesRealRuns(t *testing.T) {
	t.Parallel()
	const n = 2*fillBatch + 7
	ctx, dir := t.Context(), t.TempDir()
	objects := &blobtest.Memory{}
	var org, first, key string
	open := func(do func(*service)) {
		db, err := store.Open(datadir.Store(dir), store.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		items := pebbletable.New(db, clock.System{})
		if key == "" {
			org, key = workspace(t, items)
		}
		s, err := openService(ctx, platform{table: items, objects: objects, key: key})
		require.NoError(t, err)
		defer s.close()
		do(s)
	}
	open(func(s *service) {
		var err error
		first, err = (&tally{service: s}).warm(ctx, single())
		require.NoError(t, err)
	})
	h := &history{dir: dir, first: template{org: org, run: first}, key: key, ids: []string{first}}
	require.NoError(t, h.fill(ctx, 10))
	require.NoError(t, h.fill(ctx, n))
	require.Len(t, h.ids, n)
	open(func(s *service) {
		get := func(path string) string {
			data, err := s.call(ctx, http.MethodGet, path, nil)
			require.NoError(t, err)
			return string(data)
		}
		want, log := get("/runs/"+first), get("/runs/"+first+"/logs")
		for _, id := range []string{h.ids[1], h.ids[n/2], h.ids[n-1]} {
			assert.JSONEq(t, strings.ReplaceAll(want, first, id), get("/runs/"+id))
			assert.JSONEq(t, log, get("/runs/"+id+"/logs"))
		}
		assert.Equal(t, n, strings.Count(get("/runs"), `"run_id"`))
		assert.Contains(t, get("/runs?limit=1"), h.ids[n-1], "the newest is first")
		assert.Equal(t, n, strings.Count(get("/runs?flow_name="+single().Name), `"run_id"`))
		assert.NoError(t, s.work(ctx), "nothing is left to do")
	})
	h.first.run = "01K5SAMPLE0000000000000002"
	assert.Error(t, h.fill(ctx, n+1), "there is no such run")
}

func workspace(t *testing.T, items table.Table) (org, key string) {
	t.Helper()
	made, err := identity.Bootstrap(context.Background(), items, time.Now(), "Bench", "owner@bench.test", identity.Credentials{})
	require.NoError(t, err)
	return made.OrgID, made.APIKey
}
