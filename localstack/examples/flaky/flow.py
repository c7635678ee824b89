"""A flow that fails while the page it reads is down, and is retried from there.

POST /runs/{run_id}/retry-from-failed reuses what succeeded, prepare and
expensive, and runs only fetch and publish.
"""

from millrace import flow, http, task


@task
def prepare():
    print("preparing")
    return {"rows": 1000}


@task
def expensive(prepare):
    print(f"working on {prepare['rows']} rows: once is enough")
    return sum(n * n for n in range(prepare["rows"]))


@task
def publish(fetch, expensive):
    print(f"publishing {expensive} to {fetch['json']['channel']}")
    return {"published": expensive}


@flow(name="flaky", version="1")
def flaky(page_url: str):
    rows = prepare()
    result = expensive(rows)
    page = http("fetch", "${{ params.page_url }}").after(result)
    publish(page, result)
