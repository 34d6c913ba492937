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
    """Print a fact as one line, if it has one. A closed terminal or pipe does not stop the
    pilot.
    """
    fields = entry(fact)
    if format == "none" or fields is None:
        return
    event = fields.pop("event")
    try:
        _logger(format)(event, **fields)
    except OSError:
        return


def entry(fact: PilotFact) -> dict[str, Any] | None:
    """Return the fields of a fact's line in the log; None for a fact without a line."""
    at = {"timestamp": datetime.fromtimestamp(fact.at_s, UTC).isoformat(timespec="milliseconds")}
    match fact:
        case DecisionMade():
            return at | {"event": "decision"} | _decision(fact)
        case NoteAdded():
            subject = {"subject": fact.subject} if fact.subject else {}
            return at | {"event": fact.kind, **subject, "text": fact.text}
        case TrainerChanged(_, name, change) if change.status is not None:
            reason = {"reason": change.reason} if change.reason else {}
            return at | {
                "event": "trainer",
                "trainer": name,
                "status": change.status.value,
                **reason,
            }
        case FragmentChanged(_, name, what) if what is not FragmentEvent.ASKED:
            reason = {"reason": fact.reason} if fact.reason else {}
            return at | {"event": "node", "fragment": name, "what": what.value, **reason}
    return None


def _decision(fact: DecisionMade) -> dict[str, Any]:
    """Return the fields of a decision's line."""
    plan, answer = fact.plan, fact.plan.decision.answer
    counts = {a.trainer.id: n for a, n in zip(fact.state.active, plan.decision.counts, strict=True)}
    text = describe_decision(fact.event, plan, fact.took_s)
    fields: dict[str, Any] = {"pool": len(fact.state.pool), "counts": counts, "text": text}
    fields["took_ms"] = round(1e3 * fact.took_s, 3)
    if answer is not None:
        fields |= {
            "solver": answer.solver,
            "status": answer.status.value,
            "objective": answer.objective_value,
        }
        fields["fallbacks"] = [f"{f.solver}: {f.reason.value}" for f in answer.fallbacks]
    return fields


@lru_cache(maxsize=2)
def _logger(format: str) -> Any:
    """A structlog logger that flushes every line."""
    render: Any = (
        structlog.processors.JSONRenderer(serializer=json.dumps) if format == "json" else _as_text
    )
    return structlog.wrap_logger(structlog.PrintLogger(sys.stdout), processors=[render]).info


def _as_text(_logger: object, _method: str, fields: dict[str, Any]) -> str:
    """``2026-03-01T14:05:00.000+00:00 decision: +2 nodes -> 3 1 (exact, 1 ms)``."""
    return printable(_line(fields))


def _line(fields: dict[str, Any]) -> str:
    at, event = fields.pop("timestamp"), fields.pop("event")
    if "text" in fields:
        subject = f" {fields['subject']}" if "subject" in fields else ""
        return f"{at} {event}{subject}: {fields['text']}"
    return f"{at} {event}: " + " ".join(str(value) for value in fields.values())
