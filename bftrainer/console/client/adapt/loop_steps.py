"""Edits of what runs in each step or epoch: backward, reports, guards, variables of an epoch."""

from __future__ import annotations

import ast

from bftrainer.console.client.adapt.code_text import getter_text, tuple_text
from bftrainer.console.client.adapt.loop_counts import _own_statements
from bftrainer.console.client.adapt.loop_edit import LoopEdit
from bftrainer.console.client.adapt.loop_loader import passed_loader, phase_variable, training_phase
from bftrainer.console.client.adapt.project import ScriptModule
from bftrainer.console.client.adapt.source import Function, name_of


def edit_backward(edit: LoopEdit) -> None:
    """Let the training object call ``backward``, so that it weights and reports the loss."""
    calls: dict[ast.Call, ScriptModule] = {}
    batches = edit.loop.batches
    areas: list[tuple[ScriptModule, ast.AST]] = [(batches.module, batches.loop)]
    areas += [(hop.module, hop.function) for hop in batches.hops]
    for module, area in areas:
        calls |= dict.fromkeys(module.source.calls("backward", within=area), module)
    is_strong = edit.state.counting is not None
    for call, module in calls.items():
        assert isinstance(call.func, ast.Attribute)
        owner, rest = call.func.value, call.args
        is_accelerator = (
            bool(rest)
            and not isinstance(owner, ast.Call)
            and ("accelerator" in module.source.of(owner) or "fabric" in module.source.of(owner))
        )
        loss: ast.expr = rest[0] if is_accelerator else owner
        if rest and not is_accelerator:
            continue  # the gradient of an output that is no loss
        name = edit.object_name(module, module.source.function(call))
        options = "".join(f", {module.source.of(keyword)}" for keyword in call.keywords)
        if isinstance(loss, ast.Call) and name_of(loss.func) == "scale" and loss.args:
            options += f", unscaled={module.source.of(loss.args[0])}"
        module.source.replace(call, f"{name}.backward({module.source.of(loss)}{options})")
    if not calls and is_strong:
        edit.scale_note = "allow only sizes that divide the batch: backward() is out of reach"


def edit_guards(edit: LoopEdit) -> None:
    """Put changes of kept state that stand before the loop over batches under a condition, so that
    a resumed epoch does not run them again.
    """
    if edit.horovod is not None:
        return
    for statement in edit.state.guarded:
        edit.source.insert_before(statement, f"if {edit.training}.begins_epoch: ")


def edit_epoch_values(edit: LoopEdit) -> None:
    """Keep the variables of one epoch, before its loop over batches."""
    names = edit.state.epoch_values
    if not names or edit.horovod is not None:
        return
    batches = edit.loop.batches
    source = batches.module.source
    name = edit.object_name(batches.module, batches.scope.function)
    loader = ""
    assert edit.loop.loader is not None
    text = source.of(edit.loop.loader)
    if passed_loader(edit, text) is not None:
        loader = f", {text}"
    elif phase := phase_variable(edit):
        new = f"{name}.step_loader"
        loader = f', {new} if {phase} == "{training_phase(edit)}" else {text}'
    line = f"{tuple_text(names)} = {name}.epoch_values({getter_text(names)}{loader})"
    source.before(source.statement(batches.loop), line)


def edit_horovod_steps(edit: LoopEdit) -> None:
    """Count each step behind the optimizer's, in front of ``state.commit()``."""
    module, step = edit.loop.steps[-1]
    loss = _loss_variable(edit, module)
    statement = module.source.statement(step)
    for parent in module.source.above(statement):
        if parent is edit.loop.batches.loop or isinstance(parent, Function):
            break
        if isinstance(parent, ast.stmt):
            statement = parent
    module.source.after(statement, f"{edit.training}.step({loss})")


def edit_step_report(edit: LoopEdit, loop: ast.For | ast.While) -> None:
    """Report each step at the end of a pass, also where ``continue`` ends it."""
    batches = edit.loop.batches
    loss = _loss_variable(edit, batches.module)
    report = f"{edit.training}.step({loss})"
    last = loop.body[-1]
    if isinstance(last, ast.Break | ast.Continue | ast.Return):
        edit.source.before(last, report)
    else:
        edit.source.after(last, report)
    for node in _own_statements(loop, into_loops=False):
        if isinstance(node, ast.Continue) and node is not last:
            edit.source.before(node, f"{edit.training}.step()")


def _loss_variable(edit: LoopEdit, module: ScriptModule) -> str:
    """Return the variable whose ``backward`` the loop calls; empty if it is none of the loop's
    function.
    """
    calls = module.source.calls("backward", within=edit.loop.batches.loop)
    for call in reversed(calls):
        assert isinstance(call.func, ast.Attribute)
        loss: ast.expr = call.args[0] if call.args else call.func.value
        if isinstance(loss, ast.Call) and name_of(loss.func) == "scale":
            loss = loss.args[0]
        is_near = module.source.function(call) is module.source.function(edit.loop.batches.loop)
        if isinstance(loss, ast.Name) and is_near:
            return loss.id
    return ""
