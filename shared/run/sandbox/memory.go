package sandbox

import "fmt"

// Memory is a tier with its memory in bytes.
type Memory struct {
	Tier  string
	Bytes int64
}

// OutOfMemory is the message for a task that used more memory than its tier has.
// used is in bytes, 0 where it is not known; next is the next larger tier, the zero
// Memory if there is none.
func OutOfMemory(used int64, has, next Memory) string {
	amount := "all"
	if used > 0 {
		amount = Megabytes(used) + " MB"
	}
	text := fmt.Sprintf("the task used %s of %s's %s MB of memory; ", amount, has.Tier, Megabytes(has.Bytes))
	if next.Tier == "" {
		return text + "there is no larger tier"
	}
	return text + fmt.Sprintf("the next larger tier is execution_mode %s with %s MB", next.Tier, Megabytes(next.Bytes))
}

// Megabytes formats bytes as MB, with thousands separators.
func Megabytes(bytes int64) string {
	text := fmt.Sprint(bytes >> 20)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
