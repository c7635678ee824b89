//go:build unix

package interpreters

import "time"

// Only restricts a pool to one mode.
func Only(name string) func(*Config) { return func(c *Config) { c.only = name } }

// SetImporting sets the timeout for importing a module.
func SetImporting(c *Config, d time.Duration) { c.importing = d }

// SetPatience sets how long a request to the object store is repeated.
func SetPatience(c *Config, d time.Duration) { c.patience = d }

// SetFetching sets the timeout for fetching inputs.
func SetFetching(c *Config, d time.Duration) { c.fetching = d }
