// Package due is timed work: any domain can have an item come due.
//
// A domain declares a [Kind], embeds an [Entry] in its record and names the kind
// in the trigger of the function that takes what is due (fn.Trigger.Due). The
// scheduler's tick reads the entries that are due and hands each to the kind's
// queue, as a message that says which item is due and since when, and nothing
// else of it. The function handles it as a [Task] (see fn.Deps.Due and [Handler])
// and moves or ends the entry by [Move] or [End], on the condition that the item
// is still due as it was handed out. So a message that comes twice acts once, and
// one that is lost is made up for: an entry that was handed out is postponed, not
// removed, and comes up again unless it was moved or ended.
//
// Keys: entries of a kind stand in the due index in [Shards] partitions of their
// own, due#<kind>#<shard>, in the order of when they come up. The sort key is that
// time and the time that the entry is due at, which differ once it was handed out.
// The live runs of the engine are due too, in partitions due#<shard> of package
// runstate.
package due

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Shards is how many partitions of the due index a kind has.
const Shards = 16

// The attributes of an Entry that updates and conditions name.
const (
	attrPK = "due_pk"
	attrSK = "due_sk"
	attrAt = "due_at"
)

// Kind is a kind of entries, taken by one function.
type Kind struct {
	Name string // "schedule": letters, digits and dashes, see Check
	// TakesNow: a tick that brings its own time, as the embedded server's may, sets
	// the clock of this kind. It is for schedules and polls, not for deadlines.
	TakesNow bool
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Check returns an error if the kind's name cannot be part of keys and of the
// queue's name.
func (k Kind) Check() error {
	if !kindName.MatchString(k.Name) {
		return fmt.Errorf("due: %q is no name of a kind: lower-case letters, digits and dashes, a letter first, up to 40", k.Name)
	}
	return nil
}

// Queue is the name of the queue that entries of the kind are handed to.
func (k Kind) Queue() string { return "due-" + k.Name }

// Partition is one shard of the kind's entries, 0 to Shards-1.
func (k Kind) Partition(shard int) string { return "due#" + k.Name + "#" + strconv.Itoa(shard) }

// Entry is when an item is due and its place in the due index. A record embeds
// it; of one that is not due it is the zero Entry.
type Entry struct {
	table.DueEntry
	DueAt clock.Millis `table:"due_at,omitempty"`
}

// Entry has the item of a key come due at a time; the zero time gives the zero
// Entry. It panics if the key does not begin with a workspace, which is a mistake
// of the program: tasks are handed out in the name of a workspace.
func (k Kind) Entry(key table.Key, at time.Time) Entry {
	if Org(key) == "" {
		panic(fmt.Sprintf("due: an item of no workspace is to come due: %q", key))
	}
	if at.IsZero() {
		return Entry{}
	}
	ms := min(max(at.UnixMilli(), 1), lastStamp)
	at = time.UnixMilli(ms)
	return Entry{
		DueEntry: table.DueEntry{DuePK: k.Partition(shard(key)), DueSK: sortKey(at, at)},
		DueAt:    clock.Millis(ms),
	}
}

// Set returns the actions that put an item's entry in the place of the one it has:
// what an update does when a user changes when the item is due. For the zero Entry
// they remove it.
func (e Entry) Set() []table.Action {
	if e == (Entry{}) {
		return []table.Action{table.Remove(attrPK), table.Remove(attrSK), table.Remove(attrAt)}
	}
	return []table.Action{table.Set(attrPK, e.DuePK), table.Set(attrSK, e.DueSK), table.Set(attrAt, e.DueAt)}
}

// Org is the workspace that the key of an item begins with.
func Org(key table.Key) string {
	org, _, _ := strings.Cut(key.PK, "#")
	return org
}

func shard(key table.Key) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.PK + "\x00" + key.SK))
	sum := h.Sum32()
	return int((sum>>16 ^ sum) % Shards) // folded: its last bits alone depend on little
}

// lastStamp is the largest time of 13 digits, in the year 2286.
const lastStamp = 9_999_999_999_999

// stamp writes a time in the order of sort keys.
func stamp(t time.Time) string {
	return fmt.Sprintf("%013d", min(max(t.UnixMilli(), 0), lastStamp))
}

// sortKey is that of an entry that comes up at one time and is due at another.
func sortKey(up, at time.Time) string { return stamp(up) + "#" + stamp(at) }

// Up is when the entry with that sort key comes up, false if it says none. It
// reads runs' entries as well.
func Up(sk string) (time.Time, bool) {
	ms, _, _ := strings.Cut(sk, "#")
	return parseStamp(ms)
}

// At is when the entry with that sort key is due, false if it says none.
func At(sk string) (time.Time, bool) {
	_, ms, _ := strings.Cut(sk, "#")
	return parseStamp(ms)
}

func parseStamp(text string) (time.Time, bool) {
	ms, err := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(ms).UTC(), err == nil && len(text) == len(stamp(time.Time{}))
}

// Until bounds the entries of a partition, runs' too, that have come up at now.
func Until(now time.Time) table.Range { return table.Before(stamp(now.Add(time.Millisecond))) }

// Postponed is the sort key of an entry that was handed out and comes up again at
// a time if nobody moves it, though not before it is due.
func Postponed(sk string, again time.Time) (string, bool) {
	at, ok := At(sk)
	if again.Before(at) {
		again = at
	}
	return sortKey(again, at), ok
}
