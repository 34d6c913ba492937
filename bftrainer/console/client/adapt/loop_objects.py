"""The lines that make the training object, with the objects and variables that it keeps."""

from __future__ import annotations

import ast

from bftrainer.console.client.adapt.code_text import (
    LINE_LENGTH,
    broken_lines,
    call_text,
    getter_text,
    tuple_text,
)
from bftrainer.console.client.adapt.loop_edit import LoopEdit
from bftrainer.console.client.adapt.loop_lengths import edit_lengths
from bftrainer.console.client.adapt.source import Function


def training_lines(edit: LoopEdit, data: str) -> list[str]:
    """Return the lines that make the training object and restore the script's values."""
    name, first = "Training", [] if edit.horovod is not None else model_and_optimizer(edit)
    if edit.accelerate:
        name, first = "AcceleratedTraining", [_accelerator_name(edit), *first]
    if edit.horovod is not None:
        name = "ElasticTraining"
        call = edit.source.calls("TorchState")[0]
        hvd = edit.source.of(call.func).partition(".")[0]
        first = [hvd, edit.source.of(edit.horovod).partition("=")[0].strip()]
    imported = edit.import_name(edit.module, name)
    arguments = [*first, data, *checkpoint_arguments(edit)]
    if edit.horovod is None:
        arguments += _schedule_arguments(edit)
    made = f"{edit.training} = {call_text(imported, arguments)}"
    needs_global = edit.needs_global and edit.is_in_function()
    return [*[f"global {edit.training}"] * needs_global, made, *value_lines(edit)]


def model_and_optimizer(edit: LoopEdit) -> list[str]:
    """Return the arguments model and optimizer."""
    model = edit.models[0]
    if len(edit.models) > 1:
        model = f"torch.nn.ModuleList([{', '.join(edit.models)}])"
    return [model, edit.optimizers[-1]]


def checkpoint_arguments(edit: LoopEdit) -> list[str]:
    """Return the checkpoint and the objects that are kept, as arguments."""
    keep = {name: _perhaps_unbound(edit, text) for name, text in edit.state.keep.items()}
    for number, optimizer in enumerate(edit.optimizers[:-1]):
        keep[f"optimizer_{number}"] = optimizer
    for scaler in _gradient_scalers(edit):
        if scaler not in edit.state.keep.values():
            keep["scaler"] = scaler
    for owner, names in edit.state.attributes.items():
        kept = edit.import_name(edit.module, "KeptAttributes")
        words = ", ".join(f'"{name}"' for name in names)
        key = owner.removeprefix("self.").replace(".", "_")
        keep[key] = f"{kept}({_perhaps_unbound(edit, owner)}, {words})"
    if edit.state.freezes:
        keep["frozen"] = f"{edit.import_name(edit.module, 'FrozenWeights')}({_model_text(edit)})"
    options = ['checkpoint="{name}-training.pt"']
    if keep:
        pairs = [f'"{name}": {text}' for name, text in keep.items()]
        text = ", ".join(pairs)
        is_long = len(text) >= LINE_LENGTH
        options.append(f"keep={{{broken_lines(pairs, 2) if is_long else text}}}")
    return options


def _model_text(edit: LoopEdit) -> str:
    return model_and_optimizer(edit)[0]


def _perhaps_unbound(edit: LoopEdit, text: str) -> str:
    """Return an object's name, or an expression that is None where it was not made."""
    if "." in text:
        return text
    bound = edit.source.bound_values(text)
    scope = edit.loop.outer.scope.function
    places = [
        edit.source.statement(binding.value)
        for binding in bound
        if edit.source.function(binding.value) is scope
    ]
    if not places or any(_is_unconditional(edit, place, scope) for place in places):
        return text
    others = [place for place in places if isinstance(edit.source.parents[place], ast.If)]
    has_else = any(place in getattr(edit.source.parents[place], "orelse", []) for place in others)
    return text if has_else else f'locals().get("{text}")'


def _is_unconditional(edit: LoopEdit, place: ast.stmt, scope: Function | None) -> bool:
    """Whether a statement stands directly in its function, or in a ``with``."""
    for parent in edit.source.above(place):
        if parent is scope or isinstance(parent, ast.Module):
            return True
        if not isinstance(parent, ast.With):
            return False
    return True


def _gradient_scalers(edit: LoopEdit) -> list[str]:
    """Return the scalers of gradients that step an optimizer, in the outer scope."""
    scalers: list[str] = []
    for module, call in edit.loop.steps:
        if call.args and isinstance(call.func, ast.Attribute):
            text = module.source.of(call.func.value)
            if "scal" in text.lower() and not text.startswith("self._scal"):
                hops = edit.loop.outer.hops
                scalers.append(edit.search.outside(text, hops))
    return list(dict.fromkeys(scalers))


def _schedule_arguments(edit: LoopEdit) -> list[str]:
    """Return the arguments for a script that sets its rate or counts its steps."""
    options: list[str] = []
    if edit.state.has_rates:
        options.append('schedule="script"')
    if edit.state.counting is not None:
        scaling = edit.import_name(edit.module, "Scaling")
        options.append(f"scaling={scaling}.STRONG")
        edit_lengths(edit)
    return options


def value_lines(edit: LoopEdit) -> list[str]:
    """Return the line that keeps and restores the script's own variables."""
    if edit.horovod is not None:
        return []
    names = [*edit.state.values, *edit.state.global_values]
    if not names:
        return []
    targets = list(edit.state.values)
    targets += [f'globals()["{name}"]' for name in edit.state.global_values]
    return [f"{tuple_text(targets)} = {edit.training}.values({getter_text(names)})"]


def _accelerator_name(edit: LoopEdit) -> str:
    """Return the name of the accelerator in the outer scope."""
    for call in edit.source.calls("backward"):
        text = edit.source.of(getattr(call.func, "value", call.func))
        if "accelerator" in text:
            return edit.search.outside(text, edit.loop.outer.hops if edit.loop.between else ())
    return "accelerator"
