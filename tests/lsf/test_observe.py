"""What is free on the stand-in LSF, and what its faults do to the answer: never an empty cluster,
never an idle node.
"""

from __future__ import annotations

import time

import pytest
from support.lsf_lab import Lab

from bftrainer.cluster.windows import EndKind, FreeNode, PilotJobs, free_nodes
from bftrainer.errors import BFTrainerError, CommandError, SchedulerError
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.observe import LsfScheduler, pending_argv, queue_problems

OURS = PilotJobs(partitions=frozenset({"idle"}))


def scheduler(lab: Lab, timeout_s: float = 60.0, **settings: object) -> LsfScheduler:
    chosen = LsfSettings.model_validate(
        {"queue": "idle", "slots_per_node": 4, "timeout_s": timeout_s, **settings}
    )
    return LsfScheduler(chosen, SystemClock(), lab.env)


def free(lab: Lab, **settings: object) -> dict[str, FreeNode]:
    return {f.node.name: f for f in free_nodes(scheduler(lab, **settings).observe(), OURS)}


def test_windows_end_when_bslots_says_so(lab: Lab) -> None:
    now_s = time.time()
    lab.change(plans={"node01": now_s + 600, "node02": now_s + 3600})
    found = free(lab)
    assert sorted(found) == lab.node_names
    # A length is told some time after the look that it is counted from began.
    assert 540 < found["node01"].end.at_s - now_s <= 600
    assert 3540 < found["node02"].end.at_s - now_s <= 3600
    assert found["node01"].end.kind is EndKind.BACKFILL_WINDOW
    assert found["node03"].end.kind is EndKind.NEVER


def test_an_idle_host_in_no_window_is_not_free(lab: Lab) -> None:
    lab.change(plans=dict.fromkeys(lab.node_names, time.time() - 1))
    seen = scheduler(lab).observe()  # "No backfill window exists at this time", status 255
    assert len(seen.nodes) == 4
    assert free_nodes(seen, OURS) == ()


def test_waiting_jobs_are_counted_in_nodes(lab: Lab) -> None:
    lab.main_job(*lab.node_names)
    lab.main_job(*lab.node_names)
    (waiting,) = scheduler(lab).observe().pending
    assert (waiting.size, waiting.partitions) == (4, ("normal",))


@pytest.mark.parametrize("name", ["bhosts", "bjobs", "bslots", "brsvs"])
@pytest.mark.parametrize("kind", ["down-at-once", "truncated", "silent"])
def test_a_fault_of_any_command_is_an_error_and_passes(lab: Lab, name: str, kind: str) -> None:
    month = time.localtime().tm_mon
    line = f"a#0 user a 0/4 node02:0/4 {month}/28/6/0-{month}/28/8/0"
    header = "RSVID TYPE USER NCPUS RSV_HOSTS TIME_WINDOW"
    lab.change(plans={"node01": time.time() + 600}, reservations=f"{header}\n{line}\n")
    lab.main_job("node04")
    lab.main_job("node04")
    lab.fault(name, kind, times=1)
    with pytest.raises(BFTrainerError):
        scheduler(lab).observe()
    assert len(scheduler(lab).observe().nodes) == 4


@pytest.mark.parametrize("kind", ["down", "slow"])
def test_a_command_that_never_answers_is_killed(lab: Lab, kind: str) -> None:
    lab.fault("bhosts", kind)
    with pytest.raises(CommandError, match=r"no response within 0\.5 s"):
        scheduler(lab, timeout_s=0.5).observe()


def test_please_wait_before_the_answer_is_not_part_of_it(lab: Lab) -> None:
    lab.fault("*", "waits-first")
    unlisted = scheduler(lab, reservations=False, pending="none").observe()
    assert (len(unlisted.nodes), unlisted.lists_pending) == (4, False)


def test_no_unfinished_job_found_is_an_empty_queue_but_no_answer_about_hosts(lab: Lab) -> None:
    lab.fault("bjobs", "none")
    assert scheduler(lab).observe().pending == ()
    lab.fault("bhosts", "none")
    with pytest.raises(BFTrainerError):
        scheduler(lab).observe()


def test_nothing_found_with_status_0_is_what_stderr_says(lab: Lab) -> None:
    lab.change(plans=dict.fromkeys(lab.node_names, time.time() - 1))
    for name in ("bjobs", "bslots", "brsvs"):
        lab.fault(name, "status-0")
    seen = scheduler(lab).observe()
    assert (seen.pending, seen.reservations, len(seen.nodes)) == ((), (), 4)
    assert free_nodes(seen, OURS) == ()


def test_a_queue_whose_answer_has_lost_a_setting_is_refused(lab: Lab) -> None:
    settings = LsfSettings.model_validate({"queue": "idle", "slots_per_node": 4, "timeout_s": 60.0})
    lab.queue("idle", settings={"STOP_COND": "select[ut>0.9]"}, terminate_when="PREEMPT")
    assert any("STOP_COND" in reason for reason in queue_problems(settings, lab.env))
    lab.fault("bqueues", "without-last-line", times=1)
    with pytest.raises(SchedulerError, match="two answers of bqueues -l idle differ"):
        queue_problems(settings, lab.env)


def test_names_of_jobs_are_not_asked_for_and_line_breaks_in_them_are_harmless(lab: Lab) -> None:
    """ "No pending job found" in a name, for one, emptied the queue."""
    assert "name" not in " ".join(pending_argv())
    lab.main_job(*lab.node_names)
    job = lab.main_job("node01")
    lab.edit(
        lambda state: state["jobs"][job].update(
            name="x\nNo pending job found\u2028Job <1> is not found\n"
        )
    )
    seen = scheduler(lab).observe()
    assert [(one.id, one.size) for one in seen.pending] == [(job, 1)]
