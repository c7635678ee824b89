"""A CSV file of 200,000 rows, processed in 50 partitions and joined.

The file goes between the tasks as a File. The first task notes where each partition
begins, so that an instance of the map reads its own part only.

    python flow.py
"""

import csv
import os
import tempfile

from millrace import File, flow, task

HEADER = ("order", "region", "cents")
REGIONS = ("north", "east", "south", "west")


@task
def export(ctx, rows: int, partitions: int):
    """Write the file; return it, and the first byte and the number of rows of each partition."""
    path = os.path.join(tempfile.gettempdir(), "orders.csv")
    parts = []
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(HEADER)
        for n in range(partitions):
            begin, end = rows * n // partitions, rows * (n + 1) // partitions
            parts.append({"offset": file.tell(), "rows": end - begin})
            table.writerows((order, REGIONS[order % 4], order * 7919 % 10_000) for order in range(begin, end))
    return {"orders": ctx.save_file(path), "parts": parts}


@task(retries=1)
def add_up(item, index, orders: File):
    """Sum one partition by region."""
    sums = dict.fromkeys(REGIONS, 0)
    with orders.open(newline="", encoding="utf-8") as file:
        file.seek(item["offset"])
        for _, row in zip(range(item["rows"]), csv.DictReader(file, HEADER)):
            sums[row["region"]] += int(row["cents"])
    print(f"partition {index}: {item['rows']} rows")
    return sums


@task
def join(parts, split):
    """Sum the partitions."""
    sums = {region: sum(part[region] for part in parts) for region in REGIONS}
    return {"rows": sum(part["rows"] for part in split), "cents": sums}


@flow
def orders(rows: int = 200_000, partitions: int = 50):
    made = export(rows, partitions)
    parts = add_up.map(made["parts"], orders=made["orders"])
    return join(parts, made["parts"])


if __name__ == "__main__":
    print(orders().result)
