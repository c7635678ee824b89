"""Builds the wheel that contains the binary millrace for one platform.

    python3 binary.py BINARY GOOS/GOARCH -o DIRECTORY

The binary becomes the script millrace of the environment that the wheel is
installed in; it uses that environment's Python. It prints the path of the wheel,
or fails if the binary is for another platform.
"""

import argparse
import os
import struct
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

# Where the header of an executable has its architecture, and the values.
ELF, ELF_MACHINES = b"\x7fELF\x02\x01", {62: "linux/amd64", 183: "linux/arm64"}
MACH_O, MACH_O_CPUS = b"\xcf\xfa\xed\xfe", {0x01000007: "darwin/amd64", 0x0100000C: "darwin/arm64"}


class PlatformError(Exception):
    """The binary cannot run on the platform of the wheel."""


def platform_of(binary):
    """Return the platform of an executable (bytes), GOOS/GOARCH, or None if it is not one of PLATFORMS."""
    if binary.startswith(ELF) and len(binary) >= 20:
        return ELF_MACHINES.get(struct.unpack_from("<H", binary, 18)[0])
    if binary.startswith(MACH_O) and len(binary) >= 8:
        return MACH_O_CPUS.get(struct.unpack_from("<I", binary, 4)[0])
    return None


def build(binary, platform, directory):
    """Write the wheel of a platform, GOOS/GOARCH, and return its file name."""
    tags = PLATFORMS[platform]
    program = metadata.read(binary)
    if platform_of(program) != platform:
        raise PlatformError(f"{binary} is a program for {platform_of(program) or 'an unknown platform'}, not for {platform}")
    script = wheel.prefix() + ".data/scripts/millrace"
    files = {name: metadata.read(path) for name, path in metadata.package_files()}
    files[script] = program
    files.update(wheel.dist_info([f"py3-none-{tag}" for tag in tags], pure=False, script=script))
    os.makedirs(directory, exist_ok=True)
    return wheel.write(directory, "py3-none-" + ".".join(tags), files, {script})


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Build the wheel that contains the binary.")
    parser.add_argument("binary")
    parser.add_argument("platform", choices=PLATFORMS)
    parser.add_argument("-o", "--output", default=".", metavar="DIRECTORY")
    options = parser.parse_args(arguments)
    try:
        print(os.path.join(options.output, build(options.binary, options.platform, options.output)))
    except PlatformError as error:
        sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    sys.exit(main())
