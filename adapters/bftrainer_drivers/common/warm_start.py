"""Runs on a node instead of ``python SCRIPT ...``: does the script's imports before the node joins
the training.

    python warm_start.py SCRIPT [ARGUMENT ...]
    python warm_start.py -m MODULE [ARGUMENT ...]

It imports what the script imports from installed packages, prints a marker, waits for one line on
standard input with environment variables as JSON, and runs the script. If standard input ends
without a line, the worker is not needed and exits. If the environment already names the driver's
store, the worker does not wait: it starts cold. Only the standard library is used: bftrainer may be
missing in the user's environment.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import runpy
import sys
import types
from collections.abc import Iterator

MARKER = "bftrainer: this worker is warm"


def imported_modules(source: str) -> list[str]:
    """Return the modules that the outermost statements of a script import."""
    names: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return names


def warm_up(path: str, own_folder: str) -> None:
    """Import the installed modules that a script imports, but not the user's own, which may need
    environment variables that come later.
    """
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib would be one import more
        names = imported_modules(file.read())
    with without_collection():
        for name in names:
            import_if_possible(name, own_folder)
        if "torch" in sys.modules:
            # torch's optimizers import it on first use, which takes 1 s and more.
            import_if_possible("torch._dynamo", own_folder)


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Do without garbage collection within the block, and never collect objects that were made
    there: among modules there is no garbage.

    It would take a third of the time of torch's imports, and 0.9 of the 1.1 s that a process with
    torch takes to end: then Python searches everything several times. Objects of the script itself
    are collected as always.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def run_in_worker() -> None:
    """Run the driver's own file, if it names one (``bftrainer.wires.environment.IN_WORKER``)."""
    if path := os.environ.pop("BFTRAINER_IN_WORKER", None):
        try:
            runpy.run_path(path, run_name="__main__")
        except ImportError as error:  # the script will fail at the same import with its own message
            print(f"bftrainer: {error!r}", file=sys.stderr)


def module_beside(name: str) -> types.ModuleType:
    """Load a module of this file's folder, which is not on the worker's path."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")  # noqa: PTH100, PTH118, PTH120 - the same
    spec = importlib.util.spec_from_file_location(f"_bftrainer_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def import_if_possible(name: str, own_folder: str) -> None:
    """Import a module, unless it lies in ``own_folder``, the user's. If it is broken, only print
    that: the script will fail at the same import with its own message.
    """
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
        # os.path here and below: pathlib would be one import more in every worker's start.
        if spec and not os.path.abspath(spec.origin or "").startswith(own_folder + os.sep):  # noqa: PTH100 - the same
            importlib.import_module(name)
    except Exception as error:
        print(f"bftrainer: warming up: {name}: {error!r}", file=sys.stderr)


def run(words: list[str]) -> None:
    """Run ``SCRIPT ...`` or ``-m MODULE ...`` as Python itself would: the same ``__main__``,
    tracebacks and exit status.
    """
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:
        sys.modules["__mp_main__"] = main  # as multiprocessing has it
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]  # what python -m itself calls
        else:
            sys.argv = words
            path = os.path.abspath(words[0])  # noqa: PTH100 - pathlib would be one import more
            loader = importlib.machinery.SourceFileLoader("__main__", path)
            main.__dict__.update(__file__=path, __loader__=loader, __cached__=None)
            with open(words[0], "rb") as file:  # noqa: PTH123 - the same
                code = compile(file.read(), path, "exec", dont_inherit=True)
            exec(code, main.__dict__)  # noqa: S102 - the script
    except SystemExit:
        raise
    except BaseException as error:
        # Without the frames of this file, as a traceback of the script alone.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if isinstance(error, KeyboardInterrupt):
            sys.excepthook = lambda *_: None
            raise
        raise SystemExit(1) from None


def insert_script_folder(words: list[str]) -> None:
    """Put at the head of ``sys.path`` the folder that Python puts there for this command."""
    if not getattr(sys.flags, "safe_path", False):
        folder = os.getcwd() if words[0] == "-m" else os.path.dirname(os.path.realpath(words[0]))  # noqa: PTH109, PTH120 - the same
        sys.path.insert(0, folder)


def script_path(words: list[str]) -> str | None:
    """Return the file that ``SCRIPT ...`` or ``-m MODULE ...`` runs; None if there is no such
    module, or it has no file.
    """
    if words[0] != "-m":
        return words[0]
    spec = importlib.util.find_spec(words[1])
    return spec.origin if spec else None


def main() -> None:
    """Warm up for the script or module that the arguments name, wait, and run it."""
    words = sys.argv[1:]
    insert_script_folder(words)
    path = script_path(words)
    relay = module_beside("behind_relay") if "BFTRAINER_STORE" in os.environ else None
    # A cold start: the rank is in the environment.
    if os.environ.get("BFTRAINER_STORE") or os.environ.get("BFTRAINER_KEYED_STORE"):
        begin(relay, words)
        return
    if relay is not None:
        relay.start_relay()
    if path:
        warm_up(path, sys.path[0])
    run_in_worker()
    print(MARKER, flush=True)
    line = sys.stdin.readline()
    if not line:  # the worker is not needed
        return
    os.environ.update(json.loads(line))
    begin(relay, words)


def begin(relay: types.ModuleType | None, words: list[str]) -> None:
    """Connect this worker to the driver's store, if it has one, and run the script."""
    if relay is not None:
        relay.open_relay()
    if os.environ.get("BFTRAINER_KEYED_STORE"):  # installs the guards itself, once it is needed
        keyed_store = module_beside("keyed_store")
        keyed_store.install(module_beside("behind_relay"), module_beside("vouching"))
    elif {"BFTRAINER_VOUCH", "BFTRAINER_SHARED_INTERFACE"} & os.environ.keys():
        module_beside("vouching").install()
    run(words)


if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    main()
