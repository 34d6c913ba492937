"""Edits the training loop of plain PyTorch or Accelerate, in the script and in its modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bftrainer.console.client.adapt.models import ModelSearch
from bftrainer.console.client.adapt.project import Project, ScriptModule, parameters, passed_values
from bftrainer.console.client.adapt.search import (
    ANY,
    EPOCHS,
    Search,
    TrainingLoop,
    is_range,
    range_call,
    refusal,
)
from bftrainer.console.client.adapt.source import Function, name_of
from bftrainer.console.client.adapt.state import KeptState, StateSearch

_BINDS_TIGHTLY = ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript
"""Expressions from which a number can be taken without parentheses."""
_ENDLESS = re.compile(r"cycle|infinite|endless|forever|inf_", re.IGNORECASE)
_MODULE = "bftrainer.progress.torch"
_LINE_LENGTH = 76
"""Characters of arguments from which on they are put on lines of their own."""


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
        edit.steps()
    elif loop.iterator:
        edit.iterations()
    else:
        edit.epochs()
    edit.notes()


class LoopEdit:
    """The edits of one training loop."""

    def __init__(
        self, project: Project, search: Search, loop: TrainingLoop, *, accelerate: bool
    ) -> None:
        self.project, self.search, self.loop = project, search, loop
        self.module = loop.outer.module
        self.source = self.module.source
        self.accelerate = accelerate
        self.horovod = self._horovod_state()
        self.models: list[str] = []
        if self.horovod is None:  # the state of Horovod has the model
            self.models = ModelSearch(project, search, loop).names()
        elif loop.epochs is None:
            what = "found no `for epoch in range(...)` around the loop over the data"
            page = "horovod.md#adapt-the-script"
            raise refusal(self.module, project, loop.batches.loop, what, page)
        self.optimizers = loop.optimizers
        self.state: KeptState = StateSearch(project, loop, self.models, self.optimizers).result()
        self.training = self.source.free_name(
            "training" if loop.loader is not None or loop.iterator else "steps"
        )
        self.source.shown = self.training
        self._imports: dict[ScriptModule, list[str]] = {}
        self._needs_global = False
        self._scale_note = ""

    # The three kinds of loops.

    def epochs(self) -> None:
        """Edit a loop over a loader, with or without a loop over epochs around it."""
        data = self._loader_text()
        self._check_made_before(data)
        self._edit_loader()
        self._edit_backward()
        self._edit_guards()
        self._edit_epoch_values()
        at: ast.stmt = self.source.statement(self.loop.outer.loop)
        if self.loop.epochs is None and self.loop.between:
            at = self.source.statement(self.loop.between[-1].call)
        elif self.loop.epochs is not None:
            at = self._edit_epoch_loop()
        lines = self._made_lines(data)
        if self.horovod is not None:
            self.source.after(self.horovod, *lines)
            self._edit_horovod_steps()
        else:
            self.source.before(at, *lines)
        self._finish_imports()

    def iterations(self) -> None:
        """Edit a loop over steps that takes batches by ``next(iterator)``."""
        source, loop = self.source, self.loop.batches.loop
        iterator = self.loop.iterator
        maker = self._iterator_maker()
        is_near = source.function(maker) is source.function(loop)
        name = name_of(maker.func)
        argument = maker.args[0] if maker.args else None
        while isinstance(argument, ast.Call) and argument.args:
            name = f"{name} {name_of(argument.func)}"
            argument = argument.args[0]
        if not isinstance(argument, ast.Name | ast.Attribute | ast.Subscript):
            what = f"found no loader in {source.of(maker)}"
            raise refusal(self.module, self.project, maker, what, ANY)
        data = source.of(argument)
        if not is_near and not data.startswith("self."):
            # The method that makes the iterator has the loader in a variable of its own.
            kept = f"self.{source.free_name('training_loader')}"
            source.after(source.statement(maker), f"{kept} = {data}")
            data = kept
        is_endless = _ENDLESS.search(name) is not None
        for binding in source.bound_values(iterator):
            value = binding.value
            if value.lineno > loop.lineno and isinstance(value, ast.Call) and value.args:
                source.replace(value.args[0], f"{self.training}.step_loader")
        self._edit_backward()
        self.state.counting = self.state.counting or (
            self.module,
            loop.lineno,
            "the loop counts steps",
        )
        made = f"{self.training}.endless()" if is_endless else f"iter({self.training}.step_loader)"
        if isinstance(loop, ast.For):
            self._count(loop, range_call(loop.iter), f"{self.training}.iterations")
        lines = [*self._made_lines(data), f"{iterator} = {made}"]
        source.before(source.statement(loop), *lines)
        self._edit_ends(isinstance(loop, ast.For))
        self._finish_imports()

    def _iterator_maker(self) -> ast.Call:
        """Return the call that makes the loop's iterator, before the loop or in another method."""
        source, loop = self.source, self.loop.batches.loop
        iterator = self.loop.iterator
        is_attribute = iterator.startswith("self.")
        makers: list[ast.Call] = []
        for binding in source.bound_values(iterator):
            value = binding.value
            if isinstance(value, ast.Call) and (is_attribute or value.lineno < loop.lineno):
                makers.append(value)
        is_near = bool(makers) and source.function(makers[-1]) is source.function(loop)
        if not makers or not (is_near or is_attribute):
            what = f"found no `{iterator} = iter(loader)` before the loop, in the same function"
            raise refusal(self.module, self.project, loop, what, ANY)
        return makers[-1]

    def steps(self) -> None:
        """Edit a loop over steps whose batches have no order."""
        source, loop = self.source, self.loop.batches.loop
        sizes = [source.of(node) for node in source.nodes if name_of(node).endswith("batch_size")]
        batch = max(sizes, key=len, default="1")
        steps = self.training
        further: list[str] = []
        if isinstance(loop, ast.For):
            self._count(loop, range_call(loop.iter), f"{steps}.range")
        elif last := self._last_step(loop):
            further = [f"steps={self.search.outside(last, self.loop.between)}"]
        self.state.has_rates = False  # a StepLoop never sets them
        self.state.counting = None
        arguments = [*self._first(), f"batch={batch}", *further, *self._options()]
        loop_class = self._import(self.module, "StepLoop")
        lines = [f"{steps} = {_call(loop_class, arguments)}", *self._value_lines()]
        source.before(source.statement(loop), *lines)
        self._edit_ends(isinstance(loop, ast.For))
        self._edit_step_report(loop)
        self._finish_imports()
        size = "1 sample" if str(batch) == "1" else f"{batch} samples"
        source.notes.append(
            f"a step of one worker counts as {size}; random batches have no order to keep"
        )

    # Lines that make the objects.

    def _made_lines(self, data: str) -> list[str]:
        """Return the lines that make the training object and restore the script's values."""
        name, first = "Training", [] if self.horovod is not None else self._first()
        if self.accelerate:
            name, first = "AcceleratedTraining", [self._accelerator(), *first]
        if self.horovod is not None:
            name = "ElasticTraining"
            call = self.source.calls("TorchState")[0]
            hvd = self.source.of(call.func).partition(".")[0]
            first = [hvd, self.source.of(self.horovod).partition("=")[0].strip()]
        imported = self._import(self.module, name)
        arguments = [*first, data, *self._options()]
        if self.horovod is None:
            arguments += self._rate_options()
        made = f"{self.training} = {_call(imported, arguments)}"
        needs_global = self._needs_global and self._is_in_function()
        return [*[f"global {self.training}"] * needs_global, made, *self._value_lines()]

    def _is_in_function(self) -> bool:
        """Whether the training object is made in a function."""
        if self.horovod is not None:
            return self.source.function(self.horovod) is not None
        return self.loop.outer.scope.function is not None

    def _first(self) -> list[str]:
        """Return the arguments model and optimizer."""
        model = self.models[0]
        if len(self.models) > 1:
            model = f"torch.nn.ModuleList([{', '.join(self.models)}])"
        return [model, self.optimizers[-1]]

    def _options(self) -> list[str]:
        """Return the checkpoint and the objects that are kept, as arguments."""
        keep = {name: self._perhaps_unbound(text) for name, text in self.state.keep.items()}
        for number, optimizer in enumerate(self.optimizers[:-1]):
            keep[f"optimizer_{number}"] = optimizer
        for scaler in self._scalers():
            if scaler not in self.state.keep.values():
                keep["scaler"] = scaler
        for owner, names in self.state.attributes.items():
            kept = self._import(self.module, "KeptAttributes")
            words = ", ".join(f'"{name}"' for name in names)
            key = owner.removeprefix("self.").replace(".", "_")
            keep[key] = f"{kept}({self._perhaps_unbound(owner)}, {words})"
        if self.state.freezes:
            keep["frozen"] = f"{self._import(self.module, 'FrozenWeights')}({self._first_model()})"
        options = ['checkpoint="{name}-training.pt"']
        if keep:
            pairs = [f'"{name}": {text}' for name, text in keep.items()]
            text = ", ".join(pairs)
            is_long = len(text) >= _LINE_LENGTH
            options.append(f"keep={{{_broken(pairs, 2) if is_long else text}}}")
        return options

    def _first_model(self) -> str:
        return self._first()[0]

    def _perhaps_unbound(self, text: str) -> str:
        """Return an object's name, or an expression that is None where it was not made."""
        if "." in text:
            return text
        bound = self.source.bound_values(text)
        scope = self.loop.outer.scope.function
        places = [
            self.source.statement(binding.value)
            for binding in bound
            if self.source.function(binding.value) is scope
        ]
        if not places or any(self._is_certain(place, scope) for place in places):
            return text
        others = [place for place in places if isinstance(self.source.parents[place], ast.If)]
        has_else = any(
            place in getattr(self.source.parents[place], "orelse", []) for place in others
        )
        return text if has_else else f'locals().get("{text}")'

    def _is_certain(self, place: ast.stmt, scope: Function | None) -> bool:
        """Whether a statement stands directly in its function, or in a ``with``."""
        for parent in self.source.above(place):
            if parent is scope or isinstance(parent, ast.Module):
                return True
            if not isinstance(parent, ast.With):
                return False
        return True

    def _scalers(self) -> list[str]:
        """Return the scalers of gradients that step an optimizer, in the outer scope."""
        scalers: list[str] = []
        for module, call in self.loop.steps:
            if call.args and isinstance(call.func, ast.Attribute):
                text = module.source.of(call.func.value)
                if "scal" in text.lower() and not text.startswith("self._scal"):
                    hops = self.loop.outer.hops
                    scalers.append(self.search.outside(text, hops))
        return list(dict.fromkeys(scalers))

    def _rate_options(self) -> list[str]:
        """Return the arguments for a script that sets its rate or counts its steps."""
        options: list[str] = []
        if self.state.has_rates:
            options.append('schedule="script"')
        if self.state.counting is not None:
            scaling = self._import(self.module, "Scaling")
            options.append(f"scaling={scaling}.STRONG")
            self._edit_lengths()
        return options

    def _value_lines(self) -> list[str]:
        """Return the line that keeps and restores the script's own variables."""
        if self.horovod is not None:
            return []
        names = [*self.state.values, *self.state.global_values]
        if not names:
            return []
        targets = list(self.state.values)
        targets += [f'globals()["{name}"]' for name in self.state.global_values]
        return [f"{_tuple(targets)} = {self.training}.values({_getter(names)})"]

    # Edits of the loops.

    def _loader_text(self) -> str:
        """Return the loader in the scope of the outer loop."""
        loader, loop = self.loop.loader, self.loop
        assert loader is not None
        source = loop.batches.module.source
        text = source.of(loader)
        if isinstance(loader, ast.Call) and loop.between:
            what = f"{text} is made in each epoch; make it before the loop, and pass it on"
            raise refusal(loop.batches.module, self.project, loader, what, EPOCHS)
        if self._phase_name() and isinstance(loader, ast.Subscript):
            text = f'{source.of(loader.value)}["{self._training_phase()}"]'
        if text == "active_dataloader" or self._is_skipping(text):
            text = self._skipped_loader(text)
        return self.search.outside(text, loop.between)

    def _is_skipping(self, text: str) -> bool:
        """Whether a name may stand for ``accelerator.skip_first_batches(loader, n)``."""
        bound = self.loop.batches.module.source.bound_values(text)
        return any(
            isinstance(binding.value, ast.Call)
            and name_of(binding.value.func) == "skip_first_batches"
            for binding in bound
        )

    def _skipped_loader(self, text: str) -> str:
        """Return the loader of which a resumed epoch of the script skips the first batches."""
        source = self.loop.batches.module.source
        for binding in source.bound_values(text):
            if isinstance(binding.value, ast.Call) and binding.value.args:
                return source.of(binding.value.args[0])
            if isinstance(binding.value, ast.Name):
                return binding.value.id
        return text

    def _phase_name(self) -> str:
        """Return the variable over phases that chooses the loader; empty without one."""
        loader, phase = self.loop.loader, self.loop.phase
        if phase is None or not isinstance(loader, ast.Subscript):
            return ""
        source = self.loop.batches.module.source
        assert isinstance(phase.loop, ast.For)
        targets = ast.walk(phase.loop.target)
        names = [source.of(node) for node in targets if isinstance(node, ast.Name)]
        text = source.of(loader.slice)
        return text if text in names else ""

    def _training_phase(self) -> str:
        """Return the name of the phase that trains."""
        assert self.loop.phase is not None
        names = [
            str(node.value)
            for node in ast.walk(self.loop.phase.loop)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        return next((name for name in names if name.lower().startswith("train")), "train")

    def _check_made_before(self, data: str) -> None:
        """Refuse a loader that is made in the outer loop."""
        root = data.partition(".")[0].partition("[")[0]
        outer = self.loop.outer.loop
        function = self.loop.outer.scope.function
        places = [
            binding.value
            for binding in self.source.bound_values(root)
            if self.source.function(binding.value) is function
        ]
        inside = [value for value in places if outer in self.source.above(value)]
        if inside and len(inside) == len(places):
            what = f"{root} is made in each epoch; make it before the loop"
            raise refusal(self.module, self.project, inside[0], what, EPOCHS)

    def _edit_loader(self) -> None:
        """Let the loop take its batches from the training object."""
        loop = self.loop
        loader = loop.loader
        assert loader is not None
        batches = loop.batches
        source = batches.module.source
        text = source.of(loader)
        attribute = "loader" if self.horovod is not None else "step_loader"
        new = f"{self.training}.{attribute}"
        argument = self._passed_loader(text)
        if argument is not None:
            place, node = argument
            place.source.replace(node, new)
            number = f"{text}.batch_number"
            if any(len(self.project.callers(hop.module, hop.function)) > 1 for hop in loop.between):
                number = f'getattr({text}, "batch_number", 0)'
        else:
            name = self._object_name(batches.module, batches.scope.function)
            new = f"{name}.{attribute}"
            if phase := self._phase_name():
                new = f'({new} if {phase} == "{self._training_phase()}" else {text})'
            if loop.epochs is None and not loop.between:
                new = f"{name}.one_epoch()"
            number = f"{name}.batch_number"
            if self._phase_name():
                number = f'getattr({new}, "batch_number", 0)'
            source.replace(loader, new)
        if loop.epochs is None and loop.between:
            statement = self.source.statement(loop.between[-1].call)
            self.source.insert_before(statement, f"for _ in {self.training}.epochs(1): ")
        if self.horovod is None:
            self._edit_enumerate(number)

    def _passed_loader(self, text: str) -> tuple[ScriptModule, ast.expr] | None:
        """Return the argument by which the outer loop passes the loader to a function, and its
        module; None if the loop over batches has the loader otherwise.
        """
        node: ast.expr | None = None
        module: ScriptModule | None = None
        for hop in self.loop.between:
            if text not in parameters(hop.function):
                return None
            node = passed_values(hop.function, hop.call).get(text)
            module = hop.place
            if node is None or node not in module.source.parents:
                return None
            text = module.source.of(node)
        return None if node is None or module is None else (module, node)

    def _edit_enumerate(self, number: str) -> None:
        """Let ``enumerate`` begin at the number of steps that a resumed epoch has had."""
        batches = self.loop.batches
        source = batches.module.source
        areas: list[ast.AST] = [batches.loop.iter] if isinstance(batches.loop, ast.For) else []
        if isinstance(areas[0], ast.Name):
            areas += [binding.value for binding in source.bound_values(areas[0].id)]
        for area in areas:
            for call in source.calls("enumerate", within=area):
                starts = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
                if starts:
                    source.insert_after(starts[0], f" + {number}")
                else:
                    source.insert_after(call.args[0], f", {number}")

    def _object_name(self, module: ScriptModule, function: Function | None) -> str:
        """Return how a function of a module names the training object."""
        if module is self.module:
            if function is not self.loop.outer.scope.function or (
                self.horovod is not None and function is not self.source.function(self.horovod)
            ):
                self._needs_global = True
            return self.training
        return f"{self._import(module, 'current_training')}()"

    def _edit_backward(self) -> None:
        """Let the training object call ``backward``, so that it weights and reports the loss."""
        calls: dict[ast.Call, ScriptModule] = {}
        batches = self.loop.batches
        areas: list[tuple[ScriptModule, ast.AST]] = [(batches.module, batches.loop)]
        areas += [(hop.module, hop.function) for hop in batches.hops]
        for module, area in areas:
            calls |= dict.fromkeys(module.source.calls("backward", within=area), module)
        is_strong = self.state.counting is not None
        for call, module in calls.items():
            assert isinstance(call.func, ast.Attribute)
            owner, rest = call.func.value, call.args
            is_accelerator = (
                bool(rest)
                and not isinstance(owner, ast.Call)
                and (
                    "accelerator" in module.source.of(owner) or "fabric" in module.source.of(owner)
                )
            )
            loss: ast.expr = rest[0] if is_accelerator else owner
            if rest and not is_accelerator:
                continue  # the gradient of an output that is no loss
            name = self._object_name(module, module.source.function(call))
            options = "".join(f", {module.source.of(keyword)}" for keyword in call.keywords)
            if isinstance(loss, ast.Call) and name_of(loss.func) == "scale" and loss.args:
                options += f", unscaled={module.source.of(loss.args[0])}"
            module.source.replace(call, f"{name}.backward({module.source.of(loss)}{options})")
        if not calls and is_strong:
            self._scale_note = "allow only sizes that divide the batch: backward() is out of reach"

    def _edit_guards(self) -> None:
        """Let a resumed epoch not run again what it did before its loop over batches."""
        if self.horovod is not None:
            return
        for statement in self.state.guarded:
            self.source.insert_before(statement, f"if {self.training}.begins_epoch: ")

    def _edit_epoch_values(self) -> None:
        """Keep the variables of one epoch, before its loop over batches."""
        names = self.state.epoch_values
        if not names or self.horovod is not None:
            return
        batches = self.loop.batches
        source = batches.module.source
        name = self._object_name(batches.module, batches.scope.function)
        loader = ""
        assert self.loop.loader is not None
        text = source.of(self.loop.loader)
        if self._passed_loader(text) is not None:
            loader = f", {text}"
        elif phase := self._phase_name():
            new = f"{name}.step_loader"
            loader = f', {new} if {phase} == "{self._training_phase()}" else {text}'
        line = f"{_tuple(names)} = {name}.epoch_values({_getter(names)}{loader})"
        source.before(source.statement(batches.loop), line)

    def _edit_epoch_loop(self) -> ast.stmt:
        """Let the training object count the epochs; returns the statement before which it has to be
        made.
        """
        assert self.loop.epochs is not None
        loop = self.loop.epochs.loop
        at = self.source.statement(loop)
        if isinstance(loop, ast.While) and self.horovod is not None and is_range(loop):
            compare = loop.test
            assert isinstance(compare, ast.Compare)
            head = f"for {{}} in {self.training}.epochs({{}})"
            self.source.head(loop, head, compare.left, compare.comparators[0])
            return at
        if isinstance(loop, ast.While):
            self._edit_ends(counts=False)
            return at
        counted = range_call(loop.iter)
        if counted is None and isinstance(loop.iter, ast.Name):
            for binding in self.source.bound_values(loop.iter.id):
                if range_call(binding.value) is not None:
                    counted = range_call(binding.value)
                    at = self.source.statement(binding.value)
        if (
            counted is None
            and isinstance(loop.iter, ast.Call)
            and name_of(loop.iter.func) == "count"
        ):
            self._edit_ends(counts=False)
            begin = loop.iter.args[0] if loop.iter.args else None
            if begin is None:
                self.source.set_arguments(loop.iter, [f"{self.training}.epoch"])
            else:
                self.source.insert_after(begin, f" + {self.training}.epoch")
            return at
        if counted is None:
            what = "found no `for epoch in range(...)` around the loop over the data"
            raise refusal(self.module, self.project, loop, what, EPOCHS)
        self._count(loop, counted, f"{self.training}.epochs")
        self._edit_ends(counts=True)
        return at

    def _count(self, loop: ast.For, counted: ast.Call | None, method: str) -> None:
        """Let ``method`` count instead of ``range(...)``.

        A first number that is no constant is where the script resumes: the method knows that
        itself, so it is dropped.
        """
        if counted is None:
            raise refusal(self.module, self.project, loop, "found no range(...)", ANY)
        source = self.source
        new = self._counted_text(loop, counted, method)
        if name_of(counted.func) == "trange":
            is_bar = counted is not loop.iter or isinstance(loop.iter, ast.Name)
            if is_bar:
                bar = source.free_name("epoch_progress")
                self._imports.setdefault(self.module, []).append(
                    f"from tqdm.auto import tqdm as {bar}"
                )
                keywords = "".join(f", {source.of(keyword)}" for keyword in counted.keywords)
                new = f"{bar}({new}{keywords})"
        source.replace(counted, new)

    def _counted_text(self, loop: ast.For, counted: ast.Call, method: str) -> str:
        """Return the expression that yields the numbers of a range that are left."""
        source = self.source
        arguments = counted.args
        if len(arguments) > 2:
            if not all(_is_number(argument) for argument in (arguments[0], arguments[2])):
                what = "a range with a step has to begin at a number, as in range(0, N, 2)"
                raise refusal(self.module, self.project, loop, what, ANY)
            numbers = f"range({', '.join(source.of(argument) for argument in arguments)})"
            return f"({numbers}[done] for done in {method}(len({numbers})))"
        (*begins, end) = arguments
        first = self._initial_number(begins[0]) if begins else "0"
        text = source.of(end)
        if not first.isdecimal() or first == "0":
            return f"{method}({text})"
        count = f"{text if isinstance(end, _BINDS_TIGHTLY) else f'({text})'} - {first}"
        if text.endswith(f" + {first}"):
            count = text.removesuffix(f" + {first}")
        return f"({first} + done for done in {method}({count}))"

    def _initial_number(self, begin: ast.expr) -> str:
        """Return the first number of a range in a training that does not resume; "0" if unknown.

        The script may compute the beginning from a checkpoint of its own.
        """
        source = self.source
        text = source.of(begin)
        for state in source.calls("TorchState"):
            for keyword in state.keywords:
                if text.endswith(f".{keyword.arg}"):
                    return source.of(keyword.value)
        if text.isdecimal():
            return text
        for origin in self.project.origins(self.loop.outer.scope, text):
            if isinstance(origin.value, ast.Constant) and isinstance(origin.value.value, int):
                return str(origin.value.value)
        option = re.escape(text.rpartition(".")[2]).replace("_", "[-_]")
        pattern = rf"""["']--{option}["'][^)]*default\s*=\s*(\d+)"""
        defaults = [re.search(pattern, module.text) for module in self.project.modules]
        return next((match[1] for match in defaults if match is not None), "0")

    def _edit_ends(self, counts: bool) -> None:
        """Report the end where the outer loop is left: behind it, or before its ``break``.

        ``counts``: the object counts the passes of the loop, and reports the end after the last.
        """
        if self.horovod is not None:
            return
        loop = self.loop.outer.loop
        end = f"{self.training}.end()"
        if not counts:
            self.source.after(loop, end)
        for node in _own_nodes(loop, into_loops=True):
            is_return = isinstance(node, ast.Return) and self.loop.outer.scope.function is not None
            if is_return:
                self.source.before(node, end)
        if counts:
            for node in _own_nodes(loop, into_loops=False):
                if isinstance(node, ast.Break):
                    self.source.before(node, end)

    def _edit_horovod_steps(self) -> None:
        """Count each step behind the optimizer's, in front of ``state.commit()``."""
        module, step = self.loop.steps[-1]
        loss = self._loss_name(module)
        statement = module.source.statement(step)
        for parent in module.source.above(statement):
            if parent is self.loop.batches.loop or isinstance(parent, Function):
                break
            if isinstance(parent, ast.stmt):
                statement = parent
        module.source.after(statement, f"{self.training}.step({loss})")

    def _edit_step_report(self, loop: ast.For | ast.While) -> None:
        """Report each step at the end of a pass, also where ``continue`` ends it."""
        batches = self.loop.batches
        loss = self._loss_name(batches.module)
        report = f"{self.training}.step({loss})"
        last = loop.body[-1]
        if isinstance(last, ast.Break | ast.Continue | ast.Return):
            self.source.before(last, report)
        else:
            self.source.after(last, report)
        for node in _own_nodes(loop, into_loops=False):
            if isinstance(node, ast.Continue) and node is not last:
                self.source.before(node, f"{self.training}.step()")

    def _loss_name(self, module: ScriptModule) -> str:
        """Return the variable whose ``backward`` the loop calls; empty if it is none of the loop's
        function.
        """
        calls = module.source.calls("backward", within=self.loop.batches.loop)
        for call in reversed(calls):
            assert isinstance(call.func, ast.Attribute)
            loss: ast.expr = call.args[0] if call.args else call.func.value
            if isinstance(loss, ast.Call) and name_of(loss.func) == "scale":
                loss = loss.args[0]
            is_near = module.source.function(call) is module.source.function(self.loop.batches.loop)
            if isinstance(loss, ast.Name) and is_near:
                return loss.id
        return ""

    def _last_step(self, loop: ast.While) -> str:
        """Return the number at which a loop over steps ends, as text; empty if it is not plain to
        see.

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
            if not isinstance(test, ast.Compare) or len(test.ops) != 1:
                continue
            if not isinstance(test.ops[0], operators):
                continue
            last = test.comparators[0]
            is_plain = isinstance(last, ast.Name | ast.Attribute | ast.Constant)
            if self.source.of(test.left) in self.state.values and is_plain:
                return self.source.of(last)
        return ""

    # Accelerate, Horovod, imports, notes.

    def _accelerator(self) -> str:
        """Return the name of the accelerator in the outer scope."""
        for call in self.source.calls("backward"):
            text = self.source.of(getattr(call.func, "value", call.func))
            if "accelerator" in text:
                return self.search.outside(text, self.loop.outer.hops if self.loop.between else ())
        return "accelerator"

    def _horovod_state(self) -> ast.stmt | None:
        """Return the statement that makes Horovod's elastic state; None without one."""
        states = self.source.calls("TorchState")
        return self.source.statement(states[0]) if states else None

    def _edit_lengths(self) -> None:
        """Give the script's own loader its length on one worker: with a constant global batch an
        epoch has as many steps at every size.
        """
        for module in self.project.modules:
            for call in module.source.calls("DistributedSampler"):
                target = self._bound_name(module, call)
                is_evaluation = re.search(r"val|test|eval", f"{target}{module.source.of(call)}")
                if is_evaluation is None:
                    others = module.source.arguments(call, ("num_replicas", "rank"))
                    module.source.set_arguments(
                        call, [*others[:1], "num_replicas=1", "rank=0", *others[1:]]
                    )
            if not self.accelerate:
                continue
            for call in module.source.calls("prepare"):
                self._unprepare(module, call)
            for node in module.source.nodes:
                if isinstance(node, ast.BinOp) and self._is_times_processes(module, node):
                    module.source.replace(node, module.source.of(node.left))

    def _is_times_processes(self, module: ScriptModule, node: ast.BinOp) -> bool:
        """Whether a node is ``number * accelerator.num_processes`` in the arguments of a call."""
        if not isinstance(node.op, ast.Mult):
            return False
        is_call = any(isinstance(parent, ast.Call) for parent in module.source.above(node))
        return is_call and module.source.of(node.right).endswith("accelerator.num_processes")

    def _unprepare(self, module: ScriptModule, call: ast.Call) -> None:
        """Leave the training loader out of ``accelerator.prepare``."""
        source = module.source
        statement = source.statement(call)
        if not isinstance(statement, ast.Assign) or statement.value is not call:
            return
        target = statement.targets[0]
        names = list(target.elts) if isinstance(target, ast.Tuple) else [target]
        loader = self._loader_name()
        texts = [source.of(argument) for argument in call.args]
        if len(names) != len(texts) or loader not in texts:
            return
        kept = [number for number, text in enumerate(texts) if text != loader]
        if not kept:
            source.replace(call, loader)
            return
        left = ", ".join(source.of(names[number]) for number in kept)
        right = ", ".join(texts[number] for number in kept)
        prepare = source.of(call.func)
        source.replace(statement, f"{left} = {prepare}({right})")

    def _loader_name(self) -> str:
        """Return the loader's name in the outer scope."""
        return self._loader_text() if self.loop.loader is not None else ""

    def _bound_name(self, module: ScriptModule, call: ast.Call) -> str:
        """Return the text in front of the ``=`` of the statement that makes an object."""
        statement = module.source.statement(call)
        return module.source.of(statement).partition("=")[0]

    def _import(self, module: ScriptModule, name: str) -> str:
        """Import a name of ours into a module; returns what it is called there."""
        package = _MODULE
        if name == "AcceleratedTraining" or (
            self.accelerate and name in ("Scaling", "current_training")
        ):
            package = "bftrainer.progress.accelerate"
        elif name == "ElasticTraining":
            package = "bftrainer.progress.horovod"
        alias = module.source.free_name(name)
        item = name if alias == name else f"{name} as {alias}"
        line = f"from {package} import {item}"
        lines = self._imports.setdefault(module, [])
        if line not in lines:
            lines.append(line)
        return alias

    def _finish_imports(self) -> None:
        """Insert the imports, one line for each module of ours."""
        for module, lines in self._imports.items():
            by_package: dict[str, list[str]] = {}
            for line in lines:
                head, _, item = line.partition(" import ")
                by_package.setdefault(head, []).append(item)
            texts = [
                f"{head} import {', '.join(sorted(items))}" for head, items in by_package.items()
            ]
            module.source.add_imports(texts)

    def notes(self) -> None:
        """Say what is kept, what is not, and what the user has to know."""
        notes = self.source.notes
        state = self.state
        kept = [*state.keep.values(), *state.values, *state.global_values, *state.epoch_values]
        kept += [f"{owner}.{name}" for owner, names in state.attributes.items() for name in names]
        if self.horovod is not None:
            if kept:
                notes.append(f"not kept, give them to TorchState: {', '.join(kept)}")
            return
        if kept:
            notes.append(f"kept in the checkpoint: {', '.join(kept)}")
        if state.unkept:
            notes.append(f"not kept: {', '.join(dict.fromkeys(state.unkept))}")
        notes += [
            f"line {line}: {text}: all workers must decide alike, so not by the loss of a worker's "
            "own share of the data: average it over the workers, or take a value of the whole data"
            for line, text in sorted(state.agreeing.items())
        ]
        lines = sorted({(line, name) for name, line in state.read_after.items()})
        notes += [
            f"line {line}: {name} has no value in a start after the last step, which makes no pass "
            "of the loop: set it before the loop as well"
            for line, name in lines
        ]
        if state.counting is not None:
            module, line, reason = state.counting
            where = f"line {line}" if module is self.module else f"{module.path.name}, line {line}"
            notes.append(
                f"{where}: {reason}, so the global batch is the same at every size "
                "(docs/training.md#batch)"
            )
        if self._scale_note:
            notes.append(self._scale_note)
        for module, step in self.loop.steps:
            if self.loop.loader is not None and self._is_conditional(module, step):
                notes.append(
                    f"line {step.lineno}: {module.source.of(step)} does not follow every batch: "
                    "checkpoints and leaving wait for it"
                )

    def _is_conditional(self, module: ScriptModule, step: ast.Call) -> bool:
        """Whether some batches have no step of an optimizer: it depends on a condition that has no
        other branch with a step.
        """
        calls = {call for _, call in self.loop.steps}
        for parent in module.source.above(step):
            if parent is self.loop.batches.loop or isinstance(parent, Function):
                return False
            if not isinstance(parent, ast.If):
                continue
            for body in (parent.body, parent.orelse):
                nodes = {node for part in body for node in ast.walk(part)}
                if not nodes & calls:
                    return True
        return False


def _own_nodes(loop: ast.For | ast.While, *, into_loops: bool) -> Iterator[ast.stmt]:
    """Yield the statements of a loop, but for those of functions in it, and of inner loops unless
    ``into_loops``.
    """
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, Function | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.For | ast.While) and not into_loops:
            continue
        waiting += list(ast.iter_child_nodes(node))


def _tuple(names: list[str]) -> str:
    """Return names as the target of an assignment of a tuple."""
    if len(names) == 1:
        return f"({names[0]},)"
    text = ", ".join(names)
    return text if len(text) < _LINE_LENGTH else f"({_broken(names)})"


def _getter(names: list[str]) -> str:
    """Return a function without arguments that returns the present values by name."""
    pairs = [f'"{name}": {name}' for name in names]
    text = ", ".join(pairs)
    return f"lambda: {{{text if len(text) < _LINE_LENGTH else _broken(pairs)}}}"


def _broken(items: list[str], depth: int = 1) -> str:
    """Return items of brackets on lines of their own, in brackets of the given depth."""
    begin = "\n" + "    " * depth
    return begin + f",{begin}".join(items) + f",\n{'    ' * (depth - 1)}"


def _call(function: str, arguments: list[str]) -> str:
    """Return a call, its arguments on lines of their own if they are long."""
    text = ", ".join(arguments)
    return f"{function}({text if len(text) < _LINE_LENGTH else _broken(arguments)})"


def _is_number(node: ast.AST) -> bool:
    """Whether it is a whole number as it stands, with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int)
