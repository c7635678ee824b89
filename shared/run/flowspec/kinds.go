package flowspec

import (
	"maps"
	"slices"

	"millrace/shared/run/tier"
)

// Kind describes a type of task for validation and defaults.
type Kind struct {
	Name               string
	NeedsEntrypoint    bool            // the task has a function; other types must not have one
	DefaultTimeoutSecs int             // of a task without timeout_secs
	MaxTimeoutSecs     int             // the largest timeout_secs
	NeedsConfig        bool            // config is required
	Secrets            bool            // config may refer to secrets
	Expressions        []string        // fields of config that consist of one expression, without ${{ }}
	CheckConfig        func(c *Object) // reports errors in config; nil accepts anything
	Tiers              tier.Set        // the runtime tiers that such a task may have
}

// Kinds are the known types of tasks, by name.
type Kinds map[string]Kind

// Names returns the names of the kinds, sorted.
func (k Kinds) Names() []string { return slices.Sorted(maps.Keys(k)) }
