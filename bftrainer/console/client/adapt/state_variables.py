"""Variables that a loop carries from pass to pass: of the training, of an epoch, globals."""

from __future__ import annotations

import ast
import re

from bftrainer.console.client.adapt.carried import MUTATORS, Flow, flow_of
from bftrainer.console.client.adapt.script_values import (
    add_once,
    is_container,
    is_stored_item,
    makes_container_or_number,
    target_names,
)
from bftrainer.console.client.adapt.search import (
    EPOCHS,
    LoopPlace,
    refusal,
)
from bftrainer.console.client.adapt.source import (
    ScriptSource,
    is_read,
    is_stored,
    name_of,
)
from bftrainer.console.client.adapt.state_search import StateSearch

_DRAWN = re.compile(r"batch|next|sample|data|loader|iter", re.IGNORECASE)
_CLOCK = re.compile(r"\btime\b|perf_counter|monotonic|datetime|\bnow\(|Event\(")
STATEFUL = re.compile(
    r"GradScaler|NativeScaler|LR$|Plateau|Scheduler|_schedule|schedule_with|(^|_)EMA|EMA$|Ema|"
    r"(^|_)ema(_|$)|Averaged|Averaging|SWA"
)


def find_training_values(search: StateSearch) -> None:
    """Find the variables that the outer loop carries from pass to pass."""
    flow = flow_of(search.source, search.outer.body)
    if isinstance(search.outer, ast.While):
        flow.exposed |= {
            search.source.of(node) for node in ast.walk(search.outer.test) if is_read(node)
        }
    before = search.bound_before(search.loop.outer)
    surely_before = search.surely_bound_before(search.loop.outer)
    targets = target_names(search.source, search.outer)
    batches = search.loop.batches
    in_epoch = flow_of(batches.module.source, batches.loop.body).changed_names()
    if search.loop.epochs is None:
        in_epoch = set()
    for name in sorted(flow.changed_names() | _changed_in_place(search, search.outer)):
        if name in targets or name in search.own or name in search.state.keep.values():
            continue
        if (
            not _is_bound(search, name, before)
            or search.is_iterator(name)
            or _is_rate(search, name)
        ):
            continue
        in_place = name in _changed_in_place(search, search.outer)
        if (
            name not in flow.assigned
            and not in_place
            and not _is_container_name(search, flow, name)
        ):
            continue
        is_read_after = _is_read_after(search, name)
        # A start after the last step makes no pass, which would set the name.
        is_result = is_read_after and name in flow.assigned and name not in in_epoch
        if not (in_place or is_result or flow.is_carried(name, is_read_after)):
            continue
        if _needs_no_keeping(search, name, flow.assigned.get(name, [])):
            continue
        _keep_if_bound(search, name, flow, surely_before)


def _keep_if_bound(search: StateSearch, name: str, flow: Flow, surely_before: set[str]) -> None:
    """Keep a variable that is bound before the loop on every path; note another one, if a pass
    reads it before it sets it.
    """
    if name.partition(".")[0] in surely_before:
        add_once(search.state.values, name)
    elif name in flow.exposed:
        search.state.unkept.append(f"{name} (set in one branch only before the loop)")


def _is_bound(search: StateSearch, name: str, before: set[str]) -> bool:
    """Whether a name, or the object whose attribute it is, is bound before the outer loop."""
    root = name.partition(".")[0]
    if name.startswith("self."):
        return name in _self_attributes(search)
    return name in before or root in before


def _is_container_name(search: StateSearch, flow: Flow, name: str) -> bool:
    """Whether a name that methods change stands for a list, a dict, or what has items."""
    if any(
        isinstance(part, ast.Subscript) and is_stored_item(part)
        for place in flow.mutated.get(name, [])
        for part in ast.walk(place)
    ):
        return True
    origins = search.project.origins(search.scope, name)
    if origins:
        return any(is_container(origin.value) for origin in origins)
    calls = [node for place in flow.mutated.get(name, []) for node in ast.walk(place)]
    methods = {node.attr for node in calls if isinstance(node, ast.Attribute)}
    return bool(methods & {"append", "extend", "appendleft", "popleft", "setdefault"})


def _self_attributes(search: StateSearch) -> set[str]:
    """Return the attributes of the object whose method has the outer loop."""
    return set() if search.around is None else search.attributes_set(*search.around)


def _needs_no_keeping(search: StateSearch, name: str, places: list[ast.stmt]) -> bool:
    """Whether a variable has nothing to keep: a time, or a batch that is drawn again."""
    if not places:
        return False
    values = [getattr(place, "value", None) for place in places]
    texts = [search.source.of(value) for value in values if value is not None]
    if any(isinstance(place, ast.AugAssign) for place in places):
        return False
    if all(_CLOCK.search(text) for text in texts):
        return True
    is_drawn = all(
        isinstance(value, ast.Call) and _DRAWN.search(name_of(value.func)) for value in values
    )
    if is_drawn:
        search.state.unkept.append(f"{name} (drawn again)")
    return is_drawn


def _changed_in_place(search: StateSearch, area: ast.AST) -> set[str]:
    """Return the names whose tensors are changed by methods such as ``mul_``."""
    names: set[str] = set()
    for node in ast.walk(area):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        method = node.func.attr
        is_in_place = re.fullmatch(r"[a-z]+(_[a-z]+)*_", method) is not None
        if is_in_place and method not in ("unscale_", "requires_grad_", "clip_grad_norm_"):
            owner = node.func.value
            if isinstance(owner, ast.Name):
                names.add(owner.id)
    names &= search.bound_before(search.loop.outer)
    return {name for name in names if not _is_module(search, name)}


def _is_module(search: StateSearch, name: str) -> bool:
    """Whether a name is bound to a module of torch."""
    bound = search.source.bound_values(name)
    return any(re.search(r"\bnn\.", search.source.of(binding.value)) for binding in bound)


def _is_rate(search: StateSearch, name: str) -> bool:
    """Whether a name stands for a parameter group, whose rate the optimizer's state has."""
    return bool(re.search(r"param_?group|^pg$|^group$|^g$", name))


def _is_read_after(search: StateSearch, name: str) -> bool:
    """Whether code after the outer loop, in its function, reads a name."""
    end = search.outer.end_lineno or search.outer.lineno
    nodes = search.source.nodes
    if search.scope.function is not None and not name.startswith("self."):
        nodes = list(ast.walk(search.scope.function))
    for node in nodes:
        if is_read(node) and node.lineno > end and search.source.of(node) == name:
            return True
    return False


def find_globals(search: StateSearch) -> None:
    """Find globals that functions within the loop change."""
    for module, function in search.called_functions():
        declared = {
            name
            for node in ast.walk(function)
            if isinstance(node, ast.Global)
            for name in node.names
        }
        if not declared or function is search.scope.function:
            continue
        flow = flow_of(module.source, function.body)
        for name in sorted(declared):
            is_changed = name in flow.assigned or name in flow.mutated
            if not is_changed or name in search.own or search.is_iterator(name):
                continue
            if not flow.is_carried(name, is_read_later=True):
                continue
            if module is not search.module:
                what = (
                    f"{name} is a global that {function.name}() changes in each epoch; no "
                    "checkpoint has it: return it, and pass it on"
                )
                raise refusal(module, search.project, flow.assigned[name][0], what, EPOCHS)
            if search.scope.function is None:
                add_once(search.state.values, name)
            else:
                add_once(search.state.global_values, name)


def find_epoch_values(search: StateSearch) -> None:
    """Find the variables that the loop over batches carries, and that start again with each
    epoch.
    """
    if search.loop.epochs is None:
        return
    batches = search.loop.batches
    source = batches.module.source
    flow = flow_of(source, batches.loop.body)
    targets = target_names(source, batches.loop)
    if batches.scope == search.loop.outer.scope:
        before = _assigned_before_batches(search)
    else:
        before = search.bound_before(batches)
    later = _names_read_after(search, batches)
    surely_before = search.surely_bound_before(batches)
    for name in sorted(flow.changed_names()):
        is_own = name in search.own or name in targets or "." in name
        if is_own or name not in before or name in search.state.values:
            continue
        if not flow.is_carried(name, name in later) or search.is_iterator(name):
            continue
        if name not in surely_before:
            search.state.unkept.append(f"{name} (set in one branch only before the loop)")
            continue
        if _is_mutated_object(search, source, batches, name):
            continue
        if _needs_no_keeping(search, name, flow.assigned.get(name, [])):
            continue
        add_once(search.state.epoch_values, name)


def _is_mutated_object(
    search: StateSearch, source: ScriptSource, place: LoopPlace, name: str
) -> bool:
    """Whether a name that is only mutated stands for an object, not for a container."""
    origins = search.project.origins(place.scope, name)
    for origin in origins:
        if isinstance(origin.value, ast.Call) and not makes_container_or_number(origin.value):
            maker = name_of(origin.value.func)
            if STATEFUL.search(maker):
                return True  # kept already, by its name in the outer loop
            if maker in ("item", "float", "int", "zeros", "tensor", "inf", "zeros_like"):
                continue
            if search.project.made_class(origin.module, origin.value) or "." not in maker:
                is_mutated = any(
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == name
                    and node.attr in MUTATORS
                    for node in ast.walk(place.loop)
                )
                if is_mutated:
                    search.state.unkept.append(f"{name} ({maker}, of one epoch)")
                    return True
    return False


def _assigned_before_batches(search: StateSearch) -> set[str]:
    """Return the names that an epoch assigns before its loop over batches."""
    names: set[str] = set()
    begin = search.loop.batches.loop.lineno
    for node in ast.walk(search.outer):
        if is_stored(node) and search.outer.lineno < node.lineno < begin:
            names.add(search.source.of(node))
    return names


def _names_read_after(search: StateSearch, place: LoopPlace) -> set[str]:
    """Return the names that the function of a loop reads after the loop."""
    source = place.module.source
    end = place.loop.end_lineno or place.loop.lineno
    area: ast.AST = place.scope.function or source.tree
    return {source.of(node) for node in ast.walk(area) if is_read(node) and node.lineno > end}
