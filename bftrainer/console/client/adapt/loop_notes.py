"""The notes for the user: what the checkpoint keeps, what it does not, what to look at."""

from __future__ import annotations

import ast

from bftrainer.console.client.adapt.kept_state import KeptState
from bftrainer.console.client.adapt.loop_edit import LoopEdit
from bftrainer.console.client.adapt.project import ScriptModule
from bftrainer.console.client.adapt.source import Function, ScriptSource, name_of


def add_notes(edit: LoopEdit) -> None:
    """Say what is kept, what is not, and what the user has to know."""
    notes = edit.source.notes
    state = edit.state
    kept = [*state.keep.values(), *state.values, *state.global_values, *state.epoch_values]
    kept += [f"{owner}.{name}" for owner, names in state.attributes.items() for name in names]
    if edit.horovod is not None:
        if kept:
            notes.append(f"not kept, give them to TorchState: {', '.join(kept)}")
        return
    if kept:
        notes.append(f"kept in the checkpoint: {', '.join(kept)}")
    if state.unkept:
        notes.append(f"not kept: {', '.join(dict.fromkeys(state.unkept))}")
    notes += [
        f"line {line}: {text}: all workers must decide alike, so not by the loss of a worker's "
        "own share of the data: average it over the workers, or take a value of the whole data"
        for line, text in sorted(state.agreeing.items())
    ]
    notes += _unset_notes(state)
    if state.counting is not None:
        module, line, reason = state.counting
        where = f"line {line}" if module is edit.module else f"{module.path.name}, line {line}"
        notes.append(
            f"{where}: {reason}, so the global batch is the same at every size "
            "(docs/training.md#batch)"
        )
    for module in edit.project.modules:
        where = "" if module is edit.module else f"{module.path.name}, "
        notes += [
            f"{where}line {call.lineno}: {module.source.of(call.func)}() is a generator whose "
            "state no checkpoint has: draw from random, numpy.random or torch, which are seeded "
            "before each step"
            for call in _own_generators(module.source)
        ]
    if edit.scale_note:
        notes.append(edit.scale_note)
    for module, step in edit.loop.steps:
        if edit.loop.loader is not None and _may_be_skipped(edit, module, step):
            notes.append(
                f"line {step.lineno}: {module.source.of(step)} does not follow every batch: "
                "checkpoints and leaving wait for it"
            )


def _unset_notes(state: KeptState) -> list[str]:
    """Return a note for each variable or attribute that the loop sets and later lines read."""
    variables = sorted({(line, name) for name, line in state.read_after.items()})
    reads = [(f"line {line}", name) for line, name in variables]
    reads += [(place, name) for name, place in state.attribute_reads.items()]
    return [
        f"{place}: {name} has no value in a start after the last step, which makes no pass of the "
        "loop: set it before the loop as well"
        for place, name in reads
    ]


def _may_be_skipped(edit: LoopEdit, module: ScriptModule, step: ast.Call) -> bool:
    """Whether some batches have no step of an optimizer: it depends on a condition that has no
    other branch with a step.
    """
    calls = {call for _, call in edit.loop.steps}
    for parent in module.source.above(step):
        if parent is edit.loop.batches.loop or isinstance(parent, Function):
            return False
        if not isinstance(parent, ast.If):
            continue
        for body in (parent.body, parent.orelse):
            nodes = {node for part in body for node in ast.walk(part)}
            if not nodes & calls:
                return True
    return False


def _own_generators(source: ScriptSource) -> list[ast.Call]:
    """Return the calls that make generators of random numbers that methods draw from later."""
    generators: list[ast.Call] = []
    for call in source.calls("default_rng", "RandomState", "Random"):
        if name_of(call.func) == "Random" and source.of(call.func) not in (
            "Random",
            "random.Random",
        ):
            continue
        statement = source.statement(call)
        if not isinstance(statement, ast.Assign) or statement.value is not call:
            continue
        target = source.of(statement.targets[0])
        made_in = source.function(call)
        reads = [
            node
            for node in source.nodes
            if isinstance(node, ast.Name | ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and source.of(node) == target
        ]
        if any(source.function(node) not in (made_in, None) for node in reads):
            generators.append(call)
    return generators
