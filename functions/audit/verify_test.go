package audit_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	functions "millrace/functions/audit"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/due"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/signature"
	"millrace/shared/platform/table"
)

// log is a service whose workspace A has three entries on each of four days.
type log struct {
	*localtest.Env
	t    *testing.T
	days []audit.Day
}

// digested opens a log in a bubble, in which time begins at midnight: no test
// crosses one unawares.
func digested(t *testing.T, o ...localtest.Options) *log {
	t.Helper()
	options := append(o, localtest.Options{})[0]
	options.Blob = &blobtest.Memory{} // a connection would not stay in the bubble
	env := localtest.Open(t, options, functions.Spec, functions.DigestSpec)
	l := &log{Env: env, t: t}
	// The workspace's first day is today; the others follow.
	for range 4 {
		l.days = append(l.days, audit.DayOf(env.Clock.Now()))
		for range 3 {
			env.Key(t, env.A, "flows.read")
		}
		env.Clock.Set(audit.DayOf(env.Clock.Now()).End().Add(12 * time.Hour))
	}
	return l
}

func (l *log) chain() audit.Chain {
	l.t.Helper()
	c, err := table.Load[audit.Chain](l.t.Context(), l.Deps.Table, audit.ChainKey(l.A.OrgID), table.Consistent)
	require.NoError(l.t, err)
	return c
}

// digest delivers the chain's message as often as told.
func (l *log) digest(times int) {
	l.t.Helper()
	c := l.chain()
	m, err := due.Message(audit.Digesting, c.Key, c.DueSK, time.Time{})
	require.NoError(l.t, err)
	handle := functions.DigestSpec.Messages(l.Deps)
	for range times {
		out, err := handle(l.t.Context(), lambda.SQSEvent{Records: []lambda.SQSMessage{{MessageId: "m", Body: string(m.Body)}}})
		require.NoError(l.t, err)
		require.Empty(l.t, out.BatchItemFailures)
	}
}

func (l *log) digestOf(day audit.Day) audit.Digest {
	l.t.Helper()
	d, err := table.Load[audit.Digest](l.t.Context(), l.Deps.Table, audit.DigestKey(l.A.OrgID, day), table.Consistent)
	require.NoError(l.t, err)
	return d
}

func (l *log) entries(day audit.Day) (out []audit.Record) {
	l.t.Helper()
	for r, err := range audit.Entries(l.t.Context(), l.Deps.Table, l.A.OrgID, day.Begin(), day.End()) {
		require.NoError(l.t, err)
		out = append(out, r)
	}
	return out
}

func (l *log) put(item any) {
	l.t.Helper()
	require.NoError(l.t, l.Deps.Table.Put(l.t.Context(), table.Put{Item: item}))
}

func (l *log) remove(key table.Key) {
	l.t.Helper()
	require.NoError(l.t, l.Deps.Table.Delete(l.t.Context(), table.Delete{Key: key}))
}

func (l *log) verify(query string) *localtest.Response {
	l.t.Helper()
	return l.Do(l.t, l.A.Key, "GET", "/audit-logs/verification"+query, nil).Require(l.t, 200)
}

func TestDaysAreDigestedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := digested(t)
		res := l.verify("")
		assert.Equal(t, "broken", res.String(t, "status"), "the first days should have been digested long ago")
		l.digest(1)
		c := l.chain()
		assert.Equal(t, l.days[0], c.First)
		assert.Equal(t, l.days[3].Next(), c.Next)
		assert.True(t, c.DueAt.Time().After(c.Next.End().Add(audit.Grace-time.Second)) && c.DueAt.Time().Before(c.Next.End().Add(audit.Grace+time.Hour)), "%s", c.DueAt)

		res = l.verify("")
		last := l.digestOf(l.days[3])
		assert.Equal(t, object{
			"status": "intact", "first_day": string(l.days[0]), "last_day": string(l.days[3]), "last_digest": last.Link(),
			"days": res.Get(t, "days"), "entries": res.Get(t, "entries"), "fault": nil, "locked_days": json.Number("0"), "next_date": nil,
			"signature": res.Get(t, "signature"),
		}, res.Object(t))
		assert.Equal(t, last.Message(), res.Get(t, "signature", "message"))
		assert.Equal(t, "audit digest "+l.A.OrgID+" "+string(l.days[3])+" "+last.Link(), last.Message())
		key, err := signature.ParsePEM([]byte(res.Get(t, "signature", "public_key").(string)))
		require.NoError(t, err)
		value, err := base64.StdEncoding.DecodeString(res.Get(t, "signature", "value").(string))
		require.NoError(t, err)
		signed := signature.Signature{KeyID: res.Get(t, "signature", "key_id").(string), Value: value}
		assert.True(t, key.Signed([]byte(last.Message()), signed))
		assert.Equal(t, "4 14", fmt.Sprint(res.Get(t, "days"), " ", res.Get(t, "entries")), "the workspace and its first key are entries as well")

		// The same message again, and one that was interrupted before it moved the
		// chain.
		l.digest(2)
		assert.Equal(t, last, l.digestOf(l.days[3]))
		c = l.chain()
		back := audit.Begin(l.A.OrgID, l.days[0].Begin()).Item.(audit.Chain)
		l.put(back)
		l.digest(1)
		assert.Equal(t, c, l.chain())
		assert.Equal(t, last, l.digestOf(l.days[3]))
		assert.Equal(t, "intact", l.verify("").String(t, "status"))
		assert.Equal(t, "2", fmt.Sprint(l.verify("?start_date="+string(l.days[1])+"&end_date="+string(l.days[2])).Get(t, "days")))
		assert.Equal(t, "0", fmt.Sprint(l.verify("?start_date=2030-01-01").Get(t, "days")))

		// Entries of today are not digested yet, and change nothing.
		l.Key(t, l.A)
		assert.Equal(t, "intact", l.verify("").String(t, "status"))
	})
}

func TestDayIsDigestedAfterItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env := localtest.Open(t, localtest.Options{Blob: &blobtest.Memory{}}, functions.Spec, functions.DigestSpec)
		l := &log{Env: env, t: t, days: []audit.Day{audit.DayOf(env.Clock.Now())}}
		for _, c := range []struct {
			at   time.Time
			next audit.Day
		}{
			{l.days[0].End().Add(-time.Second), l.days[0]},
			{l.days[0].End().Add(audit.Grace - time.Minute), l.days[0]},
			{l.days[0].End().Add(audit.Grace), l.days[0].Next()},
		} {
			env.Clock.Set(c.at)
			l.digest(1)
			assert.Equal(t, c.next, l.chain().Next, "%s", c.at)
		}
		assert.Equal(t, string(l.days[0]), l.verify("").String(t, "last_day"))
	})
}

const brokenExport = "the export of the day was changed or removed since it was digested"

func TestTamperingIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(l *log)
		day    int // the first that does not fit
		reason string
	}{
		"an entry changed": {func(l *log) {
			r := l.entries(l.days[1])[1]
			r.ActorEmail = "someone.else@a.test"
			l.put(r)
		}, 1, "entries were changed since they were digested"},
		"an entry hidden from a list": {func(l *log) {
			r := l.entries(l.days[1])[1]
			r.L1SK, r.L1PK = "", ""
			l.put(r)
		}, 1, "entries were changed since they were digested"},
		"an entry removed": {func(l *log) { l.remove(l.entries(l.days[2])[0].Key) }, 2, "2 entries are stored, 3 were digested"},
		"an entry added": {func(l *log) {
			r := audit.Record{OrgID: l.A.OrgID, Action: "delete", ResourceType: "secret", ResourceID: "S", ActorEmail: "framed@a.test"}
			r.SK = ids.New(l.days[1].Begin().Add(time.Hour))
			r.Place()
			l.put(r)
		}, 1, "4 entries are stored, 3 were digested"},
		"an entry replaced by another": {func(l *log) {
			r := l.entries(l.days[3])[0]
			l.remove(r.Key)
			r.SK = ids.New(l.days[3].Begin().Add(time.Hour))
			r.Place()
			l.put(r)
		}, 3, "entries were changed since they were digested"},
		"an entry removed and the day digested anew": {func(l *log) {
			l.remove(l.entries(l.days[2])[0].Key)
			old := l.digestOf(l.days[2])
			d, err := audit.NewDigest(l.t.Context(), l.Deps.Table, l.A.OrgID, l.days[2], old.MadeAt.Time())
			require.NoError(l.t, err)
			d.Previous, d.Signature = old.Previous, old.Signature
			l.put(d)
		}, 2, "the digest is not the one that was signed"},
		"a day digested anew by the service": {func(l *log) {
			l.remove(l.entries(l.days[1])[0].Key)
			l.remove(audit.DigestKey(l.A.OrgID, l.days[1]))
			back := audit.Begin(l.A.OrgID, l.days[0].Begin()).Item.(audit.Chain)
			l.put(back)
			l.Clock.Advance(time.Minute)
			l.digest(1)
		}, 1, brokenExport},
		"a day and its export digested anew by the service": {func(l *log) {
			l.remove(l.entries(l.days[1])[0].Key)
			l.remove(audit.DigestKey(l.A.OrgID, l.days[1]))
			require.NoError(l.t, l.Deps.Blob.Delete(l.t.Context(), audit.ExportKey(l.A.OrgID, l.days[1])))
			back := audit.Begin(l.A.OrgID, l.days[0].Begin()).Item.(audit.Chain)
			l.put(back)
			l.Clock.Advance(time.Minute)
			l.digest(1)
		}, 2, "the digest does not name that of the day before"},
		"an export removed": {func(l *log) {
			require.NoError(l.t, l.Deps.Blob.Delete(l.t.Context(), audit.ExportKey(l.A.OrgID, l.days[1])))
		}, 1, brokenExport},
		"an export replaced by that of another day": {func(l *log) {
			require.NoError(l.t, l.Deps.Blob.Copy(l.t.Context(), audit.ExportKey(l.A.OrgID, l.days[3]), audit.ExportKey(l.A.OrgID, l.days[2])))
		}, 2, brokenExport},
		"a digest replaced by that of another day": {func(l *log) {
			d := l.digestOf(l.days[2])
			d.Key = audit.DigestKey(l.A.OrgID, l.days[1])
			l.put(d)
		}, 1, "the stored digest is that of another day or workspace"},
		"a digest with the signature of another day": {func(l *log) {
			d := l.digestOf(l.days[1])
			d.Signature = l.digestOf(l.days[2]).Signature
			l.put(d)
		}, 1, "the digest is not the one that was signed"},
		"a digest signed with another key": {func(l *log) {
			private, err := signature.NewKey()
			require.NoError(l.t, err)
			forger, err := signature.NewLocal(private)
			require.NoError(l.t, err)
			d := l.digestOf(l.days[1])
			d.Signature, err = forger.Sign(l.t.Context(), []byte(d.Message()))
			require.NoError(l.t, err)
			l.put(d)
		}, 1, "the digest is not the one that was signed"},
		"a digest removed": {func(l *log) { l.remove(audit.DigestKey(l.A.OrgID, l.days[1])) }, 1, "no digest of the day is stored"},
		"the digest of yesterday removed, and an entry": {func(l *log) {
			l.remove(audit.DigestKey(l.A.OrgID, l.days[3]))
			l.Clock.Advance(48 * time.Hour)
		}, 3, "no digest of the day is stored"},
		"the beginning removed": {func(l *log) {
			l.remove(audit.DigestKey(l.A.OrgID, l.days[0]))
			chain := l.chain()
			chain.First = l.days[1]
			l.put(chain)
		}, 1, "the digest does not name that of the day before"},
		"the chain removed with the beginning": {func(l *log) {
			l.remove(audit.DigestKey(l.A.OrgID, l.days[0]))
			l.remove(audit.ChainKey(l.A.OrgID))
		}, 1, "the digest does not name that of the day before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := digested(t)
				l.digest(1)
				require.Equal(t, "intact", l.verify("").String(t, "status"))
				c.tamper(l)
				res := l.verify("")
				require.Equal(t, "broken", res.String(t, "status"), "%s", res.Body)
				assert.Equal(t, object{"day": string(l.days[c.day]), "reason": c.reason}, res.Get(t, "fault"))
				assert.Equal(t, "intact", l.Do(t, l.B.Key, "GET", "/audit-logs/verification?end_date=1999-01-01", nil).String(t, "status"))
			})
		})
	}
}

// TestWorkspaceOlderThanDigestsBeginsToday: verifying the log of a workspace
// without a chain begins one.
func TestWorkspaceOlderThanDigestsBeginsToday(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := digested(t)
		l.remove(audit.ChainKey(l.A.OrgID))
		res := l.verify("")
		assert.Equal(t, "intact", res.String(t, "status"))
		assert.Nil(t, res.Get(t, "last_day"))
		assert.Equal(t, audit.DayOf(l.Clock.Now()), l.chain().First)
		l.Clock.Advance(24 * time.Hour)
		l.digest(1)
		assert.Equal(t, "1", fmt.Sprint(l.verify("").Get(t, "days")))
	})
}

// TestVerificationGoesOnAfterItsTime: a request stops at the end of a day after
// a minute, and tells where to go on.
func TestVerificationGoesOnAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow slowTable
		env := localtest.Open(t, localtest.Options{Blob: &blobtest.Memory{}, Wrap: func(inner table.Table) table.Table {
			slow = slowTable{Table: inner}
			return &slow
		}}, functions.Spec, functions.DigestSpec)
		l := &log{Env: env, t: t, days: []audit.Day{audit.DayOf(env.Clock.Now())}}
		env.Clock.Set(l.days[0].End().Add(4 * 24 * time.Hour))
		l.digest(1)
		slow.clock = env.Clock
		res := l.verify("")
		slow.clock = nil
		assert.Equal(t, "intact", res.String(t, "status"))
		assert.Equal(t, "1", fmt.Sprint(res.Get(t, "days")))
		assert.Equal(t, string(l.days[0].Next()), res.String(t, "next_date"))
		res = l.verify("?start_date=" + res.String(t, "next_date"))
		assert.Equal(t, "3", fmt.Sprint(res.Get(t, "days")))
		assert.Nil(t, res.Get(t, "next_date"))
	})
}

// slowTable takes ten seconds of its clock for a query, if it has one.
type slowTable struct {
	table.Table
	clock *localtest.Clock
}

func (s *slowTable) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if s.clock != nil {
		s.clock.Advance(10 * time.Second)
	}
	return s.Table.Query(ctx, q)
}

func TestLinkCoversTheWholeDigest(t *testing.T) {
	t.Parallel()
	whole := audit.Digest{OrgID: "org_1", Day: "2026-03-04", Entries: 2, SHA256: "aa", Previous: "bb", MadeAt: 1772625600000}
	seen := map[string]bool{whole.Link(): true}
	for _, change := range []func(*audit.Digest){
		func(d *audit.Digest) { d.OrgID = "org_2" },
		func(d *audit.Digest) { d.Day = "2026-03-05" },
		func(d *audit.Digest) { d.Entries = 3 },
		func(d *audit.Digest) { d.SHA256, d.Previous = "a", "abb" },
		func(d *audit.Digest) { d.Previous = "" },
		func(d *audit.Digest) { d.MadeAt++ },
	} {
		other := whole
		change(&other)
		seen[other.Link()] = true
	}
	assert.Len(t, seen, 7)
}

func TestDaysOfAChain(t *testing.T) {
	t.Parallel()
	late := time.Date(2026, 2, 28, 23, 59, 59, 0, time.FixedZone("", -3600)) // the next day in UTC
	day := audit.DayOf(late)
	assert.Equal(t, audit.Day("2026-03-01"), day)
	assert.Equal(t, audit.Day("2026-02-28"), day.Previous())
	assert.Equal(t, audit.Day("2026-03-02"), day.Next())
	assert.False(t, day.Over(day.End().Add(audit.Grace-1)))
	assert.True(t, day.Over(day.End().Add(audit.Grace)))
	ctx := tenant.With(t.Context(), tenant.Principal{OrgID: "org_1"})
	put := audit.Begin(tenant.From(ctx).OrgID, late)
	assert.Equal(t, day.DueFor("org_1").UnixMilli(), int64(put.Item.(audit.Chain).DueAt))
}
