"""Shuts a local interpreter in before any code of a user runs.

The server says how (setup["mode"]):

    namespaces  own mount, PID and IPC namespaces: a fresh /proc, the hidden
                directories empty, /tmp its own, the artifact read-only
    plain       none of that: the descriptors, the limits, the user

With setup["uid"] it ends as that user, with no group and no capability.
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
_CAPABILITY_VERSION_3 = 0x20080522


class Places:
    """Where the task finds things: artifact and scratch directories."""

    def __init__(self, artifact, scratch):
        self.artifact = artifact
        self.scratch = scratch


def confine(setup):
    """Apply setup to this process and return its Places; OSError when the kernel refuses."""
    os.closerange(5, 1 << 16)
    linux = sys.platform == "linux"
    places = Places(setup["artifact"], setup["scratch"])
    if setup["mode"] == "namespaces":
        places = _mounts(setup)
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
    os.environ.clear()
    os.environ.update(
        {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HOME": places.scratch,
            "TMPDIR": places.scratch,
            "MILLRACE_SANDBOX": "1",
        }
    )
    return places


def _mounts(setup):
    artifact, scratch = setup["artifact"], setup["scratch"]
    library = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    prefixes = sorted({os.path.realpath(p) for p in (sys.base_prefix, sys.prefix, sys.base_exec_prefix)})
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    inner = os.path.join(scratch, ".millrace")
    for source, name in ((artifact, "artifact"), (library, "library")):
        target = os.path.join(inner, name)
        _mount(source, target, None, _MS_BIND)
        _mount(None, target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    root = scratch
    if not any(p == "/tmp" or p.startswith("/tmp/") for p in prefixes):
        root = "/tmp"
        _mount(scratch, root, None, _MS_BIND | _MS_REC)
    for directory in setup["hide"]:
        _hide(directory, [root, *prefixes])
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    moved = os.path.join(root, ".millrace", "library")
    sys.path[:] = [moved if p == library else p for p in sys.path]
    for module in list(sys.modules.values()):
        # Packages look for their submodules where they were found.
        path = getattr(module, "__path__", None)
        if path:
            module.__path__ = [moved + p[len(library) :] if p.startswith(library) else p for p in path]
    sys.path_importer_cache.clear()
    return Places(os.path.join(root, ".millrace", "artifact"), root)


def _hide(directory, keep):
    """Mount an empty directory over another, keeping some below it in place."""
    directory = os.path.realpath(directory)
    if directory == "/" or not os.path.isdir(directory) or directory in keep:
        return
    kept = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in keep if path.startswith(directory + os.sep)]
    _mount("none", directory, "tmpfs", _MS_NOSUID | _MS_NODEV, b"size=64k,mode=0755")
    for path, descriptor in kept:
        os.makedirs(path, 0o755)
        _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)
        os.close(descriptor)
    _mount(None, directory, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _limits(limits):
    for name, value in limits.items():
        number = getattr(resource, "RLIMIT_" + name, None)
        if number is None:
            continue
        _, hard = resource.getrlimit(number)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        try:
            resource.setrlimit(number, (value, value))
        except (OSError, ValueError):
            if name != "AS":  # macOS has no address space limit
                raise


def _drop(setup):
    uid = setup.get("uid")
    if uid is not None:
        os.setgroups([])
        # As root these set the real, the effective and the saved one alike.
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
    """Make C's standard output live too; on a pipe it would wait for a full buffer."""
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
