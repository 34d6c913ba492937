"""When a trainer's nodes came to train: a fold over what its driver and rank 0 report. Pure.

A driver says on which fragments the group trains (``running``). Rank 0 marks the first line of a
group that elastic workers have formed; where workers are started again instead, a new incarnation
is the new group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from bftrainer.wires.driver_events import EventLine, Running, Warm, WorkerExited, WorkerStarted
from bftrainer.wires.progress_line import ProgressLine

MOST_GONE = 1000
"""Fragments without workers that are remembered, the latest ones."""


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Seconds since 1970 of one fragment, of its first workers in this driver; ``gone_s`` of the
    last one that has ended.
    """

    fragment: str
    started_s: float
    warm_s: float | None = None
    group: tuple[int, int] | None = None
    """Incarnation and world size of the first group that includes it."""
    switched_s: float | None = None
    stepped_s: float | None = None
    gone_s: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingTimes:
    """All fragments of a driver, and the group of which rank 0 has reported last, as (incarnation,
    world size): when it was formed, if rank 0 has said so, and its first step.
    """

    fragments: tuple[WorkerTimes, ...] = ()
    group: tuple[int | None, int | None] = (None, None)
    formed_s: float | None = None
    stepped_s: float | None = None

    def worker(self, fragment: str) -> WorkerTimes | None:
        """Return one fragment's times; None if it has had no workers."""
        return next((worker for worker in self.fragments if worker.fragment == fragment), None)


def after_event(
    times: TrainingTimes, line: EventLine, with_workers: Iterable[tuple[str, int]]
) -> TrainingTimes:
    """Return the times after an event. ``with_workers`` are (fragment, pid) of the workers that run
    after it. Times that the event does not change are returned themselves.
    """
    match line.event:
        case WorkerStarted(fragment=fragment):
            if times.worker(fragment) is None:
                return replace(
                    times, fragments=(*times.fragments, WorkerTimes(fragment, line.at_s))
                )
            return _with_worker(times, fragment, lambda worker: replace(worker, gone_s=None))
        case Warm(fragment=fragment):
            return _with_worker(
                times, fragment, lambda worker: replace(worker, warm_s=worker.warm_s or line.at_s)
            )
        case WorkerExited(fragment=fragment) if all(fragment != other for other, _ in with_workers):
            # The last worker of its fragment.
            return _without_oldest(
                _with_worker(times, fragment, lambda worker: replace(worker, gone_s=line.at_s))
            )
        case Running(world_size, fragments):
            group, members = (line.incarnation, world_size), frozenset(fragments)
            workers = tuple(
                replace(worker, group=group, switched_s=line.at_s)
                if worker.fragment in members and worker.group is None
                else worker
                for worker in times.fragments
            )
            return _with_steps(replace(times, fragments=workers))
        case _:
            return times


def after_progress(times: TrainingTimes, line: ProgressLine) -> TrainingTimes:
    """Return the times after a line that rank 0 has reported."""
    group = (line.incarnation, line.world_size)
    if line.formed:
        return replace(times, group=group, formed_s=line.at_s, stepped_s=None)
    if group != times.group:
        return _with_steps(replace(times, group=group, formed_s=None, stepped_s=line.at_s))
    if times.stepped_s is None:
        return _with_steps(replace(times, stepped_s=line.at_s))
    return times


def _with_steps(times: TrainingTimes) -> TrainingTimes:
    """Set the time of the first step of all fragments in the group of which rank 0 reports; before
    its first step, return the times unchanged.
    """
    stepped_s = times.stepped_s
    if stepped_s is None:
        return times
    workers = tuple(_with_step(worker, times, stepped_s) for worker in times.fragments)
    return times if workers == times.fragments else replace(times, fragments=workers)


def _with_step(worker: WorkerTimes, times: TrainingTimes, stepped_s: float) -> WorkerTimes:
    """Return a fragment's times with its first step at ``stepped_s``; unchanged if it had one
    before, or if the step is not of the group that it has joined.
    """
    if worker.group is None or worker.switched_s is None:
        return worker  # it has joined none
    if worker.stepped_s is not None or stepped_s < worker.started_s:
        return worker
    # A script need not report incarnation and size: what is missing counts as equal.
    is_of_other_group = any(
        reported is not None and joined != reported
        for joined, reported in zip(worker.group, times.group, strict=True)
    )
    if is_of_other_group:
        return worker
    # Elastic drivers say that a group trains once it has reported; it was formed before.
    switched_s = min(worker.switched_s, stepped_s)
    if times.formed_s is not None and times.formed_s >= worker.started_s:
        switched_s = times.formed_s
    return replace(worker, switched_s=switched_s, stepped_s=stepped_s)


def _with_worker(
    times: TrainingTimes, fragment: str, change: Callable[[WorkerTimes], WorkerTimes]
) -> TrainingTimes:
    """Return the times with ``change`` applied to those of one fragment."""
    return replace(
        times,
        fragments=tuple(
            change(worker) if worker.fragment == fragment else worker for worker in times.fragments
        ),
    )


def _without_oldest(times: TrainingTimes) -> TrainingTimes:
    """Forget the oldest fragment without workers once there are more than :data:`MOST_GONE` such
    fragments. (One at a time is enough: each event adds one at most.)
    """
    ended = [worker.fragment for worker in times.fragments if worker.gone_s is not None]
    if len(ended) <= MOST_GONE:
        return times
    oldest = ended[0]
    remaining = tuple(worker for worker in times.fragments if worker.fragment != oldest)
    return replace(times, fragments=remaining)
