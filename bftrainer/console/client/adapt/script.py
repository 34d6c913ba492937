"""Which adaptation a script wants, by what it imports."""

from __future__ import annotations

import ast
import difflib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path

from bftrainer.config.script import clue, text_of
from bftrainer.console.client.adapt.frameworks import (
    adapt_horovod,
    adapt_lightning,
    adapt_transformers,
)
from bftrainer.console.client.adapt.loop import adapt_loop
from bftrainer.console.client.adapt.source import ScriptSource
from bftrainer.errors import UserError

_MARK = "\ufeff"
"""The byte order mark, with which editors of Windows begin a file."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """A script before and after the change, with notes on what is left to the user."""

    before: str
    after: str
    notes: tuple[str, ...]

    def diff(self, name: str) -> str:
        """The unified diff."""
        diff = ""
        for line in difflib.unified_diff(_lines(self.before), _lines(self.after), name, name):
            diff += line
            if not line.endswith("\n"):
                diff += "\n\\ No newline at end of file\n"
        return diff

    @property
    def changed_lines(self) -> int:
        """Lines that were added, removed or replaced (the larger side of each)."""
        steps = difflib.SequenceMatcher(
            None, _lines(self.before), _lines(self.after), autojunk=False
        ).get_opcodes()
        return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in steps if tag != "equal")


def adapted(script: Path) -> Adapted:
    """Adapt a training script to run on a varying number of nodes, for ``bftrainer adapt``.

    The file itself is not changed. Raises :class:`~bftrainer.errors.UserError` if the script cannot
    be adapted, with what it lacks. The result compiles, and has the line ends, the indentation and
    the encoding of the script.
    """
    if (text := text_of(script)) is None:
        raise UserError(f"{script} does not exist, or cannot be read; expected a Python script")
    _check_encoding(script, text)
    try:
        source = ScriptSource(text.removeprefix(_MARK))
        imports = [
            statement
            for statement in source.tree.body
            if isinstance(statement, ast.Import | ast.ImportFrom)
        ]
        last_import = imports[-1]
        source.after(last_import, _edited(source))
    except (SyntaxError, ValueError, IndexError) as error:
        raise UserError(f"{script}: is no Python script with imports: {error}") from error
    except UserError as error:
        raise UserError(f"{script}: {error}") from error
    after = text[: text.startswith(_MARK)] + source.text()
    _check_compiles(script, after)
    return Adapted(text, after, tuple(source.notes))


def _lines(text: str) -> list[str]:
    """Split a text into lines with their ends, as editors and ``patch`` count them: a form feed
    does not end one.
    """
    return list(io.StringIO(text, newline="\n"))


def _check_encoding(script: Path, text: str) -> None:
    """Reject a script that would not be written back as it was read."""
    try:
        is_whole = script.read_bytes() == text.encode()
    except (OSError, UnicodeEncodeError):
        is_whole = False
    if not is_whole:
        raise UserError(
            f"{script}: expected a script in UTF-8 of at most 1 MiB; convert it, as with iconv "
            "-t UTF-8"
        )


def _check_compiles(script: Path, text: str) -> None:
    """Reject a result that does not compile: it must never replace a script."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text.removeprefix(_MARK), str(script), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        where = f"line {error.lineno} of it: " if isinstance(error, SyntaxError) else ""
        raise UserError(
            f"{script}: the adapted script would not compile ({where}{what}), so nothing is "
            "changed; copy the lines of "
            "docs/recipes.md#any-other-script"
        ) from error


def _edited(source: ScriptSource) -> str:
    """Edit the script; returns the import that it needs."""
    modules = _imported_packages(source.tree)
    if "bftrainer" in modules:
        raise UserError("imports bftrainer already; `bftrainer rehearse` tests it")
    if "torchft" in modules:
        what = "has a Manager of torchft, in whose place progress.Replicas is"
        raise source.missing(None, what, "examples/torchft_digits.py with `replicas`")
    if source.calls("fully_shard", "FSDP", "FullyShardedDataParallel"):
        raise source.missing(
            None,
            "shards its weights, so that each worker has a part of the checkpoint",
            "torchrun.md",
        )
    if modules & {"lightning", "pytorch_lightning"}:
        return f"from bftrainer.progress.lightning import {adapt_lightning(source)}"
    if "transformers" in modules and source.calls("Trainer", "Seq2SeqTrainer"):
        return f"from bftrainer.progress.transformers import {adapt_transformers(source)}"
    if "horovod" in modules:
        return f"from bftrainer.progress.horovod import {adapt_horovod(source)}"
    if not modules & {"torch", "accelerate"}:
        page = (
            "recipes.md#any-other-script, or of pools.md for tasks that do not talk to each other"
        )
        raise source.missing(None, "uses no framework that adapt knows", page)
    is_accelerate = "accelerate" in modules
    used = adapt_loop(source, accelerate=is_accelerate)
    if clue(source.before_edits) is None:
        source.notes.append(
            "each worker runs the whole script: with several GPUs per node, the device is "
            "cuda:LOCAL_RANK"
        )
        rank = f"{source.shown}.rank"
        source.notes += [
            f"line {call.lineno}: {source.of(call.func)} runs in every worker; `if {rank} == 0:` "
            "lets one of them write the file"
            for call in source.calls("save", "savez", "save_pretrained", "to_csv")
        ]
    return f"from bftrainer.progress.{'accelerate' if is_accelerate else 'torch'} import {used}"


def _imported_packages(tree: ast.Module) -> set[str]:
    """The top-level packages that a script imports."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}
