"""Edits that give an epoch as many steps at every number of workers."""

from __future__ import annotations

import ast
import re

from bftrainer.console.client.adapt.loop_edit import LoopEdit
from bftrainer.console.client.adapt.loop_loader import outer_loader_name
from bftrainer.console.client.adapt.project import ScriptModule


def edit_lengths(edit: LoopEdit) -> None:
    """Give the script's own loader its length on one worker: with a constant global batch an
    epoch has as many steps at every size.
    """
    for module in edit.project.modules:
        for call in module.source.calls("DistributedSampler"):
            target = _assigned_text(edit, module, call)
            is_evaluation = re.search(r"val|test|eval", f"{target}{module.source.of(call)}")
            if is_evaluation is None:
                others = module.source.arguments(call, ("num_replicas", "rank"))
                module.source.set_arguments(
                    call, [*others[:1], "num_replicas=1", "rank=0", *others[1:]]
                )
        if not edit.accelerate:
            continue
        for call in module.source.calls("prepare"):
            _leave_loader_unprepared(edit, module, call)
        for node in module.source.nodes:
            if isinstance(node, ast.BinOp) and _is_times_processes(edit, module, node):
                module.source.replace(node, module.source.of(node.left))


def _is_times_processes(edit: LoopEdit, module: ScriptModule, node: ast.BinOp) -> bool:
    """Whether a node is ``number * accelerator.num_processes`` in the arguments of a call."""
    if not isinstance(node.op, ast.Mult):
        return False
    is_call = any(isinstance(parent, ast.Call) for parent in module.source.above(node))
    return is_call and module.source.of(node.right).endswith("accelerator.num_processes")


def _leave_loader_unprepared(edit: LoopEdit, module: ScriptModule, call: ast.Call) -> None:
    """Leave the training loader out of ``accelerator.prepare``."""
    source = module.source
    statement = source.statement(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call:
        return
    target = statement.targets[0]
    names = list(target.elts) if isinstance(target, ast.Tuple) else [target]
    loader = outer_loader_name(edit)
    texts = [source.of(argument) for argument in call.args]
    if len(names) != len(texts) or loader not in texts:
        return
    kept = [number for number, text in enumerate(texts) if text != loader]
    if not kept:
        source.replace(call, loader)
        return
    left = ", ".join(source.of(names[number]) for number in kept)
    right = ", ".join(texts[number] for number in kept)
    prepare = source.of(call.func)
    source.replace(statement, f"{left} = {prepare}({right})")


def _assigned_text(edit: LoopEdit, module: ScriptModule, call: ast.Call) -> str:
    """Return the text in front of the ``=`` of the statement that makes an object."""
    statement = module.source.statement(call)
    return module.source.of(statement).partition("=")[0]
