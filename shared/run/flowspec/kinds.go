package flowspec

import (
	"maps"
	"slices"
)

// Kind is a type of task, as far as a flow's validation and defaults need to
// know it.
type Kind struct {
	Name               string
	NeedsEntrypoint    bool            // the task names a function; other types refuse one
	DefaultTimeoutSecs int             // of a task that sets no timeout_secs
	MaxTimeoutSecs     int             // the most that timeout_secs may be
	NeedsConfig        bool            // config may not be left out
	Secrets            bool            // config may refer to secrets
	Expressions        []string        // fields of config that are expressions as a whole, without ${{ }}
	CheckConfig        func(c *Object) // reports what is wrong with config; nil allows anything
}

// Kinds are the known types of tasks, by name.
type Kinds map[string]Kind

// Names lists the kinds, sorted.
func (k Kinds) Names() []string { return slices.Sorted(maps.Keys(k)) }
