//go:build linux

package interpreters_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/shared/run/sandbox"
)

const hungry = `
import ctypes, mmap, os, signal, threading, time
def alone(): keep = bytearray(os.urandom(1)) * (700 << 20); time.sleep(30)
def forks():
    for _ in range(20):
        if os.fork() == 0:
            keep = bytearray(os.urandom(1)) * (30 << 20); time.sleep(30); os._exit(0)
    time.sleep(30)
def detached():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: alone()
        os._exit(0)
    time.sleep(30)
def shared():
    m = mmap.mmap(-1, 700 << 20)
    for i in range(0, len(m), 4096): m[i] = 1
    time.sleep(30)
def shares():
    keep = bytearray(os.urandom(1)) * (100 << 20)
    for _ in range(4):
        if os.fork() == 0: time.sleep(0.3); os._exit(0)
    for _ in range(4): os.wait()
    return len(keep)
def reserves():
    m = [mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000) for _ in range(4)]
    t = [threading.Thread(target=time.sleep, args=(0.1,)) for _ in range(32)]
    for x in t: x.start()
    for x in t: x.join()
    return {n: os.environ[n] for n in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
def hidden():
    libc = ctypes.CDLL(None, use_errno=True)
    return [libc.memfd_create(b"x", 0) < 0 and os.strerror(ctypes.get_errno()), libc.shmget(0, 1 << 20, 0o1600) < 0]
def memory_files():
    try:
        with open("/dev/shm/f", "wb") as f: f.write(bytes(100 << 20))
    except OSError as e: return e.strerror
def fork_all():
    n = 0
    try:
        while n < 2000:
            if os.fork() == 0: time.sleep(30); os._exit(0)
            n += 1
    except OSError as e: return n < 512
def little(): return 1
def fills(): [open(f"{d}/f{i}", "wb").write(bytes(8 << 20)) for d in ("/tmp", "/var/tmp") for i in range(5)]; time.sleep(30)
def unlinked():
    os.chdir(os.environ["TMPDIR"])
    keep = []
    for i in range(5):
        keep.append(open(f"f{i}", "wb")); keep[-1].write(bytes(8 << 20)); os.unlink(f"f{i}")
    time.sleep(30)
def mapped():
    os.chdir(os.environ["TMPDIR"])
    keep = []
    for i in range(5):
        f = open(f"f{i}", "w+b"); f.truncate(8 << 20); m = mmap.mmap(f.fileno(), 8 << 20); keep.append(m)
        os.unlink(f"f{i}"); f.close(); m[:] = bytes(8 << 20)
    time.sleep(30)
def too_large():
    with open("large", "wb") as f:
        for _ in range(30): f.write(b"x" * 1000000)
def one_file():
    os.chdir(os.environ["TMPDIR"])
    try: open("f", "wb").write(bytes(40 << 20))
    except OSError as e: return e.strerror
def deep():
    os.chdir(os.environ["TMPDIR"])
    for i in range(70): os.mkdir("d"); os.chdir("d")
    time.sleep(30)
def small_files():
    os.chdir(os.environ["TMPDIR"])
    for i in range(50): open(f"f{i}", "wb").write(bytes(1 << 20)); os.unlink(f"f{i}")
    return "fine"
`

// The total of a task and all processes that it starts is bounded, however they
// hold memory.
func TestMemoryOfTheTree(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"namespaces", "plain"} {
		r := newRig(t, interpreters.Only(mode))
		if _, _, err := r.Mode(t.Context()); err != nil {
			require.Equal(t, "namespaces", mode, err)
			continue
		}
		for _, function := range []string{"alone", "forks", "detached", "shared"} {
			t.Run(mode+"/"+function, func(t *testing.T) {
				t.Parallel()
				if function == "forks" && mode == "plain" && os.Geteuid() != 0 {
					return // there only each single process is bounded
				}
				req := r.request(t, hungry, function)
				result, _ := r.run(t, req)
				require.NotNil(t, result.Failure)
				assert.Equal(t, sandbox.TaskFailedError, result.Failure.Type)
				assert.Regexp(t, `^the task used [2-9]\d\d MB of nano's 256 MB of memory; the next larger tier is execution_mode micro with 512 MB$`, result.Failure.Message)
				req.Entrypoint = "flow:little"
				result, _ = r.run(t, req)
				assert.Equal(t, "1", output(t, result))
			})
		}
		for function, want := range map[string]string{
			"shares":   "104857600", // memory shared by forked processes counts once
			"reserves": `{"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}`,
			"fork_all": "true",
		} {
			t.Run(mode+"/"+function, func(t *testing.T) {
				t.Parallel()
				if function == "fork_all" && mode == "plain" && os.Geteuid() != 0 {
					return // it has the server's user, whose processes the kernel does not count for it
				}
				req := r.request(t, hungry, function)
				if function == "fork_all" {
					req.Tier = "micro" // hundreds of processes are limited by their number here, not by their memory
				}
				result, _ := r.run(t, req)
				assert.JSONEq(t, want, output(t, result))
			})
		}
	}
}

func TestLargerTiersAreNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *interpreters.Config) { c.MemoryByTier = map[string]int64{"nano": 64 << 20, "only": 96 << 20} })
	for tier, want := range map[string]string{"nano": "the next larger tier is execution_mode only with 96 MB", "only": "there is no larger tier"} {
		req := r.request(t, hungry, "alone")
		req.Tier = tier
		result, _ := r.run(t, req)
		require.NotNil(t, result.Failure)
		assert.Contains(t, result.Failure.Message, want)
	}
}

// Memory that no process maps is bounded or unavailable.
func TestMemoryOutsideOfProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if !namespaces(t, r) {
		t.Log("plain mode: /dev/shm is the machine's")
	} else {
		result, _ := r.run(t, r.request(t, hungry, "memory_files"))
		assert.JSONEq(t, `"No space left on device"`, output(t, result))
	}
	result, _ := r.run(t, r.request(t, hungry, "hidden"))
	assert.JSONEq(t, `["Function not implemented", true]`, output(t, result))
}

func TestScratchIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *interpreters.Config) { c.Scratch = 20 << 20 })
	for function, want := range map[string]string{
		"fills": "its scratch directory may hold 20 MB (the server's --python-scratch)", "unlinked": "may hold 20 MB", "mapped": "may hold 20 MB",
		"deep": "nested deeper than 64",
	} {
		if function == "mapped" && os.Geteuid() != 0 {
			continue // the kernel shows mapped files only to root
		}
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			req := r.request(t, hungry, function)
			req.Tier = "micro"
			result, _ := r.run(t, req)
			require.NotNil(t, result.Failure)
			assert.Equal(t, sandbox.TaskFailedError, result.Failure.Type)
			assert.Contains(t, result.Failure.Message, want)
		})
	}
	for function, want := range map[string]string{"one_file": `"File too large"`, "small_files": `"fine"`} {
		result, _ := r.run(t, r.request(t, hungry, function))
		assert.JSONEq(t, want, output(t, result))
	}
	result, _ := r.run(t, r.request(t, hungry, "too_large"))
	require.NotNil(t, result.Failure)
	assert.Equal(t, "OSError: [Errno 27] File too large (a file of a task has at most 19 MB, bounded by the server's --python-scratch)", result.Failure.Message)
}

const shut = `
import ctypes, os, signal, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
def name(n): return "fine" if n >= 0 else os.strerror(ctypes.get_errno())
def writable():
    found = []
    for root, dirs, files in os.walk("/"):
        dirs[:] = [d for d in dirs if os.path.join(root, d) not in ("/proc", "/sys") and not os.path.islink(os.path.join(root, d))]
        try:
            path = os.path.join(root, ".probe"); os.close(os.open(path, os.O_CREAT | os.O_WRONLY)); os.unlink(path); found.append(root)
        except OSError: pass
    return sorted(f for f in found if not f.startswith("/proc"))
def leave(text):
    for d in ("/tmp", "/var/tmp", "/dev/shm"): open(d + "/left-behind", "w").write(text)
    return find()
def find(): return [d for d in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock") if os.path.exists(d + "/left-behind")]
def devices():
    out = {}
    for d in sorted(os.listdir("/dev")):
        out[d] = True
    for d in ("null", "zero", "urandom", "full"): open("/dev/" + d, "rb").read(1)
    main, other = os.openpty(); os.write(other, b"x")
    return list(out)
def calls():
    done = {"unshare": name(libc.unshare(0x10000000)), "mount": name(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
            "ptrace": name(libc.ptrace(0, 0, 0, 0)), "keyctl": name(libc.syscall(250, 0, 0)), "bpf": name(libc.syscall(321, 0, 0, 0)),
            "clone": name(libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)), "io_uring": name(libc.syscall(425, 1, 0))}
    t = threading.Thread(target=print); t.start(); t.join()
    subprocess.run(["true"], check=True)
    return done
def who(): return [os.getuid(), os.getgid()]
def waits(): print("up", flush=True); import time; time.sleep(30)
def kills(uid):
    reached = 0
    for pid in (int(p) for p in os.listdir("/proc") if p.isdigit()):
        try:
            if pid != os.getpid(): os.kill(pid, 0); reached += 1
        except OSError: pass
    return reached
`

func TestOnlyScratchIsWritable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if !namespaces(t, r) {
		return // shared in the plain mode
	}
	req := r.request(t, shut, "writable")
	req.Timeout = 5 * time.Minute // it walks all directories of the machine
	result, _ := r.run(t, req)
	assert.JSONEq(t, `["/dev/shm", "/tmp", "/tmp/work", "/var/tmp", "/var/tmp/work"]`, output(t, result))
	result, _ = r.run(t, r.request(t, shut, "devices"))
	assert.JSONEq(t, `["fd","full","null","ptmx","pts","random","shm","stderr","stdin","stdout","tty","urandom","zero"]`, output(t, result))
}

// Files that a task leaves in shared places must not be visible to others.
func TestTaskLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if !namespaces(t, r) {
		return // shared in the plain mode
	}
	req := r.request(t, shut, "leave")
	req.Params = text("x")
	result, _ := r.run(t, req)
	assert.JSONEq(t, `["/tmp", "/var/tmp", "/dev/shm"]`, output(t, result))
	for _, workspace := range []string{req.Workspace, "other"} {
		req.Workspace, req.Entrypoint = workspace, "flow:find"
		result, _ = r.run(t, req)
		assert.JSONEq(t, `[]`, output(t, result))
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		assert.NoFileExists(t, dir+"/left-behind")
	}
}

func TestForbiddenSystemCallsFail(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	result, _ := r.run(t, r.request(t, shut, "calls"))
	var seen map[string]string
	require.NoError(t, json.Unmarshal([]byte(output(t, result)), &seen))
	for name, answer := range seen {
		want := "Operation not permitted"
		if name == "io_uring" {
			want = "Function not implemented"
		}
		assert.Equal(t, want, answer, name)
	}
}

// Tasks of different slots have different users, who cannot signal each other.
func TestEachSlotHasOwnUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can change the user
	}
	t.Parallel()
	for _, mode := range []string{"namespaces", "plain"} {
		r := newRig(t, interpreters.Only(mode), func(c *interpreters.Config) { c.FirstUID = 61200 })
		if _, _, err := r.Mode(t.Context()); err != nil {
			continue
		}
		up, done := make(chan struct{}), make(chan struct{})
		waiting := r.request(t, shut, "waits")
		go func() {
			defer close(done)
			_, _ = r.Run(t.Context(), waiting, func(e sandbox.LogEvent) { close(up) })
		}()
		<-up
		req := r.request(t, shut, "who")
		req.Workspace = "other"
		result, _ := r.run(t, req)
		assert.JSONEq(t, `[61201, 61201]`, output(t, result))
		req.Entrypoint, req.Params = "flow:kills", map[string]json.RawMessage{"uid": raw("61200")}
		result, _ = r.run(t, req)
		assert.Equal(t, "0", output(t, result), "it reaches no process but its own")
		require.NoError(t, r.Close())
		<-done
	}
}
