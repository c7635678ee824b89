//go:build unix

package interpreters

import "strconv"

// setup is the body of a setup frame.
type setup struct {
	Mode         string            `json:"mode"`
	UID          *int              `json:"uid,omitempty"`
	GID          *int              `json:"gid,omitempty"`
	Artifact     string            `json:"artifact"`
	Scratch      string            `json:"scratch"`
	Hide         []string          `json:"hide"`
	Mounts       []Mount           `json:"mounts,omitempty"` // seen although they may lie in hidden directories
	Site         []string          `json:"site,omitempty"`   // end of sys.path
	Limits       map[string]int64  `json:"limits"`
	Nice         int               `json:"nice"`
	Env          map[string]string `json:"env"`
	SharedMemory int64             `json:"shared_memory"` // bytes of /dev/shm
	Filter       string            `json:"filter,omitempty"`
	Loopback     bool              `json:"loopback,omitempty"`
}

// niceness is by how much the priority of tasks is lower than the server's, so
// that the server responds and others' tasks start, however many processes they
// create.
const niceness = 10

// threads are the variables from which numeric libraries read their number of
// threads.
var threads = []string{
	"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
}

// setup returns how a child of a tier confines itself.
func (c *Config) setup(m mode, tier string) setup {
	s := setup{
		Mode: m.name, Nice: niceness, Hide: c.Hide, Filter: filter(), Loopback: c.Network == NoNetwork,
		Limits:       map[string]int64{"CORE": 0, "NOFILE": 1024, "FSIZE": largestFile(c.Scratch)},
		Env:          make(map[string]string, len(threads)),
		SharedMemory: c.memory(tier) / 4,
	}
	if m.ownUser || m.userNamespace {
		s.Limits["NPROC"] = maxProcesses // includes threads; the user runs nothing else
	}
	for _, name := range threads {
		s.Env[name] = strconv.Itoa(c.cpus(tier))
	}
	return s
}

// ready is the body of a ready frame.
type ready struct {
	PID    int    `json:"pid"`
	Python string `json:"python"`
	Error  string `json:"error"`
}

// largestFile is the size of a file that fits scratch space together with the
// directories in it, so that the write of a larger one fails before the task is
// ended for what it keeps.
func largestFile(scratch int64) int64 { return max(scratch-1<<20, scratch/2) }
