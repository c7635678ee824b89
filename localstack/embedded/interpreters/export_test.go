//go:build unix

package interpreters

import "time"

// Only restricts a pool to one mode.
func Only(name string) func(*Config) { return func(c *Config) { c.only = name } }

// SetImporting sets how long a module may take to import.
func SetImporting(c *Config, d time.Duration) { c.importing = d }

// SetFetching sets how long inputs may take to fetch.
func SetFetching(c *Config, d time.Duration) { c.fetching = d }
