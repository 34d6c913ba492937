"""Objects with a state that a loop changes: schedulers, scalers, averages, the script's own."""

from __future__ import annotations

import ast
import re

from bftrainer.console.client.adapt.carried import flow_of
from bftrainer.console.client.adapt.project import ScriptModule, base_names, method_names
from bftrainer.console.client.adapt.script_values import (
    add_once,
    assigned_values,
    copies_weights,
    makes_container_or_number,
)
from bftrainer.console.client.adapt.search import (
    ANY,
    EPOCHS,
    SCHEDULER,
    refusal,
)
from bftrainer.console.client.adapt.source import (
    Function,
    ScriptSource,
    name_of,
)
from bftrainer.console.client.adapt.state_search import StateSearch
from bftrainer.console.client.adapt.state_variables import STATEFUL

_STATEFUL_BASES = re.compile(r"LRScheduler|LR$|Module$|Optimizer$")

_DISPLAY = re.compile(
    r"log|writer|visual|timer|progress|bar$|monitor|plot|meter|metric|tqdm|wandb|board|console|"
    r"profil|watch",
    re.IGNORECASE,
)
_SETUP = re.compile(r"^(__init__|_?(load|resume|setup|build|init|configure|prepare|create|make))")
_WEIGHTS = re.compile(r"(parameters|state_dict|deepcopy)\(")


def check_remade(search: StateSearch) -> None:
    """Refuse a loop that makes its model, optimizer or loader again."""
    for node in ast.walk(search.outer):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                text = search.source.of(target)
                if text in search.own and not _is_method_of(search, node.value, text):
                    what = f"{text} is made again in the loop, but a checkpoint is of the first"
                    raise refusal(search.module, search.project, node, what, ANY)
    for module, statement in [(search.module, search.outer), *search.inner_parts]:
        for call in module.source.calls("add_param_group", within=statement):
            what = (
                "adds weights to the optimizer in the loop, but a restart makes it without "
                "them; add all groups before the loop, with a rate of 0"
            )
            raise refusal(module, search.project, call, what, ANY)
        text = module.source.of(statement)
        if re.search(r"requires_grad\s*=[^=]|requires_grad_\(|freeze\w*\(", text):
            search.state.freezes = True


def _is_method_of(search: StateSearch, value: ast.expr, text: str) -> bool:
    """Whether an expression is a call such as ``model.train()``, which returns the model."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    return search.source.of(value.func.value) == text


def find_objects(search: StateSearch) -> None:
    """Find schedulers, scalers, averaged models and the script's own objects."""
    names = {name for name in search.bound_before(search.loop.outer) if "." not in name}
    if search.scope.function is not None:
        names |= set(search.source.top_level_variables())
    around = search.around
    if around is not None:
        names |= search.attributes_set(*around)
        _note_attributes(search, "self", *around, is_self=True)
    for name in sorted(names):
        if name in search.own or name == "self" or not search.uses(name):
            continue
        origins = search.project.origins(search.scope, name)
        for origin in origins:
            if _note_object(search, name, origin.module, origin.value, origin.part):
                break


def find_unknown_schedulers(search: StateSearch) -> None:
    """Keep a scheduler by its name, where nothing says what made it."""
    for call in search.source.calls("step", within=search.outer):
        owner = search.source.of(getattr(call.func, "value", call.func))
        is_name = re.fullmatch(r"[\w.]+", owner) is not None and SCHEDULER.search(owner)
        if not is_name or owner in search.state.keep.values():
            continue
        origins = search.project.origins(search.scope, owner)
        if not any(isinstance(origin.value, ast.Call) for origin in origins):
            search.state.keep[owner.removeprefix("self.").replace(".", "_")] = owner


def find_epoch_schedulers(search: StateSearch) -> None:
    """Find schedulers that an epoch makes before its loop over batches, which steps them: such as
    one that warms up in the first epoch.
    """
    batches = search.loop.batches
    if search.loop.epochs is None:
        return
    source = batches.module.source
    bound = search.surely_bound_before(batches)
    for call in source.calls("step", within=batches.loop):
        owner = getattr(call.func, "value", None)
        if not isinstance(owner, ast.Name):
            continue
        makers = [
            binding.value
            for binding in source.bound_values(owner.id)
            if isinstance(binding.value, ast.Call)
            and STATEFUL.search(name_of(binding.value.func))
            and _is_made_in_epoch(search, binding.value)
        ]
        if not makers:
            continue
        if owner.id not in bound:
            what = (
                f"{owner.id} is made in some epochs only; set `{owner.id} = None` before that, and "
                f"step it `if {owner.id} is not None`"
            )
            raise refusal(batches.module, search.project, makers[0], what, EPOCHS)
        add_once(search.state.epoch_values, owner.id)
        search.state.has_rates = True


def _is_made_in_epoch(search: StateSearch, value: ast.expr) -> bool:
    """Whether an expression is evaluated in each epoch, before its loop over batches."""
    batches = search.loop.batches
    source = batches.module.source
    if batches.loop.lineno < value.lineno or source.function(value) is not batches.scope.function:
        return False
    return batches.scope != search.loop.outer.scope or search.outer in source.above(value)


def _note_object(
    search: StateSearch, name: str, module: ScriptModule, value: ast.expr, part: int | None
) -> bool:
    """Record how the object that an expression makes is kept; whether it is one with a state."""
    source = module.source
    if isinstance(value, ast.ListComp | ast.DictComp | ast.List | ast.Dict):
        text = source.of(value)
        if _WEIGHTS.search(text) and re.search(r"clone|copy|detach|zeros", text):
            add_once(search.state.values, name)
            return True
        return False
    if not isinstance(value, ast.Call):
        return False
    maker = name_of(value.func)
    text = source.of(value)
    if part is not None and not STATEFUL.search(name) and not SCHEDULER.search(name):
        return False
    if maker in ("prepare", "DataLoader") or maker.endswith("loader"):
        return False
    made = search.project.made_class(module, value)
    if made is not None:
        return _note_own_object(search, name, *made)
    is_copy = maker == "deepcopy" and "state_dict" not in text
    if is_copy or STATEFUL.search(maker) or (part is not None) or maker == "get_scheduler":
        search.state.keep[name.removeprefix("self.").replace(".", "_")] = name
        return True
    if maker in ("requires_grad_", "eval", "to", "cuda") and isinstance(value.func, ast.Attribute):
        inner = value.func.value
        return _note_object(search, name, module, inner, part)
    return False


def _note_own_object(
    search: StateSearch, name: str, module: ScriptModule, node: ast.ClassDef
) -> bool:
    """Record how an object of one of the project's classes is kept."""
    lineage = search.project.lineage(module, node)
    methods, bases = method_names(lineage), base_names(lineage)
    if any("Dataset" in base or "Sampler" in base for base in bases):
        return False
    has_state = {"state_dict", "load_state_dict"} <= methods
    if has_state or any(_STATEFUL_BASES.search(base) for base in bases):
        is_model = "Module" in bases and name in _models_of_optimizer(search)
        if not is_model:
            search.state.keep[name.removeprefix("self.").replace(".", "_")] = name
        return True
    if _DISPLAY.search(node.name):
        search.state.unkept.append(f"{name} ({node.name})")
        return True
    return _note_attributes(search, name, module, node)


def _models_of_optimizer(search: StateSearch) -> set[str]:
    """Return the names of models and optimizers, which every checkpoint has."""
    return search.own


def _note_attributes(
    search: StateSearch,
    name: str,
    module: ScriptModule,
    node: ast.ClassDef,
    *,
    is_self: bool = False,
) -> bool:
    """Record the attributes that methods of a class change, for an object of it."""
    attributes: set[str] = set()
    for owner in search.project.lineage(module, node):
        source = _defining_source(search, owner, module)
        for method in owner.body:
            if isinstance(method, Function) and not _SETUP.match(method.name):
                attributes |= _changed_attributes(source, method, takes_plain=not is_self)
    initial = _initial_values(search, module, node)
    changed = {attribute for attribute in attributes if attribute in initial}
    if not is_self:
        changed |= {name for name, value in initial.items() if copies_weights(value)}
    kept: list[str] = []
    for attribute in sorted(changed):
        full = f"{name}.{attribute}"
        value = initial[attribute]
        is_object = isinstance(value, ast.Call) and not makes_container_or_number(value)
        if full in search.own or (is_object and not _WEIGHTS.search(ast.unparse(value))):
            continue
        is_other = re.search(r"model|optim|loader|dataset|device|^net$|writer|logger", attribute)
        if (is_other and not copies_weights(value)) or search.is_iterator(full):
            continue
        kept.append(attribute)
    if is_self:
        for attribute in kept:
            add_once(search.state.values, f"self.{attribute}")
    elif kept:
        search.state.attributes[name] = kept
    return bool(changed)


def _defining_source(
    search: StateSearch, node: ast.ClassDef, default: ScriptModule
) -> ScriptSource:
    """Return the source of the module that defines a class."""
    for module in search.project.modules:
        if node in module.source.parents:
            return module.source
    return default.source


def _initial_values(
    search: StateSearch, module: ScriptModule, node: ast.ClassDef
) -> dict[str, ast.expr]:
    """Return what the setup of a class, or the class itself, sets its attributes to."""
    values: dict[str, ast.expr] = {}
    for owner in search.project.lineage(module, node):
        for part in owner.body:
            is_setup = isinstance(part, Function) and (
                _SETUP.match(part.name) is not None or part.name == "reset"
            )
            if isinstance(part, Function) and not is_setup:
                continue
            for statement in ast.walk(part):
                for target, value in assigned_values(statement):
                    values.setdefault(name_of(target), value)
    return values


def _changed_attributes(source: ScriptSource, method: Function, *, takes_plain: bool) -> set[str]:
    """Return the attributes of ``self`` that a method changes.

    Without ``takes_plain``, those that it only sets on every path are left out.
    """
    flow = flow_of(source, method.body)
    names: set[str] = set()
    for name, places in flow.assigned.items():
        is_counter = any(isinstance(place, ast.AugAssign) for place in places)
        if takes_plain or is_counter or name in flow.exposed or name not in flow.definite:
            names.add(name)
    names |= set(flow.mutated)
    return {name.partition(".")[2] for name in names if re.fullmatch(r"self\.\w+", name)}
