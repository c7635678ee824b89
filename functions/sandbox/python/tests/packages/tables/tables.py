"""A package that needs another one."""

from slugs import slug


def row(*cells):
    return "|".join(map(slug, cells))
