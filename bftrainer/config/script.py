"""What a training script expects and where it saves, guessed from its text."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from bftrainer.plugin_traits import all_launchers, launcher_traits
from bftrainer.system.regular import open_regular

_BYTES = 1 << 20
_SAVES = re.compile(r"save|checkpoint|ckpt|progress\.tasks|Training\(|StepLoop\(", re.IGNORECASE)
_FIXED_FILE = re.compile(
    r"""^(?!.*(?:join\(|args\.| / )).*(?:save|checkpoint|ckpt)[^\n]*["']([^"'{}\s]+\.\w+)["']""",
    re.I | re.MULTILINE,
)
_SAVE_TO = re.compile(
    r"-*(?:checkpoint|ckpt|save|out|output)s?(?:[-_](?:dir|path|file|to))?", re.IGNORECASE
)
_OWN_PACKAGES = ("bftrainer", "bftrainer_train")
_IMPORTS_US = re.compile(r"^[ \t]*(?:from|import) (bftrainer(?:_train)?)\b", re.MULTILINE)
_PLAIN_OPTIONS = re.compile(r"-[bBdEiIOqsSuvx]+")


class Clue(NamedTuple):
    """A launcher, and the word of the script that asks for it."""

    launcher: str
    word: str


class OwnImport(NamedTuple):
    """A package of ours that a script imports. ``is_first``: before anything that could handle the
    failure, or make another folder known to Python.
    """

    package: str
    is_first: bool


def script_of(command: Sequence[str]) -> str | None:
    """Return the script that a command runs: ``train.py`` for ``python -u train.py --lr 1``. None
    for a command that is not ``python [plain options] SCRIPT.py ...``.
    """
    if not command or not Path(command[0]).name.startswith("python"):
        return None
    script = next((word for word in command[1:] if not _PLAIN_OPTIONS.fullmatch(word)), "")
    return script if script.endswith(".py") else None


def text_of(script: Path) -> str | None:
    """Return the text of a script; None if it cannot be read, or is a pipe or a device."""
    try:
        with os.fdopen(open_regular(script, follow_links=True), "rb") as file:
            return file.read(_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return None


def own_import(text: str, folder: Path) -> OwnImport | None:
    """Return which package of ours a script in ``folder`` imports; None if it imports none.

    A text that this version of Python cannot parse is searched for such a line.
    """
    line = _IMPORTS_US.search(text)
    if line is None:
        return None
    try:
        with warnings.catch_warnings():  # of a text that is not ours
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return OwnImport(line[1], is_first=False)
    for position, statement in enumerate(module.body):
        packages = _imported(statement)
        ours = [package for package in packages if package in _OWN_PACKAGES]
        if ours:
            return OwnImport(ours[0], is_first=True)
        is_docstring = position == 0 and isinstance(statement, ast.Expr)
        # A module beside the script may extend Python's path.
        if not is_docstring and (not packages or any(_is_beside(folder, p) for p in packages)):
            break
    for node in ast.walk(module):
        for package in _imported(node):
            if package in _OWN_PACKAGES:
                return OwnImport(package, is_first=False)
    return None  # the line is in a text


def _imported(node: ast.AST) -> list[str]:
    """Return the packages that a statement imports; empty for any other statement."""
    if isinstance(node, ast.Import):
        return [name.name.partition(".")[0] for name in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module.partition(".")[0]]
    return []


def _is_beside(folder: Path, package: str) -> bool:
    """Return whether a module of this name is in a script's folder."""
    return (folder / f"{package}.py").exists() or (folder / package).is_dir()


def launcher_clue(text: str) -> Clue | None:
    """Return the launcher that a script asks for, with the word that says so; None for a script
    that trains alone, or forms its group in a module of its own.
    """
    for launcher, pattern in _launcher_patterns():
        if match := pattern.search(text):
            return Clue(launcher, next(filter(None, match.groups())))
    return None


@lru_cache(maxsize=1)
def _launcher_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return (launcher, pattern of its clue), in the order in which clues are looked for."""
    clues = [(traits.clue, name) for name, traits in all_launchers().items() if traits.clue]
    clues.sort(key=lambda entry: (entry[0].rank, entry[1]))
    return tuple(
        (name, re.compile(script_clue.pattern, re.MULTILINE)) for script_clue, name in clues
    )


def save_option(command: Sequence[str]) -> str:
    """Return the value of an option that names where to save, such as ``--checkpoint FILE`` or
    ``--save-dir=DIR``; empty if there is none.
    """
    words: list[str] = []  # those of the command, with --option=value as two
    for word in command:
        if word.startswith("-"):
            words += word.split("=", 1)
        else:
            words.append(word)
    for option, value in pairwise(words):
        is_save_option = option.startswith("-") and _SAVE_TO.fullmatch(option)
        if is_save_option and not value.startswith("-"):
            return value
    return ""


def fixed_checkpoint(text: str) -> str:
    """Return the file that a script saves to whatever its arguments; empty if none is found."""
    match = _FIXED_FILE.search(text)
    return match[1] if match else ""


def saves(text: str) -> bool:
    """Whether a script says anything of a checkpoint, or has tasks, which need none."""
    return bool(_SAVES.search(text))


def launcher_doubt(script_clue: Clue | None, launcher: str, max_workers: int) -> str:
    """Return why a launcher does not seem to fit a script; empty if it does.

    ``script_clue`` is the script's :func:`launcher_clue`, and ``max_workers`` the largest
    number of workers of the trainer.
    """
    fitting = launcher_traits(launcher).starts_scripts_for
    if not fitting:  # the launcher starts any script
        return ""
    if script_clue is None:
        if max_workers == 1:  # a script that trains alone is right for one worker
            return ""
        return (
            "forms no process group that bftrainer knows (init_process_group, hvd.init, ...), "
            "so that each of up to "
            f"{max_workers} workers may train the same; expected max_nodes = 1, or a script "
            "that trains in parallel"
        )
    if script_clue.launcher in fitting:
        return ""
    return (
        f"uses {script_clue.word}; expected launcher = {script_clue.launcher!r}, got {launcher!r}"
    )
