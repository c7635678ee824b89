//go:build unix

package interpreters

// Only restricts a pool to one mode.
func Only(name string) func(*Config) { return func(c *Config) { c.only = name } }
