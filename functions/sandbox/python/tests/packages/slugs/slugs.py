"""A package of one module."""


def slug(text):
    return "-".join(text.lower().split())
