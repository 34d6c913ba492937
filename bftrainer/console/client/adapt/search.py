"""Finds the training loop of a script: the optimizer's step, and outward from it, through calls and
modules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bftrainer.console.client.adapt.project import (
    Project,
    Scope,
    ScriptModule,
    is_for_evaluation,
    parameters,
    passed_values,
)
from bftrainer.console.client.adapt.source import Function, ScriptSource, name_of
from bftrainer.errors import UserError

ANY, EPOCHS = "recipes.md#any-other-script", "recipes.md#a-script-of-plain-pytorch"
SCHEDULER = re.compile(r"sched|plateau|warm_?up", re.IGNORECASE)
_OPTIMIZER = re.compile("opt", re.IGNORECASE)
_OPTIMIZERS = frozenset(
    [
        "SGD",
        "Adam",
        "AdamW",
        "Adadelta",
        "Adagrad",
        "Adamax",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "LBFGS",
        "SparseAdam",
        "ASGD",
        "Lion",
        "Adafactor",
        "Muon",
        "LAMB",
        "Lamb",
    ]
)
_LOADER = re.compile(
    r"load|(^|_)dl(_|$)|batch|iter|train_?(set|data|ds|gen|q|queue)|^data$|^train$", re.IGNORECASE
)
_NO_LOADER = re.compile(
    r"opt|param|model|modul|layer|metric|split|chunk|items$|keys$|values$", re.I
)
_SIZE = re.compile(r"(^|_)(size|len|length|num|count|id|idx|index|name|dim|first|seed)s?$|^n_|^num")
"""Names of numbers, such as ``batch_size``, which are no loaders."""
_ENDLESS = re.compile(r"cycle|infinite|endless|forever|inf_", re.IGNORECASE)
_ENTRY = re.compile(r"main|train|run|worker|fit|cli|app|launch|objective", re.IGNORECASE)


class Hop(NamedTuple):
    """A call that leads from outside into a function on the way to the optimizer's step."""

    module: ScriptModule
    function: Function
    place: ScriptModule
    call: ast.Call


class LoopPlace(NamedTuple):
    """A loop, and the hops that lead from it to the optimizer's step, the innermost first."""

    module: ScriptModule
    loop: ast.For | ast.While
    hops: tuple[Hop, ...]

    @property
    def scope(self) -> Scope:
        """The function that has the loop."""
        return Scope(self.module, self.module.source.function(self.loop))


@dataclass
class TrainingLoop:
    """Where a script trains.

    ``batches`` is the loop over the loader, or over steps; ``epochs`` the one around it, None if
    there is none. ``loader`` is the expression of the loader in the scope of ``batches``; None for
    random batches. ``iterator`` is what ``next(...)`` is called with, if the loop does that.
    ``phase`` is the loop over phases such as ("train", "val") between the two.
    """

    steps: list[tuple[ScriptModule, ast.Call]]
    batches: LoopPlace
    epochs: LoopPlace | None = None
    loader: ast.expr | None = None
    iterator: str = ""
    phase: LoopPlace | None = None
    optimizers: list[str] = field(default_factory=list)
    """In the scope of ``outer``; the one that steps last is the last."""

    @property
    def outer(self) -> LoopPlace:
        """The loop before which the training object is made."""
        return self.epochs or self.batches

    @property
    def between(self) -> tuple[Hop, ...]:
        """The hops from the outer loop to the one over batches."""
        return self.outer.hops[len(self.batches.hops) :]


class RefusalError(UserError):
    """Why a script is refused: at a line of a module, with the page that says what to do."""


def refusal(
    module: ScriptModule | None, project: Project, node: object, what: str, page: str
) -> RefusalError:
    """Build the error for a node of a module; no module: for the script as a whole."""
    where = ""
    if module is not None:
        where = f"line {getattr(node, 'lineno', 1)}: "
        if module is not project.main:
            where = f"{module.path.name}, {where}"
    return RefusalError(f"{where}{what}; copy the lines of docs/{page}")


class Search:
    """Finds the one training loop of a project. Raises RefusalError where there is none, or another
    kind.
    """

    def __init__(self, project: Project) -> None:
        self.project = project

    def loop(self) -> TrainingLoop:
        """Return the loop, with all steps of optimizers in it."""
        loops: list[TrainingLoop] = []
        problems: list[RefusalError] = []
        for module, call, optimizer in self._optimizer_steps():
            for chain in self._loop_chains(module, call, ()):
                try:
                    loop = self._training_loop_of(module, call, chain)
                    loop.optimizers = [self.outside(optimizer, loop.outer.hops)]
                    loops.append(loop)
                except RefusalError as error:
                    problems.append(error)
        in_main = [loop for loop in loops if loop.outer.module is self.project.main]
        loops = in_main or loops
        if not loops:
            if problems:
                raise problems[0]
            raise refusal(None, self.project, None, "found no optimizer.step()", ANY)
        return self._only_loop(loops)

    def _only_loop(self, loops: list[TrainingLoop]) -> TrainingLoop:
        """Return the one loop that all steps are in. Raises RefusalError for several."""
        first = loops[0]
        for other in loops[1:]:
            is_same_way = _calls_between_loops(first) == _calls_between_loops(other)
            if other.batches.loop is not first.batches.loop or not is_same_way:
                lines = [str(self._identifying_line(loop)) for loop in (first, other)]
                what = (
                    f"trains in two loops (lines {' and '.join(lines)}), each with a position of "
                    "its own; make them two scripts, or keep a Training for each by hand"
                )
                raise refusal(None, self.project, None, what, EPOCHS)
            first.steps += other.steps
            first.optimizers += other.optimizers
        first.optimizers = list(dict.fromkeys(reversed(first.optimizers)))[::-1]
        return first

    def _identifying_line(self, loop: TrainingLoop) -> int:
        """Return a line that tells two loops apart."""
        return loop.between[-1].call.lineno if loop.between else loop.batches.loop.lineno

    def _optimizer_steps(self) -> list[tuple[ScriptModule, ast.Call, str]]:
        """Return the calls that step an optimizer: module, call, and the optimizer's text."""
        steps: list[tuple[ScriptModule, ast.Call, str]] = []
        for module in self.project.modules:
            for call in module.source.calls("step"):
                optimizer = self.optimizer_of(module, call)
                steps += [(module, call, optimizer)] if optimizer else []
        if steps:
            return steps
        for module in self.project.modules:
            for call in module.source.calls_of_any():
                texts = [module.source.of(argument) for argument in call.args]
                optimizers = [text for text in texts if re.fullmatch(r"[\w.]*optim\w*", text)]
                if optimizers and "scaler" in name_of(call.func).lower():
                    steps.append((module, call, optimizers[0]))
        return steps

    def optimizer_of(self, module: ScriptModule, call: ast.Call) -> str:
        """Return the optimizer of ``optimizer.step()`` or ``scaler.step(optimizer)`` as text; empty
        for another step.
        """
        source = module.source
        if not isinstance(call.func, ast.Attribute):
            return ""
        owner: ast.expr = call.func.value
        if call.args and "scal" in source.of(owner).lower():
            owner = call.args[0]
        text = source.of(owner)
        if SCHEDULER.search(text):
            return ""
        if _OPTIMIZER.search(text):
            return text
        bound = [binding.value for binding in source.bound_values(text)]
        makers = {name_of(value.func) for value in bound if isinstance(value, ast.Call)}
        return text if makers & _OPTIMIZERS else ""

    def _loop_chains(
        self, module: ScriptModule, node: ast.AST, hops: tuple[Hop, ...]
    ) -> list[list[LoopPlace]]:
        """Return the loops around a node, the innermost first; a list for each way of calls."""
        places: list[LoopPlace] = []
        child = node
        for parent in module.source.above(node):
            is_head = isinstance(parent, ast.For) and child is parent.iter
            if isinstance(parent, ast.For | ast.While) and not is_head:
                places.append(LoopPlace(module, parent, hops))
            child = parent
            if not isinstance(parent, Function):
                continue
            sites = self.project.callers(module, parent)
            if len(sites) > 1:
                training = [
                    site
                    for site in sites
                    if not is_for_evaluation(site.module.source, parent, site.call)
                ]
                sites = training or sites
            if any(hop.function is parent for hop in hops) or len(hops) > 12:
                return [places]
            if not sites:
                return [places]
            return [
                [*places, *chain]
                for site in sites
                for chain in self._loop_chains(
                    site.module, site.call, (*hops, Hop(module, parent, site.module, site.call))
                )
            ]
        return [places]

    def _training_loop_of(
        self, module: ScriptModule, step: ast.Call, chain: Sequence[LoopPlace]
    ) -> TrainingLoop:
        """Return the training loop of a chain of loops around a step."""
        if not chain:
            what = f"found no loop around {module.source.of(step)}"
            raise refusal(module, self.project, step, what, ANY)
        for number, place in enumerate(chain):
            loader = self.loader_of(place, chain[number + 1 :])
            if loader is not None:
                return self._with_loader(module, step, place, chain[number + 1 :], loader)
        return self._without_loader(module, step, chain)

    def _with_loader(
        self,
        module: ScriptModule,
        step: ast.Call,
        batches: LoopPlace,
        around: Sequence[LoopPlace],
        loader: ast.expr,
    ) -> TrainingLoop:
        """Return a loop over a loader, with the loop over epochs around it."""
        rest = [place for place in around if not _is_phase_loop(place)]
        phase = next((place for place in around if _is_phase_loop(place)), None)
        if len(rest) > 1:
            outermost = rest[-1]
            what = (
                "a loop around the training: the trainings in it would share one checkpoint; "
                "submit each as a training of its own (`bftrainer submit --grid`)"
            )
            raise refusal(outermost.module, self.project, outermost.loop, what, EPOCHS)
        if not rest:
            function = batches.scope.function
            outermost_function = batches.hops[-1].place if batches.hops else None
            if function is not None and outermost_function is None:
                callers = self.project.callers(batches.module, function)
                if not callers and not _ENTRY.search(function.name):
                    what = (
                        f"found no `for epoch in range(...)` around the loop over the data: "
                        f"nothing in the script calls {function.name}()"
                    )
                    raise refusal(batches.module, self.project, batches.loop, what, EPOCHS)
        epochs = rest[0] if rest else None
        return TrainingLoop([(module, step)], batches, epochs, loader, phase=phase)

    def _without_loader(
        self, module: ScriptModule, step: ast.Call, chain: Sequence[LoopPlace]
    ) -> TrainingLoop:
        """Return a loop over steps: with ``next(iterator)``, or over random batches."""
        inner = chain[0]
        source = inner.module.source
        iterator = self._iterator_text(inner)
        if len(chain) > 1 and (
            iterator or isinstance(chain[1].loop, ast.For) or is_range(inner.loop)
        ):
            outer_is_endless = isinstance(chain[1].loop, ast.While)
            if iterator or not outer_is_endless or _is_strided(inner.loop):
                raise refusal(
                    inner.module, self.project, inner.loop, self._no_position_reason(inner), ANY
                )
        if _is_strided(inner.loop):
            raise refusal(
                inner.module, self.project, inner.loop, self._no_position_reason(inner), ANY
            )
        if isinstance(inner.loop, ast.For) and not is_range(inner.loop):
            raise refusal(
                inner.module, self.project, inner.loop, self._no_position_reason(inner), ANY
            )
        text = source.of(inner.loop)
        if match := re.search(r"\b(envs?\.step|replay\w*|rb\.sample|memory\.sample)\b", text):
            what = f"{match[1]} has a state that no checkpoint has: the episode and its samples"
            raise refusal(inner.module, self.project, inner.loop, what, ANY)
        return TrainingLoop([(module, step)], inner, iterator=iterator)

    def _no_position_reason(self, place: LoopPlace) -> str:
        """Return why a loop within loops has no position that can be kept."""
        text = place.module.source.of(place.loop.iter) if isinstance(place.loop, ast.For) else ""
        if "range(" in text and _is_strided(place.loop):
            return (
                f"found no loop over a DataLoader: {text} takes slices in a fixed order, which "
                "workers cannot share; make a Dataset whose items are the slices"
            )
        return "found no loop over a DataLoader" + (
            f": {text} has no position that a restart could continue at" if text else ""
        )

    def _iterator_text(self, place: LoopPlace) -> str:
        """Return the text of the iterator that the loop calls ``next`` with; empty without one."""
        source = place.module.source
        for call in source.calls("next", "__next__", within=place.loop):
            owner = call.args[0] if call.args else getattr(call.func, "value", None)
            if isinstance(owner, ast.Name | ast.Attribute):
                return source.of(owner)
        return ""

    def loader_of(self, place: LoopPlace, around: Sequence[LoopPlace] = ()) -> ast.expr | None:
        """Return the expression of the loader that a loop takes its batches from; None if it has
        none.
        """
        if not isinstance(place.loop, ast.For) or is_range(place.loop) or _is_phase_loop(place):
            return None
        loader = self._innermost_loader(place, place.loop.iter, 0)
        if loader is None:
            return None
        source = place.module.source
        root = source.of(loader).partition(".")[0].partition("(")[0].partition("[")[0]
        if _NO_LOADER.search(source.of(place.loop.iter).partition("(")[0].rpartition(".")[2]):
            return None
        for outer in around:
            if isinstance(outer.loop, ast.For) and outer.scope == place.scope:
                targets = {
                    name.id for name in ast.walk(outer.loop.target) if isinstance(name, ast.Name)
                }
                if root in targets:
                    return None
        return loader

    def _innermost_loader(self, place: LoopPlace, node: ast.expr, depth: int) -> ast.expr | None:
        """Return the loader in ``enumerate(tqdm(loader))``, also where a name stands for a part of
        it. Raises RefusalError for what reads ahead or has no position.
        """
        source = place.module.source
        if depth > 8 or isinstance(node, ast.List | ast.Tuple | ast.Constant | ast.GeneratorExp):
            return None
        if isinstance(node, ast.Call):
            return self._unwrapped_call(place, node, depth)
        text = source.of(node)
        if isinstance(node, ast.Name):
            for bound in reversed(source.bound_values(text)):
                value = bound.value
                is_near = source.function(value) is source.function(place.loop)
                if not is_near or bound.part is not None or not isinstance(value, ast.Call):
                    continue
                if name_of(value.func) in ("range", "trange", "arange"):
                    return None
                is_in_loop = any(
                    isinstance(parent, ast.For | ast.While) for parent in source.above(value)
                )
                if not is_in_loop and self._makes_own_object(place, value):
                    return node
                inner = self._loader_argument(place, value)
                if inner is not None and not name_of(value.func).endswith("DataLoader"):
                    if name_of(value.func) == "skip_first_batches":
                        return node
                    return self._innermost_loader(place, value, depth + 1)
        return node

    def _makes_own_object(self, place: LoopPlace, call: ast.Call) -> bool:
        """Whether a call makes an object of one of the project's classes, directly or by a
        function.
        """
        if self.project.made_class(place.module, call) is not None:
            return True
        target = self.project.target(place.module, call.func)
        if target is None or not isinstance(target[1], Function):
            return False
        module, function = target
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        values = [value for value in returned if value is not None]
        return any(self.project.made_class(module, value) is not None for value in values)

    def _unwrapped_call(self, place: LoopPlace, call: ast.Call, depth: int) -> ast.expr | None:
        """Return the loader that a call wraps, or the call itself if it makes one."""
        source, name = place.module.source, name_of(call.func)
        if name in ("range", "trange", "arange", "linspace", "count"):
            return None
        if re.search("prefetch", name, re.IGNORECASE):
            what = f"{name} reads batches ahead of the step; let the loop iterate over the loader"
            raise refusal(place.module, self.project, call, what, EPOCHS)
        if name == "zip":
            loaders = [arg for arg in call.args if _LOADER.search(_last_name(source, arg))]
            if len(loaders) > 1:
                what = (
                    f"{source.of(call)} has two loaders, but a training has one position; make one "
                    "Dataset whose items are pairs"
                )
                raise refusal(place.module, self.project, call, what, EPOCHS)
        inner = self._loader_argument(place, call)
        if inner is not None and not name.endswith("DataLoader"):
            return self._innermost_loader(place, inner, depth + 1)
        target = self.project.target(place.module, call.func)
        if target is not None and _is_generator(target[1]):
            what = (
                f"batches come from the generator {name}(), which has no position that a "
                "restart could continue at; make a Dataset and a DataLoader of it"
            )
            raise refusal(place.module, self.project, call, what, EPOCHS)
        is_maker = name.endswith(("DataLoader", "dataloader", "loader")) or target is not None
        return call if is_maker else None

    def _loader_argument(self, place: LoopPlace, call: ast.Call) -> ast.expr | None:
        """Return the argument of a wrapper that is a loader, or wraps one."""
        source = place.module.source
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        for argument in arguments:
            is_wrapper = isinstance(argument, ast.Call) and (
                name_of(argument.func) not in ("len", "range", "count")
            )
            if isinstance(argument, ast.Call) and is_wrapper:
                inner = self._loader_argument(place, argument)
                if inner is not None:
                    return argument
            is_name = isinstance(argument, ast.Name | ast.Attribute | ast.Subscript)
            name = _last_name(source, argument)
            if is_name and _LOADER.search(name) and not _SIZE.search(name):
                return argument
        wraps = name_of(call.func) in (
            "enumerate",
            "tqdm",
            "iter",
            "track",
            "islice",
            "progress_bar",
        )
        is_simple = bool(call.args) and isinstance(
            call.args[0], ast.Name | ast.Attribute | ast.Subscript | ast.Call
        )
        if wraps and is_simple:
            first = call.args[0]
            return None if name_of(getattr(first, "func", first)) in ("range", "trange") else first
        return None

    def outside(self, text: str, hops: Sequence[Hop]) -> str:
        """Return an expression as it reads where the outermost of nested functions is called.

        With ``train(net)`` called as ``train(model)``, "net" becomes "model". Raises RefusalError
        for an object that a function on the way makes.
        """
        for hop in hops:
            text = self._resolved_alias(hop, text)
            values = passed_values(hop.function, hop.call)
            root, dot, rest = text.partition(".")
            if root in values and values[root] in hop.place.source.parents:
                text = f"{hop.place.source.of(values[root])}{dot}{rest}"
                continue
            stores = {
                node.id
                for node in ast.walk(hop.function)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            declared = {
                name
                for node in ast.walk(hop.function)
                if isinstance(node, ast.Global)
                for name in node.names
            }
            if root in stores - declared:
                what = f"{root} is made in {hop.function.name}(), which the loop calls"
                raise refusal(hop.module, self.project, hop.function, what, ANY)
            if root in parameters(hop.function):
                what = f"found no argument for {root} where {hop.function.name}() is called"
                raise refusal(hop.place, self.project, hop.call, what, ANY)
            if hop.place is not hop.module and root not in ("torch", "nn", "os"):
                text = self._across_modules(hop, text)
        return text

    def _across_modules(self, hop: Hop, text: str) -> str:
        """Return the text of a global of another module in the module of the call."""
        called = hop.call.func
        if (
            isinstance(called, ast.Attribute)
            and hop.place.source.of(called.value) in hop.place.imports
        ):
            return f"{hop.place.source.of(called.value)}.{text}"
        what = f"{text} is a global of {hop.module.path.name}; pass it to {hop.function.name}()"
        raise refusal(hop.place, self.project, hop.call, what, ANY)

    def _resolved_alias(self, hop: Hop, text: str) -> str:
        """Return what a local name such as ``model = self.model`` is another name for."""
        source = hop.module.source
        root, dot, rest = text.partition(".")
        if root in parameters(hop.function):
            return text
        bound = [
            binding.value
            for binding in source.bound_values(root)
            if source.function(binding.value) is hop.function
        ]
        if len(bound) == 1 and isinstance(bound[0], ast.Name | ast.Attribute):
            return f"{source.of(bound[0])}{dot}{rest}"
        return text


def is_range(loop: ast.AST) -> bool:
    """Whether a loop counts: ``for epoch in tqdm(range(EPOCHS))`` or ``while epoch < EPOCHS``."""
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Compare) and isinstance(loop.test.ops[0], ast.Lt)
    return isinstance(loop, ast.For) and range_call(loop.iter) is not None


def range_call(node: ast.AST) -> ast.Call | None:
    """Return the call of ``range`` or ``trange`` in an expression, also in ``tqdm(range(3))``."""
    if not isinstance(node, ast.Call):
        return None
    if name_of(node.func) in ("range", "trange"):
        return node
    return range_call(node.args[0]) if node.args else None


def _calls_between_loops(loop: TrainingLoop) -> list[ast.Call]:
    """Return the calls between the outer loop and the one over batches."""
    return [hop.call for hop in loop.between]


def _is_generator(node: ast.AST) -> bool:
    """Whether a function yields."""
    if not isinstance(node, Function):
        return False
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))


def _is_strided(loop: ast.For | ast.While) -> bool:
    """Whether a loop is over ``range(begin, end, step)``: slices of a tensor."""
    if not isinstance(loop, ast.For):
        return False
    counted = range_call(loop.iter)
    return counted is not None and len(counted.args) == 3


def _is_phase_loop(place: LoopPlace) -> bool:
    """Whether a loop is over names such as ("train", "val")."""
    if not isinstance(place.loop, ast.For):
        return False
    node: ast.expr = place.loop.iter
    if isinstance(node, ast.Name):
        bound = place.module.source.bound_values(node.id)
        node = bound[-1].value if bound else node
    if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
        return False
    return all(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in node.elts)


def _last_name(source: ScriptSource, node: ast.expr) -> str:
    """Return the last name of a loader's expression: ``loaders`` of ``self.loaders["train"]``."""
    if isinstance(node, ast.Subscript):
        return _last_name(source, node.value)
    return name_of(node)
