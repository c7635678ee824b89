"""A stand-in for Lambda's Python runtime: takes events, calls the handler, answers."""

import importlib
import json
import os
import sys
import urllib.request

base = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/"
sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
module, name = os.environ["_HANDLER"].rsplit(".", 1)


def post(path, value):
    data = json.dumps(value).encode()
    urllib.request.urlopen(urllib.request.Request(base + path, data=data, headers={"Content-Type": "application/json"})).close()


try:
    handler = getattr(importlib.import_module(module), name)
except Exception as error:
    post("init/error", {"errorType": type(error).__name__, "errorMessage": str(error)})
    raise
while True:
    with urllib.request.urlopen(base + "invocation/next") as event:
        request, payload = event.headers["Lambda-Runtime-Aws-Request-Id"], json.load(event)
    try:
        answer = handler(payload, None)
    except Exception as error:
        post(f"invocation/{request}/error", {"errorType": type(error).__name__, "errorMessage": str(error)})
    else:
        post(f"invocation/{request}/response", answer)
