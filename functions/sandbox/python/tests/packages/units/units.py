"""A package of two versions."""


def version():
    return "@VERSION@"
