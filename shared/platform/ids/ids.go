// Package ids makes identifiers: sortable ULIDs, random tokens and readable
// run slugs.
package ids

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// New returns a ULID for the given time: 26 characters that sort by time. The
// order within a millisecond is random.
func New(at time.Time) string {
	return ulid.MustNew(ulid.Timestamp(at), rand.Reader).String()
}

// First returns the smallest ULID of a time, the lower bound of a time range.
func First(at time.Time) string {
	var id ulid.ULID
	ms := max(at.UnixMilli(), 0)
	_ = id.SetTime(min(uint64(ms), ulid.MaxTime()))
	return id.String()
}

// Time returns the time of a ULID. ok is false if s is not a ULID.
func Time(s string) (time.Time, bool) {
	id, err := ulid.ParseStrict(s)
	if err != nil {
		return time.Time{}, false
	}
	return ulid.Time(id.Time()).UTC(), true
}

// Token returns n random bytes in unpadded URL-safe base64.
func Token(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Slug returns a random readable name of three words and a number, e.g.
// "calm-amber-otter-4821".
func Slug() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return slug(binary.LittleEndian.Uint64(b[:]))
}

func slug(n uint64) string {
	pick := func(words []string) string {
		w := words[n%uint64(len(words))]
		n /= uint64(len(words))
		return w
	}
	return fmt.Sprintf("%s-%s-%s-%d", pick(moods), pick(colours), pick(animals), 1000+n%9000)
}

var moods = []string{"able", "brave", "brisk", "calm", "clear", "deft", "eager", "fair", "fleet", "fond", "gentle", "glad", "keen", "kind", "light", "lively", "mellow", "merry", "neat", "nimble", "patient", "plain", "proud", "quick", "quiet", "ready", "sharp", "sound", "steady", "still", "sturdy", "swift"}

var colours = []string{"amber", "azure", "beige", "black", "blue", "bronze", "brown", "coral", "crimson", "cyan", "gold", "green", "grey", "indigo", "ivory", "jade", "khaki", "lilac", "lime", "maroon", "navy", "ochre", "olive", "orange", "pink", "plum", "red", "rose", "ruby", "silver", "teal", "white"}

var animals = []string{"ant", "badger", "bear", "beaver", "bee", "bison", "crane", "crow", "deer", "dove", "eagle", "elk", "falcon", "ferret", "finch", "fox", "frog", "goose", "hare", "hawk", "heron", "horse", "ibex", "jay", "koala", "lark", "lynx", "mole", "moose", "otter", "owl", "panda", "pike", "quail", "raven", "robin", "seal", "shrew", "snipe", "stoat", "stork", "swan", "tern", "toad", "trout", "vole", "wasp", "weasel", "whale", "wolf", "wren", "yak", "zebra"}
