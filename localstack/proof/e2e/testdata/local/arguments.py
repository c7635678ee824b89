import datetime as dt

from millrace import flow, task


@task
def extract(day: dt.date, source="all"):
    return {"rows": [1, 2, 3], "by-day": [[day.isoformat()]], "source": source}


@task
def copy_table(rows, table, *, limit: int = 10):
    print("copying", len(rows), "rows to", table)
    return [table, rows, limit]


@task
def scale(item, index, factor=1):
    return item * factor + index


@task
def named(row, number):
    return f"{number}: {row}"


@task
def large():
    return list(range(20_000))


@task
def merge(parts, note=None, size=0):
    return {"parts": parts, "note": note, "size": size}


@flow(tier="micro")
def arguments(day: dt.date, limit: int = 5):
    rows = extract(day, source="orders")
    copied = copy_table(rows["rows"], table="orders")
    again = copy_table(rows["by-day"][0], "days", limit=7)
    scaled = scale.map(rows["rows"], factor=10)
    rows_named = named.map(rows["rows"], row="${{ item }}", number="${{ index + 1 }}")
    whole = copy_table.with_options(name="whole")(large(), table={"to": "x", "nested": [rows["source"], None]})
    merged = merge([copied, again, scaled, rows_named], note=f"of {day}", size="${{ size(tasks.whole.output[1]) }}")
    return {"merged": merged, "first": scaled[0], "label": f"{day}: {limit}", "fixed": [1, None, "x"]}


if __name__ == "__main__":
    arguments(day=dt.date(2026, 1, 31))
