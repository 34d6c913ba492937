"""Whether a queue releases nodes: the reasons against holders in it, each with a remedy. Pure.

By default LSF *suspends* a preempted job: it keeps memory and GPUs, and the main job starts on a
node that is not free. Holders may run only where preemption ends them (lsb.queues, lsb.applications
and lsb.params references, LSF 10.1).
"""

from __future__ import annotations

import re

from bftrainer_clusters.lsf.queue import DELAYS, PREEMPT_DELAY, AppFacts, ParamFacts, QueueFacts

_OFF = re.compile(r"(?:|-|-1|0+|N/?A|none|not (?:set|defined))", re.IGNORECASE)
# TERMINATE actions that do not end the job.
_STOPS = ("SIGSTOP", "STOP", "SIGTSTP", "TSTP", "CHKPNT")


def reasons_against(
    queue: QueueFacts,
    app: AppFacts,
    params: ParamFacts,
    exclusive: bool,
    gpus: bool,
    ends_holders: bool = False,
) -> list[str]:
    """Return why holders must not run in this queue; empty if they may. ``gpus``: holders ask for
    GPUs (``lsf.gpu``).

    ``ends_holders``: the pilot ends holders for main jobs itself (nodes.give_way = "yield"). LSF
    then need not preempt them, nor at once; a queue that suspends or restarts them is refused all
    the same.
    """
    reasons = [*_queue_itself(queue), *_suspending_settings(queue, app, ends_holders)]
    if exclusive and not queue.exclusive:
        reasons.append(
            f"queue {queue.name} accepts no exclusive jobs, but lsf.place is exclusive (set "
            "EXCLUSIVE = Y)"
        )
    if not ends_holders:
        reasons += _not_preempted(queue)
        reasons += _unpreempted_types(queue, params, exclusive, gpus)
        reasons += _delaying_settings(queue, app, params)
    return reasons


def _not_preempted(queue: QueueFacts) -> list[str]:
    """List the reason that nothing preempts jobs of this queue, if that is so."""
    if queue.preemptable:
        return []
    return [
        f"queue {queue.name} is not preemptable (PREEMPTION = PREEMPTABLE): main jobs "
        "would wait for holders"
    ]


def _queue_itself(queue: QueueFacts) -> list[str]:
    """List reasons in the queue itself: it is closed, restarts jobs, or ends them too late."""
    reasons = []
    if not queue.status.startswith("Open:Active"):
        reasons.append(
            f"queue {queue.name} is {queue.status} (open it with badmin qopen and badmin qact)"
        )
    if queue.rerunnable:
        reasons.append(
            f"queue {queue.name} reruns jobs, and would restart holders; set RERUNNABLE = no"
        )
    if queue.interruptible:
        reasons.append(
            f"queue {queue.name} has INTERRUPTIBLE_BACKFILL, which ends jobs only at the last "
            "moment; remove it"
        )
    return reasons


def _suspending_settings(queue: QueueFacts, app: AppFacts, ends_holders: bool) -> list[str]:
    """List the settings by which LSF would suspend a preempted job, which then keeps memory and
    GPUs. Where the pilot ``ends_holders``, a queue that is not preemptable preempts none.
    """
    reasons = []
    suspend = app.suspend or queue.suspend
    is_preempted = queue.preemptable or not ends_holders
    if app.suspend and is_preempted and not _ends_jobs(app.suspend):
        reasons.append(
            f"the application profile's SUSPEND action {app.suspend!r} keeps memory and GPUs "
            "of preempted jobs "
            "(set SUSPEND_CONTROL = TERMINATE, or remove it)"
        )
    elif is_preempted and not _ends_jobs(suspend) and "PREEMPT" not in queue.terminate_when:
        action = f"its SUSPEND action is {suspend!r}" if suspend else "LSF's default"
        reasons.append(
            f"queue {queue.name} suspends preempted jobs, which keep memory and GPUs ({action}); "
            "it needs TERMINATE_WHEN = PREEMPT or JOB_CONTROLS = SUSPEND[TERMINATE]"
        )
    if not _ends_jobs(suspend):
        if queue.loads and "LOAD" not in queue.terminate_when:
            reasons.append(
                f"queue {queue.name} suspends jobs on a busy host (loadStop, STOP_COND), and "
                "training keeps hosts busy; "
                "it needs no such threshold, or LOAD in TERMINATE_WHEN"
            )
        if queue.windows and "WINDOW" not in queue.terminate_when:
            reasons.append(
                f"queue {queue.name} suspends jobs when its RUN_WINDOW {queue.windows} closes; "
                "it needs WINDOW in TERMINATE_WHEN"
            )
    terminate = app.terminate or queue.terminate
    if terminate.upper() in _STOPS:
        reasons.append(f"the TERMINATE action is {terminate!r}, which does not end jobs; remove it")
    return reasons


def _unpreempted_types(
    queue: QueueFacts, params: ParamFacts, exclusive: bool, gpus: bool
) -> list[str]:
    """List the kinds of jobs that holders are and that are not preempted here: backfill, exclusive,
    GPUs.
    """
    reasons = []
    if queue.backfill and "BACKFILL" not in params.preempted_types:
        reasons.append(
            f"jobs of backfill queues such as {queue.name} are not preempted here; set "
            "PREEMPT_JOBTYPE = BACKFILL in lsb.params"
        )
    if exclusive and "EXCLUSIVE" not in params.preempted_types:
        reasons.append(
            "exclusive jobs are not preempted here; set PREEMPT_JOBTYPE = EXCLUSIVE in "
            "lsb.params, and "
            "LSB_DISABLE_LIMLOCK_EXCL=Y"
        )
    if gpus and not params.resources:
        reasons.append(
            "jobs are not preempted for GPUs here, but holders request GPUs (lsf.gpu): set "
            "PREEMPTABLE_RESOURCES = "
            "ngpus_physical in lsb.params"
        )
    return reasons


def _delaying_settings(queue: QueueFacts, app: AppFacts, params: ParamFacts) -> list[str]:
    """List the settings that delay preemption: those of the holders' application profile count
    before those of their queue, and these before the cluster's.
    """
    places = [
        ("the application profile", app.delays),
        (f"queue {queue.name}", queue.delays),
        ("lsb.params", params.delays),
    ]
    reasons = []
    for name in DELAYS:
        value, place = next(
            ((delays[name], place) for place, delays in places if name in delays), ("", "")
        )
        if not _OFF.fullmatch(value):
            reasons.append(
                f"{name} = {value} of {place} makes main jobs wait for holders; set {name} = 0 "
                f"in {queue.name}"
            )
    # A property of the preempting jobs, so their queues may set it as well; those are not checked.
    if not _OFF.fullmatch(value := params.delays.get(PREEMPT_DELAY, "")):
        reasons.append(
            f"{PREEMPT_DELAY} = {value} of lsb.params makes main jobs wait for holders; remove it"
        )
    return reasons


def _ends_jobs(action: str) -> bool:
    return action.upper() == "TERMINATE"
