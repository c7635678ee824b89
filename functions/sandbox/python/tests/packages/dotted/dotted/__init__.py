"""A package with data, a hidden file and a script."""

import os


def data():
    with open(os.path.join(os.path.dirname(__file__), ".data"), encoding="utf-8") as file:
        return file.read()
