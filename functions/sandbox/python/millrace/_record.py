"""What a local run leaves behind, below $MILLRACE_HOME or ~/.millrace."""

import json
import os
import secrets
import sys
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def home():
    """Return the directory of local runs, which is the user's alone."""
    return os.environ.get("MILLRACE_HOME") or os.path.join(os.path.expanduser("~"), ".millrace")


def new_id():
    """Return a new ULID: sortable by time."""
    number = int(time.time() * 1000) << 80 | secrets.randbits(80)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def stamp(seconds=None):
    """Return a time as RFC 3339 in UTC with milliseconds."""
    seconds = time.time() if seconds is None else seconds
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


class Record:
    """The directory of one run: run.log, run.json, tasks/, artifacts/."""

    def __init__(self, flow, parameters):
        self.run_id, self.created = new_id(), stamp()
        self.path = os.path.join(home(), "runs", self.run_id)
        for directory in (home(), os.path.join(home(), "runs"), self.path):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        os.makedirs(os.path.join(self.path, "tasks"), mode=0o700)
        os.makedirs(os.path.join(self.path, "artifacts"), mode=0o700)
        self._flow, self._parameters = flow, parameters
        self._attempts = {}
        self._log = open(os.path.join(self.path, "run.log"), "w", encoding="utf-8")
        self._write_run("RUNNING", {}, None, None)

    def log(self, level, task, message):
        """Write a line to run.log and to standard error."""
        line = f"{stamp()} {level.upper():<7} {f'[{task}] ' if task else ''}{message}"
        self._log.write(line + "\n")
        self._log.flush()
        print(line, file=sys.stderr, flush=True)

    def open_log(self, task, attempt, index):
        """Open tasks/<task>/<attempt>.log, or <attempt>.<index>.log of an instance of a map."""
        directory = os.path.join(self.path, "tasks", task)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        name = f"{attempt}.log" if index is None else f"{attempt}.{index}.log"
        return open(os.path.join(directory, name), "w", encoding="utf-8")

    def attempt(self, attempt, status):
        """Keep the record of an attempt that is over."""
        request, error = attempt.request, attempt.error or (None, None)
        name = attempt.entry.name
        self._attempts.setdefault(name, []).append(
            {
                "task_run_id": request["task_run_id"], "attempt": request["attempt"], "map_index": request.get("map_index"), "status": status,
                "started_at": stamp(attempt.started_at), "ended_at": stamp(attempt.ended_at),
                "duration_ms": round((attempt.ended_at - attempt.started_at) * 1000), "error_type": error[0], "error_message": error[1],
            }
        )
        if attempt.state.waiting <= 1 or not attempt.state.mapped:
            self._write_meta(attempt.entry, status)

    def task(self, state):
        """Write the metadata of a task that is over."""
        self._write_meta(state.entry, state.status)

    def artifact(self, task, output):
        """Write artifacts/<task>.json."""
        self._json(os.path.join("artifacts", task + ".json"), output)

    def finish(self, status, states, error):
        """Write run.json for good."""
        self._write_run(status, states, error, stamp())
        self.log("info" if status == "SUCCEEDED" else "error", "", f"run {self.run_id} {status}; kept in {self.path}")
        self._log.close()

    def _write_meta(self, entry, status):
        os.makedirs(os.path.join(self.path, "tasks", entry.name), mode=0o700, exist_ok=True)
        meta = {"task_name": entry.name, "type": entry.type, "status": status, "depends_on": entry.depends_on}
        attempts = sorted(self._attempts.get(entry.name, []), key=lambda a: (a["map_index"] or 0, a["attempt"]))
        self._json(os.path.join("tasks", entry.name, "meta.json"), {**meta, "attempts": attempts})

    def _write_run(self, status, states, error, ended):
        kind, message = error or (None, None)
        self._json(
            "run.json",
            {
                "run_id": self.run_id, "flow_name": self._flow.name, "flow_version": self._flow.version, "status": status,
                "environment": "local", "parameters": self._parameters, "created_at": self.created, "ended_at": ended,
                "error_type": kind, "error_message": message, "tasks": {name: state.status for name, state in states.items()},
            },
        )

    def _json(self, name, value):
        # Whole or not at all: a reader never sees half of it.
        path = os.path.join(self.path, name)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(value, file, indent=2, ensure_ascii=False)
            file.write("\n")
        os.replace(path + ".part", path)
