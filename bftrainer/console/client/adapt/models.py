"""Finds the models that a training loop trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from bftrainer.console.client.adapt.project import Project, ScriptModule
from bftrainer.console.client.adapt.search import ANY, Hop, Search, TrainingLoop, refusal
from bftrainer.console.client.adapt.source import name_of
from bftrainer.errors import UserError

_HOUSEKEEPING = frozenset(
    [
        "train",
        "eval",
        "parameters",
        "named_parameters",
        "zero_grad",
        "state_dict",
        "load_state_dict",
        "to",
        "cuda",
        "cpu",
        "no_sync",
        "requires_grad_",
        "modules",
        "named_modules",
        "children",
        "named_children",
        "apply",
        "half",
        "float",
        "require_backward_grad_sync",
        "buffers",
        "update",
    ]
)
"""Methods of a model that do not compute anything with it."""


class ModelSearch:
    """Finds the models that the steps of a loop call, by their names before the outer loop."""

    def __init__(self, project: Project, search: Search, loop: TrainingLoop) -> None:
        self.project, self.search, self.loop = project, search, loop

    def names(self) -> list[str]:
        """Return the models. Raises RefusalError if the loop calls none."""
        names: list[str] = []
        problem: UserError | None = None
        for text, hops in self._called_models():
            try:
                name = self.search.outside(text, hops)
            except UserError as error:
                problem = problem or error
                continue
            if name not in names:
                names.append(name)
        if len(names) != 1:
            names = self._of_optimizers(names) or names[:1]
        if not names and problem is not None:
            raise problem
        if not names:
            what = "found no model that the loop calls, as in model(inputs)"
            raise refusal(self.loop.batches.module, self.project, self.loop.batches.loop, what, ANY)
        return names

    def _called_models(self) -> Iterator[tuple[str, tuple[Hop, ...]]]:
        """Yield the text of each model that is called in a step, and the hops that lead there."""
        batches = self.loop.batches
        parts: list[tuple[ScriptModule, ast.AST, tuple[Hop, ...]]] = [
            (batches.module, batches.loop, self.loop.between)
        ]
        hops = self.loop.outer.hops
        parts += [(hop.module, hop.function, hops[n:]) for n, hop in enumerate(batches.hops)]
        for module, area, outward in parts:
            calls = [node for node in ast.walk(area) if isinstance(node, ast.Call)]
            for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
                for node in self._model_candidates(call):
                    if self._is_model(name_of(node)):
                        yield module.source.of(node), outward

    def _model_candidates(self, call: ast.Call) -> Iterator[ast.expr]:
        """Yield the expressions that may be a model: what is called, or has its method called."""
        if isinstance(call.func, ast.Name | ast.Attribute):
            yield call.func
        if not isinstance(call.func, ast.Attribute) or call.func.attr in _HOUSEKEEPING:
            return
        if isinstance(call.func.value, ast.Name | ast.Attribute):
            yield call.func.value

    def _is_model(self, name: str) -> bool:
        """Whether the project treats an object of this name as a module of torch."""
        if not name or name in ("self", "torch", "nn", "F", "optimizer"):
            return False
        escaped = re.escape(name)
        pattern = (
            rf"\b{escaped}\.(train|parameters|named_parameters)\("
            rf"|\b{escaped} *= *(nn\.parallel\.|torch\.nn\.parallel\.)?"
            r"(DDP|DistributedDataParallel)\("
        )
        return any(re.search(pattern, module.text) for module in self.project.modules)

    def _of_optimizers(self, names: list[str]) -> list[str]:
        """Return the models whose weights the optimizers change.

        Without candidates: names in the calls that make the optimizers.
        """
        texts: list[str] = []
        mentioned: list[str] = []
        scope = self.loop.outer.scope
        for optimizer in self.loop.optimizers:
            for origin in self.project.origins(scope, optimizer):
                source = origin.module.source
                made = source.of(origin.value)
                texts.append(made)
                for node in ast.walk(origin.value):
                    if isinstance(node, ast.Name):
                        texts += [source.of(bound.value) for bound in source.bound_values(node.id)]
                is_near = source.function(origin.value) in (None, scope.function)
                if is_near and origin.module is scope.module:
                    joined = " ".join(texts)
                    mentioned += re.findall(r"([\w.]+)\.(?:named_)?parameters\(", joined)
        joined = " ".join(texts)
        chosen = [
            name
            for name in names
            if re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", joined)
        ]
        return chosen or [name for name in dict.fromkeys(mentioned) if not names]
