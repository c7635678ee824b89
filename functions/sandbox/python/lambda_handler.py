"""The Lambda function of the sandbox: its handler is lambda_handler.handler."""

import json
import os
import time
import urllib.error
import urllib.request

try:
    from runner.cloud import Cloud

    _cloud, _fault = Cloud(), None
except Exception as error:  # a faulty deployment, and this function writes no log that would tell
    _cloud, _fault = None, error


def handler(event, context):
    """Run the attempt of one token; runner/cloud.py describes how."""
    if _fault is not None:
        report(os.environ["MILLRACE_ATTEMPTS_URL"], event["token"], _fault)
        raise _fault
    taken = _cloud.run(event, context.get_remaining_time_in_millis() / 1000 if context else None)
    if _cloud.soiled:
        os._exit(1)  # Lambda replaces the environment; the result is delivered
    return taken


def report(url, token, fault):
    """Begin the attempt of a token, and give it back with the reason that the runner cannot start.

    The service counts and logs the reason, and has the attempt begin again later: it
    costs the task none of its retries. Nothing of the runner is used, of which any
    module may be at fault.
    """
    runner = os.urandom(12).hex()
    answer = {"error": f"the runner does not start: {type(fault).__name__}: {fault}"[:2000], "unstarted": True}
    if _send(url + "/start", token, {"runner": runner}):
        _send(url + "/complete", token, {"runner": runner, "answer": answer})


def _send(url, token, message):
    """Post a message, a few times if need be; true if it was taken."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    for delay in (0.5, 1, 2, 4):
        try:
            request = urllib.request.Request(url, json.dumps(message).encode(), headers)
            with urllib.request.urlopen(request, timeout=10) as response:
                response.read()
            return True
        except urllib.error.HTTPError as error:
            with error:
                if error.code < 500 and error.code != 429:
                    return False  # the attempt is over, or another runner's
        except OSError:
            pass
        time.sleep(delay)
    return False
