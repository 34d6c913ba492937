"""The edits of one training loop: what all of them know of the script."""

from __future__ import annotations

import ast

from bftrainer.console.client.adapt.kept_state import KeptState
from bftrainer.console.client.adapt.models import ModelSearch
from bftrainer.console.client.adapt.project import Project, ScriptModule
from bftrainer.console.client.adapt.search import (
    Search,
    TrainingLoop,
    refusal,
)
from bftrainer.console.client.adapt.source import Function
from bftrainer.console.client.adapt.state import kept_state

_TRAINING_MODULE = "bftrainer.progress.torch"


class LoopEdit:
    """The edits of one training loop.

    ``module`` and ``source`` have the outer loop; ``models`` and ``optimizers`` are names in its
    scope. ``horovod`` is the statement that makes Horovod's elastic state, if the script has one.
    ``training`` is the name of the training object, ``imports`` the lines to insert by module, and
    ``needs_global`` whether a function other than that of the outer loop uses the object.
    """

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
        self.state: KeptState = kept_state(project, loop, self.models, self.optimizers)
        self.training = self.source.free_name(
            "training" if loop.loader is not None or loop.iterator else "steps"
        )
        self.source.shown = self.training
        self.imports: dict[ScriptModule, list[str]] = {}
        self.needs_global = False
        self.scale_note = ""

    def is_in_function(self) -> bool:
        """Whether the training object is made in a function."""
        if self.horovod is not None:
            return self.source.function(self.horovod) is not None
        return self.loop.outer.scope.function is not None

    def object_name(self, module: ScriptModule, function: Function | None) -> str:
        """Return how a function of a module names the training object."""
        if module is self.module:
            if function is not self.loop.outer.scope.function or (
                self.horovod is not None and function is not self.source.function(self.horovod)
            ):
                self.needs_global = True
            return self.training
        return f"{self.import_name(module, 'current_training')}()"

    def _horovod_state(self) -> ast.stmt | None:
        """Return the statement that makes Horovod's elastic state; None without one."""
        states = self.source.calls("TorchState")
        return self.source.statement(states[0]) if states else None

    def import_name(self, module: ScriptModule, name: str) -> str:
        """Import a name of ours into a module; returns what it is called there."""
        package = _TRAINING_MODULE
        if name == "AcceleratedTraining" or (
            self.accelerate and name in ("Scaling", "current_training")
        ):
            package = "bftrainer.progress.accelerate"
        elif name == "ElasticTraining":
            package = "bftrainer.progress.horovod"
        alias = module.source.free_name(name)
        item = name if alias == name else f"{name} as {alias}"
        line = f"from {package} import {item}"
        lines = self.imports.setdefault(module, [])
        if line not in lines:
            lines.append(line)
        return alias

    def finish_imports(self) -> None:
        """Insert the imports, one line for each module of ours."""
        for module, lines in self.imports.items():
            by_package: dict[str, list[str]] = {}
            for line in lines:
                head, _, item = line.partition(" import ")
                by_package.setdefault(head, []).append(item)
            texts = [
                f"{head} import {', '.join(sorted(items))}" for head, items in by_package.items()
            ]
            module.source.add_imports(texts)
