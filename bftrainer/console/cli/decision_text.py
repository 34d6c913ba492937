"""A decision as one line of text, for ``events``, ``explain``, ``top`` and the pilot's log."""

from __future__ import annotations

from collections.abc import Iterable

from bftrainer.counted import counted
from bftrainer.decide.allocation.placement import in_name_order
from bftrainer.decide.domain.events import (
    Event,
    ParallelChanged,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.decide.domain.state import Plan
from bftrainer.fragment_names import node_of
from bftrainer.system.printable import printable

_NAMED = 4
"""Lost nodes that are named."""


def describe_decision(event: Event, plan: Plan, took_s: float) -> str:
    """Describe a decision in a line, as in ``+2 nodes -> 3 1 (exact, 1 ms)``.

    The line has the event, the new node counts in the order of admission, and in parentheses the
    solver and its time, or the reason why no size was changed.
    """
    changes = []
    for change in event.changes:
        match change:
            case PoolChanged(joined, left):
                if joined:
                    changes.append(f"+{counted(len(joined), 'node')}")
                if left:
                    changes.append(f"-{counted(len(left), 'node')} ({_node_names(left)})")
            case TrainerSubmitted(trainer):
                changes.append(f"{trainer.id} submitted")
            case TrainerFinished(name):
                changes.append(f"{name} finished")
            case ParallelChanged(number):
                changes.append(f"max_parallel {'auto' if number is None else number}")
            case TimerDue():
                changes.append("timer")
    counts = " ".join(map(str, plan.decision.counts)) or "no trainings"
    answer = plan.decision.answer
    origin = "" if answer is None else f" ({answer.solver}, {1e3 * took_s:.0f} ms)"
    if plan.decision.kept:
        origin = f" (sizes kept: {printable(plan.decision.kept)})"
    return f"{', '.join(changes)} -> {counts}{origin}"


def _node_names(fragments: Iterable[str]) -> str:
    """Return the names of the fragments' nodes, the first few."""
    nodes = in_name_order({node_of(fragment) for fragment in fragments})
    return " ".join(nodes[:_NAMED]) + (" ..." if len(nodes) > _NAMED else "")
