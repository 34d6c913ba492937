"""Refuses loaders and data sets that :class:`~bftrainer.progress.torch.Training` refuses at the
start: those in which a restart finds no position.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bftrainer.console.client.adapt.loop_edit import LoopEdit
from bftrainer.console.client.adapt.project import (
    ObjectOrigin,
    Scope,
    ScriptModule,
    base_names,
    method_names,
)
from bftrainer.console.client.adapt.search import EPOCHS, refusal
from bftrainer.console.client.adapt.source import keyword_values, name_of

_CHOOSING = ("WeightedRandomSampler", "SubsetRandomSampler")
_SAMPLERS = ("sampler", "batch_sampler")
_PLAIN_BASES = frozenset({"Dataset", "object", "ABC", "Generic", "Iterator", "Iterable"})
"""Bases that give a class no length."""
_MAX_DEPTH = 4
"""Calls such as ``prepare(loader)`` and ``Subset(data)`` that are followed to what they wrap."""


def check_data(edit: LoopEdit, data: str) -> None:
    """Refuse a loader that chooses samples, and one whose data set has no length.

    ``data`` is the loader in the scope of the outer loop.
    """
    loop = edit.loop
    made = edit.project.origins(loop.outer.scope, data)
    if isinstance(loop.loader, ast.Call):
        made = [ObjectOrigin(loop.batches.module, loop.loader, None)]
    origins = list(_unprepared(edit, made))
    refusals = [(origin, _reason(edit, origin)) for origin in origins]
    wrong = [(origin, reason) for origin, reason in refusals if reason]
    if not wrong:
        return
    origin, reason = wrong[0]
    if len(wrong) == len(origins):
        raise refusal(origin.module, edit.project, origin.value, reason, EPOCHS)
    edit.source.notes.append(f"line {origin.value.lineno}: {reason}")


def _unprepared(
    edit: LoopEdit, origins: list[ObjectOrigin], depth: int = 0
) -> Iterator[ObjectOrigin]:
    """Yield what made the loaders: the arguments of ``accelerator.prepare(...)`` in its place."""
    for origin in origins:
        value, part = origin.value, origin.part
        is_prepared = isinstance(value, ast.Call) and name_of(value.func) == "prepare"
        if not is_prepared or depth > _MAX_DEPTH:
            yield origin
            continue
        assert isinstance(value, ast.Call)
        number = part or 0
        if number < len(value.args):
            inner = _made_by(edit, origin.module, value.args[number])
            # ``loader = prepare(loader)``: the name is bound to the call as well.
            yield from _unprepared(
                edit, [origin for origin in inner if origin.value is not value], depth + 1
            )


def _made_by(edit: LoopEdit, module: ScriptModule, value: ast.expr) -> list[ObjectOrigin]:
    """Return the expressions that made the object of an expression."""
    if not isinstance(value, ast.Name | ast.Attribute):
        return [ObjectOrigin(module, value, None)]
    scope = Scope(module, module.source.function(value))
    return edit.project.origins(scope, module.source.of(value))


def _reason(edit: LoopEdit, origin: ObjectOrigin) -> str:
    """Return why a loader is refused; empty for one that is not."""
    value = origin.value
    if not isinstance(value, ast.Call):
        return ""
    own = edit.project.made_class(origin.module, value)
    if own is not None:
        return _own_loader_reason(edit, *own)
    if not name_of(value.func).endswith("DataLoader"):
        return ""
    keywords = keyword_values(value)
    for name in _SAMPLERS:
        if name in keywords and (reason := _sampler_reason(edit, origin.module, keywords[name])):
            return reason
    data = value.args[0] if value.args else keywords.get("dataset")
    return "" if data is None else _data_reason(edit, origin.module, data)


def _own_loader_reason(edit: LoopEdit, module: ScriptModule, node: ast.ClassDef) -> str:
    """Return why an object of the script's own class, which the loop iterates over, is refused."""
    classes = edit.project.lineage(module, node)
    if not _is_whole(classes):
        return ""
    methods = method_names(classes)
    if "__iter__" not in methods and "__next__" not in methods:
        return ""
    if "dataset" in methods or _sets_attribute(classes, "dataset"):
        return ""
    return (
        f"{node.name} has no position that a restart could continue at; make a Dataset of its "
        "items and a DataLoader of it"
    )


def _is_whole(classes: list[ast.ClassDef]) -> bool:
    """Whether a class and its bases in the project have all of its methods: no other base may add a
    length or a position.
    """
    return not base_names(classes) - _PLAIN_BASES - {part.name for part in classes}


def _sets_attribute(classes: list[ast.ClassDef], name: str) -> bool:
    """Whether one of the classes sets an attribute of its objects."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)
        for part in classes
        for node in ast.walk(part)
    )


def _sampler_reason(edit: LoopEdit, module: ScriptModule, value: ast.expr) -> str:
    """Return why a sampler is refused: all that the argument may stand for choose samples."""
    origins = _made_by(edit, module, value)
    calls = [origin for origin in origins if isinstance(origin.value, ast.Call)]
    names = [_choosing_name(edit, origin) for origin in calls]
    if not names or not all(names):
        return ""
    return (
        f"{names[0]} chooses samples, but here each sample is used once an epoch; let the loader "
        "shuffle (shuffle=True), or make a Dataset that has the samples as often as wanted"
    )


def _choosing_name(edit: LoopEdit, origin: ObjectOrigin) -> str:
    """Return the name of a sampler that does not take each sample once an epoch; empty for
    another one.
    """
    call = origin.value
    assert isinstance(call, ast.Call)
    name = name_of(call.func)
    if name == "BatchSampler" and call.args:
        return _first_choosing(edit, origin.module, call.args[0])
    own = edit.project.made_class(origin.module, call)
    if name in _CHOOSING or own is not None:
        return name
    positional = call.args[1] if len(call.args) > 1 else None
    replaces = keyword_values(call).get("replacement", positional)
    is_off = replaces is None or (isinstance(replaces, ast.Constant) and not replaces.value)
    return name if name == "RandomSampler" and not is_off else ""


def _first_choosing(edit: LoopEdit, module: ScriptModule, value: ast.expr) -> str:
    """Return the name of the sampler behind a ``BatchSampler``, if that chooses samples."""
    for origin in _made_by(edit, module, value):
        if isinstance(origin.value, ast.Call) and (name := _choosing_name(edit, origin)):
            return name
    return ""


def _data_reason(edit: LoopEdit, module: ScriptModule, value: ast.expr) -> str:
    """Return why a data set is refused: all that the argument may stand for have no length."""
    origins = _made_by(edit, module, value)
    reasons = [_length_reason(edit, origin) for origin in origins]
    return reasons[0] if reasons and all(reasons) else ""


def _length_reason(edit: LoopEdit, origin: ObjectOrigin) -> str:
    """Return why the object that an expression makes is no data set with a length."""
    call = origin.value
    if not isinstance(call, ast.Call):
        return ""
    what = "make a Dataset with __len__ and __getitem__"
    name = name_of(call.func)
    streaming = keyword_values(call).get("streaming")
    if isinstance(streaming, ast.Constant) and streaming.value is True:
        return f"{name}(streaming=True) has no length and no position; leave streaming out"
    own = edit.project.made_class(origin.module, call)
    if own is None:
        is_iterable = name in ("IterableDataset", "WebDataset", "IterableWrapper")
        return f"{name} has no length and no index; {what}" if is_iterable else ""
    classes = edit.project.lineage(*own)
    if "IterableDataset" in base_names(classes):
        return f"{name} is an IterableDataset, whose samples have no index; {what}"
    methods = method_names(classes)
    if _is_whole(classes) and "__len__" not in methods and "__getattr__" not in methods:
        return f"{name} has no length; {what}"
    return ""
