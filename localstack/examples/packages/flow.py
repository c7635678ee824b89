"""Five third-party packages, named in requirements.txt.

The names are those of packages that the tests build; offline they come from a
folder of wheels:

    export PIP_NO_INDEX=1 PIP_FIND_LINKS=wheels
    millrace deploy .                                   # installs nothing here
    pip install -r requirements.txt && python flow.py
"""

import dotted
import native
import slugs
import tables
import units
from millrace import flow, task


@task
def modules():
    """Use each package: pure ones, one with data files, one built for a platform."""
    return {"slugs": slugs.slug("Third Party"), "units": units.version(), "dotted": dotted.data().strip(), "native": bool(native.BUILT_FOR)}


@task
def table(modules):
    """Use a package that depends on another one, imported within the task."""
    from importlib.metadata import version

    return [tables.row("A package", name, version(name)) for name in sorted(modules)]


@flow
def packages():
    return table(modules())


if __name__ == "__main__":
    print(packages().result)
