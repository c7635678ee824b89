package interpreters

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/run/sandbox"
)

// The modes, as [Pool.Mode] returns them, that do not isolate tasks from each
// other; see the package documentation.
const (
	Plain         = "plain" // as the server's user, whose files tasks can read
	PlainOwnUsers = "plain, a user for each slot"
)

// IsPlain reports whether a mode does not isolate tasks from each other.
func IsPlain(mode string) bool { return mode == Plain || mode == PlainOwnUsers }

// The defaults of Config. The users are of a range that neither Debian nor
// systemd hands out.
const (
	DefaultSlots   = 18 // 16 for a workspace that is alone; see package share
	DefaultUID     = 61000
	DefaultScratch = 1 << 30
)

// Networks of tasks.
const (
	HostNetwork = "host" // the machine's
	NoNetwork   = "none" // an empty namespace
)

const (
	grace        = time.Second      // from a task's time-out to the kill
	startTimeout = 20 * time.Second // a slower cold start has failed
	uploadTime   = 10 * time.Minute // for sending an output after the task's own time

	// storePatience is how long a request is repeated while the object store is busy
	// or its disk is full.
	storePatience = time.Minute
)

// Config configures a Pool.
type Config struct {
	Dir          string           // artifacts and scratch; made if missing; required
	Python       string           // the interpreter; tasks see the packages of its virtual environment; empty: the first suitable python3 on PATH
	Slots        int              // interpreters alive at once; 0: DefaultSlots
	MemoryByTier map[string]int64 // bytes by execution mode; nil: the service's tiers
	Isolated     bool             // tasks run in namespaces or not at all
	Hide         []string         // directories that tasks find empty, where namespaces work; nil: Dir and the home
	FirstUID     int              // user of slot 0, the next ones are the others'; for a server that is root; 0: DefaultUID
	Scratch      int64            // bytes of files that a task may keep on disk at once; 0: DefaultScratch
	Network      string           // HostNetwork or NoNetwork; empty: HostNetwork
	Mounts       []Mount          // directories that are visible to tasks even below a hidden one, or writable
	HTTPClient   *http.Client     // reaches the object store; nil: http.DefaultClient
	Clock        clock.Clock      // nil: clock.System

	only      string        // the only mode to try; for tests
	importing time.Duration // timeout of a module; sandbox.ImportTimeout except in tests
	fetching  time.Duration // timeout of inputs; uploadTime except in tests
	patience  time.Duration // for which a request to the object store is repeated; storePatience except in tests
}

var defaultMemory = map[string]int64{
	"nano": 256 << 20, "micro": 512 << 20, "small": 1 << 30,
	"medium": 2 << 30, "large": 4 << 30, "xlarge": 8 << 30,
}

func (c *Config) complete() error {
	if c.Dir == "" {
		return errors.New("interpreters: Dir is required")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("interpreters: %w", err)
	}
	if c.Dir = dir; c.Slots == 0 {
		c.Slots = DefaultSlots
	}
	if c.Slots < 0 {
		return errors.New("interpreters: Slots is negative")
	}
	if c.FirstUID == 0 {
		c.FirstUID = DefaultUID
	}
	if c.Scratch == 0 {
		c.Scratch = DefaultScratch
	}
	if c.Network == "" {
		c.Network = HostNetwork
	}
	if c.FirstUID < 1 || c.Scratch < 0 {
		return errors.New("interpreters: FirstUID or Scratch is negative")
	}
	if c.Network != HostNetwork && c.Network != NoNetwork {
		return fmt.Errorf("interpreters: the network is %s or %s, not %q", HostNetwork, NoNetwork, c.Network)
	}
	if c.MemoryByTier == nil {
		c.MemoryByTier = defaultMemory
	}
	if c.HTTPClient == nil {
		c.HTTPClient = http.DefaultClient
	}
	if c.importing == 0 {
		c.importing = sandbox.ImportTimeout
	}
	if c.fetching == 0 {
		c.fetching = uploadTime
	}
	if c.patience == 0 {
		c.patience = storePatience
	}
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	if c.Hide == nil {
		c.Hide = []string{c.Dir}
		if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
			c.Hide = append(c.Hide, home)
		}
	}
	return nil
}

// memory returns the memory of a tier in bytes; that of the smallest tier for
// an unknown one.
func (c *Config) memory(tier string) int64 {
	if m, ok := c.MemoryByTier[tier]; ok {
		return m
	}
	least := int64(256 << 20)
	for _, m := range c.MemoryByTier {
		least = min(least, m)
	}
	return least
}

// failed returns the result of a task that failed by its own fault.
func failed(kind, format string, args ...any) sandbox.Result {
	return sandbox.Result{Failure: &sandbox.Failure{Type: kind, Message: fmt.Sprintf(format, args...)}}
}
