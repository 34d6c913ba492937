"""What a script's loop changes beside model and optimizer, and how each part of it is kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bftrainer.console.client.adapt.carried import MUTATORS, Flow, flow_of
from bftrainer.console.client.adapt.project import Project, ScriptModule, parameters
from bftrainer.console.client.adapt.search import (
    ANY,
    EPOCHS,
    SCHEDULER,
    LoopPlace,
    TrainingLoop,
    refusal,
)
from bftrainer.console.client.adapt.source import (
    COMPOUND,
    Function,
    ScriptSource,
    is_read,
    is_stored,
    name_of,
)

_STATEFUL = re.compile(
    r"GradScaler|NativeScaler|LR$|Plateau|Scheduler|_schedule|schedule_with|(^|_)EMA|EMA$|Ema|"
    r"(^|_)ema(_|$)|Averaged|Averaging|SWA"
)
_STATEFUL_BASES = re.compile(r"LRScheduler|LR$|Module$|Optimizer$")
_AVERAGE = re.compile(
    r"(^|_|\b)ema|EMA|Ema|averag|swa|target|teacher|momentum|shadow", re.IGNORECASE
)
_DISPLAY = re.compile(
    r"log|writer|visual|timer|progress|bar$|monitor|plot|meter|metric|tqdm|wandb|board|console|"
    r"profil|watch",
    re.IGNORECASE,
)
_SETUP = re.compile(r"^(__init__|_?(load|resume|setup|build|init|configure|prepare|create|make))")
_WEIGHTS = re.compile(r"(parameters|state_dict|deepcopy)\(")
_DRAWN = re.compile(r"batch|next|sample|data|loader|iter", re.IGNORECASE)
_CHANGING = MUTATORS | {"step", "step_update"}
"""Methods that bring an object from one state to the next."""
_CLOCK = re.compile(r"\btime\b|perf_counter|monotonic|datetime|\bnow\(|Event\(")


@dataclass
class KeptState:
    """What the checkpoint has beside model and optimizer, as expressions of the script.

    ``keep`` are objects with a state, by name; ``attributes`` those of objects without one, by the
    object; ``values`` variables of the whole training and
    ``epoch_values`` those of one epoch. ``guarded`` are statements that a resumed epoch must not
    run again. ``has_rates``: the script sets the learning rate. ``counting``: a line that counts
    steps, so that a step must have as many samples at every size, with the reason. ``read_after``:
    the lines after the loop that read names which only a pass of the loop sets. ``agreeing``: what
    all workers must do alike, by line: an early end of the outer loop, a rate that follows a loss.
    """

    keep: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, list[str]] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    global_values: list[str] = field(default_factory=list)
    epoch_values: list[str] = field(default_factory=list)
    guarded: list[ast.stmt] = field(default_factory=list)
    has_rates: bool = False
    counting: tuple[ScriptModule, int, str] | None = None
    unkept: list[str] = field(default_factory=list)
    read_after: dict[str, int] = field(default_factory=dict)
    agreeing: dict[int, str] = field(default_factory=dict)
    freezes: bool = False


class StateSearch:
    """Finds what a training loop changes.

    ``models`` and ``optimizers`` are in the scope of the outer loop. Raises RefusalError for what
    cannot be kept.
    """

    def __init__(
        self, project: Project, loop: TrainingLoop, models: Sequence[str], optimizers: Sequence[str]
    ) -> None:
        self.project, self.loop = project, loop
        self.module = loop.outer.module
        self.source = self.module.source
        self.outer = loop.outer.loop
        self.scope = loop.outer.scope
        self.own = {*models, *optimizers}
        self.optimizers = list(optimizers)
        self.state = KeptState()
        self.around = project.class_of_self(self.scope)
        self.inner_parts = self._parts_of_a_step()

    def result(self) -> KeptState:
        """Return the state that is to be kept."""
        self._check_remade()
        self._objects()
        self._unknown_schedulers()
        self._outer_values()
        self._globals()
        self._epoch_values()
        self._guards()
        self._rates()
        self._counting()
        self._reads_after_loop()
        self._agreeing()
        return self.state

    # What runs in each step: the loop over batches, and the functions on the way to the step.

    def _parts_of_a_step(self) -> list[tuple[ScriptModule, ast.AST]]:
        """Return the code that runs in each step."""
        loop = self.loop
        parts: list[tuple[ScriptModule, ast.AST]] = [
            (loop.batches.module, statement) for statement in loop.batches.loop.body
        ]
        parts += [(hop.module, hop.function) for hop in loop.batches.hops]
        return parts

    def _bound_before(self, place: LoopPlace) -> set[str]:
        """Return the names that the scope of a loop binds before the loop, parameters included."""
        source = place.module.source
        function = place.scope.function
        names = parameters(function) if function is not None else set()
        nodes = source.nodes if function is None else list(ast.walk(function))
        for node in nodes:
            is_near = is_stored(node) and source.function(node) is function
            if is_near and getattr(node, "lineno", 0) < place.loop.lineno:
                names.add(source.of(node))
            if isinstance(node, ast.Global):
                names.update(node.names)
        return names

    def _uses(self, name: str) -> bool:
        """Whether the outer loop names a variable, or a method of a class names its attribute."""
        if name.startswith("self.") and self.around is not None:
            classes = self.project.lineage(*self.around)
            reads = [node for part in classes for node in ast.walk(part) if is_read(node)]
            return any(ast.unparse(node) == name for node in reads)
        names = (node for node in ast.walk(self.outer) if is_read(node))
        return any(self.source.of(node) == name for node in names)

    def _check_remade(self) -> None:
        """Refuse a loop that makes its model, optimizer or loader again."""
        for node in ast.walk(self.outer):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    text = self.source.of(target)
                    if text in self.own and not self._is_method_of(node.value, text):
                        what = f"{text} is made again in the loop, but a checkpoint is of the first"
                        raise refusal(self.module, self.project, node, what, ANY)
        for module, statement in [(self.module, self.outer), *self.inner_parts]:
            for call in module.source.calls("add_param_group", within=statement):
                what = (
                    "adds weights to the optimizer in the loop, but a restart makes it without "
                    "them; add all groups before the loop, with a rate of 0"
                )
                raise refusal(module, self.project, call, what, ANY)
            text = module.source.of(statement)
            if re.search(r"requires_grad\s*=[^=]|requires_grad_\(|freeze\w*\(", text):
                self.state.freezes = True

    def _is_method_of(self, value: ast.expr, text: str) -> bool:
        """Whether an expression is a call such as ``model.train()``, which returns the model."""
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return False
        return self.source.of(value.func.value) == text

    # Objects with a state.

    def _objects(self) -> None:
        """Find schedulers, scalers, averaged models and the script's own objects."""
        names = {name for name in self._bound_before(self.loop.outer) if "." not in name}
        if self.scope.function is not None:
            names |= set(self.source.top_level_variables())
        around = self.around
        if around is not None:
            names |= self._attributes_set(*around)
            self._object_values("self", *around, is_self=True)
        for name in sorted(names):
            if name in self.own or name == "self" or not self._uses(name):
                continue
            origins = self.project.origins(self.scope, name)
            for origin in origins:
                if self._note_object(name, origin.module, origin.value, origin.part):
                    break

    def _unknown_schedulers(self) -> None:
        """Keep a scheduler by its name, where nothing says what made it."""
        for call in self.source.calls("step", within=self.outer):
            owner = self.source.of(getattr(call.func, "value", call.func))
            is_name = re.fullmatch(r"[\w.]+", owner) is not None and SCHEDULER.search(owner)
            if not is_name or owner in self.state.keep.values():
                continue
            if not self.project.origins(self.scope, owner):
                self.state.keep[owner.removeprefix("self.").replace(".", "_")] = owner

    def _attributes_set(self, module: ScriptModule, node: ast.ClassDef) -> set[str]:
        """Return the attributes that the methods of a class and its bases set, as ``self.name``."""
        names: set[str] = set()
        for part in self.project.lineage(module, node):
            for child in ast.walk(part):
                if is_stored(child) and re.fullmatch(r"self\.\w+", ast.unparse(child)):
                    names.add(ast.unparse(child))
        return names

    def _note_object(
        self, name: str, module: ScriptModule, value: ast.expr, part: int | None
    ) -> bool:
        """Note how the object that an expression makes is kept; whether it is one with a state."""
        source = module.source
        if isinstance(value, ast.ListComp | ast.DictComp | ast.List | ast.Dict):
            text = source.of(value)
            if _WEIGHTS.search(text) and re.search(r"clone|copy|detach|zeros", text):
                self._add(self.state.values, name)
                return True
            return False
        if not isinstance(value, ast.Call):
            return False
        maker = name_of(value.func)
        text = source.of(value)
        if part is not None and not _STATEFUL.search(name) and not SCHEDULER.search(name):
            return False
        if maker in ("prepare", "DataLoader") or maker.endswith("loader"):
            return False
        made = self.project.made_class(module, value)
        if made is not None:
            return self._note_own_object(name, *made)
        is_copy = maker == "deepcopy" and "state_dict" not in text
        if is_copy or _STATEFUL.search(maker) or (part is not None) or maker == "get_scheduler":
            self.state.keep[name.removeprefix("self.").replace(".", "_")] = name
            return True
        if maker in ("requires_grad_", "eval", "to", "cuda") and isinstance(
            value.func, ast.Attribute
        ):
            inner = value.func.value
            return self._note_object(name, module, inner, part)
        return False

    def _note_own_object(self, name: str, module: ScriptModule, node: ast.ClassDef) -> bool:
        """Note how an object of one of the project's classes is kept."""
        lineage = self.project.lineage(module, node)
        methods = {
            part.name for owner in lineage for part in owner.body if isinstance(part, Function)
        }
        bases = {name_of(base) for owner in lineage for base in owner.bases}
        if any("Dataset" in base or "Sampler" in base for base in bases):
            return False
        has_state = {"state_dict", "load_state_dict"} <= methods
        if has_state or any(_STATEFUL_BASES.search(base) for base in bases):
            is_model = "Module" in bases and name in self._models_of_optimizer()
            if not is_model:
                self.state.keep[name.removeprefix("self.").replace(".", "_")] = name
            return True
        if _DISPLAY.search(node.name):
            self.state.unkept.append(f"{name} ({node.name})")
            return True
        return self._object_values(name, module, node)

    def _models_of_optimizer(self) -> set[str]:
        """Return the models, which the checkpoint has anyway."""
        return self.own

    def _object_values(
        self, name: str, module: ScriptModule, node: ast.ClassDef, *, is_self: bool = False
    ) -> bool:
        """Note the attributes that methods of a class change, for an object of it."""
        attributes: set[str] = set()
        for owner in self.project.lineage(module, node):
            source = self._source_of(owner, module)
            for method in owner.body:
                if isinstance(method, Function) and not _SETUP.match(method.name):
                    attributes |= _changed_attributes(source, method, takes_plain=not is_self)
        initial = self._initial_values(module, node)
        changed = {attribute for attribute in attributes if attribute in initial}
        if not is_self:
            changed |= {name for name, value in initial.items() if _has_weights(value)}
        kept: list[str] = []
        for attribute in sorted(changed):
            full = f"{name}.{attribute}"
            value = initial[attribute]
            is_object = isinstance(value, ast.Call) and not _is_container_call(value)
            if full in self.own or (is_object and not _WEIGHTS.search(ast.unparse(value))):
                continue
            is_other = re.search(
                r"model|optim|loader|dataset|device|^net$|writer|logger", attribute
            )
            if (is_other and not _has_weights(value)) or self._is_iterator(full):
                continue
            kept.append(attribute)
        if is_self:
            for attribute in kept:
                self._add(self.state.values, f"self.{attribute}")
        elif kept:
            self.state.attributes[name] = kept
        return bool(changed)

    def _source_of(self, node: ast.ClassDef, default: ScriptModule) -> ScriptSource:
        """Return the source of the module that defines a class."""
        for module in self.project.modules:
            if node in module.source.parents:
                return module.source
        return default.source

    def _initial_values(self, module: ScriptModule, node: ast.ClassDef) -> dict[str, ast.expr]:
        """Return what the setup of a class, or the class itself, sets its attributes to."""
        values: dict[str, ast.expr] = {}
        for owner in self.project.lineage(module, node):
            for part in owner.body:
                is_setup = isinstance(part, Function) and (
                    _SETUP.match(part.name) is not None or part.name == "reset"
                )
                if isinstance(part, Function) and not is_setup:
                    continue
                for statement in ast.walk(part):
                    for target, value in _assignments(statement):
                        values.setdefault(name_of(target), value)
        return values

    # Variables.

    def _outer_values(self) -> None:
        """Find the variables that the outer loop carries from pass to pass."""
        flow = flow_of(self.source, self.outer.body)
        if isinstance(self.outer, ast.While):
            flow.exposed |= {
                self.source.of(node) for node in ast.walk(self.outer.test) if is_read(node)
            }
        before = self._bound_before(self.loop.outer)
        targets = _target_names(self.source, self.outer)
        batches = self.loop.batches
        in_epoch = flow_of(batches.module.source, batches.loop.body).changed_names()
        if self.loop.epochs is None:
            in_epoch = set()
        for name in sorted(flow.changed_names() | self._changed_in_place(self.outer)):
            if name in targets or name in self.own or name in self.state.keep.values():
                continue
            if not self._is_bound(name, before) or self._is_iterator(name) or self._is_rate(name):
                continue
            in_place = name in self._changed_in_place(self.outer)
            if name not in flow.assigned and not in_place and not self._is_container(flow, name):
                continue
            is_read_after = self._is_read_after(name)
            # A start after the last step makes no pass, which would set the name.
            is_result = is_read_after and name in flow.assigned and name not in in_epoch
            if not (in_place or is_result or flow.is_carried(name, is_read_after)):
                continue
            if self._is_reset(name, flow.assigned.get(name, [])):
                continue
            self._add(self.state.values, name)

    def _is_bound(self, name: str, before: set[str]) -> bool:
        """Whether a name, or the object whose attribute it is, is bound before the outer loop."""
        root = name.partition(".")[0]
        if name.startswith("self."):
            return name in self._self_attributes()
        return name in before or root in before

    def _is_container(self, flow: Flow, name: str) -> bool:
        """Whether a name that methods change stands for a list, a dict, or what has items."""
        if any(
            isinstance(part, ast.Subscript) and is_stored_item(part)
            for place in flow.mutated.get(name, [])
            for part in ast.walk(place)
        ):
            return True
        origins = self.project.origins(self.scope, name)
        if origins:
            return any(_is_container(origin.value) for origin in origins)
        calls = [node for place in flow.mutated.get(name, []) for node in ast.walk(place)]
        methods = {node.attr for node in calls if isinstance(node, ast.Attribute)}
        return bool(methods & {"append", "extend", "appendleft", "popleft", "setdefault"})

    def _self_attributes(self) -> set[str]:
        """Return the attributes of the object whose method has the outer loop."""
        return set() if self.around is None else self._attributes_set(*self.around)

    def _is_reset(self, name: str, places: list[ast.stmt]) -> bool:
        """Whether a variable has nothing to keep: a time, or a batch that is drawn again."""
        if not places:
            return False
        values = [getattr(place, "value", None) for place in places]
        texts = [self.source.of(value) for value in values if value is not None]
        if any(isinstance(place, ast.AugAssign) for place in places):
            return False
        if all(_CLOCK.search(text) for text in texts):
            return True
        is_drawn = all(
            isinstance(value, ast.Call) and _DRAWN.search(name_of(value.func)) for value in values
        )
        if is_drawn:
            self.state.unkept.append(f"{name} (drawn again)")
        return is_drawn

    def _changed_in_place(self, area: ast.AST) -> set[str]:
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
        names &= self._bound_before(self.loop.outer)
        return {name for name in names if not self._is_module(name)}

    def _is_module(self, name: str) -> bool:
        """Whether a name is bound to a module of torch."""
        bound = self.source.bound_values(name)
        return any(re.search(r"\bnn\.", self.source.of(binding.value)) for binding in bound)

    def _is_iterator(self, name: str) -> bool:
        """Whether a name is bound to an iterator over a loader."""
        if name == self.loop.iterator:
            return True
        makers = {
            name_of(bound.value.func)
            for bound in self.source.bound_values(name)
            if isinstance(bound.value, ast.Call)
        }
        return bool(makers & {"iter", "tqdm", "trange", "cycle", "SummaryWriter", "open"})

    def _is_rate(self, name: str) -> bool:
        """Whether a name stands for a parameter group, whose rate the optimizer's state has."""
        return bool(re.search(r"param_?group|^pg$|^group$|^g$", name))

    def _is_read_after(self, name: str) -> bool:
        """Whether code after the outer loop, in its function, reads a name."""
        end = self.outer.end_lineno or self.outer.lineno
        nodes = self.source.nodes
        if self.scope.function is not None and not name.startswith("self."):
            nodes = list(ast.walk(self.scope.function))
        for node in nodes:
            if is_read(node) and node.lineno > end and self.source.of(node) == name:
                return True
        return False

    def _agreeing(self) -> None:
        """Find what an epoch decides by a value, which workers may have computed differently."""
        targets = _target_names(self.source, self.outer)
        schedulers = set(self.state.keep.values())
        for node in ast.walk(self.outer):
            if isinstance(node, ast.Break) and self._loop_of(node) is self.outer:
                self.state.agreeing[node.lineno] = "break"
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            is_step = node.func.attr == "step" and self.source.of(node.func.value) in schedulers
            if is_step and node.args and self.source.of(node.args[0]) not in targets:
                self.state.agreeing[node.lineno] = self.source.of(node)

    def _loop_of(self, node: ast.AST) -> ast.AST | None:
        """Return the innermost loop around a statement."""
        for parent in self.source.above(node):
            if isinstance(parent, ast.For | ast.While):
                return parent
        return None

    def _reads_after_loop(self) -> None:
        """Find reads after the outer loop of names that only its passes set: a start after the last
        step makes no pass.
        """
        end = self.outer.end_lineno or self.outer.lineno
        area = self.scope.function or self.source.tree
        own = [
            node
            for node in ast.walk(area)
            if isinstance(node, ast.Name) and self.source.function(node) is self.scope.function
        ]
        own.sort(key=lambda node: (node.lineno, node.col_offset))
        passes = {node.id for node in ast.walk(self.outer) if is_stored(node) and node in own}
        kept = {*self.state.values, *self.state.keep.values(), *self.state.attributes, *self.own}
        stored = self._stored_first_after(own, end)
        for node in own:
            is_lost = node.id in passes and node.id not in kept and node.id not in stored
            if is_lost and is_read(node) and node.lineno > end:
                self.state.read_after.setdefault(node.id, node.lineno)

    def _stored_first_after(self, names: Sequence[ast.Name], end: int) -> set[str]:
        """Return the names that a statement after line ``end`` sets before any reads them."""
        stored: set[str] = set()
        read: set[str] = set()
        for node in names:
            if node.lineno <= end:
                continue
            if is_read(node):
                read.add(node.id)
            elif node.id not in read:
                stored.add(node.id)
        return stored

    def _globals(self) -> None:
        """Find globals that functions within the loop change."""
        for module, function in self._reachable():
            declared = {
                name
                for node in ast.walk(function)
                if isinstance(node, ast.Global)
                for name in node.names
            }
            if not declared or function is self.scope.function:
                continue
            flow = flow_of(module.source, function.body)
            for name in sorted(declared):
                is_changed = name in flow.assigned or name in flow.mutated
                if not is_changed or name in self.own or self._is_iterator(name):
                    continue
                if not flow.is_carried(name, is_read_later=True):
                    continue
                if module is not self.module:
                    what = (
                        f"{name} is a global that {function.name}() changes in each epoch; no "
                        "checkpoint has it: return it, and pass it on"
                    )
                    raise refusal(module, self.project, flow.assigned[name][0], what, EPOCHS)
                if self.scope.function is None:
                    self._add(self.state.values, name)
                else:
                    self._add(self.state.global_values, name)

    def _reachable(self) -> list[tuple[ScriptModule, Function]]:
        """Return the functions that the outer loop calls, directly or not."""
        functions: list[tuple[ScriptModule, Function]] = []
        waiting: list[tuple[ScriptModule, ast.AST]] = [(self.module, self.outer)]
        while waiting and len(functions) < 200:
            module, node = waiting.pop()
            for call in ast.walk(node):
                if not isinstance(call, ast.Call):
                    continue
                target = self.project.target(module, call.func)
                if target is None or not isinstance(target[1], Function):
                    continue
                if (target[0], target[1]) not in functions:
                    functions.append((target[0], target[1]))
                    waiting.append(target)
        return functions

    def _epoch_values(self) -> None:
        """Find the variables that the loop over batches carries, and that start again with each
        epoch.
        """
        if self.loop.epochs is None:
            return
        batches = self.loop.batches
        source = batches.module.source
        flow = flow_of(source, batches.loop.body)
        targets = _target_names(source, batches.loop)
        if batches.scope == self.loop.outer.scope:
            before = self._bound_in_prefix()
        else:
            before = self._bound_before(batches)
        later = self._names_read_after(batches)
        for name in sorted(flow.changed_names()):
            is_own = name in self.own or name in targets or "." in name
            if is_own or name not in before or name in self.state.values:
                continue
            if not flow.is_carried(name, name in later) or self._is_iterator(name):
                continue
            if self._is_object(source, batches, name):
                continue
            if self._is_reset(name, flow.assigned.get(name, [])):
                continue
            self._add(self.state.epoch_values, name)

    def _is_object(self, source: ScriptSource, place: LoopPlace, name: str) -> bool:
        """Whether a name that is only mutated stands for an object, not for a container."""
        origins = self.project.origins(place.scope, name)
        for origin in origins:
            if isinstance(origin.value, ast.Call) and not _is_container_call(origin.value):
                maker = name_of(origin.value.func)
                if _STATEFUL.search(maker):
                    return True  # kept already, by its name in the outer loop
                if maker in ("item", "float", "int", "zeros", "tensor", "inf", "zeros_like"):
                    continue
                if self.project.made_class(origin.module, origin.value) or "." not in maker:
                    is_mutated = any(
                        isinstance(node, ast.Attribute)
                        and isinstance(node.value, ast.Name)
                        and node.value.id == name
                        and node.attr in MUTATORS
                        for node in ast.walk(place.loop)
                    )
                    if is_mutated:
                        self.state.unkept.append(f"{name} ({maker}, of one epoch)")
                        return True
        return False

    def _bound_in_prefix(self) -> set[str]:
        """Return the names that an epoch assigns before its loop over batches."""
        names: set[str] = set()
        begin = self.loop.batches.loop.lineno
        for node in ast.walk(self.outer):
            if is_stored(node) and self.outer.lineno < node.lineno < begin:
                names.add(self.source.of(node))
        return names

    def _names_read_after(self, place: LoopPlace) -> set[str]:
        """Return the names that the function of a loop reads after the loop."""
        source = place.module.source
        end = place.loop.end_lineno or place.loop.lineno
        area: ast.AST = place.scope.function or source.tree
        return {source.of(node) for node in ast.walk(area) if is_read(node) and node.lineno > end}

    def _add(self, names: list[str], name: str) -> None:
        if name not in names:
            names.append(name)

    # Statements that a resumed epoch must not run again.

    def _guards(self) -> None:
        """Find changes of kept state in front of the loop over batches."""
        loop = self.loop
        if loop.epochs is None or loop.loader is None:
            return
        inner: ast.AST = loop.batches.loop if not loop.between else loop.between[-1].call
        for statement in self._prefix(inner):
            changed = self._changed_by(statement)
            names = {*self.state.values, *self.state.keep.values()}
            if not changed & names:
                continue
            if not self.source.begins_line(statement):
                what = "shares its line with another statement; give it a line of its own"
                raise refusal(self.module, self.project, statement, what, EPOCHS)
            self.state.guarded.append(statement)

    def _prefix(self, inner: ast.AST) -> Iterator[ast.stmt]:
        """Yield the simple statements of an epoch in front of its loop over batches."""
        own = self.source.statement(inner)
        for node in ast.walk(self.outer):
            if not isinstance(node, ast.stmt) or isinstance(node, COMPOUND):
                continue
            if node is not own and node.lineno < own.lineno and node not in self.outer.orelse:
                yield node

    def _changed_by(self, statement: ast.stmt) -> set[str]:
        """Return what a simple statement changes step by step: counters, lists, schedulers."""
        names: set[str] = set()
        if isinstance(statement, ast.AugAssign):
            names.add(self.source.of(statement.target))
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            function = statement.value.func
            if isinstance(function, ast.Attribute) and function.attr in _CHANGING:
                names.add(self.source.of(function.value))
        return names

    # Learning rate and steps.

    def _rates(self) -> None:
        """Find out whether the script sets the learning rate."""
        pattern = re.compile(
            r"\[[\"']lr[\"']\]\s*[*/+-]?=|adjust_l\w*|set_l(r|earning)|update_lr", re.I
        )
        texts = [self.source.of(self.outer)]
        texts += [module.source.of(function) for module, function in self._reachable()]
        texts += [module.source.of(part) for module, part in self.inner_parts]
        is_set = any(pattern.search(text) for text in texts)
        kept = any(
            SCHEDULER.search(name) or _is_scheduler(self, name) for name in self.state.keep.values()
        )
        stepped = any(re.search(r"sched\w*\.step", text) for text in texts)
        self.state.has_rates = is_set or kept or stepped

    def _counting(self) -> None:
        """Find a line that counts steps, of which there are fewer if a step has more samples."""
        if len(self.optimizers) > 1:
            self.state.counting = (
                self.module,
                self.outer.lineno,
                f"several optimizers ({', '.join(self.optimizers)})",
            )
            return
        counters = {*self.state.values, *self.state.global_values, *self.state.epoch_values}
        for module, part in self.inner_parts:
            for node in ast.walk(part):
                reason = self._counts(module.source, node, counters)
                if reason:
                    self.state.counting = (module, getattr(node, "lineno", 1), reason)
                    return
        if isinstance(self.outer, ast.While):
            names = {
                self.source.of(node)
                for node in ast.walk(self.outer.test)
                if isinstance(node, ast.Name)
            }
            inner_text = [module.source.of(part) for module, part in self.inner_parts]
            for name in sorted(names & counters):
                if any(re.search(rf"\b{re.escape(name)}\s*\+=", text) for text in inner_text):
                    self.state.counting = (
                        self.module,
                        self.outer.lineno,
                        f"the loop ends by {name}",
                    )

    def _counts(self, source: ScriptSource, node: ast.AST, counters: set[str]) -> str:
        """Return why a node of a step counts steps; empty if it does not."""
        if isinstance(node, ast.Call):
            text = source.of(node.func)
            name = name_of(node.func)
            owner = text.rpartition(".")[0]
            if "scal" in owner.lower():
                return ""
            if name in ("step", "step_update") and (
                SCHEDULER.search(owner) or owner in self.state.keep.values()
            ):
                return f"{text}() follows each step"
            if re.search(r"adjust_l\w*|set_l(r|earning)|update_lr|lr_sched", text, re.IGNORECASE):
                return f"{text}() sets the rate of each step"
            if _AVERAGE.search(text) and re.search("ema|EMA|Ema|averag|swa|update", text):
                return f"{text}() averages the weights of each step"
        if isinstance(node, ast.Assign) and re.search(
            r"\[[\"']lr[\"']\]", source.of(node.targets[0])
        ):
            return "the rate of each step is set"
        if isinstance(node, ast.If) and any(
            isinstance(part, ast.Break | ast.Return) for part in node.body
        ):
            names = {source.of(part) for part in ast.walk(node.test) if isinstance(part, ast.Name)}
            if names & counters:
                return f"the loop ends by {sorted(names & counters)[0]}"
        return ""


def _is_scheduler(search: StateSearch, name: str) -> bool:
    """Whether an object was made by a class of learning rate schedulers."""
    makers = [
        name_of(origin.value.func)
        for origin in search.project.origins(search.scope, name)
        if isinstance(origin.value, ast.Call)
    ]
    return any(re.search(r"LR$|Plateau|Scheduler|schedule", maker) for maker in makers)


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


def _assignments(statement: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return the targets of an assignment, each with the expression that it gets."""
    if isinstance(statement, ast.Assign):
        return [(target, statement.value) for target in statement.targets]
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return [(statement.target, statement.value)]
    return []


def _has_weights(value: ast.expr) -> bool:
    """Whether an expression copies a model or its weights."""
    text = ast.unparse(value)
    is_copy = re.search(r"deepcopy\(|\.clone\(|\.copy\(|zeros_like\(", text) is not None
    return is_copy and re.search(r"parameters\(|state_dict\(|deepcopy\(", text) is not None


def is_stored_item(node: ast.Subscript) -> bool:
    """Whether an item is assigned or deleted."""
    return isinstance(node.ctx, ast.Store | ast.Del)


def _is_container(value: ast.expr) -> bool:
    """Whether an expression makes a list, a dict, or another container."""
    literals = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    return isinstance(value, literals) or (
        isinstance(value, ast.Call) and _is_container_call(value)
    )


def _is_container_call(value: ast.Call) -> bool:
    """Whether a call makes an empty container or a number."""
    return name_of(value.func) in [
        "list",
        "dict",
        "set",
        "deque",
        "defaultdict",
        "Counter",
        "OrderedDict",
        "float",
        "int",
        "tuple",
        "tensor",
        "zeros",
        "array",
        "zeros_like",
        "inf",
    ]


def _target_names(source: ScriptSource, loop: ast.For | ast.While) -> set[str]:
    """Return the names that a ``for`` loop binds."""
    if not isinstance(loop, ast.For):
        return set()
    return {
        source.of(node)
        for node in ast.walk(loop.target)
        if isinstance(node, ast.Name | ast.Attribute)
    }
