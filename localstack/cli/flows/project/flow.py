from millrace import flow, task


@task(retries=2)
def extract(ctx, day):
    ctx.log("reading", day=day)
    return [{"id": 1, "units": 3}, {"id": 2, "units": 5}]


@task
def double(item):
    return item["units"] * 2


@task
def load(double):
    print("loading", double)
    return sum(double)


@flow(name="daily")
def daily(day: str = "2026-01-31"):
    rows = extract(day)
    load(double.map(rows))


if __name__ == "__main__":
    daily()
