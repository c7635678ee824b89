package slots

import (
	"strconv"
	"strings"
	"time"
)

// Slot is a slot and its holder. The zero Slot is none.
type Slot struct {
	Number int
	Run    string // of the holder
	since  string // the rest of the holder: the node for which it was taken, and when
}

// None reports whether it is no slot.
func (s Slot) None() bool { return s.Run == "" }

// String returns the form in which an item notes the slot that it holds; "" for
// none.
func (s Slot) String() string {
	if s.None() {
		return ""
	}
	return strconv.Itoa(s.Number) + "/" + s.holder()
}

// holder is the value of the slot's attribute.
func (s Slot) holder() string { return s.Run + "/" + s.since }

// Since returns when the slot was taken or passed on.
func (s Slot) Since() time.Time {
	ms, _ := strconv.ParseInt(s.since[strings.LastIndexByte(s.since, '/')+1:], 10, 64)
	return time.UnixMilli(ms)
}

// Parse returns the slot of a [Slot.String], none if it is malformed.
func Parse(text string) Slot {
	number, holder, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		return Slot{}
	}
	return parse(n, holder)
}

func parse(number int, holder string) Slot {
	run, since, ok := strings.Cut(holder, "/")
	if !ok {
		return Slot{}
	}
	return Slot{Number: number, Run: run, since: since}
}
