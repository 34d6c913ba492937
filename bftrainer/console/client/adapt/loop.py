"""Edits the training loop of plain PyTorch or Accelerate, in the script and in its modules."""

from __future__ import annotations

import ast
import re

from bftrainer.console.client.adapt.code_text import call_text
from bftrainer.console.client.adapt.loop_counts import (
    count_by,
    edit_ends,
    edit_epoch_loop,
    last_step_text,
)
from bftrainer.console.client.adapt.loop_data import check_data
from bftrainer.console.client.adapt.loop_edit import LoopEdit
from bftrainer.console.client.adapt.loop_loader import (
    check_loader_made_before,
    edit_loader,
    outer_loader_text,
)
from bftrainer.console.client.adapt.loop_notes import add_notes
from bftrainer.console.client.adapt.loop_objects import (
    checkpoint_arguments,
    model_and_optimizer,
    training_lines,
    value_lines,
)
from bftrainer.console.client.adapt.loop_steps import (
    edit_backward,
    edit_epoch_values,
    edit_guards,
    edit_horovod_steps,
    edit_step_report,
)
from bftrainer.console.client.adapt.project import Project
from bftrainer.console.client.adapt.search import (
    ANY,
    Search,
    range_call,
    refusal,
)
from bftrainer.console.client.adapt.source import name_of

_ENDLESS = re.compile(r"cycle|infinite|endless|forever|inf_", re.IGNORECASE)


def adapt_loop(project: Project, *, accelerate: bool) -> None:
    """Edit the training loop of a project: its sources then have the edits, imports included.

    Raises :class:`~bftrainer.errors.UserError` for a loop of another kind than it knows.
    """
    search = Search(project)
    loop = search.loop()
    edit = LoopEdit(project, search, loop, accelerate=accelerate)
    if loop.loader is None and not loop.iterator:
        if accelerate:
            what = "found no loop over a DataLoader"
            raise refusal(loop.batches.module, project, loop.batches.loop, what, ANY)
        _edit_steps(edit)
    elif loop.iterator:
        _edit_iterations(edit)
    else:
        _edit_epochs(edit)
    add_notes(edit)


def _edit_epochs(edit: LoopEdit) -> None:
    """Edit a loop over a loader, with or without a loop over epochs around it."""
    data = outer_loader_text(edit)
    check_loader_made_before(edit, data)
    check_data(edit, data)
    edit_loader(edit)
    edit_backward(edit)
    edit_guards(edit)
    edit_epoch_values(edit)
    at: ast.stmt = edit.source.statement(edit.loop.outer.loop)
    if edit.loop.epochs is None and edit.loop.between:
        at = edit.source.statement(edit.loop.between[-1].call)
    elif edit.loop.epochs is not None:
        at = edit_epoch_loop(edit)
    lines = training_lines(edit, data)
    if edit.horovod is not None:
        edit.source.after(edit.horovod, *lines)
        edit_horovod_steps(edit)
    else:
        edit.source.before(at, *lines)
    edit.finish_imports()


def _edit_iterations(edit: LoopEdit) -> None:
    """Edit a loop over steps that takes batches by ``next(iterator)``."""
    source, loop = edit.source, edit.loop.batches.loop
    iterator = edit.loop.iterator
    maker = _iterator_maker(edit)
    is_near = source.function(maker) is source.function(loop)
    name = name_of(maker.func)
    argument = maker.args[0] if maker.args else None
    while isinstance(argument, ast.Call) and argument.args:
        name = f"{name} {name_of(argument.func)}"
        argument = argument.args[0]
    if not isinstance(argument, ast.Name | ast.Attribute | ast.Subscript):
        what = f"found no loader in {source.of(maker)}"
        raise refusal(edit.module, edit.project, maker, what, ANY)
    data = source.of(argument)
    check_data(edit, data)
    if not is_near and not data.startswith("self."):
        # The method that makes the iterator has the loader in a variable of its own.
        kept = f"self.{source.free_name('training_loader')}"
        source.after(source.statement(maker), f"{kept} = {data}")
        data = kept
    is_endless = _ENDLESS.search(name) is not None
    for binding in source.bound_values(iterator):
        value = binding.value
        if value.lineno > loop.lineno and isinstance(value, ast.Call) and value.args:
            source.replace(value.args[0], f"{edit.training}.step_loader")
    edit_backward(edit)
    edit.state.counting = edit.state.counting or (
        edit.module,
        loop.lineno,
        "the loop counts steps",
    )
    made = f"{edit.training}.endless()" if is_endless else f"iter({edit.training}.step_loader)"
    if isinstance(loop, ast.For):
        count_by(edit, loop, range_call(loop.iter), f"{edit.training}.iterations")
    lines = [*training_lines(edit, data), f"{iterator} = {made}"]
    source.before(source.statement(loop), *lines)
    edit_ends(edit, isinstance(loop, ast.For))
    edit.finish_imports()


def _iterator_maker(edit: LoopEdit) -> ast.Call:
    """Return the call that makes the loop's iterator, before the loop or in another method."""
    source, loop = edit.source, edit.loop.batches.loop
    iterator = edit.loop.iterator
    is_attribute = iterator.startswith("self.")
    makers: list[ast.Call] = []
    for binding in source.bound_values(iterator):
        value = binding.value
        if isinstance(value, ast.Call) and (is_attribute or value.lineno < loop.lineno):
            makers.append(value)
    is_near = bool(makers) and source.function(makers[-1]) is source.function(loop)
    if not makers or not (is_near or is_attribute):
        what = f"found no `{iterator} = iter(loader)` before the loop, in the same function"
        raise refusal(edit.module, edit.project, loop, what, ANY)
    return makers[-1]


def _edit_steps(edit: LoopEdit) -> None:
    """Edit a loop over steps whose batches have no order."""
    source, loop = edit.source, edit.loop.batches.loop
    sizes = [source.of(node) for node in source.nodes if name_of(node).endswith("batch_size")]
    batch = max(sizes, key=len, default="1")
    further: list[str] = []
    if isinstance(loop, ast.For):
        count_by(edit, loop, range_call(loop.iter), f"{edit.training}.range")
    elif last := last_step_text(edit, loop):
        further = [f"steps={edit.search.outside(last, edit.loop.between)}"]
    edit.state.has_rates = False  # a StepLoop never sets them
    edit.state.counting = None
    arguments = [
        *model_and_optimizer(edit),
        f"batch={batch}",
        *further,
        *checkpoint_arguments(edit),
    ]
    loop_class = edit.import_name(edit.module, "StepLoop")
    lines = [f"{edit.training} = {call_text(loop_class, arguments)}", *value_lines(edit)]
    source.before(source.statement(loop), *lines)
    edit_ends(edit, isinstance(loop, ast.For))
    edit_step_report(edit, loop)
    edit.finish_imports()
    size = "1 sample" if str(batch) == "1" else f"{batch} samples"
    source.notes.append(
        f"a step of one worker counts as {size}; random batches have no order to keep"
    )
