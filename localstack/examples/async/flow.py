"""Tasks that are coroutine functions: each runs in an event loop of its own.

    python flow.py
"""

import asyncio

from millrace import flow, task


async def fetch(page):
    """Stand in for a request over the network."""
    await asyncio.sleep(0.01)
    print("fetched", page)
    return {"page": page, "items": [page * 10 + n for n in range(3)]}


@task
async def pages(count: int):
    return await asyncio.gather(*(fetch(page) for page in range(count)))


@task(retries=1, retry_backoff=0.01)
async def enrich(ctx, item):
    """One instance for each page; the first attempt at page 2 fails."""
    await asyncio.sleep(0)
    if item["page"] == 2 and ctx.attempt == 1:
        raise ConnectionResetError("the peer went away")
    return sum(item["items"])


@task(timeout="1s")
async def hangs():
    """Never ends: the timeout interrupts the event loop."""
    try:
        await asyncio.sleep(3600)
    finally:
        print("cleaned up")


@task(trigger_rule="all_done")
async def report(sums):
    async def lines():
        for number, amount in enumerate(sums):
            await asyncio.sleep(0)
            yield f"page {number}: {amount}"

    return [line async for line in lines()]


@flow
def crawl(count: int = 4):
    sums = enrich.map(pages(count))
    return report.with_options(depends_on=[hangs()])(sums)


if __name__ == "__main__":
    print(crawl().result)
