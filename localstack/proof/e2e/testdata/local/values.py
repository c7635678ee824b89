import dataclasses
import datetime as dt
import decimal
import enum
import logging
import math
import os
import sys
import warnings

from millrace import Context, File, flow, task

log = logging.getLogger("library")


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Row:
    day: dt.date
    price: decimal.Decimal
    color: Color = Color.RED


@task
def extract(ctx: Context, day: dt.date):
    log.info("reading %s", day)
    log.debug("too quiet to be kept")
    logging.warning("careful")
    print("printed\n\nafter a blank line")
    print("no end", end="")
    print("to standard error", file=sys.stderr)
    os.system("echo by a child")
    ctx.log("noted", level="debug")
    return [Row(day + dt.timedelta(days=n), decimal.Decimal("1.10") * n) for n in range(3)]


@task
def each(item: Row, index: int):
    print(type(item).__name__, item.day.isoformat(), item.color.name)
    return {"n": index, "price": item.price, "part": math.nan if index == 1 else index}


@task
def write(ctx, each: "list[dict]"):
    with open("rows.csv", "w") as file:
        for row in each:
            file.write(f"{row['n']},{row['price']}\n")
    return {"report": ctx.save_file("rows.csv"), "tags": {"b", "a"}}


@task
def read(write, day: dt.date, limit: int = 2):
    report: File = write["report"]
    return [report.name, report.size, report.read_text(), sorted(write["tags"]), day.year, limit]


@flow
def values(day: dt.date, limit: int = 5):
    rows = extract(day)
    parts = write(each.map(rows))
    read(parts, day, limit)


if __name__ == "__main__":
    values(day=dt.date(2026, 1, 31))
