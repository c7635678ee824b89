"""A task of a library, used five times with different constants.

    python flow.py
"""

from library import copy_table
from millrace import flow, task


@task
def connect(rows: int = 4):
    return {"rows": rows}


@task
def report(copies):
    return {name: len(rows) for name, rows in copies.items()}


@flow
def mirror():
    source = connect(rows=5)
    return report({
        "orders": copy_table(source, "orders"),
        "items": copy_table(source, table="items", limit=3),
        "users": copy_table(source, "users", 2, ["id", "name"]),
        "prices": copy_table.with_options(name="copy_prices", retries=3)(source, table="prices", limit=0),
        "days": copy_table({"rows": 1}, table="${{ 'day_' + string(size(tasks.connect.output)) }}"),
    })


if __name__ == "__main__":
    print(mirror().result)
