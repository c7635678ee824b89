"""Isolates a local interpreter before any user code runs.

The server says how (setup["mode"]):

    namespaces  own mount, PID and IPC namespaces: a fresh /proc, the hidden
                directories empty, the artifact and all else read-only but /tmp
                and /var/tmp, which are the scratch directory, and a small
                /dev/shm in memory; of devices the harmless ones
    plain       none of that: the descriptors, the limits, the user

With setup["uid"] it ends as that user, which no other interpreter has, with no
group and no capability. setup["filter"] is a seccomp filter, in hexadecimal;
setup["loopback"] says that the network namespace is new and empty;
setup["env"] is added to the environment. setup["mounts"] are directories that
stay in place within hidden ones, which may be written to if it says so: those of
the operator, and of a virtual environment. setup["site"] are those of packages.
"""

import ctypes
import os
import resource
import signal
import sys

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}


class Places:
    """The directories of a task: artifact, scratch, and a tmpfs of its own."""

    def __init__(self, artifact, scratch, memory=None):
        self.artifact = artifact
        self.scratch = scratch
        self.memory = memory


def confine(setup):
    """Apply setup to this process and return its Places; OSError if the kernel does not allow it."""
    os.closerange(5, 1 << 16)
    os.nice(setup.get("nice", 0))
    linux = sys.platform == "linux"
    places = Places(setup["artifact"], setup["scratch"])
    if setup["mode"] == "namespaces":
        places = _mounts(setup)
    if setup.get("loopback"):
        _loopback()
    os.chdir(places.scratch)
    _limits(setup["limits"])
    if linux:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _drop(setup)
    if linux:
        # Changing the user clears the death signal.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # Without a /proc of its own, a process of the same user could read this one.
        _prctl(_PR_SET_DUMPABLE, 1 if setup["mode"] == "namespaces" else 0)
    for file in (os.__file__, os.path.join(sys.path[0], "millrace", "__init__.py")):
        if not os.access(file, os.R_OK):
            raise PermissionError(f"{file} cannot be read by the user that tasks run as")
    for directory in setup.get("site", ()):
        if not os.access(directory, os.R_OK | os.X_OK):
            raise PermissionError(f"the packages in {directory} cannot be read by the user that tasks run as")
        sys.path.append(directory)
    os.environ.clear()
    os.environ.update(
        {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HOME": places.scratch,
            "TMPDIR": places.scratch,
            "MILLRACE_SANDBOX": "1",
            **setup.get("env", {}),
        }
    )
    if setup.get("filter"):
        _filter(bytes.fromhex(setup["filter"]))
    return places


def _mounts(setup):
    artifact, scratch = setup["artifact"], setup["scratch"]
    library = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    mounts = setup.get("mounts", ())
    shown = {os.path.realpath(p) for p in (sys.base_prefix, sys.prefix, sys.base_exec_prefix, *(mount["path"] for mount in mounts))}
    # One within another is visible with that.
    shown = sorted(p for p in shown if not any(p.startswith(q + os.sep) for q in shown))
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _read_only("/", True, _AT_RECURSIVE)
    inner = os.path.join(scratch, ".millrace")
    for source, name in ((artifact, "artifact"), (library, "library")):
        target = os.path.join(inner, name)
        _mount(source, target, None, _MS_BIND)
        _mount(None, target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    _mount(inner, inner, None, _MS_BIND | _MS_REC)
    _mount(None, inner, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    root, hidden = scratch, list(setup["hide"])
    if any(p == "/tmp" or p.startswith("/tmp/") for p in shown):
        _mount(scratch, scratch, None, _MS_BIND | _MS_REC)
        hidden.append("/tmp")
    else:
        root = "/tmp"
        _mount(scratch, root, None, _MS_BIND | _MS_REC)
    _read_only(root, False)
    for directory in hidden:
        _hide(directory, [root, *shown])
    for mount in mounts:
        _open(mount["path"], mount["writable"])
    if os.path.isdir("/var/tmp") and not os.path.islink("/var/tmp"):
        _mount(root, "/var/tmp", None, _MS_BIND | _MS_REC)
        _read_only("/var/tmp", False)
    if os.path.isdir("/run/lock"):
        _mount("none", "/run/lock", "tmpfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, b"size=64k,mode=0755")
    _devices(setup["shared_memory"])
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    moved = os.path.join(root, ".millrace", "library")
    sys.path[:] = [moved if p == library else p for p in sys.path]
    for module in list(sys.modules.values()):
        # Packages search submodules in the directory that they were found in.
        path = getattr(module, "__path__", None)
        if path:
            module.__path__ = [moved + p[len(library) :] if p.startswith(library) else p for p in path]
    sys.path_importer_cache.clear()
    return Places(os.path.join(root, ".millrace", "artifact"), root, "/dev/shm")


def _devices(shared_memory):
    """Mount a private /dev: harmless devices, terminals, and shared memory of a limited size."""
    kept = [(name, os.open("/dev/" + name, os.O_PATH)) for name in _DEVICES if os.path.exists("/dev/" + name)]
    _mount("none", "/dev", "tmpfs", _MS_NOSUID | _MS_NOEXEC, b"size=64k,mode=0755")
    for name, descriptor in kept:
        os.close(os.open("/dev/" + name, os.O_CREAT | os.O_WRONLY, 0o666))
        _mount(f"/proc/self/fd/{descriptor}", "/dev/" + name, None, _MS_BIND)
        os.close(descriptor)
    for name, target in _LINKS.items():
        os.symlink(target, "/dev/" + name)
    for name in ("pts", "shm"):
        os.mkdir("/dev/" + name)
    _mount("devpts", "/dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, b"newinstance,ptmxmode=0666,mode=0620")
    _mount("none", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, b"size=%d,mode=1777" % shared_memory)
    _read_only("/dev", True)


def _read_only(path, on, flags=0):
    """Make a mount read-only or writable again; without effect before Linux 5.12."""
    attributes = (ctypes.c_uint64 * 4)(*((_MOUNT_ATTR_RDONLY, 0) if on else (0, _MOUNT_ATTR_RDONLY)))
    number, where, how = map(ctypes.c_long, (_SYS_MOUNT_SETATTR, _AT_FDCWD, flags))
    _libc().syscall(number, where, os.fsencode(path), how, attributes, ctypes.c_size_t(32))


def _loopback():
    """Enable the loopback interface of an empty network namespace."""
    libc = _libc()
    descriptor = libc.socket(2, 2, 0)
    request = b"lo".ljust(16, b"\0") + _IFF_UP.to_bytes(2, sys.byteorder) + bytes(22)
    failed = descriptor < 0 or libc.ioctl(descriptor, ctypes.c_ulong(_SIOCSIFFLAGS), request) != 0
    if failed:
        raise OSError(ctypes.get_errno(), "bringing the loopback interface up")
    os.close(descriptor)


def _filter(program):
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    given = Program(len(program) // 8, program)
    if _libc().prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(given), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl PR_SET_SECCOMP")


def _hide(directory, keep):
    """Mount an empty directory over another, except for some directories below it."""
    directory = os.path.realpath(directory)
    if directory == "/" or not os.path.isdir(directory) or directory in keep:
        return
    kept = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in keep if path.startswith(directory + os.sep)]
    _mount("none", directory, "tmpfs", _MS_NOSUID | _MS_NODEV, b"size=64k,mode=0755")
    for path, descriptor in kept:
        os.makedirs(path, 0o755, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)
        os.close(descriptor)
    _mount(None, directory, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _open(directory, writable):
    """Mount a directory at its own path, writable or read-only."""
    _mount(directory, directory, None, _MS_BIND | _MS_REC)
    # In a user namespace, flags that were set outside must be kept.
    flags = _MS_NOSUID | _MS_NODEV | (os.statvfs(directory).f_flag & os.ST_NOEXEC)
    _mount(None, directory, None, _MS_REMOUNT | _MS_BIND | flags | (0 if writable else _MS_RDONLY))


def _limits(limits):
    for name, value in limits.items():
        number = getattr(resource, "RLIMIT_" + name, None)
        if number is None:
            continue
        _, hard = resource.getrlimit(number)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(number, (value, value))


def _drop(setup):
    uid = setup.get("uid")
    if uid is not None:
        os.setgroups([])
        # As root these set the real, effective and saved id.
        os.setgid(setup["gid"])
        os.setuid(uid)
        if (os.getuid(), os.geteuid()) != (uid, uid):
            raise PermissionError("the user could not be changed")
    elif setup["mode"] == "namespaces":
        for capability in range(64):
            if _libc().prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                break
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        if _libc().capset(header, (ctypes.c_uint32 * 6)()) != 0:
            raise OSError(ctypes.get_errno(), "capset")


def line_buffered():
    """Make C's standard output line-buffered; on a pipe it would be fully buffered."""
    libc = _libc()
    try:
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, ctypes.c_size_t(0))
    except ValueError:  # the symbol has another name on some systems
        pass


_loaded = None


def _libc():
    global _loaded
    if _loaded is None:
        _loaded = ctypes.CDLL(None, use_errno=True)
    return _loaded


def _prctl(option, value):
    if _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _mount(source, target, kind, flags, data=None):
    encode = lambda text: None if text is None else os.fsencode(text)
    if _libc().mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount on {target}: {os.strerror(number)}")
