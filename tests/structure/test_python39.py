"""What training scripts import runs on Python 3.9, the oldest that frameworks of today still meet,
and with the standard library alone.

``ast.parse(feature_version=(3, 9))`` refuses new statements. What it lets pass is checked here: new
arguments, new names of the standard library, and unions that are evaluated. Where a Python 3.9 is
installed, it imports all.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ran import ran

from bftrainer.wires.control import ControlMessage
from bftrainer.wires.gpu_use import GpuUse
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.replicas import Hello, Keys, Meeting, NextStep, Turn

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "packaging" / "train" / "pyproject.toml"
OF_A_FRAMEWORK = {"bftrainer/progress/lightning.py", "bftrainer/progress/transformers.py"}
"""They import the framework whose callbacks they are."""

LAZY = "from __future__ import annotations\n"

NEW_ARGUMENTS = {
    "dataclass": {"slots", "kw_only", "match_args", "weakref_slot"},
    "field": {"kw_only"},
    "zip": {"strict"},
    "entry_points": {"group", "name"},
    "bisect_left": {"key"},
    "bisect_right": {"key"},
    "insort": {"key"},
    "mkdtemp": {"delete"},
    "rmtree": {"onexc"},
    "TemporaryDirectory": {"ignore_cleanup_errors", "delete"},
    "NamedTemporaryFile": {"delete_on_close"},
    "write_text": {"newline"},
    "run": {"process_group"},
    "Popen": {"process_group"},
}
"""By the name of a function: keyword arguments of Python 3.10 and later."""
NEW_NAMES = {
    "asyncio": {"Barrier", "Runner", "TaskGroup", "Timeout", "timeout", "timeout_at"},
    "contextlib": {"aclosing", "chdir", "AsyncContextDecorator"},
    "dataclasses": {"KW_ONLY"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "ReprEnum", "EnumCheck", "verify", "member", "nonmember", "global_enum"},
    "functools": {"Placeholder"},
    "hashlib": {"file_digest"},
    "inspect": {"get_annotations", "getmembers_static"},
    "itertools": {"batched", "pairwise"},
    "math": {"cbrt", "exp2", "fma", "sumprod"},
    "operator": {"call"},
    "os": {"EFD_CLOEXEC", "eventfd", "login_tty", "pidfd_send_signal", "unshare", "setns"},
    "signal": {"sigqueue"},
    "socket": {"SO_INCOMING_CPU"},
    "sys": {"exception", "orig_argv", "stdlib_module_names", "monitoring"},
    "threading": {"gettrace", "getprofile", "setprofile_all_threads"},
    "time": {"clock_settime_ns"},
    "types": {"EllipsisType", "NoneType", "NotImplementedType", "UnionType", "get_original_bases"},
    "typing": {
        "Concatenate",
        "LiteralString",
        "Never",
        "NotRequired",
        "ParamSpec",
        "Required",
        "Self",
        "TypeAlias",
        "TypeAliasType",
        "TypeGuard",
        "TypeVarTuple",
        "Unpack",
        "assert_never",
        "assert_type",
        "dataclass_transform",
        "override",
        "reveal_type",
    },
}
"""By module: names of Python 3.10 and later."""
NEW_BUILTINS = {"aiter", "anext", "BaseExceptionGroup", "EncodingWarning", "ExceptionGroup"}
NEW_METHODS = {"add_note", "bit_count", "from_uri", "full_match", "hardlink_to", "is_junction"}
NEW_MODULES = {"annotationlib", "compression", "tomllib", "_remote_debugging"}


def files() -> list[Path]:
    """The modules of the wheel for scripts."""
    wheel = tomllib.loads(PROJECT.read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    names = wheel["force-include"].values()
    folders = [ROOT / name for name in names if (ROOT / name).is_dir()]
    modules = [ROOT / name for name in names if name.endswith(".py")]
    return sorted([*modules, *(path for folder in folders for path in folder.rglob("*.py"))])


def annotations(tree: ast.Module) -> Iterator[ast.expr]:
    """Every annotation, which ``from __future__ import annotations`` leaves unevaluated."""
    for node in ast.walk(tree):
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(annotation, ast.expr):
            yield annotation


def names_a_type(node: ast.expr) -> bool:
    """Whether an operand of ``|`` is a type: ``None``, ``int``, ``Path``, ``list[int]``, ``a.Path``.

    Flags (``os.O_CLOEXEC``) and dictionaries are none.
    """
    if isinstance(node, ast.Subscript):
        return names_a_type(node.value)
    if isinstance(node, ast.Constant):
        return node.value is None
    name = getattr(node, "id", getattr(node, "attr", ""))
    is_class_name = name[:1].isupper() and not name.isupper()
    return is_class_name or isinstance(getattr(builtins, name, None), type)


def faults(source: str) -> list[str]:
    """What Python 3.9 would not run, each with its line."""
    try:
        tree = ast.parse(source, feature_version=(3, 9))
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    unevaluated: set[int] = set()
    if LAZY in source:
        unevaluated = {id(part) for node in annotations(tree) for part in ast.walk(node)}
    problems: list[str] = []
    for node in ast.walk(tree):
        if id(node) not in unevaluated:
            problems += [f"line {node.lineno}: {text}" for text in problems_of(node)]  # type: ignore[attr-defined]  # only nodes with a line have problems
    return problems


def problems_of(node: ast.AST) -> Iterator[str]:
    """What of a node alone needs a newer Python."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        if names_a_type(node.left) or names_a_type(node.right):
            yield f"the union {ast.unparse(node)} is evaluated"
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        given = {keyword.arg for keyword in node.keywords}
        for argument in sorted(NEW_ARGUMENTS.get(name, set()) & given):
            yield f"{name}({argument}=...)"
    elif isinstance(node, ast.ImportFrom):
        for name in sorted(NEW_NAMES.get(node.module or "", set()) & {a.name for a in node.names}):
            yield f"{node.module}.{name}"
        if node.module in NEW_MODULES:
            yield f"module {node.module}"
    elif isinstance(node, ast.Import):
        for name in sorted(NEW_MODULES & {alias.name for alias in node.names}):
            yield f"module {name}"
    elif isinstance(node, ast.Name) and node.id in NEW_BUILTINS:
        yield node.id
    elif isinstance(node, ast.Attribute):
        module = getattr(node.value, "id", "")
        if node.attr in NEW_NAMES.get(module, set()):
            yield f"{module}.{node.attr}"
        elif node.attr in NEW_METHODS:
            yield f".{node.attr}"


@pytest.mark.parametrize(
    "source",
    [
        "match x:\n    case 1: pass",
        "try: pass\nexcept* ValueError: pass",
        "type Number = int",
        "def f[T](x: T) -> T: ...",
        "Number = int | float",
        "Table = dict[str, int] | None",
        "from pathlib import Path\nPlace = Path | str",
        "isinstance(x, list | tuple)",
        "x: int | None = None",
        "def f(x: int | None): ...",
        "def f(*, x) -> int | None: ...",
        LAZY + "cast(int | None, x)",
        "@dataclass(frozen=True, slots=True)\nclass A: ...",
        "@dataclasses.dataclass(kw_only=True)\nclass A: ...",
        "zip(a, b, strict=True)",
        "import datetime\ndatetime.UTC",
        "from datetime import UTC",
        "from types import NoneType",
        "from itertools import pairwise",
        "from typing import Self",
        "import tomllib",
        "import enum\nclass A(enum.StrEnum): ...",
        "error.add_note('x')",
        "(5).bit_count()",
        "raise ExceptionGroup('x', [])",
    ],
)
def test_the_check_sees_what_python_3_9_lacks(source: str) -> None:
    assert faults(source)


@pytest.mark.parametrize(
    "source",
    [
        LAZY + "def f(x: int | None, *y: list[int]) -> dict[str, int] | None: ...",
        LAZY + "x: int | None = None",
        "flags = os.O_CLOEXEC | os.O_NONBLOCK\nstate = left | {'a': 1}\nmask = FLAG | 1",
        "from typing import Optional, Union\nNumber = Union[int, float]",
        "@dataclass(frozen=True)\nclass A: ...",
        "with (open('a') as a, open('b') as b): pass",
        "'a.b'.removesuffix('.b')",
    ],
)
def test_the_check_lets_pass_what_python_3_9_has(source: str) -> None:
    assert faults(source) == []


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_for_scripts_is_python_3_9(path: Path) -> None:
    assert faults(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "message",
    [
        ControlMessage,
        DriverSettings,
        GpuUse,
        Hello,
        Keys,
        Meeting,
        NextStep,
        TrainerMessage,
        Turn,
    ],
)
def test_a_message_that_scripts_read_has_types_that_python_3_9_evaluates(message: type) -> None:
    """``typed_json`` evaluates the annotations of these classes, lazy or not."""
    unions = {field.name for field in dataclasses.fields(message) if "|" in str(field.type)}
    assert unions == set(), "write Optional[...] here"


def imported_at_once(tree: ast.Module) -> Iterator[str]:
    """Modules that a module imports when it is imported itself."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_for_scripts_imports_the_standard_library_only(path: Path) -> None:
    foreign = {
        name
        for name in imported_at_once(ast.parse(path.read_text("utf-8")))
        if name not in sys.stdlib_module_names and name != "bftrainer"
    }
    if str(path.relative_to(ROOT)) in OF_A_FRAMEWORK:
        assert foreign == {path.stem}
    else:
        assert foreign == set()


# --- On a Python 3.9, where there is one

IMPORT_ALL = """
import importlib, sys
from bftrainer.progress import Batches, LearningRate, Sampler, Scaling
from bftrainer.wires.control import ControlMessage
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.replicas import Meeting, Turn
from bftrainer.wires.typed_json import from_fields
assert sys.version_info[:2] == (3, 9)
for name in sys.argv[1:]:
    importlib.import_module(name)
found = dict(id="a", command=["b"], cwd="/c", min_nodes=1, max_nodes=2, scaling="strong", image="x.sif")
assert from_fields(TrainerMessage, found, "trainer.json").scaling is Scaling.STRONG
assert from_fields(ControlMessage, dict(request="stop"), "control").request.value == "stop"
samplers = [Sampler(10, Batches(Scaling.STRONG, 4), rank, 2) for rank in range(2)]
assert sorted(sum((next(iter(sampler)) for sampler in samplers), [])) == sorted(next(iter(Sampler(10, Batches(Scaling.STRONG, 4)))))
print("imported", len(sys.argv) - 1)
"""


def python39() -> str | None:
    """A Python 3.9 of this machine: on PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    try:
        of_pyenv = sorted(map(str, pyenv.glob("versions/3.9.*/bin/python3.9")))
    except PermissionError:
        of_pyenv = []
    for program in filter(None, [shutil.which("python3.9"), *of_pyenv]):
        command = [program, "-c", "import sys; sys.exit(sys.version_info[:2] != (3, 9))"]
        # A shim of pyenv is on PATH for every version, and fails for those that are not selected.
        if subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0:
            return program
    return None


def test_python_3_9_imports_all_and_reads_messages() -> None:
    program = python39()
    if program is None:
        pytest.skip("no python3.9 on this machine; the public workflow has one")
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in files()
        if str(path.relative_to(ROOT)) not in OF_A_FRAMEWORK
    ]
    environment = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = ran(program, "-W", "error", "-c", IMPORT_ALL, *modules, env=environment)
    assert done.stdout == f"imported {len(modules)}\n", done.stderr
