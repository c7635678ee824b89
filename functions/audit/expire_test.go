package audit_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/ids"
)

// expired is a log that keeps entries for 90 days, of whose four days the first
// two have expired.
func expired(t *testing.T) *log {
	t.Helper()
	l := digested(t, localtest.Options{Limits: []string{"audit-retention-days=90"}})
	l.digest(1)
	l.Clock.Set(l.days[1].End().AddDate(0, 0, 90).Add(audit.Grace))
	for range 3 { // a message digests 60 days at most
		l.digest(1)
	}
	return l
}

func TestExportIsWhatWasDigested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := digested(t)
		l.digest(1)
		for _, day := range l.days {
			packed, _, err := blob.GetBytes(t.Context(), l.Deps.Blob, audit.ExportKey(l.A.OrgID, day), 1<<20)
			require.NoError(t, err)
			r, err := gzip.NewReader(bytes.NewReader(packed))
			require.NoError(t, err)
			data, err := io.ReadAll(r)
			require.NoError(t, err)
			sum := sha256.Sum256(data)
			assert.Equal(t, l.digestOf(day).SHA256, hex.EncodeToString(sum[:]))
			assert.Equal(t, l.digestOf(day).Entries, bytes.Count(data, []byte("\n")))
		}
	})
}

func TestEntriesOfExportedDaysExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := expired(t)
		shown := func() (days []string) {
			for _, item := range l.Do(t, l.A.Key, "GET", "/audit-logs?limit=1000&action=create&resource_type=api_key", nil).Require(t, 200).Items(t) {
				days = append(days, item.(object)["event_time"].(string)[:10])
			}
			return days
		}
		two, three := string(l.days[2]), string(l.days[3])
		assert.Equal(t, []string{three, three, three, two, two, two}, shown(), "expired entries are not shown, removed or not")
		verified := l.verify("")
		require.Equal(t, "intact", verified.String(t, "status"), "%s", verified.Body)
		assert.Equal(t, string(l.days[0]), verified.String(t, "first_day"))

		some := l.entries(l.days[0])[1]
		l.remove(some.Key) // TTL removes entries in any order
		assert.Equal(t, "intact", l.verify("").String(t, "status"))
		l.Clock.Advance(2 * time.Second)
		n, err := l.Deps.Table.(*pebbletable.Table).Sweep(t.Context())
		require.NoError(t, err)
		assert.Positive(t, n)
		assert.Empty(t, l.entries(l.days[0]))
		assert.Empty(t, l.entries(l.days[1]))
		after := l.verify("")
		assert.Equal(t, verified.Object(t), after.Object(t), "the same digests and entries, of which most are only in the export")
		l.digest(2)
		assert.Equal(t, "intact", l.verify("").String(t, "status"))
	})
}

func TestEntriesWithoutExportDoNotExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, spoil := range map[string]func(l *log) error{
			"removed": func(l *log) error { return l.Deps.Blob.Delete(t.Context(), audit.ExportKey(l.A.OrgID, l.days[0])) },
			"changed": func(l *log) error {
				_, err := blob.PutBytes(t.Context(), l.Deps.Blob, audit.ExportKey(l.A.OrgID, l.days[0]), []byte("x"), blob.PutOptions{})
				return err
			},
		} {
			l := digested(t, localtest.Options{Limits: []string{"audit-retention-days=90"}, Log: slog.New(slog.DiscardHandler)})
			l.digest(1)
			require.NoError(t, spoil(l), name)
			l.Clock.Set(l.days[3].End().AddDate(0, 0, 100))
			for range 3 {
				l.digest(1)
			}
			l.Clock.Advance(2 * time.Second)
			_, err := l.Deps.Table.(*pebbletable.Table).Sweep(t.Context())
			require.NoError(t, err)
			for _, day := range l.days {
				assert.NotEmpty(t, l.entries(day), "%s %s", name, day)
			}
		}
	})
}

func TestOlderDigestsAreExportedBeforeTheyExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := digested(t, localtest.Options{Limits: []string{"audit-retention-days=90"}})
		l.digest(1)
		for _, day := range l.days { // as stored by a version that did not export
			d := l.digestOf(day)
			d.Export = ""
			l.put(d)
			require.NoError(t, l.Deps.Blob.Delete(t.Context(), audit.ExportKey(l.A.OrgID, day)))
		}
		require.Equal(t, "intact", l.verify("").String(t, "status"))
		l.Clock.Set(l.days[3].End().AddDate(0, 0, 91))
		for range 3 {
			l.digest(1)
		}
		assert.NotZero(t, l.digestOf(l.days[3]).Expired)
		l.Clock.Advance(2 * time.Second)
		_, err := l.Deps.Table.(*pebbletable.Table).Sweep(t.Context())
		require.NoError(t, err)
		assert.Empty(t, l.entries(l.days[0]))
		assert.Equal(t, "intact", l.verify("").String(t, "status"))
	})
}

func TestTamperingWithExpiredDaysIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(l *log)
		day    int
		reason string
	}{
		"the export removed": {func(l *log) {
			require.NoError(l.t, l.Deps.Blob.Delete(l.t.Context(), audit.ExportKey(l.A.OrgID, l.days[0])))
		}, 0, brokenExport},
		"the export cut short": {func(l *log) {
			key := audit.ExportKey(l.A.OrgID, l.days[1])
			data, _, err := blob.GetBytes(l.t.Context(), l.Deps.Blob, key, 1<<20)
			require.NoError(l.t, err)
			_, err = blob.PutBytes(l.t.Context(), l.Deps.Blob, key, data[:len(data)-12], blob.PutOptions{})
			require.NoError(l.t, err)
		}, 1, brokenExport},
		"an entry that is left changed": {func(l *log) {
			r := l.entries(l.days[1])[0]
			r.Action = "delete"
			l.put(r)
		}, 1, "1 entries are stored that were not digested"},
		"an entry added": {func(l *log) {
			r := audit.Record{OrgID: l.A.OrgID, Action: "delete", ResourceType: "secret", ResourceID: "S", ActorEmail: "framed@a.test"}
			r.SK = ids.New(l.days[1].Begin().Add(time.Hour))
			r.Place()
			l.put(r)
		}, 1, "1 entries are stored that were not digested"},
		"the mark of a day that expired removed": {func(l *log) {
			d := l.digestOf(l.days[0])
			d.Expired = 0
			l.put(d)
			l.remove(l.entries(l.days[0])[0].Key)
		}, 0, "4 entries are stored, 5 were digested"},
		"a day marked that has not expired, and an entry changed": {func(l *log) {
			d := l.digestOf(l.days[3])
			d.Expired = 1
			l.put(d)
			r := l.entries(l.days[3])[0]
			r.Action = "delete"
			l.put(r)
		}, 3, "1 entries are stored that were not digested"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := expired(t)
				require.Equal(t, "intact", l.verify("").String(t, "status"))
				c.tamper(l)
				res := l.verify("")
				require.Equal(t, "broken", res.String(t, "status"), "%s", res.Body)
				assert.Equal(t, object{"day": string(l.days[c.day]), "reason": c.reason}, res.Get(t, "fault"))
			})
		})
	}
}
