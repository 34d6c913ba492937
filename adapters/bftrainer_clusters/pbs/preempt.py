"""Whether a main job gets the nodes of holders at once: the reasons against holders in a queue,
each with a remedy. Pure.

By default PBS *suspends* what it preempts: the main job starts within a second beside the stopped
holder, which keeps memory and GPUs. Only jobs of queues whose Priority is at least
preempt_queue_prio preempt. Measured with OpenPBS 23.06.06; sched_config's preemptive_sched, which
is on by default, cannot be read by users.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from bftrainer.counted import counted
from bftrainer_clusters.pbs.queue import PbsQueue, PbsSchedulerFacts

LONG_KILL_DELAY_S = 30.0
_QMGR = "qmgr -c 'set sched {} preempt_order = D'"
_EXPRESS, _NORMAL = "express_queue", "normal_jobs"


def reasons_against(
    queues: Sequence[PbsQueue],
    schedulers: Sequence[PbsSchedulerFacts],
    holder_queue: str,
    main_queues: Sequence[str] = (),
    ends_holders: bool = False,
    targets: str = "",
) -> list[str]:
    """Return why holders must not run in ``holder_queue``; empty if they may. ``main_queues`` are
    those whose jobs may need the same nodes; empty: all other queues. ``targets``: what jobs may
    preempt by the server's resources_default.preempt_targets.

    ``ends_holders``: the pilot ends holders for main jobs itself (nodes.give_way = "yield"). PBS
    then need not preempt them; where it would suspend them, they are refused all the same.
    """
    by_name = {queue.name: queue for queue in queues}
    if holder_queue not in by_name:
        return [f"there is no queue {holder_queue} (pbs.queue)"]
    if unknown := [name for name in main_queues if name not in by_name]:
        return [f"there is no queue {unknown[0]} (pbs.main_queues)"]
    if routing := [name for name in main_queues if not by_name[name].is_execution]:
        return [
            f"pbs.main_queues has {routing[0]}, a routing queue, whose Priority says nothing; name "
            "the queues that it moves jobs to"
        ]
    rivals = _rivals(queues, holder_queue, main_queues)
    reasons = _queue_itself(by_name[holder_queue])
    for scheduler in schedulers:
        preempts = any(queue.priority >= scheduler.queue_priority for queue in rivals)
        if preempts or not ends_holders:
            reasons += _suspends(scheduler)
        if not ends_holders:
            reasons += _not_preempted(scheduler, by_name[holder_queue], rivals)
    if not ends_holders:
        reasons += _other_targets(rivals, holder_queue, targets)
    return reasons


def warnings(queues: Iterable[PbsQueue], holder_queue: str) -> list[str]:
    """Return what a site should know of the queue although holders may run there."""
    return [
        f"kill_delay of queue {queue.name} is {queue.kill_delay_s:g} s: if a holder ever hangs, "
        "the scheduler of the whole site waits as long for it"
        for queue in queues
        if queue.name == holder_queue and queue.kill_delay_s > LONG_KILL_DELAY_S
    ]


def _rivals(
    queues: Sequence[PbsQueue], holder_queue: str, main_queues: Sequence[str]
) -> list[PbsQueue]:
    """Return the queues whose jobs may need held nodes. Without ``main_queues``, those that accept
    no jobs and have none waiting, and those of reservations (R12, S12), whose nodes no holder gets,
    are left out.
    """
    if main_queues:
        return [queue for queue in queues if queue.name in main_queues]
    return [
        queue
        for queue in queues
        if queue.name != holder_queue
        and queue.is_execution
        and (queue.enabled or queue.has_waiting_jobs)
        and not re.fullmatch(r"[RSM]\d+", queue.name, re.ASCII)
    ]


def _queue_itself(queue: PbsQueue) -> list[str]:
    """List reasons in the queue of the holders itself."""
    reasons = []
    if not queue.is_execution:
        reasons.append(f"queue {queue.name} is a routing queue; name the queue that runs the jobs")
    if not queue.enabled or not queue.started:
        what = "accepts no jobs" if not queue.enabled else "starts no jobs"
        reasons.append(f"queue {queue.name} {what} (qmgr: enabled = True, started = True)")
    return reasons


def _suspends(scheduler: PbsSchedulerFacts) -> list[str]:
    """List the reason that preempted jobs are suspended or checkpointed, if any of them may be."""
    letters = "".join(re.findall(r"[A-Z]+", scheduler.order.upper()))
    how = {"S": "suspends", "C": "checkpoints"}
    verbs = [verb for letter, verb in how.items() if letter in letters]
    if not verbs:
        return []
    return [
        f"PBS {' or '.join(verbs)} preempted jobs (preempt_order = {scheduler.order} of scheduler "
        f"{scheduler.name}): a suspended one keeps memory and GPUs of a node that a main job gets; "
        f"set it to D ({_QMGR.format(scheduler.name)})"
    ]


def _not_preempted(
    scheduler: PbsSchedulerFacts, holders: PbsQueue, rivals: Sequence[PbsQueue]
) -> list[str]:
    """List the reasons that main jobs would wait for holders."""
    reasons = []
    words = re.findall(r"[A-Z]+", scheduler.order.upper())
    if any("D" not in word and not set("SC") & set(word) for word in words):
        reasons.append(
            f"PBS only requeues preempted jobs (preempt_order = {scheduler.order} of scheduler "
            f"{scheduler.name}), and holders cannot be requeued: main jobs would wait for their "
            f"time limits; set it to D ({_QMGR.format(scheduler.name)})"
        )
    levels = [set(re.split(r"\s*\+\s*", level.strip())) for level in scheduler.levels.split(",")]
    normal = next((i for i, level in enumerate(levels) if _NORMAL in level), len(levels))
    # express_queue+fairshare is the level only of jobs that are both, so it needs one of its own.
    if {_EXPRESS} not in levels[:normal] or any(_EXPRESS in level for level in levels[normal:]):
        reasons.append(
            f"jobs of express queues do not preempt others (preempt_prio = {scheduler.levels} of "
            f"scheduler {scheduler.name}); it has to begin with express_queue, normal_jobs"
        )
    least = scheduler.queue_priority
    if holders.priority >= least:
        reasons.append(
            f"queue {holders.name} has Priority {holders.priority}, so its jobs preempt others "
            f"(preempt_queue_prio = {least}); give it a lower one"
        )
    below = [queue for queue in rivals if queue.priority < least]
    if below:
        names = ", ".join(f"{queue.name} ({queue.priority})" for queue in below[:4])
        more = f" and {len(below) - 4} more" if len(below) > 4 else ""
        reasons.append(
            f"jobs of {counted(len(below), 'queue')} would wait for holders: {names}{more} "
            f"have a Priority below preempt_queue_prio = {least}; raise it, or name the queues "
            "that share nodes with holders in pbs.main_queues"
        )
    return reasons


def _other_targets(queues: Sequence[PbsQueue], holder_queue: str, targets: str) -> list[str]:
    """List the reason that jobs of main queues preempt only jobs of other queues than the
    holders'.
    """
    others = {
        queue.name: own
        for queue in queues
        if (own := queue.targets or targets)
        and f"queue={holder_queue}".lower() not in re.split(r"[,\s]+", own.lower())
    }
    if not others:
        return []
    names = ", ".join(f"{name} ({own})" for name, own in list(others.items())[:4])
    return [
        f"jobs of {counted(len(others), 'queue')} may not preempt holders "
        f"(resources_default.preempt_targets): {names}; add queue={holder_queue}"
    ]
