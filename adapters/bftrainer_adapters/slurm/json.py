"""Parsers of what Slurm's commands print with ``--json``, in the layouts of 22.05 (v0.0.38) to 26.05 (v0.0.45). Pure.

Text serves every version and is the default. JSON stays because ``slurm.format = "json"`` stands in configurations of
users, as the only versioned format of Slurm's, and because the two readers check each other on recorded moments
(tests/adapters/slurm).

The layouts differ: 22.05 writes numbers plainly and a node's state as ``"state": "idle", "state_flags": ["DRAIN"]``; since
23.02 numbers are ``{"set", "infinite", "number"}``, states lists, and features lists or comma-separated.
``scheduled_nodes`` of jobs exists since 23.11: without it windows would silently be infinite, so older job lists are
refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from bftrainer.domain.cluster import NodeView, PendingJob, Reservation
from bftrainer.errors import SchedulerError
from bftrainer.system.printable import printable
from bftrainer_adapters.slurm.hostlists import HostLists
from bftrainer_adapters.slurm.states import node_view
from bftrainer_adapters.slurm.text import NOT_ELIGIBLE


def parse_nodes(text: str) -> tuple[NodeView, ...]:
    """``scontrol show nodes --json`` (23.02 and later) or 22.05's ``sinfo --json``."""
    return tuple(_node(item) for item in _items(text, "nodes"))


def parse_pending(text: str, _mark: str = "") -> tuple[PendingJob, ...]:
    """``squeue -t PD --json``, 23.11 and later; jobs in other states are skipped. JSON delimits texts of users by itself."""
    lists = HostLists()
    return tuple(_job(item, lists) for item in _items(text, "jobs") if "PENDING" in _upper(item.get("job_state")))


def parse_reservations(text: str) -> tuple[Reservation, ...]:
    """``scontrol show reservations --json``, 23.02 and later."""
    found, lists = [], HostLists()
    for item in _items(text, "reservations"):
        name = _text(item, "name")
        starts_s, ends_s = (_number(item.get(key)) for key in ("start_time", "end_time"))
        if starts_s is None or ends_s is None:
            raise SchedulerError(f"reservation {name} has no times")
        found.append(Reservation(name, starts_s, ends_s, lists.read(item.get("node_list") or "")))
    return tuple(found)


def _node(item: dict[str, Any]) -> NodeView:
    state = "+".join([*_upper(item.get("state")), *_upper(item.get("state_flags"))])
    partitions, gres = _words(item.get("partitions")), item.get("gres") or ""
    busy_s = _number(item.get("last_busy")) or 0.0
    return node_view(_text(item, "name"), state, partitions, gres, _count(item.get("cpus")), busy_s)


def _job(item: dict[str, Any], lists: HostLists) -> PendingJob:
    job = str(_count(item.get("job_id")))
    if "scheduled_nodes" not in item:
        raise SchedulerError("this squeue --json has no scheduled_nodes (Slurm before 23.11): use format = 'text'")
    # 0 means no plan, like N/A in text.
    return PendingJob(
        id=job,
        user=item.get("user_name") or "",
        partitions=_words(item.get("partition")),
        size=_count(item.get("node_count")),
        starts_s=_number(item.get("start_time")) or None,
        nodes=lists.read(item["scheduled_nodes"] or ""),
        is_eligible=item.get("state_reason") not in NOT_ELIGIBLE,
    )


def _items(text: str, key: str) -> list[dict[str, Any]]:
    """The list under ``key``; raises where the text is no JSON, has another layout or contains Slurm's own errors."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchedulerError(f"Slurm's output about {key} is not JSON ({error}): {text[:60]!r}") from error
    items = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SchedulerError(f"no list of {key} in {text[:60]!r}")
    for trouble in answer.get("errors") or ():
        raise SchedulerError(f"Slurm reports an error about {key}: {printable(str(trouble)[:200])}")
    return items


def _number(value: object) -> float | None:
    """A number, plain or as ``{"set", "infinite", "number"}``; None where it is not set."""
    if isinstance(value, dict):
        if value.get("infinite"):
            return math.inf
        return _number(value.get("number")) if value.get("set") else None
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    if math.isnan(value):
        raise SchedulerError("a number is NaN")
    return float(value)


def _count(value: object) -> int:
    """A whole number; 0 where it is not set."""
    number = _number(value) or 0.0
    if not 0 <= number < 1e18:
        raise SchedulerError(f"{str(value)[:40]!r} is not a count")
    return int(number)


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value:
        raise SchedulerError(f"no {key} in {str(item)[:60]!r}")
    return value


def _words(value: object) -> tuple[str, ...]:
    words: Iterable[object] = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ()
    return tuple(str(word) for word in words if word)


def _upper(value: object) -> list[str]:
    return [word.upper() for word in _words(value)]
