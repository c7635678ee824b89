"""The Lambda function of the sandbox: its handler is lambda_handler.handler."""

from runner.cloud import Cloud

_cloud = Cloud()


def handler(event, context):
    """Run the attempt of one token; runner/cloud.py describes how."""
    return _cloud.run(event, context.get_remaining_time_in_millis() / 1000 if context else None)
