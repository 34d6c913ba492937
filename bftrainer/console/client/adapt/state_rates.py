"""Learning rates that a script sets, and lines that count its steps."""

from __future__ import annotations

import ast
import re

from bftrainer.console.client.adapt.search import (
    SCHEDULER,
)
from bftrainer.console.client.adapt.source import (
    ScriptSource,
    name_of,
)
from bftrainer.console.client.adapt.state_search import StateSearch

_AVERAGE = re.compile(
    r"(^|_|\b)ema|EMA|Ema|averag|swa|target|teacher|momentum|shadow", re.IGNORECASE
)


def find_rates(search: StateSearch) -> None:
    """Find out whether the script sets the learning rate."""
    pattern = re.compile(
        r"\[[\"']lr[\"']\]\s*[*/+-]?=|adjust_l\w*|set_l(r|earning)|update_lr", re.I
    )
    texts = [search.source.of(search.outer)]
    texts += [module.source.of(function) for module, function in search.called_functions()]
    texts += [module.source.of(part) for module, part in search.inner_parts]
    is_set = any(pattern.search(text) for text in texts)
    kept = any(
        SCHEDULER.search(name) or _is_scheduler(search, name) for name in search.state.keep.values()
    )
    stepped = any(re.search(r"sched\w*\.step", text) for text in texts)
    search.state.has_rates = search.state.has_rates or is_set or kept or stepped


def find_counting(search: StateSearch) -> None:
    """Find a line that counts steps, of which there are fewer if a step has more samples."""
    if len(search.optimizers) > 1:
        search.state.counting = (
            search.module,
            search.outer.lineno,
            f"several optimizers ({', '.join(search.optimizers)})",
        )
        return
    counters = {*search.state.values, *search.state.global_values, *search.state.epoch_values}
    for module, part in search.inner_parts:
        for node in ast.walk(part):
            reason = _counting_reason(search, module.source, node, counters)
            if reason:
                search.state.counting = (module, getattr(node, "lineno", 1), reason)
                return
    if isinstance(search.outer, ast.While):
        names = {
            search.source.of(node)
            for node in ast.walk(search.outer.test)
            if isinstance(node, ast.Name)
        }
        inner_text = [module.source.of(part) for module, part in search.inner_parts]
        for name in sorted(names & counters):
            if any(re.search(rf"\b{re.escape(name)}\s*\+=", text) for text in inner_text):
                search.state.counting = (
                    search.module,
                    search.outer.lineno,
                    f"the loop ends by {name}",
                )


def _counting_reason(
    search: StateSearch, source: ScriptSource, node: ast.AST, counters: set[str]
) -> str:
    """Return why a node of a step counts steps; empty if it does not."""
    if isinstance(node, ast.Call):
        text = source.of(node.func)
        name = name_of(node.func)
        owner = text.rpartition(".")[0]
        if "scal" in owner.lower():
            return ""
        if name in ("step", "step_update") and (
            SCHEDULER.search(owner)
            or owner in search.state.keep.values()
            or owner in search.state.epoch_values
        ):
            return f"{text}() follows each step"
        if re.search(r"adjust_l\w*|set_l(r|earning)|update_lr|lr_sched", text, re.IGNORECASE):
            return f"{text}() sets the rate of each step"
        if _AVERAGE.search(text) and re.search("ema|EMA|Ema|averag|swa|update", text):
            return f"{text}() averages the weights of each step"
    if isinstance(node, ast.Assign) and re.search(r"\[[\"']lr[\"']\]", source.of(node.targets[0])):
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
