// Package tier defines the runtime tiers: the sizes of tasks, named by the
// API's execution_mode.
package tier

import (
	"slices"
	"strings"

	"millrace/shared/platform/errs"
)

// Tier is a runtime size.
type Tier string

// The tiers, smallest first.
const (
	Nano   Tier = "nano"
	Micro  Tier = "micro"
	Small  Tier = "small"
	Medium Tier = "medium"
	Large  Tier = "large"
	XLarge Tier = "xlarge"
)

// Default is the tier of a flow or deployment without one.
const Default = Nano

var all = []Tier{Nano, Micro, Small, Medium, Large, XLarge}

// All returns the tiers, smallest first.
func All() []Tier { return slices.Clone(all) }

// Parse returns the tier with that name; the empty name is [Default]. Errors:
// errs.Invalid for an unsupported one.
func Parse(name string) (Tier, error) {
	if name == "" {
		return Default, nil
	}
	if t := Tier(name); slices.Contains(all, t) {
		return t, nil
	}
	return "", errs.New(errs.Invalid, "Unsupported runtime: execution_mode %q is not one of %s", cut(name), Names())
}

// MemoryMB returns the memory of one task in MB: 256 for nano, doubled from
// tier to tier; 0 for an invalid tier.
func (t Tier) MemoryMB() int {
	i := slices.Index(all, t)
	if i < 0 {
		return 0
	}
	return 256 << i
}

// Next returns the next larger tier, "" if there is none.
func (t Tier) Next() Tier {
	if i := slices.Index(all, t); i >= 0 && i+1 < len(all) {
		return all[i+1]
	}
	return ""
}

// Names returns the names for messages: "nano, micro, …".
func Names() string { return names(all) }

func names(list []Tier) string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return strings.Join(out, ", ")
}

// cut shortens a caller's value for messages.
func cut(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
