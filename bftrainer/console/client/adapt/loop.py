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
    """Edit the training loop of a script; returns the name of the class that it uses then.

    Raises :class:`~bftrainer.errors.UserError` for a loop of another kind than it knows.
    """
    step = _last_optimizer_step(source)
    places = list(_outward(source, step, ()))
    if not places:
        raise source.missing(step, f"found no loop around {source.of(step)}", _ANY)
    inner, outer = places[0], next(iter(places[1:]), None)
    if isinstance(inner.loop, ast.While) or _is_range(inner.loop):
        if accelerate or (outer is not None and isinstance(outer.loop, ast.For)):
            raise source.missing(inner.loop, "found no loop over a DataLoader", _ANY)
        return _Loop(source, step, inner, inner).steps()
    has_horovod = bool(source.calls("TorchState"))
    if outer is not None and _counts_steps(source, outer, inner):
        if not (has_horovod or accelerate):
            return _Loop(source, step, outer, outer).steps()
    elif outer is not None and _is_range(outer.loop):
        return _Loop(source, step, inner, outer).epochs(accelerate)
    page = "horovod.md#adapt-the-script" if has_horovod else _EPOCHS
    raise source.missing(
        inner.loop, "found no `for epoch in range(...)` around the loop over the data", page
    )


def _last_optimizer_step(source: ScriptSource) -> ast.Call:
    """Return the last call of ``step`` of the script's only optimizer. Raises if there is none, or
    another one.
    """
    optimizers: dict[ast.Call, str] = {}
    for call in source.calls("step"):
        if optimizer := _optimizer(source, call):
            optimizers[call] = optimizer
    names = sorted(set(optimizers.values()))
    if len(names) != 1:
        problem = "no optimizer.step()"
        if names:
            problem = f"steps of {len(names)} optimizers ({', '.join(names)})"
        raise source.missing(None, f"found {problem}, expected those of one", _ANY)
    return list(optimizers)[-1]


def _counts_steps(source: ScriptSource, outer: _Place, inner: _Place) -> bool:
    """Whether the outer loop runs until a counter within the inner one reaches a number."""
    return (
        isinstance(outer.loop, ast.While) and _counter(source, outer.loop, inner.loop) is not None
    )


class _Loop:
    """The training loop of a script, and the edits of it.

    ``inner`` is the loop over batches or steps, ``outer`` the one before which the training object
    is made.
    """

    def __init__(self, source: ScriptSource, step: ast.Call, inner: _Place, outer: _Place) -> None:
        self.source, self.step, self.inner, self.outer, self.calls = (
            source,
            step,
            inner,
            outer,
            outer.calls,
        )
        backward_calls = source.calls("backward", within=source.function(step)) or source.calls(
            "backward", within=inner.loop
        )
        if len(backward_calls) != 1:
            raise source.missing(
                inner.loop,
                f"found {len(backward_calls)} calls of backward() in the loop, expected one",
                _ANY,
            )
        self.backward, call = backward_calls[0], backward_calls[0].func
        assert isinstance(call, ast.Attribute)
        self.loss = self.backward.args[0] if self.backward.args else call.value
        self.first = f"{self.model()}, {self.outside(_optimizer(source, step), self.calls)}"
        scaler = (
            source.of(step.func.value) if step.args and isinstance(step.func, ast.Attribute) else ""
        )
        self.keep = [f'"scaler": {scaler}'] if scaler else []
        self.schedules = [
            call for call in source.calls("step") if _SCHEDULER.search(source.of(call.func))
        ]
        self.scope = bool(self.calls) and source.function(outer.loop) is not None

    def epochs(self, accelerate: bool) -> str:
        """Edit a loop over epochs around one over the batches of a loader; returns the class that
        is used.
        """
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
            f"line {step.lineno}: {source.of(step)} has no effect: Training sets the rate; give it "
            f"a schedule (docs/{_EPOCHS})"
            for step in self.schedules
        ]
        return name

    def steps(self) -> str:
        """Edit one loop over steps, whose batches have no order; returns the class that is used."""
        source, loop = self.source, self.inner.loop
        sizes = [
            source.of(node)
            for node in ast.walk(source.tree)
            if name_of(node).endswith("batch_size")
        ]
        schedulers = {source.of(step.func).removesuffix(".step") for step in self.schedules}
        self.keep += [
            f'"{scheduler}": {self.outside(scheduler, self.calls)}'
            for scheduler in sorted(schedulers)
        ]
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
        size = "1 sample" if str(batch) == "1" else f"{batch} samples"
        source.notes.append(f"a step of one worker counts as {size}; {order}")
        return "StepLoop"

    @property
    def checkpoint(self) -> str:
        return 'checkpoint="{name}-training.pt"' + f", keep={{{', '.join(self.keep)}}}" * bool(
            self.keep
        )

    def count(self, loop: ast.For | ast.While, method: str) -> None:
        """Let ``method`` count instead of ``range(...)``.

        A first number that is no constant is where the script resumes: the method knows it itself,
        so it is dropped.
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
        first = self.source.of(begins[0]) if begins else "0"
        text = self.source.of(end)
        for state in self.source.calls("TorchState"):
            for keyword in state.keywords:
                if first.endswith(f".{keyword.arg}"):
                    first = self.source.of(keyword.value)
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
        """Let ``method`` count the numbers of ``range(begin, end, step)``."""
        if not all(_is_number(argument) for argument in (arguments[0], arguments[2])):
            raise self.source.missing(
                loop, "a range with a step has to begin at a number, as in range(0, N, 2)", _ANY
            )
        numbers = f"range({', '.join(self.source.of(argument) for argument in arguments)})"
        self.source.replace(loop.iter, f"({numbers}[done] for done in {method}(len({numbers})))")

    def model(self) -> str:
        """Return the model's name before the outer loop: that of an object that the loop calls and
        that has parameters.
        """
        scopes: list[tuple[ast.AST, _Calls]] = [
            (self.inner.loop, self.calls[len(self.inner.calls) :])
        ]
        scopes += [(function, self.calls[n:]) for n, (function, _) in enumerate(self.inner.calls)]
        for scope, hops in scopes:
            for call in ast.walk(scope):
                if not isinstance(call, ast.Call):
                    continue
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
        """Return an expression as it reads where the outermost of nested functions is called.

        With ``train(net)`` called as ``train(model)``, "net" becomes "model".
        """
        for function, call in calls:
            values = _passed_values(function, call)
            root, dot, rest = text.partition(".")
            if root in values:
                text = f"{self.source.of(values[root])}{dot}{rest}"
            elif root in _assigned_names(function):
                raise self.source.missing(
                    function, f"{root} is made in {function.name}(), which the loop calls", _ANY
                )
        return text

    def report(self, name: str, counter: ast.stmt | None = None) -> None:
        """Insert the report of a step below the optimizer's step.

        It stands at the level of the loop, or of the function that the loop calls, outside of
        conditions.
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


def _passed_values(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """Return the expression that a call passes for each parameter of the function, ``self``
    included.
    """
    names = [parameter.arg for parameter in function.args.args]
    values: dict[str, ast.expr] = {}
    if isinstance(call.func, ast.Attribute) and names[:1] == ["self"]:
        values["self"] = call.func.value
        del names[0]
    values |= dict(zip(names, call.args, strict=False))
    values |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    return values


def _assigned_names(function: ast.FunctionDef) -> set[str]:
    return {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _outward(source: ScriptSource, node: ast.AST, calls: _Calls) -> Iterator[_Place]:
    """Yield the loops around a node, the innermost first.

    From a function that is called at one place only, the search goes on around that call.
    """
    for parent in source.above(node):
        if isinstance(parent, ast.For | ast.While):
            yield _Place(parent, calls)
        if isinstance(parent, ast.FunctionDef):
            callers = [
                call for call in source.calls(parent.name) if parent not in source.above(call)
            ]
            if len(callers) == 1 and parent not in dict(calls):
                yield from _outward(source, callers[0], (*calls, (parent, callers[0])))
            return


def _optimizer(source: ScriptSource, call: ast.Call) -> str:
    """Return the optimizer of ``optimizer.step()`` or ``scaler.step(optimizer)`` as text; empty for
    another step.
    """
    assert isinstance(call.func, ast.Attribute | ast.Name)
    owner: ast.expr = call.func
    if call.args:
        owner = call.args[0]
    elif isinstance(call.func, ast.Attribute):
        owner = call.func.value
    text = source.of(owner)
    return text if _OPTIMIZER.search(text) and not _SCHEDULER.search(text) else ""


def _counter(source: ScriptSource, loop: ast.While, within: ast.AST) -> ast.AugAssign | None:
    """Return the statement that counts to the end of ``loop``, such as ``step += 1``; None if there
    is none.

    It stands in ``within``. Its variable is the one that the loop's condition compares, or without
    a comparison there, the one that conditions inside the loop name most often.
    """
    tests = [loop] if isinstance(loop.test, ast.Compare) else ast.walk(loop)
    ends = " ".join(source.of(node.test) for node in tests if isinstance(node, ast.While | ast.If))
    counts = [node for node in ast.walk(within) if isinstance(node, ast.AugAssign)]
    uses = {
        node: len(re.findall(rf"(?<![\w.]){re.escape(source.of(node.target))}\b", ends))
        for node in counts
    }
    return max(filter(uses.get, uses), key=lambda node: uses[node], default=None)


def _last_step(source: ScriptSource, loop: ast.While, counter: ast.AugAssign) -> str:
    """Return the number at which a loop over steps ends, as text; empty if it is not plain to see.

    It is LAST in ``while step < LAST`` and in ``if step > LAST: break``.
    """
    ends: list[tuple[ast.expr, tuple[type[ast.cmpop], ...]]] = [(loop.test, (ast.Lt, ast.LtE))]
    branches = [node for node in ast.walk(loop) if isinstance(node, ast.If)]
    ends += [
        (branch.test, (ast.Gt, ast.GtE, ast.Eq))
        for branch in branches
        if ast.Break in map(type, branch.body)
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
    """Whether a loop counts: ``for epoch in range(EPOCHS)`` or ``while epoch < EPOCHS``."""
    if isinstance(loop, ast.While):
        return isinstance(loop.test, ast.Compare) and isinstance(loop.test.ops[0], ast.Lt)
    return (
        isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and name_of(loop.iter.func) in ("range", "trange")
    )
