"""The stand-in's one file: nodes, queues, jobs, schedulers, faults. Every command reads and writes it
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

ROOT = Path(os.environ.get("PBS_STANDIN", "."))
SERVER = os.environ.get("PBS_STANDIN_SERVER", "head")
OVER = ("F",)
State = dict[str, Any]


def fresh(nodes: list[str], cpus: int, gpus: int, queue: str) -> State:
    """An idle cluster as docs/pbs.md tells a site to configure it: preemption deletes."""
    return {
        "cpus": cpus,
        "gpus": gpus,
        "nodes": {name: {"states": []} for name in nodes},
        "queues": {
            "main": {"Priority": 150},
            queue: {"Priority": 10},
        },
        # The nodes of a queue's jobs; all nodes for a queue that is not named here.
        "queue_hosts": {},
        "sched": {
            "preempt_order": "D",
            "preempt_queue_prio": "150",
            "preempt_prio": "express_queue, normal_jobs",
        },
        "query_other_jobs": True,
        "flatuid": False,
        "history": True,
        "kill_delay": 10.0,
        "obit_s": 1.0,
        "jobs": {},
        # Arrays are only shown, and never run: by id, "count" jobs, and those that are "running" or
        # "suspended" with their nodes by index.
        "arrays": {},
        # Clusters of several tests share this machine, and a sweep goes by the job id.
        "next": random.SystemRandom().randrange(1000, 10**8, 1000),
        "lingering": [],
        "reservations": "",
        "faults": {},
        "log": [],
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


def on_node(state: State, node: str, *letters: str) -> list[State]:
    """The jobs in these states that have this node. A suspended job has given its cores back."""
    wanted = letters or ("R", "E")
    jobs = state["jobs"].values()
    return [job for job in jobs if node in job["nodes"] and job["state"] in wanted]


def preempts(state: State, job: State) -> bool:
    """Whether a job's queue is an express queue."""
    priority = state["queues"][job["queue"]].get("Priority", 0)
    return bool(priority >= int(state["sched"]["preempt_queue_prio"]))


def planned(state: State) -> dict[str, tuple[float, list[str]]]:
    """The plan of the first express job that waits: (start, nodes), by id. It waits for the limits of
    what runs on the nodes that are free soonest.
    """
    for job in by_priority(state):
        if not preempts(state, job):
            continue
        ends = {
            node: max((j["started_s"] + j["limit_s"] for j in on_node(state, node)), default=0.0)
            for node in state["nodes"]
            if not state["nodes"][node]["states"]
        }
        usable = [node for node in ends if not job["asked"] or node in job["asked"]]
        soonest = sorted(usable, key=lambda node: (ends[node], node))[: job["count"]]
        if len(soonest) == job["count"]:
            return {job["id"]: (max(time.time(), *(ends[n] for n in soonest)), soonest)}
        return {}
    return {}


def by_priority(state: State) -> list[State]:
    """The jobs that may start, those of the highest queue first."""
    waiting = [
        job
        for job in state["jobs"].values()
        if job["state"] == "Q" and state["queues"][job["queue"]].get("started", True)
    ]
    priority = {name: queue.get("Priority", 0) for name, queue in state["queues"].items()}
    return sorted(waiting, key=lambda job: (-priority[job["queue"]], int(job["id"])))
