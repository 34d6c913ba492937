"""The stand-in's one file: hosts, queues, jobs, faults, clock. Every command reads and writes it
whole, behind a lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("LSF_ENVDIR", "."))
FINISHED = ("DONE", "EXIT")
State = dict[str, Any]


def fresh(hosts: list[str], slots: int, queue: str = "idle") -> State:
    """An idle cluster with a main queue and a holders' queue as docs/lsf.md tells a site to define
    it.
    """
    return {
        "slots": slots,
        "hosts": {name: {"status": "ok"} for name in hosts},
        "queues": {
            "normal": {"priority": 40, "preemptable": False},
            queue: {
                "priority": 1,
                "preemptable": True,
                "terminate_when": "PREEMPT",
                "suspend": "",
                "rerunnable": False,
            },
        },
        "apps": {},
        "params": {
            "MBD_SLEEP_TIME": "10",
            "JOB_TERMINATE_INTERVAL": "1",
            "PREEMPT_JOBTYPE": "BACKFILL",
        },
        "sequential_signal": True,
        "mod_all_jobs": True,
        "jobs": {},
        # Clusters of several tests share this machine, and a sweep goes by the job id.
        "next": random.SystemRandom().randrange(1000, 10**8, 1000),
        "plans": {},
        "reservations": "",
        "faults": {},
        "offset_s": 0.0,
    }


@contextmanager
def locked(root: Path = ROOT) -> Iterator[State]:
    """The state; what is changed in it is written when the block ends well."""
    with (root / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = root / "state.json"
        state: State = json.loads(path.read_text())
        before = json.dumps(state)
        yield state
        if json.dumps(state) != before:
            path.with_suffix(".new").write_text(json.dumps(state, indent=1))
            path.with_suffix(".new").rename(path)


def now_s(state: State) -> float:
    """The cluster's time."""
    return time.time() + float(state["offset_s"])


def wanted_at(state: State) -> dict[str, float]:
    """When hosts are wanted: as a test has set it, or by the first main job that waits, at running
    ones' limits.
    """
    wanted = dict(state["plans"])
    waiting = [
        j
        for j in state["jobs"].values()
        if j["stat"] == "PEND" and not j["after"] and not state["queues"][j["queue"]]["preemptable"]
    ]
    for job in waiting[:1]:
        ends = {
            host: [j["started_s"] + (j["limit_s"] or 1e9) for j in on_host(state, host)]
            for host in state["hosts"]
        }
        free = sorted((max(times, default=0.0), host) for host, times in ends.items())[
            : job["nodes"]
        ]
        wanted.update({host: min(free[-1][0], wanted.get(host, 1e12)) for _, host in free})
    return wanted


def on_host(state: State, host: str, *stats: str) -> list[State]:
    """The jobs that have slots there."""
    wanted = stats or ("RUN", "SSUSP", "USUSP", "UNKWN")
    return [job for job in state["jobs"].values() if host in job["hosts"] and job["stat"] in wanted]


def used(state: State, host: str) -> int:
    """Slots that are taken there."""
    return sum(
        state["slots"] if job["exclusive"] else job["slots_each"] for job in on_host(state, host)
    )
