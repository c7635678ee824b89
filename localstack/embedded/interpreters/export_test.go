//go:build unix

package interpreters

import "time"

// Only restricts a pool to one mode.
func Only(name string) func(*Config) { return func(c *Config) { c.only = name } }

// SetImporting sets the timeout for importing a module.
func SetImporting(c *Config, d time.Duration) { c.importing = d }

// SetFetching sets the timeout for fetching inputs.
func SetFetching(c *Config, d time.Duration) { c.fetching = d }
