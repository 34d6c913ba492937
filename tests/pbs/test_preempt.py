"""Which PBS sites get no holder, and why: by recordings and by settings of sites' public pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.recorded_pbs import recorded

from bftrainer_clusters.pbs.preempt import reasons_against, warnings
from bftrainer_clusters.pbs.queue import (
    PbsQueue,
    PbsSchedulerFacts,
    parse_queues,
    parse_schedulers,
)

MAIN, HOLDERS = PbsQueue("main", 150), PbsQueue("preempt", 10)
GOOD = PbsSchedulerFacts("default", "D", 150, "express_queue, normal_jobs")


def against(
    order: str = "D", queues: tuple[PbsQueue, ...] = (MAIN, HOLDERS), **more: Any
) -> list[str]:
    main_queues = more.pop("main_queues", ())
    ends_holders = bool(more.pop("ends_holders", False))
    scheduler = replace(GOOD, order=order, **more)
    return reasons_against(queues, [scheduler], "preempt", main_queues, ends_holders)


def test_the_recorded_server_suspends_by_default() -> None:
    queues = parse_queues(recorded("busy.qstat-Qf.dsv"))
    schedulers = parse_schedulers(recorded("idle.qmgr-list-sched.txt"))
    reasons = reasons_against(queues, schedulers, "preempt", ("main",))
    assert len(reasons) == 1
    assert "PBS suspends or checkpoints preempted jobs (preempt_order = SCR" in reasons[0]
    assert "qmgr -c 'set sched default preempt_order = D'" in reasons[0]
    # Without pbs.main_queues, workq (no Priority) is one of the queues that would wait.
    reasons = reasons_against(queues, schedulers, "preempt")
    assert "1 queue would wait for holders: workq (0) have a Priority below" in reasons[-1]


@pytest.mark.parametrize("order", ["D", "RD", "RD 50 D"])
def test_a_site_that_deletes_gets_holders(order: str) -> None:
    assert against(order) == []


@pytest.mark.parametrize("order", ["SCR", "S", "C", "DS", "D 80 S", "d 80 sc 50 s", "SD"])
def test_a_site_that_suspends_or_checkpoints_gets_none(order: str) -> None:
    (reason,) = against(order)
    assert f"preempt_order = {order}" in reason
    assert "keeps memory and GPUs" in reason


@pytest.mark.parametrize("order", ["R", "R 50 D", "D 20 R"])
def test_requeueing_alone_makes_main_jobs_wait(order: str) -> None:
    (reason,) = against(order)
    assert "holders cannot be requeued: main jobs would wait" in reason


def test_a_main_queue_below_the_priority_that_preempts() -> None:
    low = replace(MAIN, priority=149)
    (reason,) = against(queues=(low, HOLDERS))
    assert "main (149) have a Priority below preempt_queue_prio = 150" in reason


def test_where_only_one_queue_preempts_the_others_are_named() -> None:
    """Polaris: ``demand`` preempts ``preemptable``, ``prod`` does not."""
    prod, debug = PbsQueue("prod", 100), PbsQueue("debug", 100)
    queues = (PbsQueue("demand", 150), prod, debug, HOLDERS)
    (reason,) = against(queues=queues)
    assert "2 queues would wait for holders: prod (100), debug (100)" in reason
    assert "pbs.main_queues" in reason
    assert against(queues=queues, main_queues=("demand",)) == []
    # A pilot that ends holders itself may: PBS deletes, and does not suspend.
    assert against(queues=queues, ends_holders=True) == []


def test_queues_that_no_holder_meets_play_no_part() -> None:
    others = (
        PbsQueue("R423", 0),
        PbsQueue("route", 0, is_execution=False),
        PbsQueue("closed", 0, enabled=False),
    )
    assert against(queues=(MAIN, HOLDERS, *others)) == []


def test_a_closed_queue_with_jobs_that_wait_counts() -> None:
    """A queue that is drained accepts no jobs, and those in it still need nodes."""
    states = "Transit:0 Queued:3 Held:0 Waiting:0 Running:2 Exiting:0 Begun:0 "
    draining = PbsQueue("old", 0, enabled=False, counts=states)
    (reason,) = against(queues=(MAIN, HOLDERS, draining))
    assert "1 queue would wait for holders: old (0)" in reason
    emptied = replace(draining, counts=states.replace("Queued:3", "Queued:0"))
    assert against(queues=(MAIN, HOLDERS, emptied)) == []


def test_a_routing_queue_is_no_main_queue() -> None:
    """Its Priority is not that of the queues that run its jobs."""
    route, small = PbsQueue("route", 200, is_execution=False), PbsQueue("small", 0)
    (reason,) = against(queues=(route, small, HOLDERS), main_queues=("route",))
    assert "pbs.main_queues has route, a routing queue" in reason


@pytest.mark.parametrize("targets", ["None", "QUEUE=other", "queue=preempt2,Resource_List.a=b"])
def test_jobs_that_may_preempt_only_others(targets: str) -> None:
    (reason,) = against(queues=(replace(MAIN, targets=targets), HOLDERS))
    assert (
        f"1 queue may not preempt holders (resources_default.preempt_targets): main ({targets})"
        in (reason)
    )
    assert against(queues=(replace(MAIN, targets=targets), HOLDERS), ends_holders=True) == []
    # The server's default is that of queues without one.
    assert reasons_against((MAIN, HOLDERS), [GOOD], "preempt", targets=targets)
    own = replace(MAIN, targets="Queue=other,Queue=preempt")
    assert reasons_against((own, HOLDERS), [GOOD], "preempt", targets=targets) == []


def test_targets_are_read_from_the_queue() -> None:
    line = recorded("busy.qstat-Qf.dsv").splitlines()[1]
    (queue,) = parse_queues(f"{line}|resources_default.preempt_targets=QUEUE=other\n")
    assert queue.targets == "QUEUE=other"
    assert queue.has_waiting_jobs


def test_levels_without_express_queues_do_not_preempt() -> None:
    (reason,) = against(levels="normal_jobs, express_queue")
    assert "has to begin with express_queue, normal_jobs" in reason
    assert against(levels="express_queue + fairshare, express_queue, normal_jobs") == []
    # Only jobs that are both have such a level; others of express queues preempt nothing.
    assert against(levels="express_queue + fairshare, normal_jobs")
    assert against(levels="express_queue, normal_jobs, express_queue + fairshare")
    assert against(levels="starving_jobs, normal_jobs")


def test_the_queue_of_the_holders_itself() -> None:
    (reason,) = against(queues=(MAIN, replace(HOLDERS, priority=150)))
    assert "queue preempt has Priority 150, so its jobs preempt others" in reason
    (reason,) = against(queues=(MAIN, replace(HOLDERS, started=False)))
    assert "queue preempt starts no jobs" in reason
    assert against(queues=(MAIN,)) == ["there is no queue preempt (pbs.queue)"]
    assert against(main_queues=("nosuch",)) == ["there is no queue nosuch (pbs.main_queues)"]


def test_a_pilot_that_makes_way_needs_no_preemption_but_no_suspension_either() -> None:
    assert against("R", ends_holders=True) == []
    assert against("SCR", ends_holders=True) != []
    nothing_preempts = (replace(MAIN, priority=0), HOLDERS)
    assert against("SCR", queues=nothing_preempts, ends_holders=True) == []


def test_a_long_kill_delay_is_a_warning_only() -> None:
    """NCAR guarantees ten minutes."""
    slow = replace(HOLDERS, kill_delay_s=600.0)
    assert against(queues=(MAIN, slow)) == []
    (warning,) = warnings((MAIN, slow), "preempt")
    assert "kill_delay of queue preempt is 600 s" in warning
    assert warnings((MAIN, HOLDERS), "preempt") == []
