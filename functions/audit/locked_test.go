package audit_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	functions "millrace/functions/audit"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/table"
)

// locked is a digested log of one day with a store of locked copies.
func locked(t *testing.T) (*log, blob.Store) {
	t.Helper()
	store := &blobtest.Memory{}
	l := &log{Env: localtest.Open(t, localtest.Options{Locked: store, Blob: &blobtest.Memory{}}, functions.Spec, functions.DigestSpec), t: t}
	l.days = []audit.Day{audit.DayOf(l.Clock.Now())}
	for range 3 {
		l.Key(t, l.A, "flows.read")
	}
	l.Clock.Set(l.days[0].End().Add(12 * time.Hour))
	l.digest(1)
	return l, store
}

func TestDigestedDaysAreLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, store := locked(t)
		body, _, err := store.Get(t.Context(), audit.LockedKey(l.A.OrgID, l.days[0]), nil)
		require.NoError(t, err)
		r, err := gzip.NewReader(body)
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		head, entries, _ := strings.Cut(string(text), "\n")
		d := l.digestOf(l.days[0])
		sum := sha256.Sum256([]byte(entries))
		assert.Equal(t, d.SHA256, hex.EncodeToString(sum[:]), "the entries, as they were digested")
		assert.Contains(t, head, d.SHA256)
		assert.Equal(t, d.Entries, strings.Count(entries, "\n"))
		copied, err := audit.Locked(t.Context(), store, l.A.OrgID, l.days[0])
		require.NoError(t, err)
		assert.Equal(t, d.Link(), copied.Link())
		assert.Equal(t, d.Signature, copied.Signature)

		res := l.verify("")
		assert.Equal(t, "intact", res.String(t, "status"), "%s", res.Body)
		assert.Equal(t, res.Get(t, "days"), res.Get(t, "locked_days"))
	})
}

// TestCopyIsStoredOnceAndLater: an attempt that ends between digest and copy is
// made up for, with the digest that is stored; a copy is never replaced.
func TestCopyIsStoredOnceAndLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, store := locked(t)
		key := audit.LockedKey(l.A.OrgID, l.days[0])
		d := l.digestOf(l.days[0])
		again := func() {
			c := l.chain()
			_, err := l.Deps.Table.Update(t.Context(), table.Update{Key: c.Key, Do: []table.Action{table.Set(audit.AttrNext, string(l.days[0]))}})
			require.NoError(t, err)
			l.Clock.Advance(time.Second)
			l.digest(1)
		}
		require.NoError(t, store.Delete(t.Context(), key))
		again()
		copied, err := audit.Locked(t.Context(), store, l.A.OrgID, l.days[0])
		require.NoError(t, err)
		assert.Equal(t, d.Link(), copied.Link())
		before, err := store.Head(t.Context(), key)
		require.NoError(t, err)

		forged := d
		forged.Entries++
		l.put(forged)
		again()
		after, err := store.Head(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, before, after)
	})
}

// TestSignedForgeryDiffersFromCopy: who can write the table and sign digests can
// deceive the chain, but not the copy.
func TestSignedForgeryDiffersFromCopy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		tamper func(l *log)
		want   string
	}{
		{"digested anew", func(l *log) {
			records := l.entries(l.days[0])
			l.remove(table.Key{PK: records[0].PK, SK: records[0].SK})
			d, err := audit.NewDigest(l.t.Context(), l.Deps.Table, l.A.OrgID, l.days[0], l.Clock.Now())
			require.NoError(l.t, err)
			d.Signature, err = l.Deps.Signer.Sign(l.t.Context(), []byte(d.Message()))
			require.NoError(l.t, err)
			l.put(d)
		}, "the digest is not that of the locked copy"},
		{"removed", func(l *log) { l.remove(audit.DigestKey(l.A.OrgID, l.days[0])) }, "no digest of the day is stored, but a locked copy of it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, _ := locked(t)
				c.tamper(l)
				res := l.verify("")
				assert.Equal(t, "broken", res.String(t, "status"), "%s", res.Body)
				assert.Equal(t, c.want, res.String(t, "fault", "reason"))
			})
		})
	}
}
