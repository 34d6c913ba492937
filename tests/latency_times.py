"""The times of one run of tests/slurm/latency.py, read from what Slurm, the pilot, the driver and the trainer have written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from live_machine import Machine

from bftrainer.persistence.journal import entries
from bftrainer.persistence.registry import Registry
from bftrainer.persistence.store import open_store

MARKS = ("job ends", "idle", "seen", "decided", "submitted", "job started", "payload ready", "offered", "given",
         "worker started", "imports done", "group formed", "first step")  # fmt: skip
BACK_MARKS = ("notice", "workers gone", "left", "seen over")
UP, BACK = MARKS[1:], BACK_MARKS[1:]
"""A stage has the name of the mark that ends it."""
WHOLE = ("idle", "first step"), ("notice", "left")
Times = dict[str, float]


@dataclass
class Measured:
    """Of one run: seconds since 1970 by mark, for each fragment that joined (``up``) and each that left (``back``)."""

    up: list[Times] = field(default_factory=list)
    back: list[Times] = field(default_factory=list)

    def stages(self) -> Iterator[Times]:
        """Seconds by stage; that of a mark that is missing is part of the next one."""
        for all_times, marks, (first, last) in ((self.up, MARKS, WHOLE[0]), (self.back, BACK_MARKS, WHOLE[1])):
            for times in all_times:
                there = [mark for mark in marks if mark in times]
                found = {b: times[b] - times[a] for a, b in pairwise(there)}
                if first in times and last in times:
                    found[f"{first} -> {last}"] = times[last] - times[first]
                yield found


def measured(
    log: Path,
    own: Machine,
    trainer: str,
    nodes: Iterable[str],
    job: str,
    before_s: float,
    ended_s: float,
    idle_s: float,
) -> Measured:
    """Of the fragments on these nodes: those that a main job took after ``before_s``, and those after its end."""
    wanted = frozenset(nodes)
    slurm = _slurmctld(log.read_text(errors="replace"))
    with closing(open_store(own.state)) as store:
        fragments = [f for f in Registry(store).fragments() if f.node in wanted]
        given: dict[str, float] = {}
        for entry in entries(store):
            for name in frozenset().union(*entry.plan.nodes):
                given.setdefault(name, entry.event.at_s + entry.took_s)
        marks = _marks(store)
    events = _lines(own.state / "trainers" / trainer / "events.jsonl")
    begins, steps = (_lines(own.work / trainer / f"{kind}.jsonl") for kind in ("begins", "steps"))
    found = Measured()
    for it in fragments:
        own_id = it.name.partition("#")[2]
        if it.asked_back_s is not None and it.released_s is not None and before_s <= it.asked_back_s <= ended_s:
            gone = [e["time"] for e in events if e["event"] == "worker_exited" and e["fragment"] == own_id]
            gone_s = max(gone, default=it.asked_back_s)
            # The payload ends the workers at once, and the pilot hears of that later.
            left_s = marks.get((it.name, "left"))
            notice_s = min(it.asked_back_s, gone_s if left_s is None else left_s, gone_s)
            found.back.append({"notice": notice_s, "workers gone": gone_s, "seen over": it.released_s})
            if left_s is not None:
                found.back[-1] |= {"workers gone": min(gone_s, left_s), "left": left_s}
        if it.asked_s < ended_s:
            continue
        times = {"job ends": slurm.get((job, "ended"), ended_s), "idle": idle_s, "decided": it.asked_s}
        times |= {mark: slurm[own_id, mark] for mark in ("submitted", "job started") if (own_id, mark) in slurm}
        if seen_s := marks.get((it.name, "seen")):
            times["seen"] = seen_s
        ready = own.state / "holders" / it.name / "ready"
        if ready.exists() and (text := ready.read_text().split()):
            times["payload ready"] = float(text[0])
        if it.taken_s is not None:
            times["offered"] = it.taken_s
        if it.name in given:
            times["given"] = given[it.name]
        times |= _training(own_id, events, begins, steps)
        found.up.append(times)
    return found


def _training(
    fragment: str, events: list[dict[str, Any]], begins: list[dict[str, Any]], steps: list[dict[str, Any]]
) -> Times:
    """Of a fragment's first worker: its start, the end of its imports if the driver waited for it, its group, its step."""
    mine = [e for e in events if e.get("fragment") == fragment]
    times = {}
    for mark, word in (("worker started", "worker_started"), ("imports done", "warm")):
        if (at_s := next((e["time"] for e in mine if e["event"] == word), None)) is not None:
            times[mark] = at_s
    group = next((e for e in events if e["event"] == "running" and fragment in e["fragments"]), None)
    if group is None or "worker started" not in times:
        return times

    def first(lines: list[dict[str, Any]], since_s: float) -> float | None:
        of_group = (group["incarnation"], group["world_size"])
        return next(
            (x["at_s"] for x in lines if (x["incarnation"], x["size"]) == of_group and x["at_s"] >= since_s), None
        )

    formed_s = first(begins, times["worker started"])
    if formed_s is not None and (step_s := first(steps, formed_s)) is not None:
        times |= {"group formed": formed_s, "first step": step_s}
    return times


_WORDS = {
    "submitted": re.compile(r"^\[(\S+)\] _slurm_rpc_submit_batch_job: JobId=(\d+)", re.MULTILINE),
    "job started": re.compile(r"^\[(\S+)\] (?:sched|backfill): (?:Allocate|Started) JobId=(\d+)", re.MULTILINE),
    "ended": re.compile(r"^\[(\S+)\] (?:_slurm_rpc_kill_job|_job_complete|job_signal): .*?JobId=(\d+)", re.MULTILINE),
}


def _slurmctld(text: str) -> dict[tuple[str, str], float]:
    """(job, what) -> when, of the first such line."""
    found: dict[tuple[str, str], float] = {}
    for what, pattern in _WORDS.items():
        for at, job in pattern.findall(text):
            found.setdefault((job, what), datetime.fromisoformat(at).timestamp())
    return found


def _marks(store: Any) -> dict[tuple[str, str], float]:
    """What the pilot recorded itself; empty for a version that did not."""
    if not store.read("SELECT 1 FROM sqlite_master WHERE name = 'stages'"):
        return {}
    return {(row["fragment"], row["stage"]): row["at_s"] for row in store.read("SELECT * FROM stages")}


def _lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]
