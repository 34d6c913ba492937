"""The output of ``bftrainer pilot``: one line per decision and per other event, as text or as
JSON.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import structlog

from bftrainer.console.cli.decision_text import describe_decision
from bftrainer.pilot.facts import (
    DecisionMade,
    FragmentChanged,
    FragmentEvent,
    NoteAdded,
    PilotFact,
    TrainerChanged,
)
from bftrainer.system.printable import printable


def print_fact(fact: PilotFact, format: str) -> None:
    """Print a fact as one line, if it has one.

    ``format`` is ``text``, ``json``, or ``none``, which prints nothing.
    """
    fields = entry(fact)
    if format == "none" or fields is None:
        return
    event = fields.pop("event")
    try:
        _line_printer(format)(event, **fields)
    except OSError:
        return  # a closed terminal or pipe does not stop the pilot


def entry(fact: PilotFact) -> dict[str, Any] | None:
    """Return the fields of a fact's line in the log; None for a fact without a line."""
    time = datetime.fromtimestamp(fact.at_s, UTC).isoformat(timespec="milliseconds")
    stamp = {"timestamp": time}
    match fact:
        case DecisionMade():
            return stamp | {"event": "decision"} | _decision_fields(fact)
        case NoteAdded():
            subject = {"subject": fact.subject} if fact.subject else {}
            return stamp | {"event": fact.kind, **subject, "text": fact.text}
        case TrainerChanged(_, name, change) if change.status is not None:
            reason = {"reason": change.reason} if change.reason else {}
            return stamp | {
                "event": "trainer",
                "trainer": name,
                "status": change.status.value,
                **reason,
            }
        case FragmentChanged(_, name, event) if event is not FragmentEvent.ASKED:
            reason = {"reason": fact.reason} if fact.reason else {}
            return stamp | {"event": "node", "fragment": name, "what": event.value, **reason}
    return None


def _decision_fields(fact: DecisionMade) -> dict[str, Any]:
    """Return the fields of a decision's line; those of the solver only if one was called."""
    plan = fact.plan
    counts = {
        active.trainer.id: count
        for active, count in zip(fact.state.active, plan.decision.counts, strict=True)
    }
    fields: dict[str, Any] = {
        "pool": len(fact.state.pool),
        "counts": counts,
        "text": describe_decision(fact.event, plan, fact.took_s),
        "took_ms": round(1e3 * fact.took_s, 3),
    }
    answer = plan.decision.answer
    if answer is None:
        return fields
    fallbacks = [f"{fallback.solver}: {fallback.reason.value}" for fallback in answer.fallbacks]
    return fields | {
        "solver": answer.solver,
        "status": answer.status.value,
        "objective": answer.objective_value,
        "fallbacks": fallbacks,
    }


@lru_cache(maxsize=2)
def _line_printer(format: str) -> Any:
    """Return the function that prints a line, ``json`` or text, and flushes it."""
    render: Any = (
        structlog.processors.JSONRenderer(serializer=json.dumps) if format == "json" else _as_text
    )
    return structlog.wrap_logger(structlog.PrintLogger(sys.stdout), processors=[render]).info


def _as_text(_line_printer: object, _method: str, fields: dict[str, Any]) -> str:
    """Render a line for structlog, whose signature this is, with control characters as escapes.

    ``2026-03-01T14:05:00.000+00:00 decision: +2 nodes -> 3 1 (exact, 1 ms)``.
    """
    return printable(_fields_as_text(fields))


def _fields_as_text(fields: dict[str, Any]) -> str:
    """Return the fields as a line: time and event, then the text or, without one, all values."""
    time, event = fields.pop("timestamp"), fields.pop("event")
    if "text" in fields:
        subject = f" {fields['subject']}" if "subject" in fields else ""
        return f"{time} {event}{subject}: {fields['text']}"
    return f"{time} {event}: " + " ".join(str(value) for value in fields.values())
