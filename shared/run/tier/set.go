package tier

import (
	"fmt"
	"slices"
	"strings"

	"millrace/shared/platform/errs"
)

// Set is the tiers that a deployment has, smallest first. nil means all of them.
// Every other set contains [Default].
type Set []Tier

// ParseSet reads names separated by commas, in any order. The empty text is the
// set of all tiers. An error names what is wrong in words for an operator.
func ParseSet(text string) (Set, error) {
	if text == "" {
		return nil, nil
	}
	var given Set
	for name := range strings.SplitSeq(text, ",") {
		t := Tier(strings.TrimSpace(name))
		switch {
		case !slices.Contains(all, t):
			return nil, fmt.Errorf("%q is not one of %s", cut(string(t)), Names())
		case slices.Contains(given, t):
			return nil, fmt.Errorf("%s is there twice", t)
		}
		given = append(given, t)
	}
	if !slices.Contains(given, Default) {
		return nil, fmt.Errorf("%s is missing, the tier of flows without one", Default)
	}
	slices.SortFunc(given, func(a, b Tier) int { return a.MemoryMB() - b.MemoryMB() })
	return given, nil
}

// All returns the tiers of the set, smallest first.
func (s Set) All() []Tier {
	if s == nil {
		return All()
	}
	return slices.Clone(s)
}

// Has reports whether the set has a tier.
func (s Set) Has(t Tier) bool { return slices.Contains(s.All(), t) }

// Names returns the names for messages: "nano, micro, …".
func (s Set) Names() string { return names(s.All()) }

// Parse returns the tier with that name; the empty name is [Default]. Errors:
// errs.Invalid for one that there is not, or that the deployment does not have.
func (s Set) Parse(name string) (Tier, error) {
	t, err := Parse(name)
	if err == nil && !s.Has(t) {
		err = errs.New(errs.Invalid, "Unsupported runtime: execution_mode %s", s.Lacks(t))
	}
	if err != nil {
		return "", err
	}
	return t, nil
}

// Lacks says that the deployment does not have a tier, and which it has.
func (s Set) Lacks(t Tier) string {
	return fmt.Sprintf("%s is not available in this deployment, which has %s", t, s.Names())
}

// Nearest returns the tier itself if the set has it, else [Default].
func (s Set) Nearest(t Tier) Tier {
	if s.Has(t) {
		return t
	}
	return Default
}

// String returns the names as ParseSet reads them; "" for all tiers.
func (s Set) String() string { return strings.ReplaceAll(names(s), ", ", ",") }
