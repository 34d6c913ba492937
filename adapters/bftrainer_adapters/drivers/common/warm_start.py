"""Runs on a node instead of ``python SCRIPT ...``: does the script's imports before the node joins the training.

    python warm_start.py SCRIPT [ARGUMENT ...]     or     python warm_start.py -m MODULE [ARGUMENT ...]

It imports what the script imports from installed packages, prints a marker, waits for one line on standard input with
environment variables as JSON, and runs the script. If standard input ends without a line, the worker is not needed and exits.
Only the standard library is used: bftrainer may be missing in the user's environment.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import runpy
import sys

MARKER = "bftrainer: this worker is warm"


def imported(source: str) -> list[str]:
    """The modules that the outermost statements of a script import."""
    names: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return names


def warm_up(path: str, own_folder: str) -> None:
    """Import them, but not the user's own modules, which may need the environment variables that come later."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib would be one import more
        names = imported(file.read())
    for name in names:
        attempt(name, own_folder)
    if "torch" in sys.modules:
        attempt("torch._dynamo", own_folder)  # torch's optimizers import it on first use, which takes 1 s and more


def run_in_worker() -> None:
    """Run the driver's own file, if it names one (``bftrainer.protocol.environment.IN_WORKER``)."""
    if path := os.environ.pop("BFTRAINER_IN_WORKER", None):
        try:
            runpy.run_path(path, run_name="__main__")
        except ImportError as error:  # the script will fail at the same import with its own message
            print(f"bftrainer: {error!r}", file=sys.stderr)


def attempt(name: str, own_folder: str) -> None:
    """Import a module. If it is broken, the script will fail at the same import with its own message."""
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
        # os.path here and below: pathlib would be one import more in every worker's start.
        if spec and not os.path.abspath(spec.origin or "").startswith(own_folder + os.sep):  # noqa: PTH100
            importlib.import_module(name)
    except Exception as error:
        print(f"bftrainer: warming up: {name}: {error!r}", file=sys.stderr)


def main() -> None:
    """Run the script, or the module, that the arguments name."""
    module = sys.argv[1] == "-m"
    target, arguments = (sys.argv[2], sys.argv[3:]) if module else (sys.argv[1], sys.argv[2:])
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(target))  # noqa: PTH100, PTH109, PTH120
    found = importlib.util.find_spec(target) if module else None
    path = (found.origin if found else None) if module else target
    if path:
        warm_up(path, sys.path[0])
    run_in_worker()
    print(MARKER, flush=True)
    line = sys.stdin.readline()
    if not line:
        return
    os.environ.update(json.loads(line))
    sys.argv = [target, *arguments]
    if module:
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(target, run_name="__main__")


if __name__ == "__main__":
    main()
