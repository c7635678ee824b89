"""Prices, from a file beside the module."""

import csv
from pathlib import Path


def price_of(sku):
    with open(Path(__file__).with_name("prices.csv"), newline="", encoding="utf-8") as file:
        return next(int(row["price"]) for row in csv.DictReader(file) if row["sku"] == sku)
