"""Times what a new user does with the wheel: from an empty folder to a green run, and
from the save of an edit to the end of the next run. The same edit is then run by hand,
with the API's requests sent by curl.

    python3 first_minute.py millrace-0.1.0-py3-none-….whl

It prints what is on the terminal, and a table of times. Exit code 1: a step failed, or
took longer than its limit; 2: there is no wheel.
"""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

FIRST_RUN = 60.0  # seconds, from the empty folder
SECOND_RUN = 2.0  # seconds, from the save
PATIENCE = 120.0  # seconds that a step may take before it has failed

STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Failed(Exception):
    pass


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, arguments, folder, environment):
        self.text, self.seen = "", 0
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            try:
                os.execvpe(arguments[0], arguments, environment)
            finally:
                os._exit(127)

    def until(self, pattern):
        """Wait until a line says so, after what was waited for before. Return the match."""
        limit = time.monotonic() + PATIENCE
        while True:
            found = re.compile(pattern).search(self.text, self.seen)
            if found:
                self.seen = found.end()
                return found
            if not self.read(limit - time.monotonic()):
                raise Failed(f"dev did not say {pattern!r}:\n{self.text}")

    def read(self, timeout):
        """Read what is there; false after the timeout or at the end."""
        ready, _, _ = select.select([self.file], [], [], max(timeout, 0))
        try:
            data = os.read(self.file, 65536) if ready else b""
        except OSError:  # Linux's way to tell that the other side is closed
            data = b""
        self.text += STYLE.sub("", data.decode(errors="replace"))
        return bool(data)

    def press(self, key):
        os.write(self.file, key.encode())

    def end(self):
        """Wait for the program's end, and return its exit code."""
        limit = time.monotonic() + PATIENCE
        while self.read(limit - time.monotonic()):
            pass
        if time.monotonic() > limit:
            self.kill()
            raise Failed("dev did not end")
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def kill(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


class User:
    """Somebody in a folder of their own, with nothing on PATH but the system's programs
    and the virtual environment."""

    def __init__(self, home):
        self.home, self.project = home, os.path.join(home, "etl")
        self.bin = os.path.join(home, "venv", "bin")
        self.environment = {
            "HOME": home, "TERM": "xterm", "LANG": "C.UTF-8", "PATH": f"{self.bin}:/usr/bin:/bin",
            "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        self.times = []

    @contextlib.contextmanager
    def timed(self, name):
        begin = time.monotonic()
        yield
        self.times.append((name, time.monotonic() - begin))

    def run(self, *arguments, folder=None, data=None):
        done = subprocess.run(arguments, cwd=folder or self.project, env=self.environment, input=data, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        if done.returncode != 0:
            raise Failed(f"{' '.join(arguments)} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def edit(self, factor):
        """Save flow.py with another factor; the result is 8 times it."""
        path = os.path.join(self.project, "flow.py")
        with open(path, encoding="utf-8") as file:
            text = re.sub(r'item\["units"\] \* \d+', f'item["units"] * {factor}', file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def expect(self, total):
        got = self.run("millrace", "output", "last", "load").strip()
        if got != str(total):
            raise Failed(f"load returned {got}, not {total}")

    def curl(self, method, path, body):
        with open(os.path.join(self.project, ".millrace", "credentials.json"), encoding="utf-8") as file:
            server = json.load(file)
        # The key is on standard input, where no other user sees it.
        config = f'header = "Authorization: Bearer {server["api_key"]}"\nheader = "Content-Type: application/json"\n'
        with tempfile.NamedTemporaryFile("w", dir=self.home, suffix=".json", encoding="utf-8") as request:
            json.dump(body, request)
            request.flush()
            return json.loads(self.run("curl", "--silent", "--show-error", "--fail-with-body", "--config", "-", "--request", method,
                                       "--data-binary", "@" + request.name, server["base_url"] + path, data=config))


def first_run(user, wheel):
    """From the empty folder to the end of the first run. Return the terminal of dev."""
    begin = time.monotonic()
    with user.timed("make a virtual environment"):
        user.run(sys.executable, "-m", "venv", os.path.dirname(user.bin), folder=user.home)
    with user.timed("pip install the wheel"):
        user.run("pip", "install", "--quiet", wheel, folder=user.home)
    with user.timed("millrace init"):
        user.run("millrace", "init", "etl", folder=user.home)
    with user.timed("millrace dev, until it is deployed"):
        dev = Terminal(["millrace", "dev", "--listen", "127.0.0.1:0"], user.project, user.environment)
        try:
            dev.until(r"daily dev-\w+, deployment version 1 in")
        except BaseException:
            dev.kill()
            raise
    with user.timed("r, until the run has SUCCEEDED"):
        dev.press("r")
        dev.until("SUCCEEDED in ")
    user.times.append(("from nothing to a green run", time.monotonic() - begin))
    user.expect(16)
    return dev


def second_run(user, dev):
    """From the save to the end of the run with what was saved."""
    begin = time.monotonic()
    with user.timed("save, until it is deployed"):
        user.edit(3)
        dev.until(r"daily dev-\w+, deployment version 2 in")
    dev.press("r")
    dev.until("SUCCEEDED in ")
    user.times.append(("from the save to the end of the run", time.monotonic() - begin))
    user.expect(24)


def by_hand(user):
    """The same without dev: a version by hand, its flow_spec and zip, three requests and an
    upload to deploy it, and one to run it, without the time to type them."""
    with user.timed("the same by pack and curl"):
        user.edit(4)
        spec = json.loads(user.run("python", "-m", "millrace", "spec", "flow.py"))
        artifact = os.path.join(user.home, "artifact.zip")
        user.run("python", "-m", "millrace", "pack", ".", "-o", artifact)
        names = {"flow_name": "daily", "flow_version": "by-hand"}
        begun = user.curl("POST", "/artifacts/initiate", {**names, "size_bytes": os.path.getsize(artifact)})
        part = begun["parts"][0]
        headers = user.run("curl", "--silent", "--show-error", "--fail", "--dump-header", "-", "--output", os.devnull, "--upload-file", artifact, part["upload_url"])
        etag = re.search(r"(?im)^etag: *(\S+)", headers)
        user.curl("POST", "/artifacts/complete", {
            **names, "upload_id": begun["upload_id"], "artifact_key": begun["artifact_key"], "deployment_name": "daily",
            "parts": [{"part_number": part["part_number"], "etag": etag.group(1)}], "flow_spec": spec,
        })
        run = user.curl("POST", "/runs", {"deployment": "daily", "execute": True})
        if run["status"] != "SUCCEEDED":
            raise Failed(f"the run by hand: {run}")
    user.expect(32)


def main(arguments):
    if len(arguments) != 1 or not os.path.isfile(arguments[0]):
        print("usage: first_minute.py WHEEL", file=sys.stderr)
        return 2
    wheel = os.path.abspath(arguments[0])
    with tempfile.TemporaryDirectory(prefix="millrace-first-") as home:
        os.chmod(home, 0o755)  # tasks of other users read the interpreter in it
        user = User(home)
        dev = None
        try:
            dev = first_run(user, wheel)
            second_run(user, dev)
            by_hand(user)
            dev.press("q")
            code = dev.end()
            if code != 0:
                raise Failed(f"dev exited with {code} after q")
        except Failed as failed:
            print(failed, file=sys.stderr)
            return 1
        finally:
            if dev:
                dev.kill()
                print(dev.text)
    limits = {"from nothing to a green run": FIRST_RUN, "from the save to the end of the run": SECOND_RUN}
    late = 0
    for name, took in user.times:
        limit = limits.get(name)
        late += limit is not None and took > limit
        print(f"{name:38} {took:6.2f} s" + (f"   limit {limit:.0f} s, {'MISSED' if took > limit else 'met'}" if limit else ""))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
