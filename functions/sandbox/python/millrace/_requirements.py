"""Installs the packages in a flow's requirements.txt for its zip.

uv, or else pip, installs them into a folder, from wheels only, for the platform
and the Python version that run the tasks. The folder is cached by the hash of the
file, the platform and the version, so that the next zip needs no installer.
"""

import hashlib
import os
import platform as _platform
import re
import shutil
import subprocess
import sys
import tempfile

from ._record import home
from .errors import FlowDefinitionError

NAME = "requirements.txt"
KEPT = 10  # sets of installed packages, most recently used

# The tags of pip and the platform of uv. glibc 2.28 is that of RHEL 8 and Debian
# 10; the tasks of a deployment on AWS have 2.34.
_GLIBC = range(28, 16, -1)
PLATFORMS = {
    "linux/amd64": ([*(f"manylinux_2_{n}_x86_64" for n in _GLIBC), "manylinux2014_x86_64", "linux_x86_64"], "x86_64-manylinux_2_28"),
    "linux/arm64": ([*(f"manylinux_2_{n}_aarch64" for n in _GLIBC), "manylinux2014_aarch64", "linux_aarch64"], "aarch64-manylinux_2_28"),
    "darwin/amd64": (["macosx_12_0_x86_64"], "x86_64-apple-darwin"),
    "darwin/arm64": (["macosx_12_0_arm64"], "aarch64-apple-darwin"),
}
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
# Settings of pip that contradict the command line.
_MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PLATFORM", "PIP_PYTHON_VERSION", "PIP_NO_BINARY", "PIP_ONLY_BINARY")
# Records of the installer. They differ between installations of the same packages.
_TRACES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")


class RequirementsError(FlowDefinitionError):
    """A requirement cannot be installed. The message names the line and the remedy."""


class Line:
    """A requirement and its file and line."""

    def __init__(self, file, number, text):
        self.file, self.number, self.text = file, number, text
        found = re.match(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\]\s*)?(?:$|[<>=!~;@(])", text)
        self.name = _normal(found[1]) if found else None
        self.wheel = re.search(r"\.whl(?:$|[\s;#])", text) is not None

    def error(self, why):
        return RequirementsError(f"{os.path.basename(self.file)}, line {self.number} ({scrub(self.text)}): {why}")


def this_platform():
    """Return the platform of this machine as the server names it: linux/amd64."""
    machine = _platform.machine().lower()
    return f"{_platform.system().lower()}/{_MACHINES.get(machine, machine)}"


def this_python():
    return "{}.{}".format(*sys.version_info)


def install(directory, platform=None, python_version=None):
    """Install the packages in requirements.txt of a directory and return (folder, cached).

    The folder is None if the file is missing or has no requirements; no installer
    is started then. platform and python_version default to those of this machine.
    Raises RequirementsError.
    """
    if platform is not None and platform not in PLATFORMS:
        raise RequirementsError(f"the platform {platform!r} is not known: name one of {', '.join(PLATFORMS)}")
    if python_version is not None and not re.fullmatch(r"3\.\d+", python_version):
        raise RequirementsError(f"the Python {python_version!r} is not of the form 3.11")
    path = os.path.join(directory, NAME)
    if not os.path.isfile(path):
        return None, False
    digest, lines = hashlib.sha256(), []
    _read(path, lines, digest, [])
    if not lines:
        return None, False
    digest.update(f"\0{platform or 'native ' + this_platform()}\0{python_version or this_python()}".encode())
    base = os.path.join(home(), "dependencies")
    target = os.path.join(base, digest.hexdigest())
    # A wheel named by its path may change.
    keep = not any(line.wheel for line in lines)
    if keep and os.path.isdir(target):
        os.utime(target)
        return target, True
    os.makedirs(base, exist_ok=True)
    scratch = tempfile.mkdtemp(prefix=".new-", dir=base)
    try:
        _install(path, lines, scratch, platform, python_version)
        _clean(scratch)
        if not keep:
            shutil.rmtree(target, ignore_errors=True)
        try:
            os.rename(scratch, target)
        except OSError:
            if not os.path.isdir(target):  # else another process was as fast
                raise
        os.utime(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _prune(base, target)
    return target, False


def installed(folder):
    """Return the packages in a folder, sorted: [{"name", "version"}]."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".dist-info"):
            package, _, version = name[: -len(".dist-info")].rpartition("-")
            found.append({"name": _normal(package), "version": version})
    return found


def scrub(text):
    """Return text without the user and password of URLs in it."""
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)


def _read(path, lines, digest, within):
    """Add the requirements of a file and of those it includes."""
    if os.path.realpath(path) in within or len(within) > 20:
        raise RequirementsError(f"{path} includes itself")
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RequirementsError(f"{path} cannot be read: {error}") from None
    digest.update(text.encode() + b"\0")
    number, waiting, start = 0, "", 0
    for raw in [*text.splitlines(), ""]:
        number += 1
        start = start if waiting else number
        if raw.endswith("\\"):
            waiting += raw[:-1] + " "
            continue
        content, waiting = re.sub(r"(^|\s)#.*$", "", waiting + raw).strip(), ""
        if not content:
            continue
        line = Line(path, start, content)
        if found := re.match(r"(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)$", content):
            other = os.path.join(os.path.dirname(path), found[1])
            constraints: list = []
            constraint = content.startswith(("-c", "--c"))
            _read(other, constraints if constraint else lines, digest, [*within, os.path.realpath(path)])
        elif re.match(r"-e\b|--editable\b", content):
            raise line.error("an editable package is not packed: put its code beside the flow")
        elif content.startswith("--no-binary"):
            raise line.error("packages are installed from wheels only: remove this option")
        elif content.startswith("-"):
            pass  # options of the index
        elif re.search(r"(^|@\s*)(git|hg|svn|bzr)\+", content) or (
            not line.wheel and (line.name is None or "@" in content.partition(";")[0]) and re.match(r"[./~]|file:|[\w.\[\], -]*@|https?:", content)
        ):
            raise line.error("packages are installed from wheels only: build one (pip wheel) and name its file, or put the code beside the flow")
        elif line.name is None and not line.wheel:
            raise line.error("this is no requirement: write a name and a version, requests==2.32.3 for instance")
        else:
            lines.append(line)


# What pip and uv say when there is no connection to the index.
_unreachable = re.compile(r"after connection broken by|failed to fetch|error sending request|dns error|connection refused", re.IGNORECASE)


def _install(path, lines, target, platform, python_version):
    uv = shutil.which("uv")
    command, environment = (_uv if uv else _pip)(platform, python_version)
    command = [*command, "--target", target, "-r", os.path.basename(path)]
    done = subprocess.run(
        command, cwd=os.path.dirname(os.path.abspath(path)), env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    if done.returncode == 0:
        return
    said = scrub(done.stdout).strip()
    if "No module named pip" in said:
        raise RequirementsError(f"{NAME} needs an installer: install uv, or pip for {sys.executable} (python -m ensurepip)")
    if _unreachable.search(said) and not re.search(r"from versions: (?!none)", said):
        raise RequirementsError(f"{NAME}: the package index does not answer: check the network, and PIP_INDEX_URL if you have an index of your own")
    where = f"{platform or this_platform()} and Python {python_version or this_python()}"
    errors = [s.strip() for s in said.splitlines() if s.lstrip().lower().startswith(("error:", "×", "╰─▶"))] or said.splitlines()[-3:]
    said = "\n  ".join(errors)
    if re.search(r"no matching distribution|satisfies the requirement|no solution|no wheels|was not found", said, re.IGNORECASE):
        why = (
            f"no wheel of it fits {where}: name a version that has one (its page at the index lists the files), "
            "or, where it is pure Python, put its code beside the flow"
        )
    else:
        why = "it was not installed"
    why += f"; {'uv' if uv else 'pip'} says:\n  {said}"
    raise _blamed(lines, said).error(why) if _blamed(lines, said) else RequirementsError(f"{NAME}: {why}")


def _blamed(lines, said):
    """Return the first line of the file that the installer's errors mention, or None."""
    if found := re.search(r"line (\d+)(?: of|\))", said):
        for line in lines:
            if line.number == int(found[1]):
                return line
    words = {_normal(word) for word in re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]|[A-Za-z0-9]", re.sub(r"[<>=!~]=?[^\s,;)]+", " ", said))}
    return next((line for line in lines if line.name in words), None)


def _pip(platform, python_version):
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-compile",
        "--no-warn-conflicts", "--only-binary", ":all:",
    ]
    if platform is not None:
        command += [word for tag in PLATFORMS[platform][0] for word in ("--platform", tag)]
    if platform is not None or python_version is not None:
        command += ["--implementation", "cp", "--python-version", python_version or this_python()]
    return command, {k: v for k, v in os.environ.items() if k not in _MISLEADING}


def _uv(platform, python_version):
    command = [
        "uv", "pip", "install", "--quiet", "--no-progress", "--only-binary", ":all:", "--link-mode", "copy", "--python", sys.executable,
    ]
    if platform is not None:
        command += ["--python-platform", PLATFORMS[platform][1]]
    if platform is not None or python_version is not None:
        command += ["--python-version", python_version or this_python()]
    environment = dict(os.environ)
    # uv reads other variables than pip. The values may contain a password and must
    # not be on the command line.
    if os.environ.get("PIP_NO_INDEX", "").lower() in ("1", "true", "yes", "on"):
        command.append("--no-index")
    for theirs, ours, separator in (("UV_DEFAULT_INDEX", "PIP_INDEX_URL", None), ("UV_INDEX", "PIP_EXTRA_INDEX_URL", " "), ("UV_FIND_LINKS", "PIP_FIND_LINKS", ",")):
        if value := os.environ.get(ours):
            environment.setdefault(theirs, separator.join(value.split()) if separator else value)
    return command, environment


def _clean(folder):
    shutil.rmtree(os.path.join(folder, "bin"), ignore_errors=True)
    if os.path.exists(os.path.join(folder, ".lock")):  # uv's
        os.unlink(os.path.join(folder, ".lock"))
    for parent, directories, files in os.walk(folder):
        if "__pycache__" in directories:
            shutil.rmtree(os.path.join(parent, "__pycache__"))
            directories.remove("__pycache__")
        if parent.endswith(".dist-info"):
            for name in _TRACES:
                if name in files:
                    os.unlink(os.path.join(parent, name))


def _prune(base, target):
    """Remove the least recently used sets."""
    sets = [entry for entry in os.scandir(base) if not entry.name.startswith(".") and entry.path != target]
    for entry in sorted(sets, key=lambda e: e.stat().st_mtime, reverse=True)[KEPT - 1 :]:
        shutil.rmtree(entry.path, ignore_errors=True)


def _normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()
