import json
import os
import time

from millrace import flow, task, transform, wait


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


@task(timeout_secs=1)
def stubborn():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass


@task
def takes(value):
    return value


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
    stubborn()
    wait("pause", 0.1)
    transform("no_value", "params.nothing  +\n 1", retries=3)
    transform("no_element", "[1, 2][tasks.fine.output + 1]")
    transform("no_number", "1 / (tasks.fine.output - 1)")
    transform("mixed", "tasks.fine.output + 0.5")
    transform("converted", "int('x' + string(tasks.fine.output))")
    transform("whole", "[double(tasks.fine.output), 0.5]")
    fine.with_options(name="no_condition", condition="tasks.fine.output.nothing", depends_on=ok)()
    fine.with_options(name="no_bool", condition="tasks.fine.output", depends_on=ok)()
    fine.with_options(name="no_list", map_over="tasks.fine.output", depends_on=ok)()
    takes.with_options(name="no_argument")(ok["nothing"])
    takes.with_options(name="no_arguments").map(["a", "b"], value="${{ {'a': 1}[item] }}")


if __name__ == "__main__":
    failures()
