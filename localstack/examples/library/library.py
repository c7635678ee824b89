"""Tasks that several flows share."""

from millrace import task


@task(retries=1)
def copy_table(source, table, limit: int = 1000, columns=("id",)):
    """Copy up to limit rows of a table."""
    rows = [{column: f"{table}.{column}.{n}" for column in columns} for n in range(min(limit, source["rows"]))]
    print(f"copied {len(rows)} rows of {table}")
    return rows
