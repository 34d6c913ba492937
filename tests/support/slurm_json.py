"""Slurm's own ``--json`` as the witness of the text reader: what the product reads as text, read
from the other format.

The layouts differ: 22.05 writes numbers plainly and a node's state as ``"state": "idle",
"state_flags": ["DRAIN"]``; since 23.02 numbers are ``{"set", "infinite", "number"}``, states lists,
and features lists or comma-separated. ``scheduled_nodes`` of jobs exists since 23.11.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from bftrainer.cluster.model import NodeView, PendingJob, Reservation
from bftrainer.system import command
from bftrainer_clusters.slurm.hostlists import HostLists
from bftrainer_clusters.slurm.states import node_view
from bftrainer_clusters.slurm.text import NOT_ELIGIBLE

SINCE = (23, 11)
NODES = ("scontrol", "-a", "show", "nodes", "--json")
PENDING = ("squeue", "-a", "-t", "PD", "--json")
RESERVATIONS = ("scontrol", "-a", "show", "reservations", "--json")


def pending_by_json(env: Mapping[str, str]) -> tuple[PendingJob, ...]:
    return parse_pending(command.run(PENDING, timeout_s=20.0, env=env))


def parse_nodes(text: str) -> tuple[NodeView, ...]:
    """``scontrol show nodes --json`` (23.02 and later) or 22.05's ``sinfo --json``."""
    return tuple(_node(item) for item in json.loads(text)["nodes"])


def parse_pending(text: str) -> tuple[PendingJob, ...]:
    """``squeue -t PD --json``; jobs in other states are skipped."""
    lists = HostLists()
    return tuple(
        _job(item, lists) for item in json.loads(text)["jobs"] if "PENDING" in item["job_state"]
    )


def parse_reservations(text: str) -> tuple[Reservation, ...]:
    """``scontrol show reservations --json``, 23.02 and later."""
    return tuple(
        Reservation(
            item["name"],
            _number(item["start_time"]),
            _number(item["end_time"]),
            HostLists().read(item["node_list"]),
        )
        for item in json.loads(text)["reservations"]
    )


def _node(item: dict[str, Any]) -> NodeView:
    state = "+".join([*_words(item.get("state")), *_words(item.get("state_flags"))]).upper()
    partitions, gres = _words(item.get("partitions")), item.get("gres") or ""
    return node_view(
        item["name"],
        state,
        partitions,
        gres,
        int(_number(item["cpus"])),
        _number(item.get("last_busy", 0)),
    )


def _job(item: dict[str, Any], lists: HostLists) -> PendingJob:
    return PendingJob(
        id=str(int(_number(item["job_id"]))),
        user=item["user_name"],
        partitions=_words(item["partition"]),
        size=int(_number(item["node_count"])),
        starts_s=_number(item["start_time"]) or None,  # 0 means no plan, like N/A in text
        nodes=lists.read(item["scheduled_nodes"] or ""),
        is_eligible=item["state_reason"] not in NOT_ELIGIBLE,
    )


def _number(value: Any) -> float:
    """A number, plain or as ``{"set", "infinite", "number"}``; 0 where it is not set."""
    if not isinstance(value, dict):
        return float(value)
    return math.inf if value["infinite"] else float(value["number"]) if value["set"] else 0.0


def _words(value: str | list[str] | None) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value or ()
    return tuple(word for word in words if word)
