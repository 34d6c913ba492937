"""Which adaptation a script wants, by what it imports."""

from __future__ import annotations

import ast
import difflib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path

from bftrainer.config.script import launcher_clue, text_of
from bftrainer.console.client.adapt.frameworks import (
    adapt_horovod,
    adapt_lightning,
    adapt_transformers,
    transformers_trainers,
)
from bftrainer.console.client.adapt.loop import adapt_loop
from bftrainer.console.client.adapt.project import MARK, Project
from bftrainer.console.client.adapt.source import ScriptSource
from bftrainer.errors import UserError


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file before and after the change."""

    path: Path
    before: str
    after: str

    def diff(self, name: str) -> str:
        """The unified diff."""
        diff = ""
        for line in difflib.unified_diff(
            _split_lines(self.before), _split_lines(self.after), name, name
        ):
            diff += line
            if not line.endswith("\n"):
                diff += "\n\\ No newline at end of file\n"
        return diff

    @property
    def changed_lines(self) -> int:
        """Lines that were added, removed or replaced (the larger side of each)."""
        steps = difflib.SequenceMatcher(
            None, _split_lines(self.before), _split_lines(self.after), autojunk=False
        ).get_opcodes()
        return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in steps if tag != "equal")


@dataclass(frozen=True, slots=True)
class Adapted:
    """A script before and after the change, with notes on what is left to the user.

    ``modules`` are the modules beside the script that change as well.
    """

    script: ChangedFile
    notes: tuple[str, ...]
    modules: tuple[ChangedFile, ...] = ()
    is_startable: bool = True
    """Whether one process can start it: false for Elastic Horovod."""

    @property
    def files(self) -> tuple[ChangedFile, ...]:
        """All files that change, the script first."""
        return (self.script, *self.modules)

    @property
    def before(self) -> str:
        """The script as it is."""
        return self.script.before

    @property
    def after(self) -> str:
        """The script as it becomes."""
        return self.script.after

    def diff(self, name: str) -> str:
        """The unified diff of all files; the script is called ``name``."""
        diffs = [self.script.diff(name)]
        diffs += [module.diff(str(module.path)) for module in self.modules]
        return "".join(diffs)

    @property
    def changed_lines(self) -> int:
        """Lines that change in all files."""
        return sum(file.changed_lines for file in self.files)


def adapted(script: Path) -> Adapted:
    """Adapt a training script to run on a varying number of nodes, for ``bftrainer adapt``.

    No file is changed. Raises :class:`~bftrainer.errors.UserError` if the script cannot be adapted,
    with what it lacks. The results compile, and have the line ends, the indentation and the
    encoding of their files.
    """
    if (text := text_of(script)) is None:
        raise UserError(f"{script} does not exist, or cannot be read; expected a Python script")
    _check_encoding(script, text)
    try:
        project = Project(script, text)
        if not _has_imports(project.main.source.tree):
            raise ValueError("it imports nothing")
        _edit_by_framework(project)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"{script}: is no Python script with imports: {error}") from error
    except UserError as error:
        raise UserError(f"{script}: {error}") from error
    files: list[ChangedFile] = []
    for module in project.modules:
        if module is project.main or module.source.is_edited:
            _check_encoding(module.path, module.text)
            after = module.text[: module.text.startswith(MARK)] + module.source.text()
            _check_compiles(module.path, after)
            files.append(ChangedFile(module.path, module.text, after))
    notes = list(project.main.source.notes)
    for module in project.modules[1:]:
        notes += [f"{module.path.name}: {note}" for note in module.source.notes]
    is_startable = not project.main.source.calls("TorchState")
    return Adapted(files[0], tuple(notes), tuple(files[1:]), is_startable)


def _has_imports(tree: ast.Module) -> bool:
    """Whether a script imports anything."""
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body)


def _split_lines(text: str) -> list[str]:
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
            compile(text.removeprefix(MARK), str(script), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        where = f"line {error.lineno} of it: " if isinstance(error, SyntaxError) else ""
        raise UserError(
            f"{script}: the adapted script would not compile ({where}{what}), so nothing is "
            "changed; copy the lines of "
            "docs/recipes.md#any-other-script"
        ) from error


def _edit_by_framework(project: Project) -> None:
    """Edit the sources of a project, by the framework that its script uses."""
    source = project.main.source
    packages = _imported_packages(source.tree)
    everywhere = set(packages)
    for module in project.modules:
        everywhere |= _imported_packages(module.source.tree)
    _check_supported(source, packages, everywhere)
    if packages & {"lightning", "pytorch_lightning"}:
        source.add_imports([f"from bftrainer.progress.lightning import {adapt_lightning(source)}"])
        return
    if transformers_trainers(project):
        imported = adapt_transformers(project)
        source.add_imports([f"from bftrainer.progress.transformers import {imported}"])
        return
    if "horovod" in everywhere:
        adapt_horovod(project)
        return
    if not everywhere & {"torch", "accelerate"}:
        page = (
            "recipes.md#any-other-script, or of pools.md for tasks that do not talk to each other"
        )
        raise source.missing(None, "uses no framework that adapt knows", page)
    is_accelerate = bool(
        [call for module in project.modules for call in module.source.calls("Accelerator")]
    )
    adapt_loop(project, accelerate=is_accelerate)
    if launcher_clue(source.before_edits) is None:
        source.notes.append(
            "each worker runs the whole script: with several GPUs per node, the device is "
            "cuda:LOCAL_RANK"
        )
        rank = f"{source.shown or 'current_training()'}.rank"
        source.notes += [
            f"line {call.lineno}: {source.of(call.func)} runs in every worker; `if {rank} == 0:` "
            "lets one of them write the file"
            for call in source.calls("save", "savez", "save_pretrained", "to_csv")
        ]


_OTHER_LOOPS = {
    "deepspeed": "DeepSpeed has its own optimizer and checkpoints",
    "ignite": "the loop is in Ignite's Engine",
    "fastai": "the loop is in fastai's Learner",
    "mmengine": "the loop is in MMEngine's Runner",
    "detectron2": "the loop is in detectron2's trainer",
    "composer": "the loop is in Composer's Trainer",
    "keras": "the loop is in Keras",
    "torchtitan": "the loop is in TorchTitan's Trainer",
}
"""Packages whose own loop adapt cannot edit."""


def _check_supported(source: ScriptSource, packages: set[str], everywhere: set[str]) -> None:
    """Refuse what cannot be adapted at all, with the line of the import or the call."""
    if "bftrainer" in packages:
        raise UserError("imports bftrainer already; `bftrainer rehearse` tests it")
    if "torchft" in packages:
        what = "has a Manager of torchft, in whose place progress.Replicas is"
        raise source.missing(None, what, "examples/torchft_digits.py with `replicas`")
    if shards := source.calls("fully_shard", "FSDP", "FullyShardedDataParallel"):
        raise source.missing(
            shards[0],
            "shards its weights, so that each worker has a part of the checkpoint",
            "torchrun.md",
        )
    if fabric := source.calls("Fabric"):
        what = "Fabric makes the process group and its own loader"
        raise source.missing(fabric[0], what, "recipes.md#any-other-script")
    for package in sorted(packages & set(_OTHER_LOOPS)):
        node = _import_of(source, package)
        raise source.missing(node, _OTHER_LOOPS[package], "recipes.md#any-other-script")
    spawns = [call for call in source.calls("spawn") if _is_certain(source, call)]
    if spawns and "torch" in everywhere:
        what = (
            "starts processes of its own; call the function once for this process, as torchrun "
            "starts one for each GPU"
        )
        raise source.missing(spawns[0], what, "torchrun.md")


def _is_certain(source: ScriptSource, node: ast.AST) -> bool:
    """Whether a node is run whatever a script's options are: no condition but that of
    ``__main__``.
    """
    for parent in source.above(node):
        if isinstance(parent, ast.If) and "__name__" not in source.of(parent.test):
            return False
    return True


def _import_of(source: ScriptSource, package: str) -> ast.AST | None:
    """Return the statement that imports a package."""
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom) and package in source.of(node):
            return node
    return None


def _imported_packages(tree: ast.Module) -> set[str]:
    """The top-level packages that a script imports."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}
