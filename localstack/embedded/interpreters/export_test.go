//go:build unix

package interpreters

// Only has a pool take one mode, where several work.
func Only(name string) func(*Config) { return func(c *Config) { c.only = name } }
