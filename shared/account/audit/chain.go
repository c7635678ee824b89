package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"io"
	"strconv"
	"time"

	"millrace/shared/kit/due"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/signature"
	"millrace/shared/platform/table"
)

// A workspace's entries of a UTC day are digested after the day is over. The
// digest is stored once, sealed by the vault, and names that of the day before,
// so that a change of stored entries or digests can be found later.

// Grace is how long after its end a day may be digested, at the earliest: by
// then the transactions of its last entries have ended.
const Grace = 30 * time.Minute

// spread is the time over which the digests of all workspaces are made.
const spread = time.Hour

// Digesting is the timed work of digesting a workspace's days. Its item is the
// workspace's [Chain].
var Digesting = due.Kind{Name: "audit-digest"}

// Chain is how far the days of a workspace are digested.
type Chain struct {
	table.Key
	due.Entry
	First Day `table:"first_day"`          // the first one that is digested
	Next  Day `table:"next_day"`           // the next one to be digested
	Kept  Day `table:"kept_day,omitempty"` // the first one whose entries are in the table; empty: First
}

// Attributes of a Chain and of a Digest in updates.
const (
	AttrNext    = "next_day"
	AttrKept    = "kept_day"
	AttrExport  = "export"
	AttrExpired = "expired"
)

// ChainKey returns the key of a workspace's Chain.
func ChainKey(org string) table.Key { return table.Key{PK: org + "#audit-chain", SK: "chain"} }

// Begin returns the write that begins the chain of a workspace with the current
// day. It belongs in the transaction that creates the workspace.
func Begin(org string, now time.Time) table.Put {
	key, day := ChainKey(org), DayOf(now)
	return table.Put{If: table.IsNew(), Item: Chain{
		Key: key, Entry: Digesting.Entry(key, day.DueFor(org)), First: day, Next: day,
	}}
}

// Day is a UTC day, as "2006-01-02".
type Day string

// DayOf returns the day of a time.
func DayOf(t time.Time) Day { return Day(t.UTC().Format(time.DateOnly)) }

// Begin returns when the day begins, the zero time for an invalid day.
func (d Day) Begin() time.Time {
	t, _ := time.Parse(time.DateOnly, string(d))
	return t
}

// End returns when the next day begins.
func (d Day) End() time.Time { return d.Begin().AddDate(0, 0, 1) }

// Next returns the next day.
func (d Day) Next() Day { return DayOf(d.End()) }

// Previous returns the day before.
func (d Day) Previous() Day { return DayOf(d.Begin().AddDate(0, 0, -1)) }

// Over reports whether the day may be digested.
func (d Day) Over(now time.Time) bool { return !now.Before(d.End().Add(Grace)) }

// DueFor returns when a workspace's digest of the day is due.
func (d Day) DueFor(org string) time.Time {
	h := fnv.New32a()
	_, _ = h.Write([]byte(org))
	return d.End().Add(Grace + time.Duration(h.Sum32())*time.Second%spread)
}

// Digest is the signed digest of the entries of one day.
type Digest struct {
	table.Key
	OrgID    string       `table:"org_id"`
	Day      Day          `table:"day"`
	Entries  int          `table:"entries"`
	SHA256   string       `table:"sha256"`             // of the entries, in hex
	Previous string       `table:"previous,omitempty"` // Link of the digest of the day before; empty: the first
	MadeAt   clock.Millis `table:"made_at"`

	Signature signature.Signature `table:"signature"` // of Message

	// Neither is signed: what they tell is verified by the export's content.
	Export  string       `table:"export,omitempty"`  // object key; empty: not exported yet
	Expired clock.Millis `table:"expired,omitempty"` // when the day's entries began to leave the table
}

// DigestPartition returns the partition of a workspace's digests; the sort key
// is the day.
func DigestPartition(org string) string { return org + "#audit-digests" }

// DigestKey returns the key of the digest of a day.
func DigestKey(org string, day Day) table.Key {
	return table.Key{PK: DigestPartition(org), SK: string(day)}
}

// NewDigest digests the stored entries of a day. Previous and Signature are left to
// the caller.
func NewDigest(ctx context.Context, t table.Table, org string, day Day, now time.Time) (Digest, error) {
	d := Digest{Key: DigestKey(org, day), OrgID: org, Day: day, MadeAt: clock.ToMillis(now)}
	var err error
	d.Entries, d.SHA256, err = write(ctx, t, org, day, io.Discard)
	return d, err
}

// Link returns what the signature, and the digest of the next day, tell of this
// one.
func (d *Digest) Link() string {
	sum := sha256.Sum256(line("millrace audit digest", d.OrgID, string(d.Day), strconv.Itoa(d.Entries), d.SHA256, d.Previous, d.MadeAt.String()))
	return hex.EncodeToString(sum[:])
}

// Message returns what is signed: a text that names workspace, day and Link.
func (d *Digest) Message() string {
	return "audit digest " + d.OrgID + " " + string(d.Day) + " " + d.Link()
}

// canonical returns everything stored of an entry, its keys included, as one
// line.
func (r *Record) canonical() []byte {
	return line(r.PK, r.SK, r.L1PK, r.L1SK, r.L2PK, r.L2SK, r.L3PK, r.L3SK, r.L4PK, r.L4SK,
		r.OrgID, r.Action, r.ResourceType, r.ResourceID, r.ActorEmail, r.KeyID, r.IP, r.RequestID, r.Before, r.After, r.Metadata)
}

// line returns texts as a JSON array and a line feed: different texts give
// different lines.
func line(texts ...string) []byte {
	data, _ := json.Marshal(texts) // always encodable
	return append(data, '\n')
}
