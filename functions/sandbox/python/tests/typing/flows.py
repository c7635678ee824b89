"""What type checkers make of flows: a line that ends in "# error" must have one, no other may."""

import datetime as dt
from typing import Dict, List

from typing_extensions import assert_type

from millrace import Context, File, Flow, RunResult, Task, flow, http, task, transform


@task(retries=2, timeout="2h", tier="small")
def extract(ctx: Context, day: dt.date, source: str = "orders") -> List[Dict[str, int]]:
    ctx.log("reading", level="debug", day=day)
    return [{"n": ctx.attempt}]


@task
def load(rows: List[Dict[str, int]], *, table: str) -> int:
    return len(rows)


@task
def each(item: Dict[str, int], index: int) -> str:
    return str(item["n"] + index)


@task
def report(ctx: Context, parts: List[str]) -> File:
    return ctx.save_file("report.csv")


@task
def read(file: File) -> str:
    return file.read_text() + file.name + open(file).read()


@flow(tier="medium", timeout=dt.timedelta(hours=1))
def daily(day: dt.date, limit: int = 5) -> object:
    rows = extract(day, source="items")
    assert_type(rows, List[Dict[str, int]])
    load(rows, table="orders")
    load(rows)  # error
    load(rows, tabel="orders")  # error
    load("rows", table="orders")  # error
    extract("monday")  # error
    parts = each.map(rows, index=3)
    assert_type(parts, List[str])
    file = report(parts)
    assert_type(file, File)
    again = load.with_options(name="again", retries=1, trigger_rule="all_done", timeout=30, depends_on=[file])
    assert_type(again(rows, table="x"), int)
    load.with_options(retry=3)  # error
    load.with_options(trigger_rule="sometimes")  # error
    extract.with_options(tier="huge")  # error
    transform("good", "tasks.extract.output").after(rows)
    http("tell", "https://example.com", expected_status=[200, 201])
    return read(file)


@flow
def plain(day: str) -> None:
    pass


def use() -> None:
    run = daily(dt.date(2026, 1, 2), limit=3)
    assert_type(run, RunResult)
    daily(dya=3)  # error
    daily("monday")  # error
    plain(day="x")
    plain(day=3)  # error
    daily.run(day="2026-01-02", stub={"extract": []})
    flow(timeout=[])  # error
    task(retries="2")  # error
    names: Flow[..., object] = daily
    tasks: List[Task[..., object]] = [extract, load]
    print(run.result, run.status, names, tasks, load([], table="x"))
