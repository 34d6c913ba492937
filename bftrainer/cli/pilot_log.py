"""What ``bftrainer pilot`` prints: one line per decision, one per event besides; as text, or as JSON for programs."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

import structlog

from bftrainer.cli.decision_text import describe_decision
from bftrainer.domain.events import Event
from bftrainer.domain.state import Plan, State
from bftrainer.live.facts import Fact, FactKind
from bftrainer.persistence.registry import TrainerStatus


def print_fact(fact: Fact, format: str) -> None:
    """One line on standard output, or none. A terminal or a pipe that is gone stops nothing."""
    fields = entry(fact)
    if format == "none" or fields is None:
        return
    event = fields.pop("event")
    try:
        _logger(format)(event, **fields)
    except OSError:
        return


def entry(fact: Fact) -> dict[str, Any] | None:
    """The fields of a fact's line; None for what is not worth one."""
    at = {"timestamp": datetime.fromtimestamp(fact.at_s, timezone.utc).isoformat(timespec="milliseconds")}
    match fact.kind:
        case FactKind.DECISION:
            return at | {"event": "decision"} | _decision(fact)
        case FactKind.NOTE:
            subject = {"subject": fact.subject} if fact.subject else {}
            return at | {"event": fact.fields["kind"], **subject, "text": fact.fields["text"]}
        case FactKind.TRAINER if isinstance(status := fact.fields.get("status"), TrainerStatus):
            reason = {"reason": fact.fields["reason"]} if fact.fields.get("reason") else {}
            return at | {"event": "trainer", "trainer": fact.subject, "status": status.value, **reason}
        case FactKind.FRAGMENT if "asked" not in fact.fields:
            (what,) = (key for key in ("taken", "asked_back", "released") if key in fact.fields)
            reason = {"reason": fact.fields["reason"]} if fact.fields.get("reason") else {}
            return at | {"event": "node", "fragment": fact.subject, "what": what, **reason}
    return None


def _decision(fact: Fact) -> dict[str, Any]:
    event, plan, state, took_s = (fact.fields[key] for key in ("event", "plan", "state", "took_s"))
    assert isinstance(event, Event)
    assert isinstance(plan, Plan)
    assert isinstance(state, State)
    assert isinstance(took_s, float)
    answer = plan.decision.answer
    counts = {a.trainer.id: n for a, n in zip(state.active, plan.decision.counts, strict=True)}
    fields: dict[str, Any] = {"pool": len(state.pool), "counts": counts, "text": describe_decision(event, plan, took_s)}
    fields["took_ms"] = round(1e3 * took_s, 3)
    if answer is not None:
        fields |= {"solver": answer.solver, "status": answer.status.value, "objective": answer.objective_value}
        fields["fallbacks"] = [f"{f.solver}: {f.reason.value}" for f in answer.fallbacks]
    return fields


@lru_cache(maxsize=2)
def _logger(format: str) -> Any:
    """structlog's, printing at once."""
    render: Any = structlog.processors.JSONRenderer(serializer=json.dumps) if format == "json" else _as_text
    return structlog.wrap_logger(structlog.PrintLogger(sys.stdout), processors=[render]).info


def _as_text(_logger: object, _method: str, fields: dict[str, Any]) -> str:
    """``2026-03-01T14:05:00.000+00:00 decision: +2 nodes -> 3 1 (exact, 1 ms)``."""
    at, event = fields.pop("timestamp"), fields.pop("event")
    if "text" in fields:
        subject = f" {fields['subject']}" if "subject" in fields else ""
        return f"{at} {event}{subject}: {fields['text']}"
    return f"{at} {event}: " + " ".join(str(value) for value in fields.values())
