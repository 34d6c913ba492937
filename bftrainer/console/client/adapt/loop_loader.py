"""Edits of the loader from which a loop takes its batches."""

from __future__ import annotations

import ast

from bftrainer.console.client.adapt.loop_edit import LoopEdit
from bftrainer.console.client.adapt.project import ScriptModule, parameters, passed_values
from bftrainer.console.client.adapt.search import (
    EPOCHS,
    refusal,
)
from bftrainer.console.client.adapt.source import name_of


def outer_loader_text(edit: LoopEdit) -> str:
    """Return the loader in the scope of the outer loop."""
    loader, loop = edit.loop.loader, edit.loop
    assert loader is not None
    source = loop.batches.module.source
    text = source.of(loader)
    if isinstance(loader, ast.Call) and loop.between:
        what = f"{text} is made in each epoch; make it before the loop, and pass it on"
        raise refusal(loop.batches.module, edit.project, loader, what, EPOCHS)
    if phase_variable(edit) and isinstance(loader, ast.Subscript):
        text = f'{source.of(loader.value)}["{training_phase(edit)}"]'
    if text == "active_dataloader" or _is_resumed_loader(edit, text):
        text = _skipped_loader(edit, text)
    return edit.search.outside(text, loop.between)


def _is_resumed_loader(edit: LoopEdit, text: str) -> bool:
    """Whether a name may stand for ``accelerator.skip_first_batches(loader, n)``."""
    bound = edit.loop.batches.module.source.bound_values(text)
    return any(
        isinstance(binding.value, ast.Call) and name_of(binding.value.func) == "skip_first_batches"
        for binding in bound
    )


def _skipped_loader(edit: LoopEdit, text: str) -> str:
    """Return the loader of which a resumed epoch of the script skips the first batches."""
    source = edit.loop.batches.module.source
    for binding in source.bound_values(text):
        if isinstance(binding.value, ast.Call) and binding.value.args:
            return source.of(binding.value.args[0])
        if isinstance(binding.value, ast.Name):
            return binding.value.id
    return text


def phase_variable(edit: LoopEdit) -> str:
    """Return the variable over phases that chooses the loader; empty without one."""
    loader, phase = edit.loop.loader, edit.loop.phase
    if phase is None or not isinstance(loader, ast.Subscript):
        return ""
    source = edit.loop.batches.module.source
    assert isinstance(phase.loop, ast.For)
    targets = ast.walk(phase.loop.target)
    names = [source.of(node) for node in targets if isinstance(node, ast.Name)]
    text = source.of(loader.slice)
    return text if text in names else ""


def training_phase(edit: LoopEdit) -> str:
    """Return the name of the phase that trains."""
    assert edit.loop.phase is not None
    names = [
        str(node.value)
        for node in ast.walk(edit.loop.phase.loop)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return next((name for name in names if name.lower().startswith("train")), "train")


def check_loader_made_before(edit: LoopEdit, data: str) -> None:
    """Refuse a loader that is made in the outer loop."""
    root = data.partition(".")[0].partition("[")[0]
    outer = edit.loop.outer.loop
    function = edit.loop.outer.scope.function
    places = [
        binding.value
        for binding in edit.source.bound_values(root)
        if edit.source.function(binding.value) is function
    ]
    inside = [value for value in places if outer in edit.source.above(value)]
    if inside and len(inside) == len(places):
        what = f"{root} is made in each epoch; make it before the loop"
        raise refusal(edit.module, edit.project, inside[0], what, EPOCHS)


def edit_loader(edit: LoopEdit) -> None:
    """Let the loop take its batches from the training object."""
    loop = edit.loop
    loader = loop.loader
    assert loader is not None
    batches = loop.batches
    source = batches.module.source
    text = source.of(loader)
    _check_wrapped_in_loop(edit, loader)
    attribute = "loader" if edit.horovod is not None else "step_loader"
    new = f"{edit.training}.{attribute}"
    argument = passed_loader(edit, text)
    if argument is not None:
        place, node = argument
        place.source.replace(node, new)
        number = f"{text}.batch_number"
        if any(len(edit.project.callers(hop.module, hop.function)) > 1 for hop in loop.between):
            number = f'getattr({text}, "batch_number", 0)'
    else:
        name = edit.object_name(batches.module, batches.scope.function)
        new = f"{name}.{attribute}"
        if phase := phase_variable(edit):
            new = f'({new} if {phase} == "{training_phase(edit)}" else {text})'
        if loop.epochs is None and not loop.between:
            new = f"{name}.one_epoch()"
        number = f"{name}.batch_number"
        if phase_variable(edit):
            number = f'getattr({new}, "batch_number", 0)'
        source.replace(loader, new)
    if loop.epochs is None and loop.between:
        statement = edit.source.statement(loop.between[-1].call)
        edit.source.insert_before(statement, f"for _ in {edit.training}.epochs(1): ")
    if edit.horovod is None:
        _edit_enumerate(edit, number)


def _check_wrapped_in_loop(edit: LoopEdit, loader: ast.expr) -> None:
    """Refuse a loader that is wrapped before the training object is made, which has to replace
    it.
    """
    outer, batches = edit.loop.outer, edit.loop.batches
    if batches.scope != outer.scope or outer.loop in edit.source.above(loader):
        return
    if loader.lineno < outer.loop.lineno:
        what = (
            f"{edit.source.of(edit.source.statement(loader))} wraps the loader before the loop; "
            "wrap it in the head of the loop over the batches"
        )
        raise refusal(edit.module, edit.project, loader, what, EPOCHS)


def passed_loader(edit: LoopEdit, text: str) -> tuple[ScriptModule, ast.expr] | None:
    """Return the argument by which the outer loop passes the loader to a function, and its
    module; None if the loop over batches has the loader otherwise.
    """
    node: ast.expr | None = None
    module: ScriptModule | None = None
    for hop in edit.loop.between:
        if text not in parameters(hop.function):
            return None
        node = passed_values(hop.function, hop.call).get(text)
        module = hop.place
        if node is None or node not in module.source.parents:
            return None
        if hop.call not in module.source.above(node):
            return None  # the default of a parameter, which is made before the training object
        text = module.source.of(node)
    return None if node is None or module is None else (module, node)


def _edit_enumerate(edit: LoopEdit, number: str) -> None:
    """Let ``enumerate`` begin at the number of steps that a resumed epoch has had."""
    batches = edit.loop.batches
    source = batches.module.source
    areas: list[ast.AST] = [batches.loop.iter] if isinstance(batches.loop, ast.For) else []
    if isinstance(areas[0], ast.Name):
        areas += [binding.value for binding in source.bound_values(areas[0].id)]
    for area in areas:
        for call in source.calls("enumerate", within=area):
            starts = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
            if starts:
                source.insert_after(starts[0], f" + {number}")
            else:
                source.insert_after(call.args[0], f", {number}")


def outer_loader_name(edit: LoopEdit) -> str:
    """Return the loader's name in the outer scope."""
    return outer_loader_text(edit) if edit.loop.loader is not None else ""
