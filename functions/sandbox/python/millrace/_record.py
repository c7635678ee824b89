"""The files of a local run, below $MILLRACE_HOME or ~/.millrace.

The newest 50 runs are kept, or as many as $MILLRACE_KEEP_RUNS says.
"""

import json
import os
import secrets
import shutil
import sys
import time

KEPT_RUNS = 50
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def home():
    """Return the directory of local runs, which only the user can read."""
    return os.environ.get("MILLRACE_HOME") or os.path.join(os.path.expanduser("~"), ".millrace")


def new_id():
    """Return a new ULID: sortable by time."""
    number = int(time.time() * 1000) << 80 | secrets.randbits(80)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def stamp(seconds=None):
    """Return a time as RFC 3339 in UTC with milliseconds."""
    seconds = time.time() if seconds is None else seconds
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


def prune(directory, keep):
    """Remove all but the newest ``keep`` runs; one that has not ended is kept for a day."""
    try:
        names = sorted(name for name in os.listdir(directory) if len(name) == 26)
    except OSError:
        return
    for name in names[: max(0, len(names) - keep)]:
        path = os.path.join(directory, name)
        try:
            with open(os.path.join(path, "run.json"), encoding="utf-8") as file:
                running = json.load(file).get("status") == "RUNNING"
            if running and time.time() - os.path.getmtime(os.path.join(path, "run.log")) < 86_400:
                continue
        except (OSError, ValueError):
            pass
        shutil.rmtree(path, ignore_errors=True)


def _kept():
    try:
        return max(1, int(os.environ.get("MILLRACE_KEEP_RUNS", KEPT_RUNS)))
    except ValueError:
        return KEPT_RUNS


def with_fields(message, fields):
    """Return the message followed by the fields of ctx.log, for people."""
    return " ".join([message, *(f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}" for key, value in (fields or {}).items())])


class Record:
    """The directory of one run: run.log, log.jsonl, run.json, tasks/, artifacts/, files/.

    log.jsonl has one object per line, with the fields of the service's log events.
    """

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
        self._events = open(os.path.join(self.path, "log.jsonl"), "w", encoding="utf-8")
        prune(os.path.dirname(self.path), _kept())
        self._write_run("RUNNING", {}, None, None)

    def log(self, level, task, message, event_type="log", index=None, attempt=None):
        """Log something about the run or a task; task is "" for the run."""
        about = {"task_name": task or None, "map_index": index, "attempt": attempt}
        self._line(time.time(), level, message, about, {"event_type": event_type, "logger": "millrace"})

    def event(self, level, message, attempt, logger, fields, seconds):
        """Log a line that a task wrote."""
        request = attempt.request
        about = {"task_name": attempt.entry.name, "map_index": request.get("map_index"), "attempt": request["attempt"]}
        self._line(seconds, level, message, about, {"event_type": "log", "logger": logger, "fields": fields or None})

    def _line(self, seconds, level, message, about, more):
        index = about["map_index"]
        place = "" if about["task_name"] is None else f"[{about['task_name']}] " if index is None else f"[{about['task_name']}[{index}]] "
        line = f"{stamp(seconds)} {level.upper():<7} {place}{with_fields(message, more.get('fields'))}"
        self._log.write(line + "\n")
        self._log.flush()
        event = {"timestamp": stamp(seconds), "level": level, "message": message, "run_id": self.run_id, **about, **more}
        self._events.write(json.dumps({key: value for key, value in event.items() if value is not None}, ensure_ascii=False, default=str) + "\n")
        self._events.flush()
        print(line, file=sys.stderr, flush=True)

    def keep_file(self, task, attempt, index, path, name):
        """Copy a file that a task saves; return its key, below the directory of all runs."""
        directory = os.path.join(self.path, "files", task, str(attempt) if index is None else f"{attempt}.{index}")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        number = len(os.listdir(directory))
        os.mkdir(os.path.join(directory, str(number)), mode=0o700)
        target = os.path.join(directory, str(number), name)
        shutil.copyfile(path, target)
        os.chmod(target, 0o400)
        return os.path.relpath(target, os.path.dirname(self.path))

    def scratch(self, task, attempt, index):
        """Make the directory of an attempt's temporary files and return its path."""
        path = os.path.join(self.path, "tmp", f"{task}.{attempt}" if index is None else f"{task}.{attempt}.{index}")
        os.makedirs(path, mode=0o700)
        return path

    def open_log(self, task, attempt, index):
        """Open tasks/<task>/<attempt>.log, or <attempt>.<index>.log of an instance of a map."""
        directory = os.path.join(self.path, "tasks", task)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        name = f"{attempt}.log" if index is None else f"{attempt}.{index}.log"
        return open(os.path.join(directory, name), "w", encoding="utf-8")

    def attempt(self, attempt, status):
        """Store the record of an attempt that has ended."""
        request, error = attempt.request, attempt.error or {}
        name = attempt.entry.name
        self._attempts.setdefault(name, []).append(
            {
                "task_run_id": request["task_run_id"], "attempt": request["attempt"], "map_index": request.get("map_index"), "status": status,
                "started_at": stamp(attempt.started_at), "ended_at": stamp(attempt.ended_at),
                "duration_ms": round((attempt.ended_at - attempt.started_at) * 1000), "error_type": error.get("type"), "error_message": error.get("message"),
                "exception": error.get("exception"), "traceback": error.get("traceback"),
            }
        )
        if attempt.state.waiting <= 1 or not attempt.state.mapped:
            self._write_meta(attempt.entry, status)

    def task(self, state):
        """Write the metadata of a task that has ended."""
        self._write_meta(state.entry, state.status, state.reason)

    def artifact(self, task, output):
        """Write artifacts/<task>.json."""
        self._json(os.path.join("artifacts", task + ".json"), output)

    def finish(self, status, states, error, result=None):
        """Write the final run.json; error is a result of ``failure``."""
        self._write_run(status, states, error, stamp(), result)
        shutil.rmtree(os.path.join(self.path, "tmp"), ignore_errors=True)
        self.log("info" if status == "SUCCEEDED" else "error", "", f"Run {self.run_id} ended: {status}; kept in {self.path}", "run_finished")
        self._log.close()
        self._events.close()

    def _write_meta(self, entry, status, reason=None):
        os.makedirs(os.path.join(self.path, "tasks", entry.name), mode=0o700, exist_ok=True)
        meta = {"task_name": entry.name, "type": entry.type, "status": status, "depends_on": entry.depends_on, "reason": reason}
        attempts = sorted(self._attempts.get(entry.name, []), key=lambda a: (a["map_index"] or 0, a["attempt"]))
        self._json(os.path.join("tasks", entry.name, "meta.json"), {**meta, "attempts": attempts})

    def _write_run(self, status, states, error, ended, result=None):
        error = error or {}
        self._json(
            "run.json",
            {
                "run_id": self.run_id, "flow_name": self._flow.name, "flow_version": self._flow.version, "status": status,
                "environment": "local", "parameters": self._parameters, "created_at": self.created, "ended_at": ended,
                "error_type": error.get("type"), "error_message": error.get("message"), "exception": error.get("exception"), "result": result,
                "tasks": {name: state.status for name, state in states.items()},
            },
        )

    def _json(self, name, value):
        # Atomic: a reader never sees a partial file.
        path = os.path.join(self.path, name)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(value, file, indent=2, ensure_ascii=False)
            file.write("\n")
        os.replace(path + ".part", path)
