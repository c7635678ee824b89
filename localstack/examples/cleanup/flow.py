"""Tasks that run after a failure: trigger rules within the flow, on_failure at its end.

    python flow.py      # ends with an error, as the run does
"""

from millrace import flow, task


@task
def create():
    return {"table": "scratch_7"}


@task
def fill(item, create):
    """Two of four instances fail, one of them after a retry."""
    if item % 2:
        raise ValueError(f"partition {item} of {create['table']} is empty")
    return item


@task(retries=1, retry_backoff=0.01)
def publish(ctx):
    print("publishing, attempt", ctx.attempt)
    raise ConnectionError("the catalog is away")


@task
def after(ctx):
    """Run depending on the trigger rule."""
    print(ctx.task_name, "runs")
    return ctx.task_name


@task(trigger_rule="all_done")
def drop(create):
    """Run whatever the outcome of the tasks before it."""
    print("dropped", create["table"])


@task
def tell(ctx, failed, failed_count):
    """The on_failure task: it gets the failed tasks and their errors."""
    print(f"{failed_count} failed")
    for one in sorted(failed, key=lambda f: (f["task_name"], f["map_index"] or 0)):
        place = one["task_name"] if one["map_index"] is None else f"{one['task_name']}[{one['map_index']}]"
        print(f"{place}, attempt {one['attempt']}: {one['error_type']}: {one['error_message']}")
    return failed_count


@flow(on_failure=tell)
def cleanup():
    made = create()
    filled = fill.map([0, 1, 2, 3], create=made)
    sent = publish().after(made)
    after.with_options(name="on_success")().after(filled)
    after.with_options(name="on_error", trigger_rule="one_failed", depends_on=[filled, sent])()
    after.with_options(name="unless_failed", trigger_rule="none_failed", depends_on=[made])()
    after.with_options(name="no_error", trigger_rule="one_failed", depends_on=[made])()
    drop.with_options(depends_on=[filled, sent])(made)


if __name__ == "__main__":
    cleanup()
