// Package due provides timed work: any domain can have an item come due.
//
// A domain declares a [Kind], embeds an [Entry] in its record and names the
// kind in the trigger of the function that handles due items (fn.Trigger.Due).
// The scheduler's tick reads the due entries and sends each to the kind's
// queue, as a message with only the item's key and due time. The function
// handles it as a [Task] (see fn.Deps.Due and [Handler]) and moves or ends the
// entry by [Move] or [End], on the condition that the item is still due at that
// time. A duplicate message therefore takes effect once, and a lost one is
// repeated: an entry that was handed out is postponed, not removed, and comes
// up again unless it was moved or ended.
//
// Keys: the entries of a kind are in [Shards] partitions of the due index,
// due#<kind>#<shard>, sorted by the time when they come up. The sort key is
// that time followed by the time when the entry is due; the two differ once it
// was handed out. The live runs of the engine are in the partitions due#<shard>
// of package runstate.
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

// Shards is the number of partitions of a kind in the due index.
const Shards = 16

// Attributes of an Entry used in updates and conditions.
const (
	attrPK = "due_pk"
	attrSK = "due_sk"
	attrAt = "due_at"
)

// Kind is a kind of entries, handled by one function.
type Kind struct {
	Name string // "schedule": letters, digits and dashes, see Check
	// TakesNow means that a tick with its own time, as on the embedded server,
	// sets the time of this kind's tasks. It is for schedules and polls, not for
	// deadlines.
	TakesNow bool
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Check returns an error if the kind's name cannot be part of keys and of the
// queue's name.
func (k Kind) Check() error {
	if !kindName.MatchString(k.Name) {
		return fmt.Errorf("due: invalid kind name %q: up to 40 lower-case letters, digits and dashes, beginning with a letter", k.Name)
	}
	return nil
}

// Queue returns the name of the queue for entries of the kind.
func (k Kind) Queue() string { return "due-" + k.Name }

// Partition returns a shard of the kind's entries, 0 to Shards-1.
func (k Kind) Partition(shard int) string { return "due#" + k.Name + "#" + strconv.Itoa(shard) }

// Entry is an item's due time and its key in the due index. A record embeds it.
// The zero Entry is not due.
type Entry struct {
	table.DueEntry
	DueAt clock.Millis `table:"due_at,omitempty"`
}

// Entry returns the entry of an item that is due at a time; the zero time gives
// the zero Entry. It panics if the key does not begin with a workspace, which
// is a programming error: tasks run on behalf of a workspace.
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

// Set returns the actions that replace an item's entry, for example when a user
// changes its due time. For the zero Entry they remove it.
func (e Entry) Set() []table.Action {
	if e == (Entry{}) {
		return []table.Action{table.Remove(attrPK), table.Remove(attrSK), table.Remove(attrAt)}
	}
	return []table.Action{table.Set(attrPK, e.DuePK), table.Set(attrSK, e.DueSK), table.Set(attrAt, e.DueAt)}
}

// Org returns the workspace that an item's key begins with.
func Org(key table.Key) string {
	org, _, _ := strings.Cut(key.PK, "#")
	return org
}

func shard(key table.Key) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.PK + "\x00" + key.SK))
	sum := h.Sum32()
	return int((sum>>16 ^ sum) % Shards) // folded: the lowest bits alone depend on little
}

// lastStamp is the largest time of 13 digits, in the year 2286.
const lastStamp = 9_999_999_999_999

// stamp formats a time so that strings sort by time.
func stamp(t time.Time) string {
	return fmt.Sprintf("%013d", min(max(t.UnixMilli(), 0), lastStamp))
}

// sortKey returns the sort key of an entry that comes up at one time and is due
// at another.
func sortKey(up, at time.Time) string { return stamp(up) + "#" + stamp(at) }

// Up returns the time when the entry with that sort key comes up. ok is false
// if the key has none. It also accepts entries of runs.
func Up(sk string) (time.Time, bool) {
	ms, _, _ := strings.Cut(sk, "#")
	return parseStamp(ms)
}

// At returns the time when the entry with that sort key is due. ok is false if
// the key has none.
func At(sk string) (time.Time, bool) {
	_, ms, _ := strings.Cut(sk, "#")
	return parseStamp(ms)
}

func parseStamp(text string) (time.Time, bool) {
	ms, err := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(ms).UTC(), err == nil && len(text) == len(stamp(time.Time{}))
}

// Until returns the range of the entries of a partition that have come up at
// now. It also applies to runs.
func Until(now time.Time) table.Range { return table.Before(stamp(now.Add(time.Millisecond))) }

// Postponed returns the sort key of an entry that was handed out and comes up
// again at a time unless it is moved, but not before it is due.
func Postponed(sk string, again time.Time) (string, bool) {
	at, ok := At(sk)
	if again.Before(at) {
		again = at
	}
	return sortKey(again, at), ok
}
