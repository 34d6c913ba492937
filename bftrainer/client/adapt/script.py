"""Which adaptation a script wants, by what it imports."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from pathlib import Path

from bftrainer.client.adapt.frameworks import adapt_horovod, adapt_lightning, adapt_transformers
from bftrainer.client.adapt.loop import adapt_loop
from bftrainer.client.adapt.source import ScriptSource
from bftrainer.config.script import clue, text_of
from bftrainer.errors import UserError


@dataclass(frozen=True, slots=True)
class Adapted:
    """A script before and after, and what is left to the user."""

    before: str
    after: str
    notes: tuple[str, ...]

    def diff(self, name: str) -> str:
        """The unified diff."""
        before, after = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, after, name, name))

    @property
    def changed_lines(self) -> int:
        """Lines that were added, removed or replaced (the larger side of each)."""
        pair = (self.before.splitlines(), self.after.splitlines())
        steps = difflib.SequenceMatcher(None, *pair, autojunk=False).get_opcodes()
        return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in steps if tag != "equal")


def adapted(script: Path) -> Adapted:
    """The script with the lines that it needs. Raises :class:`~bftrainer.errors.UserError` with what was not found."""
    if (text := text_of(script)) is None:
        raise UserError(f"{script} does not exist, or cannot be read; expected a Python script")
    try:
        source = ScriptSource(text)
        imports = [it for it in source.tree.body if isinstance(it, ast.Import | ast.ImportFrom)]
        source.after(imports[-1], _edited(source))
    except (SyntaxError, ValueError, IndexError) as error:
        raise UserError(f"{script}: is no Python script with imports: {error}") from error
    except UserError as error:
        raise UserError(f"{script}: {error}") from error
    return Adapted(text, source.text(), tuple(source.notes))


def _edited(source: ScriptSource) -> str:
    """Edit; returns the line to import."""
    nodes = list(ast.walk(source.tree))
    names = [it.name for node in nodes if isinstance(node, ast.Import) for it in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    modules = {name.partition(".")[0] for name in names}
    if "bftrainer" in modules:
        raise UserError("imports bftrainer already; `bftrainer rehearse` tests it")
    if "torchft" in modules:
        what = "has a Manager of torchft, in whose place progress.Replicas is"
        raise source.missing(None, what, "examples/torchft_digits.py with `replicas`")
    if source.calls("fully_shard", "FSDP", "FullyShardedDataParallel"):
        raise source.missing(
            None, "shards its weights, so that each worker has a part of the checkpoint", "torchrun.md"
        )
    if modules & {"lightning", "pytorch_lightning"}:
        return f"from bftrainer.progress.lightning import {adapt_lightning(source)}"
    if "transformers" in modules and source.calls("Trainer", "Seq2SeqTrainer"):
        return f"from bftrainer.progress.transformers import {adapt_transformers(source)}"
    if "horovod" in modules:
        return f"from bftrainer.progress.horovod import {adapt_horovod(source)}"
    if not modules & {"torch", "accelerate"}:
        page = "recipes.md#any-other-script, or of pools.md for tasks that do not talk to each other"
        raise source.missing(None, "uses no framework that adapt knows", page)
    is_accelerate = "accelerate" in modules
    used = adapt_loop(source, accelerate=is_accelerate)
    if clue(source.before_edits) is None:
        source.notes.append(
            "each worker runs the whole script: with several GPUs per node, the device is cuda:LOCAL_RANK"
        )
        rank = f"{'steps' if used == 'StepLoop' else 'training'}.rank"
        source.notes += [
            f"line {it.lineno}: {source.of(it.func)} runs in every worker; `if {rank} == 0:` lets one of them write the file"
            for it in source.calls("save", "savez", "save_pretrained", "to_csv")
        ]
    return f"from bftrainer.progress.{'accelerate' if is_accelerate else 'torch'} import {used}"
