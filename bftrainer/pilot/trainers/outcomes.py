"""A driver's report and the status of its trainer: (row of the registry, report) -> change.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from bftrainer.counted import counted
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.state import Nodes
from bftrainer.fragment_names import node_of
from bftrainer.pilot.persistence.registry import TrainerRecord, TrainerStatus
from bftrainer.pilot.persistence.registry_writer import TrainerChange
from bftrainer.pilot.trainers.for_core import fitting_sizes
from bftrainer.pilot.trainers.remarks import (
    cause,
    closing_remark,
    is_certain_error,
    lacks_files,
    last_words,
    most_nodes,
    remark,
)
from bftrainer.pilot.trainers.steps import TargetState
from bftrainer.times import HostS
from bftrainer.wires.log_tail import out_of_memory
from bftrainer.wires.reports import LATE, DriverView, Ending
from bftrainer.wires.task_board import PUT_ASIDE

MAX_FAILURES = 4
RETRY_S = 5.0
KILLED_RETRY_S = 1.0
"""The first retry after a worker or a driver was killed comes this soon: the reaper of a driver
ends its workers meanwhile.
"""
LONGEST_RETRY_S = RETRY_S * 2**MAX_FAILURES
_NODE = re.compile(r"\bnode (\S+?),")
_STARTED = (TrainerStatus.WAITING, TrainerStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows for a trainer from its driver's report. ``notes`` are (kind, text) for the event
    log. ``driver_ended``: its driver has ended; ``is_over``: the trainer has, for good.
    ``is_certain``: it has failed as it will on every node.
    """

    change: TrainerChange | None = None
    notes: tuple[tuple[str, str], ...] = ()
    driver_ended: bool = False
    is_over: bool = False
    is_certain: bool = False


_NO_CHANGE = Outcome()


def after_view(
    record: TrainerRecord,
    was: DriverView,
    view: DriverView,
    target: TargetState,
    fault: str,
    nodes: Nodes,
    now_s: HostS,
    ran: Collection[int] = (),
    certain: Sequence[Nodes] = (),
) -> Outcome:
    """Return what follows from a look at a trainer's driver: a change of its record, notes, or its
    end.

    ``view`` is what the driver has said until now, ``was`` the same at the look before, and
    ``nodes`` are those of its hosts file. ``target``: whether the trainer is to run or to stop.
    ``fault`` is why this pilot has killed the driver; empty if it has not. ``ran``: sizes at which
    the trainer has trained. ``certain``: the nodes of each of its failures that would come again on
    every node.

    An end is handled once: the driver's incarnation (the number of the run of its workers) is
    remembered with the change.
    """
    status = record.status
    if view.alive:
        if view.on and status is TrainerStatus.WAITING:
            return Outcome(TrainerChange(status=TrainerStatus.RUNNING, reason=""))
        text = remark(view, now_s)
        # A trainer that waits and has no remark keeps the reason why it waits.
        is_news = text != record.reason and (text or status is TrainerStatus.RUNNING)
        return Outcome(TrainerChange(reason=text)) if status in _STARTED and is_news else _NO_CHANGE
    # An end that was not handled yet: the driver ran at the last look, or this run of its workers
    # is newer than the last one whose end is in the registry.
    if view.ending is not None and (was.alive or view.incarnation > record.ended_incarnation):
        return replace(
            _after_end(record, view, target, fault, nodes, ran, certain, was_dead=not was.alive),
            driver_ended=True,
        )
    if status.is_final:
        if record.finished_s is not None:
            return Outcome(is_over=True)
        change = TrainerChange(finished=True)
        if status is TrainerStatus.FAILED:
            # Its row cannot be read any more, and does not say so itself.
            change = replace(change, status=status, reason=record.reason)
        return Outcome(change, is_over=True)
    if status is TrainerStatus.RUNNING:
        return Outcome(TrainerChange(status=TrainerStatus.WAITING, reason=""))
    return _NO_CHANGE


def _after_end(
    record: TrainerRecord,
    view: DriverView,
    target: TargetState,
    fault: str,
    nodes: Nodes,
    ran: Collection[int],
    certain: Sequence[Nodes],
    was_dead: bool,
) -> Outcome:
    """Return what follows from the end of a trainer's driver: that it is done, has failed, or waits
    to be started again.

    ``was_dead``: the driver had ended before this pilot's first look at it. If it then has reported
    no end (``KILLED``), it died with the job of the previous pilot. That is no failure of the
    trainer: it starts again, at once and from its last checkpoint. The other parameters are those
    of :func:`after_view`.
    """
    samples = samples_of(record, view)
    change = TrainerChange(ended_incarnation=view.incarnation, samples_done=samples)
    match view.ending:
        case Ending.DONE:
            reason = _reason_when_done(record, view)
            return Outcome(
                replace(change, status=TrainerStatus.DONE, reason=reason, finished=True),
                is_over=True,
            )
        case _ if record.status.is_final:
            # The trainer had ended before its driver did, as when it is canceled. Its reason stays,
            # but for a driver that was killed before it had written the final checkpoint.
            _, late_mark, cause_text = view.reason.partition(LATE)
            final_reason = f"{record.reason}; {late_mark}{cause_text}" if late_mark else None
            return Outcome(replace(change, finished=True, reason=final_reason), is_over=True)
        # The pilot killed the driver for this fault, whatever the driver reported.
        case _ if fault:
            return after_failure(record, samples, fault, (), change)
        case Ending.FAILED | Ending.KILLED as ending if target is TargetState.RUN and (
            ending is Ending.FAILED or not was_dead
        ):
            outcome = after_failure(
                record,
                samples,
                view.reason or "the driver was killed",
                view.tail,
                change,
                nodes,
                ran,
                certain,
            )
            if ending is Ending.KILLED and outcome.change and outcome.change.failures == 1:
                return replace(outcome, change=replace(outcome.change, retry_s=KILLED_RETRY_S))
            return outcome
    notes: tuple[tuple[str, str], ...] = ()
    if view.ending is Ending.KILLED and was_dead:
        notes = (
            (
                "driver",
                "was dead when this pilot started; the trainer resumes from its last checkpoint",
            ),
        )
    # It was to stop, or its driver died with the previous pilot: it waits to be started again.
    if record.status is TrainerStatus.RUNNING:
        change = replace(change, status=TrainerStatus.WAITING, reason="")
    return Outcome(change, notes)


def _reason_when_done(record: TrainerRecord, view: DriverView) -> str:
    """Return the text that stays with a trainer that is done, such as that tasks have failed; empty
    if there is nothing to say.
    """
    if record.spec.is_pool:
        failed_tasks = next((metric.last for metric in view.metrics if metric.name == PUT_ASIDE), 0)
        if failed_tasks:
            return f"{failed_tasks:.0f} of its tasks failed and were put aside (bftrainer show)"
    total = view.samples_total if record.samples_total is None else record.samples_total
    return closing_remark(view, total, is_pool=record.spec.is_pool)


def after_kill(record: TrainerRecord, samples: float, nodes: Sequence[str]) -> Outcome:
    """Return what follows when a worker was killed on a node that was not lost: it counts as a
    failure of the trainer.

    ``nodes`` are those of all such kills since the last progress, ``samples`` is the trainer's
    progress. The kernel kills a worker for its memory in this way, and its script would be killed
    on every node.
    """
    times_text, nodes_text = counted(len(nodes), "time"), counted(len({*nodes}), "node")
    reason = f"killed by SIGKILL {times_text} on {nodes_text}; out of memory?"
    outcome = after_failure(record, samples, reason, (), TrainerChange())
    if outcome.change is not None and outcome.change.failures == 1:
        return replace(outcome, change=replace(outcome.change, retry_s=KILLED_RETRY_S))
    return outcome


def counted_only(outcome: Outcome) -> Outcome:
    """Return only the count and notes of a failure, for a driver that continues with other workers.

    Call only with the outcome of a failure, which has a change.
    """
    change = outcome.change
    assert change is not None
    counts = TrainerChange(failures=change.failures, samples_at_failure=change.samples_at_failure)
    return Outcome(counts, outcome.notes)


def samples_of(record: TrainerRecord, view: DriverView) -> float:
    """Return the samples that a trainer has done: as its driver says, else as the registry does."""
    return record.samples_done if view.samples is None else view.samples


def _memory_text(reason: str, tail: Sequence[str], nodes: Nodes) -> str:
    """Return which memory was too small (of the host or the GPU), on which node and at which size;
    empty if memory was not the cause, or ``nodes`` are not known.

    ``reason`` is the driver's, and ``tail`` the end of the failed worker's log.
    """
    memory_kind = out_of_memory((reason, *tail))
    if not memory_kind or not nodes:
        return ""
    node = "a node"
    if match := _NODE.search(reason):
        node = match[1]
    elif len(nodes) == 1:
        node = node_of(min(nodes))
    return f"{memory_kind} out of memory on {node} at {counted(len(nodes), 'node')}"


def _are_elsewhere(fragments: Nodes, earlier: Nodes) -> bool:
    """Return whether fragments are on other nodes than earlier ones."""
    return {*map(node_of, fragments)}.isdisjoint(map(node_of, earlier))


def unfit_sizes(failed: int, ran: Collection[int], trainer: Trainer) -> tuple[int, int]:
    """Return the range of sizes (least, most nodes) that will not fit into memory either after size
    ``failed`` did not. ``ran`` are sizes at which the trainer ran.

    Where only smaller sizes ran, all from ``failed`` up; where only larger ones did, all down from
    it (a sharded model needs more memory per node there); else ``failed`` alone.
    """
    smaller, larger = any(n < failed for n in ran), any(n > failed for n in ran)
    least = trainer.min_nodes if larger and not smaller else failed
    return least, trainer.max_nodes if smaller and not larger else failed


def after_failure(
    record: TrainerRecord,
    samples: float,
    reason: str,
    tail: Sequence[str],
    change: TrainerChange,
    nodes: Nodes = frozenset(),
    ran: Collection[int] = (),
    certain: Sequence[Nodes] = (),
) -> Outcome:
    """Return what follows from a failure: a retry later or, after several failures in a row without
    progress, the trainer's end.

    ``samples`` is its progress, ``tail`` the end of the log of the worker that failed, on one of
    ``nodes``; ``ran`` are sizes at which it trained. ``change`` is what else is to be changed. The
    note has all of the log's end, the reason the line that says most. A trainer none of whose sizes
    fits into memory, or has as few workers as its script allows, ends at once. So does one that has
    failed before as it will on every node (``certain``: the nodes of each such failure), unless the
    same nodes may be without its files.

    The furthest progress is in the registry: a pilot that comes back must not take work done again
    for progress.
    """
    furthest = record.samples_at_failure
    # Progress since the last failure: the count of failures in a row begins again.
    is_first = furthest is None or samples > furthest
    failures = 1 if is_first else record.failures + 1
    change = replace(change, failures=failures, samples_at_failure=max(samples, furthest or 0.0))
    notes: tuple[tuple[str, str], ...] = (
        ("failure", f"{reason}: {' | '.join(tail)}" if tail else reason),
    )
    none_fits = False
    trainer = record.spec.trainer()
    node_limit = most_nodes((reason, *tail), len(nodes)) if nodes else None
    # The script allows fewer workers than the largest size has.
    if node_limit is not None and node_limit < trainer.max_nodes:
        unfit = (node_limit + 1, trainer.max_nodes)
        change = replace(change, unfit=unfit)
        none_fits = not fitting_sizes(trainer, (*record.unfit, unfit))
    if memory := _memory_text(reason, tail, nodes):
        unfit = unfit_sizes(len(nodes), ran, trainer)
        change = replace(change, unfit=unfit)
        if other_sizes := [n for n in ran if n != len(nodes)]:
            memory += f"; ran at {max(other_sizes)}"
        none_fits = not fitting_sizes(trainer, (*record.unfit, unfit))
        range_text = f"{unfit[0]} to {counted(unfit[1], 'node is', 'nodes are')} not tried again"
        notes += (("memory", f"{memory}; {range_text}"),)
    text = cause(": ".join(filter(None, [memory, reason, last_words(tail)])), record.spec.cwd)
    # An error that comes again on every node counts as certain only before any progress.
    error = " ".join([reason, last_words(tail)])
    is_certain = not samples and node_limit is None and is_certain_error(error)
    # With the same nodes twice, these alone may be without the files of the trainer.
    is_second = any(_are_elsewhere(nodes, earlier) for earlier in certain) or (
        bool(certain) and not lacks_files(error)
    )
    # The trainer has failed for good: no size is left, too many failures in a row, or an error that
    # comes again on every node.
    if none_fits or failures >= MAX_FAILURES or (is_certain and is_second):
        return Outcome(
            replace(change, status=TrainerStatus.FAILED, reason=text, finished=True),
            notes,
            is_over=True,
        )
    text = f"failed {counted(failures, 'time')}, will be retried: {text}"
    retry_s = RETRY_S * 2 ** (failures - 1)
    return Outcome(
        replace(change, status=TrainerStatus.QUEUED, reason=text, retry_s=retry_s),
        notes,
        is_certain=is_certain,
    )
