package audit_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/table"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)

type channel struct {
	table.Key
	table.ListEntries
	Name    string         `table:"name" json:"name"`
	Token   string         `table:"token" secret:"true"`
	Nested  *nested        `table:"nested" json:"nested,omitempty"`
	Many    []nested       `table:"many" json:"many,omitempty"`
	ByName  map[string]any `table:"by_name" json:"by_name,omitempty"`
	Created time.Time      `table:"created_at"`
	TTL     int64          `table:"ttl"`
	private string
}

type nested struct {
	URL    string `json:"url"`
	Secret []byte `json:"secret" secret:"true"`
}

func record(t require.TestingT, p table.Put) audit.Record {
	r, ok := p.Item.(audit.Record)
	require.True(t, ok)
	return r
}

func TestEntry(t *testing.T) {
	t.Parallel()
	ctx := tenant.With(t.Context(), tenant.Principal{OrgID: "acme", Email: "a@acme.test", KeyID: "k1"})
	ctx = tenant.WithRequest(ctx, tenant.Request{ID: "req", IP: "192.0.2.1"})
	after := &channel{
		Key: table.Key{PK: "acme#x", SK: "y"}, ListEntries: table.ListEntries{L1PK: "acme#l"}, Name: "ops", Token: "hunter2",
		Nested: &nested{"https://x", []byte("hunter2")}, Many: []nested{{"https://y", []byte("hunter2")}},
		ByName: map[string]any{"n": nested{"https://z", []byte("hunter2")}}, Created: now, private: "hunter2",
	}
	put := audit.Entry(ctx, now, audit.Change{Action: "create", ResourceType: "channel", ResourceID: "c1", After: after, Metadata: map[string]any{"via": "test"}})
	got := record(t, put)
	assert.Equal(t, table.IsNew(), put.If)
	assert.Regexp(t, `^acme#audit#[0-7]$`, got.PK)
	shard := strings.TrimPrefix(got.PK, "acme#audit#")
	assert.Equal(t, table.ListEntries{
		L1PK: "acme#audit#channel#c1", L1SK: got.ID(), L2PK: "acme#audit#a@acme.test#" + shard, L2SK: got.ID(),
		L3PK: "acme#audit#channel#" + shard, L3SK: got.ID(), L4PK: "acme#audit#create#" + shard, L4SK: got.ID(),
	}, got.ListEntries)
	assert.Equal(t, "2026-03-04T05:06:07.008Z#"+got.ID(), got.EventTime())
	assert.Len(t, got.ID(), 26)
	assert.Equal(t, "a@acme.test", got.ActorEmail)
	assert.Equal(t, "k1", got.KeyID)
	assert.Equal(t, "192.0.2.1", got.IP)
	assert.Equal(t, "req", got.RequestID)
	assert.JSONEq(t, `{"via":"test"}`, got.Metadata)
	assert.Equal(t, "null", string(audit.JSON(got.Before)))
	assert.JSONEq(t, `{"name":"ops","nested":{"url":"https://x"},"many":[{"url":"https://y"}],"by_name":{"n":{"url":"https://z"}},
		"created_at":"2026-03-04T05:06:07.008Z"}`, string(audit.JSON(got.After)))

	item, err := table.Marshal(got)
	require.NoError(t, err)
	assert.Equal(t, got.Key, item.Key())
	var back audit.Record
	require.NoError(t, table.Unmarshal(item, &back))
	assert.Equal(t, got, back)
}

func TestEventTimesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		r := record(t, audit.Entry(t.Context(), now, audit.Change{}))
		seen[r.EventTime()] = true
	}
	assert.Len(t, seen, 1000)
}

type ring struct {
	Next *ring `json:"next"`
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	loop := &ring{}
	loop.Next = loop
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"nil":         {nil, "null"},
		"nil pointer": {(*channel)(nil), "null"},
		"nil map":     {map[string]int(nil), "null"},
		"scalar":      {3, `{"value":3}`},
		"list":        {[]string{"a"}, `{"value":["a"]}`},
		"raw":         {json.RawMessage(`{"n":9007199254740993}`), `{"n":9007199254740993}`},
		"raw list":    {json.RawMessage(`[1]`), `{"value":[1]}`},
		"broken raw":  {json.RawMessage(`{`), `{"unrepresentable":true}`},
		"nan":         {map[string]float64{"x": math.NaN()}, `{"unrepresentable":true}`},
		"func":        {map[string]any{"f": func() {}}, `{"f":null}`},
		"time":        {now, `{"value":"2026-03-04T05:06:07.008Z"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := record(t, audit.Entry(t.Context(), now, audit.Change{After: test.value}))
			assert.JSONEq(t, test.want, string(audit.JSON(got.After)))
		})
	}
	cyclic := record(t, audit.Entry(t.Context(), now, audit.Change{After: loop}))
	assert.True(t, json.Valid([]byte(cyclic.After)))
}

func TestLargeSnapshotsBecomeDigests(t *testing.T) {
	t.Parallel()
	big := func(fill string) string {
		return record(t, audit.Entry(t.Context(), now, audit.Change{Before: map[string]string{"x": strings.Repeat(fill, 1<<20)}})).Before
	}
	assert.Contains(t, big("a"), `"truncated":true`)
	assert.Contains(t, big("a"), `"size":1048584`)
	assert.NotEqual(t, big("a"), big("b"))
}

// TestEntryFits draws changes: the entry fits an item and its keys fit
// their limits.
func TestEntryFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			return strings.Repeat(rapid.String().Draw(t, label), rapid.SampledFrom([]int{1, 3000}).Draw(t, label+" times"))
		}
		ctx := tenant.With(t.Context(), tenant.Principal{OrgID: "acme", Email: text("email"), KeyID: text("key")})
		ctx = tenant.WithRequest(ctx, tenant.Request{ID: text("request"), IP: text("ip")})
		c := audit.Change{
			Action: text("action"), ResourceType: text("type"), ResourceID: text("id"),
			Before: map[string]string{text("k1"): text("v1")}, After: []string{text("v2")}, Metadata: map[string]any{text("k3"): text("v3")},
		}
		put := audit.Entry(ctx, now, c)
		item, err := table.Marshal(put.Item)
		require.NoError(t, err)
		size, err := table.CheckItem(item)
		require.NoError(t, err)
		assert.Less(t, size, 120<<10)
		r := record(t, put)
		for _, snapshot := range []string{r.Before, r.After, r.Metadata} {
			assert.LessOrEqual(t, len(snapshot), audit.MaxSnapshot)
			var object map[string]any
			assert.NoError(t, json.Unmarshal([]byte(snapshot), &object))
		}
	})
}
