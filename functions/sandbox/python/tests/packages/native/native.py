"""A package with a wheel for each platform and Python."""

BUILT_FOR = "@TAG@"
