import json
import os
import time

from millrace import flow, task, transform


@task(retries=1, retry_backoff=0.01)
def flaky(ctx):
    print("attempt", ctx.attempt)
    if ctx.attempt == 1:
        raise ConnectionError("refused")
    return ctx.attempt


@task
def boom(item):
    if item == 2:
        raise ValueError(f"no price for {item}")
    return item


@task
def endless():
    return {"rows": [1.0, float("inf")]}


@task
def leaves():
    os._exit(4)


@task(timeout_secs=1)
def slow():
    time.sleep(60)


@task
def quits():
    raise SystemExit("enough")


@task
def fine():
    return 1


@task
def missing(ctx):
    return ctx.secret("NOT_THERE")


@task
def unnamed(ctx, name="NOT_NAMED"):
    return ctx.secret(name)


@flow
def failures():
    flaky()
    failed = boom.map([1, 2, 3])
    endless()
    leaves()
    slow()
    quits()
    missing()
    unnamed()
    ok = fine()
    fine.with_options(name="after_failed", depends_on=failed)()
    fine.with_options(name="after_all", depends_on=[failed, ok], trigger_rule="all_done")()
    fine.with_options(name="on_failed", depends_on=[failed, ok], trigger_rule="one_failed")()
    fine.with_options(name="no_failed", depends_on=ok, trigger_rule="one_failed")()
    skipped = fine.with_options(name="skipped", condition="tasks.fine.output > 1", depends_on=ok)()
    fine.with_options(name="after_skipped", depends_on=skipped)()
    fine.with_options(name="none_failed", depends_on=[ok, skipped], trigger_rule="none_failed")()
    transform("no_value", "params.nothing + 1")
    fine.with_options(name="no_condition", condition="tasks.fine.output.nothing", depends_on=ok)()


if __name__ == "__main__":
    failures()
