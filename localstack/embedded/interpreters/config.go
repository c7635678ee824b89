package interpreters

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"millrace/shared/clock"
	"millrace/shared/sandbox"
)

// The modes, as [Pool.Mode] tells them, that separate no tasks from each other;
// the package's description tells more.
const (
	Plain         = "plain" // as the server's user, whose files tasks can read
	PlainAsNobody = "plain as nobody"
)

// DefaultSlots is how many interpreters live at once unless Config says otherwise.
const DefaultSlots = 16

const (
	grace        = time.Second      // from a task's time-out to the kill from outside
	startTimeout = 20 * time.Second // a cold start that takes longer is a failed one
	uploadTime   = 10 * time.Minute // for handing over an output after the task's own time
)

// Config says how a Pool runs.
type Config struct {
	Dir          string           // artifacts and scratch; made if missing; required
	Python       string           // the interpreter; empty: the first fit python3 on PATH
	Slots        int              // interpreters alive at once; 0: DefaultSlots
	MemoryByTier map[string]int64 // bytes by execution mode; nil: the service's tiers
	Isolated     bool             // tasks run in namespaces or not at all
	Hide         []string         // directories that tasks find empty, where namespaces work; nil: Dir and the home
	HTTPClient   *http.Client     // fetches artifacts; nil: http.DefaultClient
	Clock        clock.Clock      // nil: clock.System
}

var defaultMemory = map[string]int64{
	"nano": 256 << 20, "micro": 512 << 20, "small": 1 << 30,
	"medium": 2 << 30, "large": 4 << 30, "xlarge": 8 << 30,
}

// mappedBytes is the address space of the interpreter's own code and libraries,
// which does not count as the task's memory.
const mappedBytes = 64 << 20

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
	if c.MemoryByTier == nil {
		c.MemoryByTier = defaultMemory
	}
	if c.HTTPClient == nil {
		c.HTTPClient = http.DefaultClient
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

// memory returns the bytes of a tier, the smallest's for an unknown one.
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

// setup is the body of a setup frame.
type setup struct {
	Mode     string           `json:"mode"`
	UID      *int             `json:"uid,omitempty"`
	GID      *int             `json:"gid,omitempty"`
	Artifact string           `json:"artifact"`
	Scratch  string           `json:"scratch"`
	Hide     []string         `json:"hide"`
	Limits   map[string]int64 `json:"limits"`
}

// ready is the body of a ready frame.
type ready struct {
	PID    int    `json:"pid"`
	Python string `json:"python"`
	Error  string `json:"error"`
}

// failed is the result of a task that failed by its own fault.
func failed(kind, format string, args ...any) sandbox.Result {
	return sandbox.Result{Failure: &sandbox.Failure{Type: kind, Message: fmt.Sprintf(format, args...)}}
}
