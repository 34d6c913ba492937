"""The training loop of plain PyTorch or Accelerate: the step of the optimizer, and outward from it,
also through calls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from bftrainer.console.client.adapt.source import Function, ScriptSource, name_of

_OPTIMIZER, _SCHEDULER = re.compile("opt", re.IGNORECASE), re.compile("sched", re.IGNORECASE)
_ANY, _EPOCHS = "recipes.md#any-other-script", "recipes.md#a-script-of-plain-pytorch"
_BINDS_TIGHTLY = ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript
"""Expressions from which a number can be taken without parentheses."""
_Calls = tuple[tuple[ast.FunctionDef, ast.Call], ...]
"""Functions and the calls of them, the innermost first."""


class _Place(NamedTuple):
    """A loop, and the calls that lead from it to the optimizer's step."""

    loop: ast.For | ast.While
    calls: _Calls


def adapt_loop(source: ScriptSource, *, accelerate: bool) -> str:
    """Edit the loop; returns the class that it uses. Raises :class:`~bftrainer.errors.UserError`
    for a loop of another kind.
    """
    steps = {it: found for it in source.calls("step") if (found := _optimizer(source, it))}
    if len(names := set(steps.values())) != 1:
        found = (
            f"steps of {len(names)} optimizers ({', '.join(sorted(names))})"
            if names
            else "no optimizer.step()"
        )
        raise source.missing(None, f"found {found}, expected those of one", _ANY)
    step = list(steps)[-1]
    places = list(_outward(source, step, ()))
    if not places:
        raise source.missing(step, f"found no loop around {source.of(step)}", _ANY)
    inner, outer = places[0], next(iter(places[1:]), None)
    if not (isinstance(inner.loop, ast.While) or _is_range(inner.loop)):
        of_steps = (
            outer is not None
            and isinstance(outer.loop, ast.While)
            and _counter(source, outer.loop, inner.loop)
        )
        horovod = bool(source.calls("TorchState"))
        if (
            outer is None
            or not (of_steps or _is_range(outer.loop))
            or (of_steps and (horovod or accelerate))
        ):
            page = "horovod.md#adapt-the-script" if horovod else _EPOCHS
            raise source.missing(
                inner.loop, "found no `for epoch in range(...)` around the loop over the data", page
            )
        if of_steps:
            return _Loop(source, step, outer, outer).steps()
        return _Loop(source, step, inner, outer).epochs(accelerate)
    if accelerate or (outer is not None and isinstance(outer.loop, ast.For)):
        raise source.missing(inner.loop, "found no loop over a DataLoader", _ANY)
    return _Loop(source, step, inner, inner).steps()


class _Loop:
    """The loop over batches or steps (``inner``), and that in front of which the ready part is made
    (``outer``).
    """

    def __init__(self, source: ScriptSource, step: ast.Call, inner: _Place, outer: _Place) -> None:
        self.source, self.step, self.inner, self.outer, self.calls = (
            source,
            step,
            inner,
            outer,
            outer.calls,
        )
        found = source.calls("backward", within=source.function(step)) or source.calls(
            "backward", within=inner.loop
        )
        if len(found) != 1:
            raise source.missing(
                inner.loop,
                f"found {len(found)} calls of backward() in the loop, expected one",
                _ANY,
            )
        self.backward, call = found[0], found[0].func
        assert isinstance(call, ast.Attribute)
        self.loss = self.backward.args[0] if self.backward.args else call.value
        self.first = f"{self.model()}, {self.outside(_optimizer(source, step), self.calls)}"
        scaler = (
            source.of(step.func.value) if step.args and isinstance(step.func, ast.Attribute) else ""
        )
        self.keep = [f'"scaler": {scaler}'] if scaler else []
        self.schedules = [
            it for it in source.calls("step") if _SCHEDULER.search(source.of(it.func))
        ]
        self.scope = bool(self.calls) and source.function(outer.loop) is not None

    def epochs(self, accelerate: bool) -> str:
        """Epochs around batches of a loader."""
        source, batches, epochs = self.source, self.inner.loop, self.outer.loop
        assert isinstance(batches, ast.For)
        loader = batches.iter
        while isinstance(loader, ast.Call) and isinstance(loader.func, ast.Name) and loader.args:
            loader = loader.args[0]  # enumerate(tqdm(loader))
        data = self.outside(source.of(loader), self.calls[len(self.inner.calls) :])
        name, first = (
            ("AcceleratedTraining", f"accelerator, {self.first}")
            if accelerate
            else ("Training", self.first)
        )
        insert, scope = source.before, self.scope
        at: ast.stmt = epochs
        if states := source.calls("TorchState"):  # of Horovod, which knows model and optimizer
            insert, at = source.after, source.statement(states[0])
            hvd, scope = (
                source.of(states[0].func).partition(".")[0],
                source.function(at) is not None,
            )
            name, first = "ElasticTraining", f"{hvd}, {source.of(at).partition('=')[0].strip()}"
        training = source.free_name("training")
        source.shown = training
        insert(
            at,
            *[f"global {training}"] * scope,
            f"{training} = {name}({first}, {data}, {self.checkpoint})",
        )
        self.count(epochs, f"{training}.epochs")
        source.replace(loader, f"{training}.loader")
        source.replace(self.backward, f"{training}.backward({source.of(self.loss)})")
        self.report(training)
        source.notes += [
            f"line {it.lineno}: {source.of(it)} has no effect: Training sets the rate; give it "
            f"a schedule (docs/{_EPOCHS})"
            for it in self.schedules
        ]
        return name

    def steps(self) -> str:
        """One loop over steps, with batches that have no order."""
        source, loop = self.source, self.inner.loop
        sizes = [
            source.of(it) for it in ast.walk(source.tree) if name_of(it).endswith("batch_size")
        ]
        schedulers = {source.of(it.func).removesuffix(".step") for it in self.schedules}
        self.keep += [f'"{it}": {self.outside(it, self.calls)}' for it in sorted(schedulers)]
        batch = max(sizes, key=len, default="1")
        steps = source.free_name("steps")
        source.shown = steps
        further, lines, counter = "", list[str](), None
        if isinstance(loop, ast.For):
            self.count(loop, f"{steps}.range")
        else:
            if (counter := _counter(source, loop, loop)) is None:
                raise source.missing(loop, "found no counter of steps in the loop", _ANY)
            if last := _last_step(source, loop, counter):
                further = f", steps={self.outside(last, self.calls)}"
            lines.append(f"{source.of(counter.target)} = {steps}.step_number")
            source.after(loop, f"{steps}.end()")
        made = f"{steps} = StepLoop({self.first}, batch={batch}{further}, {self.checkpoint})"
        source.before(loop, *[f"global {steps}"] * self.scope, made, *lines)
        self.report(steps, None if counter in loop.body else counter)
        order = "random batches have no order to keep"
        if places := source.calls("DistributedSampler"):
            order = (
                f"line {places[0].lineno}: set_epoch({steps}.step_number) lets a restart "
                "begin with other samples"
            )
        source.notes.append(f"a step of one worker counts as {batch} samples; {order}")
        return "StepLoop"

    @property
    def checkpoint(self) -> str:
        return 'checkpoint="{name}-training.pt"' + f", keep={{{', '.join(self.keep)}}}" * bool(
            self.keep
        )

    def count(self, loop: ast.For | ast.While, method: str) -> None:
        """The numbers of ``range(...)`` by ``method``. A first number that is no constant is where
        the script resumes.
        """
        if isinstance(loop, ast.While) and isinstance(loop.test, ast.Compare):
            self.source.head(
                loop, f"for {{}} in {method}({{}})", loop.test.left, loop.test.comparators[0]
            )
            return
        assert isinstance(loop, ast.For)
        assert isinstance(loop.iter, ast.Call)
        if len(loop.iter.args) > 2:
            self._count_with_step(loop, loop.iter.args, method)
            return
        (*begins, end) = loop.iter.args
        first, text = self.source.of(begins[0]) if begins else "0", self.source.of(end)
        for it in (it for call in self.source.calls("TorchState") for it in call.keywords):
            first = self.source.of(it.value) if first.endswith(f".{it.arg}") else first
        new = f"{method}({text})"
        if first.isdecimal() and first != "0":
            count = (
                text.removesuffix(f" + {first}")
                if text.endswith(f" + {first}")
                else f"{text if isinstance(end, _BINDS_TIGHTLY) else f'({text})'} - {first}"
            )
            new = f"({first} + done for done in {method}({count}))"
        self.source.replace(loop.iter, new)

    def _count_with_step(self, loop: ast.For, arguments: list[ast.expr], method: str) -> None:
        """The numbers of ``range(begin, end, step)``, counted by ``method``."""
        if not all(_is_number(argument) for argument in (arguments[0], arguments[2])):
            raise self.source.missing(
                loop, "a range with a step has to begin at a number, as in range(0, N, 2)", _ANY
            )
        numbers = f"range({', '.join(self.source.of(argument) for argument in arguments)})"
        self.source.replace(loop.iter, f"({numbers}[done] for done in {method}(len({numbers})))")

    def model(self) -> str:
        """What the loop calls and what has parameters, under its name in front of the outer
        loop.
        """
        scopes = [(self.inner.loop, self.calls[len(self.inner.calls) :])]
        for scope, hops in [
            *scopes,
            *((function, self.calls[n:]) for n, (function, _) in enumerate(self.inner.calls)),
        ]:
            for call in (it for it in ast.walk(scope) if isinstance(it, ast.Call)):
                name = re.escape(name_of(call.func) or "\0")
                made = (
                    rf"\b{name}\.(train|parameters)\(|\b{name} *= *(DDP|DistributedDataParallel)\("
                )
                if re.search(made, self.source.before_edits):
                    return self.outside(self.source.of(call.func), hops)
        raise self.source.missing(
            self.inner.loop, "found no model that the loop calls, as in model(inputs)", _ANY
        )

    def outside(self, text: str, calls: _Calls) -> str:
        """What an expression within functions is called where the outermost of them is called."""
        for function, call in calls:
            names, values = [it.arg for it in function.args.args], dict[str, ast.expr]()
            if isinstance(call.func, ast.Attribute) and names[:1] == ["self"]:
                values["self"], names = call.func.value, names[1:]
            values |= dict(zip(names, call.args, strict=False)) | {
                it.arg: it.value for it in call.keywords if it.arg
            }
            root, dot, rest = text.partition(".")
            own = (
                it
                for it in ast.walk(function)
                if isinstance(it, ast.Name) and isinstance(it.ctx, ast.Store)
            )
            if root in values:
                text = f"{self.source.of(values[root])}{dot}{rest}"
            elif root in {it.id for it in own}:
                raise self.source.missing(
                    function, f"{root} is made in {function.name}(), which the loop calls", _ANY
                )
        return text

    def report(self, name: str, counter: ast.stmt | None = None) -> None:
        """Below the statement of the loop, or of the function that it calls, which has the
        optimizer's step.
        """
        source, loss, top, nested = self.source, self.loss, self.source.statement(self.step), False
        for parent in source.above(top):
            if parent is self.inner.loop or isinstance(parent, Function):
                break
            if isinstance(parent, ast.stmt):
                top, nested = parent, nested or isinstance(parent, ast.If)
        if isinstance(loss, ast.Call) and name_of(loss.func) == "scale":
            loss = loss.args[0]
        source.after(
            counter or top, f"{name}.step({source.of(loss) if isinstance(loss, ast.Name) else ''})"
        )
        if nested and not counter:
            what = "does not follow every batch: checkpoints and leaving wait for it"
            source.notes.append(f"line {self.step.lineno}: {source.of(self.step)} {what}")


def _outward(source: ScriptSource, node: ast.AST, calls: _Calls) -> Iterator[_Place]:
    for parent in source.above(node):
        if isinstance(parent, ast.For | ast.While):
            yield _Place(parent, calls)
        if isinstance(parent, ast.FunctionDef):
            reached = [it for it in source.calls(parent.name) if parent not in source.above(it)]
            if len(reached) == 1 and parent not in dict(calls):
                yield from _outward(source, reached[0], (*calls, (parent, reached[0])))
            return


def _optimizer(source: ScriptSource, call: ast.Call) -> str:
    """The optimizer of ``optimizer.step()`` or ``scaler.step(optimizer)``; empty for another
    step.
    """
    assert isinstance(call.func, ast.Attribute | ast.Name)
    of = (
        call.args[0]
        if call.args
        else call.func.value
        if isinstance(call.func, ast.Attribute)
        else call.func
    )
    text = source.of(of)
    return text if _OPTIMIZER.search(text) and not _SCHEDULER.search(text) else ""


def _counter(source: ScriptSource, loop: ast.While, within: ast.AST) -> ast.AugAssign | None:
    """What counts on within a loop and is asked for in the condition of ``loop``; without one, most
    within it.
    """
    asked = [loop] if isinstance(loop.test, ast.Compare) else ast.walk(loop)
    ends = " ".join(source.of(it.test) for it in asked if isinstance(it, ast.While | ast.If))
    counts = [it for it in ast.walk(within) if isinstance(it, ast.AugAssign)]
    uses = {
        it: len(re.findall(rf"(?<![\w.]){re.escape(source.of(it.target))}\b", ends))
        for it in counts
    }
    return max(filter(uses.get, uses), key=lambda it: uses[it], default=None)


def _last_step(source: ScriptSource, loop: ast.While, counter: ast.AugAssign) -> str:
    """The number at which a loop over steps ends (``while step < LAST``, ``if step > LAST:
    break``); empty if none is plain.
    """
    ends: list[tuple[ast.expr, tuple[type[ast.cmpop], ...]]] = [(loop.test, (ast.Lt, ast.LtE))]
    ends += [
        (it.test, (ast.Gt, ast.GtE, ast.Eq))
        for it in ast.walk(loop)
        if isinstance(it, ast.If) and any(isinstance(line, ast.Break) for line in it.body)
    ]
    for test, operators in ends:
        if not (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], operators)
        ):
            continue
        last = test.comparators[0]
        if source.of(test.left) == source.of(counter.target) and isinstance(
            last, ast.Name | ast.Attribute | ast.Constant
        ):
            return source.of(last)
    return ""


def _is_number(node: ast.AST) -> bool:
    """Whether it is a whole number as it stands, with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _is_range(loop: ast.AST) -> bool:
    """Whether it counts: ``for epoch in range(EPOCHS)`` or ``while epoch < EPOCHS``."""
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Compare) and isinstance(loop.test.ops[0], ast.Lt)
    return (
        isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and name_of(loop.iter.func) in ("range", "trange")
    )
