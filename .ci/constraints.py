"""Print the versions of all packages of .venv, as constraints for pip.

``make constraints`` writes them to .ci/constraints.txt after a run of ``make test``. Left out are
bftrainer itself and Horovod, which .ci/horovod.sh builds; local versions, such as ``+cpu`` of
torch, depend on the package index.
"""

from __future__ import annotations

import platform
import subprocess
import sys

LEFT_OUT = ("bftrainer", "bftrainer-train", "horovod")
HEADER = """\
# Versions with which all tests passed on Python {python}, written by `make constraints`.
# Not used by default: CONSTRAINTS=.ci/constraints.txt make test
"""


def constraints(frozen: str) -> list[str]:
    """Lines ``name==version`` for the output of ``pip freeze``."""
    lines = []
    for line in frozen.splitlines():
        name, separator, version = line.partition("==")
        if separator and name.lower() not in LEFT_OUT:
            lines.append(f"{name}=={version.partition('+')[0]}")
    return lines


if __name__ == "__main__":
    freeze = [sys.executable, "-m", "pip", "freeze", "--exclude-editable"]
    listing = subprocess.run(freeze, check=True, capture_output=True, text=True).stdout  # noqa: S603  # our own arguments
    print(HEADER.format(python=platform.python_version()), *constraints(listing), sep="\n")
