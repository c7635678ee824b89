"""A flow in a package, which imports its neighbours by relative imports.

From the folder of pyproject.toml:

    python -m millrace run src/acme/flows/daily.py
    millrace deploy src/acme/flows/daily.py
"""

import os

from millrace import flow, task

from . import tasks
from ..lib.prices import price_of


@task
def total(prices):
    """Relative imports work within a task, too; open() is relative to the directory of imports."""
    from .. import CURRENCY

    with open(os.path.join("acme", "lib", "prices.csv"), encoding="utf-8") as file:
        known = len(file.readlines()) - 1
    return {"total": sum(p["amount"] for p in prices), "currency": CURRENCY, "known": known, "tea": price_of("tea"), "module": __name__}


@flow
def daily():
    return total([tasks.price("tea", 3), tasks.price("jam", units=2)])
