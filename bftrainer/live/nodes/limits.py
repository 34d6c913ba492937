"""Room for main-queue jobs that wait for a limit for which holders count: no scheduler preempts for a limit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bftrainer.domain.state import Nodes
from bftrainer.live.nodes.fragments import HeldFragment
from bftrainer.live.nodes.node_facts import LimitWaits


def above(kept: Sequence[HeldFragment], used: Nodes, most: int) -> list[HeldFragment]:
    """Fragments above a cap: unused ones first, the latest first."""
    if len(kept) <= most:
        return []
    return sorted(kept, key=lambda h: (h.name in used, -h.asked_s, h.name))[: len(kept) - most]


def in_the_way(
    fragments: Iterable[HeldFragment], kept: Sequence[HeldFragment], used: Nodes, waits: LimitWaits
) -> list[HeldFragment]:
    """As many fragments as the jobs need, less those that are leaving; and all that have not started: they would be next."""
    leaving = sum(h.given_back_s is not None for h in fragments)
    needed = max(sum(job.size for job in waits.jobs) - leaving, 0)
    ready = [h for h in kept if h.is_ready]
    return [*(h for h in kept if not h.is_ready), *above(ready, used, max(len(ready) - needed, 0))]


def told(waits: LimitWaits) -> str:
    """The reason that fragments are given back for."""
    first, more = waits.jobs[0], len(waits.jobs) - 1
    others = f" and {more} more" if more else ""
    return f"job {first.job}{others} waits for a limit that holders use up ({first.reason})"
