"""Builds the wheel that contains the binary millrace for one platform.

    python3 binary.py BINARY GOOS/GOARCH -o DIRECTORY

The binary becomes the script millrace of the environment that the wheel is
installed in; it uses that environment's Python. It prints
the path of the wheel.
"""

import argparse
import os
import sys

import metadata
import wheel

# The binary is static, so any C library will do. Go 1.26 asks for macOS 12.
PLATFORMS = {
    "linux/amd64": ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"),
    "linux/arm64": ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"),
    "darwin/amd64": ("macosx_12_0_x86_64",),
    "darwin/arm64": ("macosx_12_0_arm64",),
}


def build(binary, platform, directory):
    """Write the wheel of a platform, GOOS/GOARCH, and return its file name."""
    tags = PLATFORMS[platform]
    script = wheel.prefix() + ".data/scripts/millrace"
    files = {name: metadata.read(path) for name, path in metadata.package_files()}
    files[script] = metadata.read(binary)
    files.update(wheel.dist_info([f"py3-none-{tag}" for tag in tags], pure=False, script=script))
    os.makedirs(directory, exist_ok=True)
    return wheel.write(directory, "py3-none-" + ".".join(tags), files, {script})


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Make the wheel that carries the binary.")
    parser.add_argument("binary")
    parser.add_argument("platform", choices=PLATFORMS)
    parser.add_argument("-o", "--output", default=".", metavar="DIRECTORY")
    options = parser.parse_args(arguments)
    print(os.path.join(options.output, build(options.binary, options.platform, options.output)))


if __name__ == "__main__":
    sys.exit(main())
