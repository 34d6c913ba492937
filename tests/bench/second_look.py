"""Whether a second look at an idle node earns its seconds: node-hours gained against holders that a main job preempts.

    python tests/bench/second_look.py [--u] [LOG ...]

On logs with named nodes, every idle period of every node is looked at as a pilot would: polls every 10 s (up to 10 % shorter or
longer), a holder that is ready 3 s after the look that requests it, node backoff after an early preemption. "hint": an Epilog's
hint brings the look forward, to 0.3 s after the node became idle. A holder is preempted if the idle period ends while
it is there, whatever ends it.

Causes of an idle period: "between" (shorter than 20 s: the node passes from one main job to the next), "waiting" (a job that
starts at its end was waiting when it began, so the node was to be planned), "other" (the job came later, or the log has no
queue). --u replays the first log's first week with nodes that join when their holders are ready (1,024 nodes, P_jmax 10,
ShuffleNet, R_up 1.3 s, R_dw 1.1 s).
"""

from __future__ import annotations

import argparse
import os
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bftrainer.allocation.chain import build_allocator
from bftrainer.api import PolicySettings, build_policy, find_objective
from bftrainer.domain.events import PoolChanged
from bftrainer.live.nodes.node_requests import NodeBackoff
from bftrainer_replay.api import (
    EventLog,
    ImportOptions,
    LogWindow,
    PoolEvent,
    Scenario,
    cut,
    hpo,
    open_log,
    play,
    static_outcome,
    submissions,
)
from bftrainer_replay.workload.workload import RescaleCosts

DATA = Path(os.environ.get("BFTRAINER_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
LOGS = {
    "Summit": "summit-2021-02/summit-2021-02-events.csv.gz",
    "Mira 1": "mira-2018-weeks/wk1.log.gz",
    "Mira 3": "mira-2018-weeks/wk3.log.gz",
    "wagap": "wagap-2013-nodeids/wagap-2013.swf.gz",
    "Thunder": "pwa-swf/LLNL-Thunder-2007-1.1-cln.swf.gz",
}
POLL_S, HINTED_S, READY_S, FLAP_S, BETWEEN_S = 10.0, 0.3, 3.0, 60.0, 20.0
WAYS: dict[str, tuple[int, float, float | None]] = {
    "2 polls": (2, 0.0, None),
    "1 poll": (1, 0.0, None),
    "1 poll and a look 1 s later": (1, 1.0, None),
    "1 poll and a look 3 s later": (1, 3.0, None),
    "hint, look after 0.3 s": (1, 0.0, HINTED_S),
    "the same, and a look 1 s later": (1, 1.0, HINTED_S),
    "the same while a main job waits": (1, 1.0, HINTED_S),
    "1 poll and a look 1 s later while a main job waits": (1, 1.0, None),
}
"""Polls, seconds from the last of them to a look that confirms, and from the end of the main job to a hinted look."""

WAITS = "while a main job waits"


class Queue:
    """Whether a main job waits at a moment; always, where the log does not say so."""

    def __init__(self, window: LogWindow) -> None:
        queue = window.queue
        self._is_known = queue is not None
        if queue is not None:
            until_s = np.where(np.isnan(queue.start_s), queue.end_s, queue.start_s)  # canceled jobs wait to their end
            is_known = np.isfinite(queue.eligible_s)
            self._eligible_s, self._until_s = np.sort(queue.eligible_s[is_known]), np.sort(until_s[is_known])

    def waits(self, at_s: float) -> bool:
        if not self._is_known:
            return True
        over = np.searchsorted(self._until_s, at_s, side="right")
        return bool(np.searchsorted(self._eligible_s, at_s, side="right") > over)


@dataclass(frozen=True)
class Idle:
    """An idle period of a node. ``is_taken``: it ends because a job starts, and not with the log."""

    node: str
    since_s: float
    until_s: float
    is_taken: bool
    cause: str = ""


def idle_of(window: LogWindow) -> list[Idle]:
    since = dict.fromkeys(window.initial, window.start_s)
    found = []
    for event in window.events:
        found += [Idle(node, since.pop(node), event.at_s, True) for node in sorted(event.change.left)]
        for node in event.change.joined:
            since[node] = event.at_s
    found += [Idle(node, at_s, window.end_s, False) for node, at_s in since.items()]
    return [replace(it, cause=cause) for it, cause in zip(found, causes(window, found), strict=True)]


def causes(window: LogWindow, found: list[Idle]) -> list[str]:
    """By the jobs that start when a period ends (to a second)."""
    starts: list[float] = []
    eligible: list[float] = []
    if window.queue is not None:
        order = np.argsort(window.queue.start_s)
        starts, eligible = window.queue.start_s[order].tolist(), window.queue.eligible_s[order].tolist()
    told = []
    for it in found:
        first, last = bisect_left(starts, it.until_s - 1.0), bisect_left(starts, it.until_s + 1.0)
        if it.is_taken and it.until_s - it.since_s < BETWEEN_S:
            told.append("between")
        else:
            waits = it.is_taken and min(eligible[first:last], default=np.inf) <= it.since_s
            told.append("waiting" if waits else "other")
    return told


@dataclass
class Held:
    """What a way of looking holds: (period, since when it is held), and what of it by cause."""

    ready: list[tuple[Idle, float]]
    preempted: Counter[str]
    node_h: Counter[str]


def held(
    found: list[Idle], polls: np.ndarray, looks: int, confirm_s: float, hinted_s: float | None, queue: Queue | None
) -> Held:
    """``queue``: if given, the look that confirms is made only while a main job waits in it."""
    out = Held([], Counter(), Counter())
    by_node: dict[str, list[Idle]] = defaultdict(list)
    for it in sorted(found, key=lambda it: it.since_s):
        by_node[it.node].append(it)
    for node, periods in by_node.items():
        backoff = NodeBackoff()
        for it in periods:
            at = int(np.searchsorted(polls, it.since_s))
            polled_s = float(polls[min(at + looks - 1, len(polls) - 1)])
            asked_s = polled_s if hinted_s is None else it.since_s + hinted_s
            if queue is None or queue.waits(asked_s):
                asked_s += confirm_s
            blocked_s = max((b.until_s for b in backoff.nodes() if b.node == node), default=0.0)
            if blocked_s > asked_s:  # requested again at the first poll after the back-off
                asked_s = float(polls[min(int(np.searchsorted(polls, blocked_s)), len(polls) - 1)])
            if asked_s >= it.until_s:
                continue
            ready_s = asked_s + READY_S
            if ready_s < it.until_s:
                out.ready.append((it, ready_s))
                out.node_h[it.cause] += (it.until_s - ready_s) / 3600
            if it.is_taken:
                out.preempted[it.cause] += 1
                backoff.preempted(node, max(it.until_s - ready_s, 0.0), it.until_s)
    return out


def seen_by(window: LogWindow, of: Held) -> LogWindow:
    """The window with nodes that join when their holders are ready."""
    joins: dict[float, set[str]] = defaultdict(set)
    leaves: dict[float, set[str]] = defaultdict(set)
    for it, ready_s in of.ready:
        joins[ready_s].add(it.node)
        if it.is_taken:
            leaves[it.until_s].add(it.node)
    changes = [PoolChanged(frozenset(joins[at]), frozenset(leaves[at])) for at in sorted({*joins, *leaves})]
    events = tuple(PoolEvent(at, change) for at, change in zip(sorted({*joins, *leaves}), changes, strict=True))
    return replace(window, initial=frozenset(), events=tuple(e for e in events if e.at_s <= window.end_s))


def efficiency(window: LogWindow, of: Held | None) -> float:
    """U in percent, relative to all idle node-time of the log."""
    arrivals = hpo("shufflenet", submissions(window.start_s, 1000, 0.0), costs=RescaleCosts(1.3, 1.1))
    whole = Scenario(window, arrivals)
    scenario = whole if of is None else Scenario(seen_by(window, of), arrivals)
    settings = PolicySettings(build_allocator("exact", 1.0), find_objective("throughput"), 120.0, 0)
    outcome = play(scenario, build_policy("bftrainer", settings), keep_entries=False)
    return 100 * outcome.totals.samples / static_outcome(whole)


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("logs", nargs="*", default=list(LOGS), metavar="LOG")
    told.add_argument("--u", action="store_true", help="replay the first log, too (minutes)")
    options = told.parse_args()
    print("| log | way | idle node-hours held | preempted per 100 main jobs: all | between | waiting | other |")
    print("|---|---|---|---|---|---|---|")
    for number, name in enumerate(options.logs):
        log: EventLog = open_log(DATA / LOGS[name], ImportOptions(debounce_s=0.0, skip_bad=True)).log
        nodes = log.nodes()[:1024] if options.u and number == 0 else None
        window = cut(log, nodes=nodes)
        if options.u and number == 0:
            window = cut(log, nodes=nodes, end_s=window.start_s + 7 * 86400)
        found = idle_of(window)
        jobs = len({it.until_s for it in found if it.is_taken})
        if window.queue is not None:
            begun = window.queue.start_s
            jobs = int(np.sum((begun > window.start_s) & (begun <= window.end_s)))
        rng = np.random.default_rng(1)
        steps = POLL_S * rng.uniform(0.9, 1.1, size=int((window.end_s - window.start_s) / POLL_S * 1.2) + 10)
        polls = window.start_s + np.cumsum(steps)
        queue = Queue(window)
        idle_h = sum(it.until_s - it.since_s for it in found) / 3600
        for way, (looks, confirm_s, hinted_s) in WAYS.items():
            of = held(found, polls, looks, confirm_s, hinted_s, queue if way.endswith(WAITS) else None)
            counts = [of.preempted.total(), *(of.preempted[cause] for cause in ("between", "waiting", "other"))]
            shares = " | ".join(f"{100 * count / jobs:.2f}" for count in counts)
            u = f"; U {efficiency(window, of):.2f} %" if options.u and number == 0 else ""
            print(f"| {name} | {way} | {100 * of.node_h.total() / idle_h:.3f} %{u} | {shares} |", flush=True)
        if options.u and number == 0:
            print(f"{name}: U with every node at once: {efficiency(window, None):.2f} %", flush=True)
        awaited = [it for it in found if queue.waits(it.since_s + HINTED_S)]
        between, of_those = (sum(it.cause == "between" for it in some) for some in (found, awaited))
        print(
            f"{name}: {jobs} main jobs, {idle_h:.0f} node-hours in {len(found)} idle periods, {len(awaited)} of them while "
            f"a main job waits; {between} periods between two jobs, {of_those} of them while one waits",
            flush=True,
        )


if __name__ == "__main__":
    main()
