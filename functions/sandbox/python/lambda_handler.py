"""The Lambda function of the sandbox: its handler is lambda_handler.handler."""

import os

from runner.cloud import Cloud

_cloud = Cloud()


def handler(event, context):
    """Run the attempt of one token; runner/cloud.py describes how."""
    taken = _cloud.run(event, context.get_remaining_time_in_millis() / 1000 if context else None)
    if _cloud.soiled:
        os._exit(1)  # Lambda replaces the environment; the result is delivered
    return taken
