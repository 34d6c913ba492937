"""Holders on the stand-in LSF: what preemption, signals, queues that suspend and LSF's bad days do
to them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.lsf_under_test import QUEUE, LsfLab, StandInLsf
from support.patience import PATIENCE

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.system.processes import end_all, identify
from bftrainer_clusters.holding.worker import ENDS_BY
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.on_node.payload import read
from bftrainer_clusters.simple import SimpleHolder

Holder = SimpleHolder[LsfSettings]


@pytest.fixture
def lsf(tmp_path: Path) -> Iterator[StandInLsf]:
    lsf = StandInLsf(LsfLab(tmp_path / "lsf", nodes=3, slots=4, queue=QUEUE), tmp_path)
    lsf.lab.edit(lambda state: state["params"].update(JOB_TERMINATE_INTERVAL="60"))
    yield lsf
    lsf.close()


def held(lsf: StandInLsf, window_s: float = 3600.0, **settings: object) -> tuple[Holder, Fragment]:
    """A holder with one ready fragment."""
    holder = lsf.holder(**settings)
    holder.poll()
    acquired = holder.acquire((NodeRequest("node01", window_s),))
    assert not acquired.refusals
    lsf.until(
        lambda: [f.phase for f in polled(holder)] == [FragmentPhase.READY], "the holder to be ready"
    )
    return holder, holder.poll()[0]


def polled(holder: Holder) -> tuple[Fragment, ...]:
    holder.renew()
    return holder.poll()


def gone(lsf: StandInLsf, holder: Holder) -> str:
    """Why the only fragment went."""
    whys: list[str] = []

    def over() -> bool:
        whys.extend(f.why for f in polled(holder) if f.phase is FragmentPhase.GONE)
        return bool(whys)

    lsf.until(over, "the fragment to go")
    return whys[0]


def preempt(lsf: StandInLsf, fragment: Fragment, left: bool = False) -> list[str]:
    """A main job takes node01 and has begun there, with no worker left unless that is allowed; what
    LSF has sent for it.

    Signals are a minute apart, unless a test wants to see them all: whatever left, left at the
    first.
    """
    job = lsf.lab.main_job("node01", holders=[fragment.id])
    lsf.until(lambda: lsf.lab.started_s(job), "the main job to start")
    assert left or lsf.lab.left(job) == []
    return list(lsf.lab.job(fragment.id)["signals"])


@pytest.mark.parametrize(
    "script",
    [
        "sleep 1000",
        "trap '' INT TERM; sleep 1000",
        "setsid bash -c \"trap '' INT TERM; sleep 1000\" & sleep 1000",
    ],
    ids=["plain", "deaf", "setsid"],
)
def test_a_main_job_starts_at_once_whatever_workers_do(lsf: StandInLsf, script: str) -> None:
    holder, fragment = held(lsf)
    lsf.start_worker(fragment, script)
    assert preempt(lsf, fragment) == ["SIGINT"]
    lsf.until(lambda: lsf.workers() == 0, "nothing to be left")
    assert "SIGINT" in gone(lsf, holder)


def test_a_holder_that_hears_nothing_gets_sigint_sigterm_and_sigkill_in_turn(
    lsf: StandInLsf,
) -> None:
    script = lsf.lab.root / "deaf.lsf"
    script.write_text("trap '' INT TERM\nwhile :; do sleep 0.1; done\n")
    lsf.lab.edit(lambda state: state["params"].update(JOB_TERMINATE_INTERVAL="1"))
    holder = lsf.holder(holder_script=script)
    holder.poll()
    (fragment,) = holder.acquire((NodeRequest("node01"),)).fragments
    lsf.until(
        lambda: len(lsf.lab.processes_of(fragment.id)) == 2,
        "its first sleep, which comes after its trap",
    )
    assert preempt(lsf, fragment) == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert "TERM_PREEMPT" in gone(lsf, holder)
    assert not lsf.lab.processes_of(fragment.id)


def test_sigkill_alone_leaves_nothing_behind(lsf: StandInLsf) -> None:
    """What LSF sends to a parallel job where LSB_USE_SEQUENTIAL_SIGNAL is not set."""
    lsf.lab.change(sequential_signal=False)
    holder, fragment = held(lsf)
    lsf.start_worker(fragment, "setsid sleep 1000 & sleep 1000")
    assert preempt(lsf, fragment, left=True) == ["SIGKILL"]
    lsf.until(lambda: lsf.workers() == 0, "the guardian's sweep")
    assert "TERM_PREEMPT" in gone(lsf, holder)


def test_all_files_of_a_holder_are_private_whatever_the_umask(lsf: StandInLsf) -> None:
    """What its job writes: the log among them, which LSF would make with the umask that bsub had."""
    before = os.umask(0)
    try:
        _, fragment = held(lsf)
        lsf.start_worker(fragment)
    finally:
        os.umask(before)
    folder = lsf.state / "holders-test"
    files = [folder / f"node01.{fragment.id}.log", *(folder / fragment.name).rglob("*")]
    assert len(files) > 5
    assert [path.name for path in files if path.stat().st_mode & 0o077] == []


def test_the_run_limit_ends_it_at_its_first_signal(lsf: StandInLsf) -> None:
    holder, fragment = held(lsf, window_s=70.0)
    lsf.start_worker(fragment)
    group = lsf.lab.job(fragment.id)["pgid"]
    running = [
        p for p in lsf.lab.processes_of(fragment.id) if b"job_payload" in read(p.pid, "cmdline")
    ]
    payload = next(process for process in running if os.getpgid(process.pid) == group)
    os.kill(payload.pid, signal.SIGUSR2)
    assert "SIGUSR2" in gone(lsf, holder)
    assert lsf.workers() == 0


@pytest.mark.parametrize(
    ("queue", "params", "settings", "words"),
    [
        ({"terminate_when": ""}, {}, {}, "suspends preempted jobs"),
        ({"terminate_when": "LOAD WINDOW"}, {}, {}, "suspends preempted jobs"),
        ({"terminate_when": "", "suspend": "SIGTSTP"}, {}, {}, "SIGTSTP"),
        ({"preemptable": False}, {}, {}, "not preemptable"),
        ({"rerunnable": True}, {}, {}, "RERUNNABLE"),
        ({"status": "Closed:Active"}, {}, {}, "Closed:Active"),
        (
            {"load_stop": "   -   2.0     -     -       -     -    -     -     -      -      -"},
            {},
            {},
            "busy host",
        ),
        ({"settings": {"STOP_COND": "select[r1m>2]"}}, {}, {}, "or LOAD in TERMINATE_WHEN"),
        ({"windows": "20:00-8:00"}, {}, {}, "it needs WINDOW in TERMINATE_WHEN"),
        ({"terminate": "SIGTSTP"}, {}, {}, "TERMINATE action is 'SIGTSTP'"),
        ({"settings": {"NO_PREEMPT_RUN_TIME": "30"}}, {}, {}, "NO_PREEMPT_RUN_TIME = 30"),
        ({"settings": {"INTERRUPTIBLE_BACKFILL": "60"}}, {}, {}, "INTERRUPTIBLE_BACKFILL"),
        ({}, {"PREEMPT_JOBTYPE": ""}, {}, "PREEMPT_JOBTYPE = BACKFILL in lsb.params"),
        ({}, {"PREEMPT_JOBTYPE": "EXCLUSIVE"}, {}, "PREEMPT_JOBTYPE = BACKFILL in lsb.params"),
        ({}, {"NO_PREEMPT_RUN_TIME": "30"}, {}, f"set NO_PREEMPT_RUN_TIME = 0 in {QUEUE}"),
        ({}, {"NO_PREEMPT_FINISH_TIME": "20%"}, {}, "NO_PREEMPT_FINISH_TIME = 20% of lsb.params"),
        ({}, {"PREEMPT_DELAY": "300"}, {}, "PREEMPT_DELAY = 300"),
        ({}, {}, {"gpu": "num=6"}, "PREEMPTABLE_RESOURCES = ngpus_physical"),
    ],
)
def test_where_nodes_are_not_given_back_or_main_jobs_kept_waiting_there_is_no_holder(
    lsf: StandInLsf,
    queue: dict[str, object],
    params: dict[str, str],
    settings: dict[str, object],
    words: str,
) -> None:
    lsf.lab.queue(QUEUE, **queue)
    lsf.lab.edit(lambda state: state["params"].update(params))
    holder = lsf.holder(**settings)
    holder.poll()
    (refusal,) = holder.acquire((NodeRequest("node01"),)).refusals
    assert words in refusal.reason
    with pytest.raises(Exception, match="is not found"):
        lsf.lab.run("bjobs", "-a", "-J", "bftrainer-holder", "-o", "jobid", "-json")


def test_what_suspends_otherwise_may_be_made_to_end(lsf: StandInLsf) -> None:
    settings = {"STOP_COND": "select[r1m>2]", "NO_PREEMPT_RUN_TIME": "0"}
    lsf.lab.queue(
        QUEUE, terminate_when="LOAD PREEMPT WINDOW", windows="20:00-8:00", settings=settings
    )
    lsf.lab.edit(lambda state: state["params"].update(NO_PREEMPT_RUN_TIME="30"))
    held(lsf)


def test_suspend_may_be_made_a_terminate(lsf: StandInLsf) -> None:
    lsf.lab.queue(QUEUE, terminate_when="", suspend="TERMINATE")
    holder, fragment = held(lsf)
    assert preempt(lsf, fragment) == ["SIGINT"]
    assert "SIGINT" in gone(lsf, holder)


def test_exclusive_holders_need_to_be_preemptable(lsf: StandInLsf) -> None:
    holder = lsf.holder(place="exclusive")
    holder.poll()
    (refusal,) = holder.acquire((NodeRequest("node01"),)).refusals
    assert "PREEMPT_JOBTYPE" in refusal.reason
    lsf.lab.queue(QUEUE, exclusive=True)
    lsf.lab.edit(lambda state: state["params"].update(PREEMPT_JOBTYPE="EXCLUSIVE BACKFILL"))
    holder, fragment = held(lsf, place="exclusive")
    assert preempt(lsf, fragment) == ["SIGINT"]
    assert "SIGINT" in gone(lsf, holder)


def test_one_that_is_suspended_all_the_same_is_ended(lsf: StandInLsf) -> None:
    holder, fragment = held(lsf)
    lsf.lab.queue(QUEUE, terminate_when="")
    preempt(lsf, fragment, left=True)
    assert "suspended (SSUSP)" in gone(lsf, holder)
    lsf.until(lambda: not lsf.lab.processes_of(fragment.id), "its processes to end")


def test_one_that_is_queued_again_is_ended(lsf: StandInLsf) -> None:
    holder, fragment = held(lsf)
    lsf.lab.queue(QUEUE, rerunnable=True)
    preempt(lsf, fragment)
    gone(lsf, holder)
    lsf.until(
        lambda: lsf.lab.job(fragment.id)["stat"] == "EXIT", "the job to be killed in the queue"
    )


@pytest.mark.parametrize("status_0", [False, True])
def test_a_job_that_lsf_has_forgotten_is_gone_at_the_second_look(
    lsf: StandInLsf, status_0: bool
) -> None:
    """``status_0``: LSB_BJOBS_CONSISTENT_EXIT_CODE=N, the default."""
    holder, fragment = held(lsf)
    lsf.lab.forget(fragment.id)
    if status_0:
        lsf.lab.fault("bjobs", "status-0")
    assert "unknown to LSF" in gone(lsf, holder)


@pytest.mark.parametrize("kind", ["down", "down-at-once", "slow", "silent", "truncated", "none"])
def test_an_answer_that_fails_or_is_cut_short_changes_nothing(lsf: StandInLsf, kind: str) -> None:
    """``none``: "No unfinished job found" on stderr with status 255, which is not that this job is
    unknown.
    """
    holder, _ = held(lsf)
    holder.reconfigure(lsf.settings(timeout_s=0.5), poll_s=0.5)
    lsf.lab.fault("bjobs", kind)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        assert [f.phase for f in polled(holder)] == [FragmentPhase.READY]
        time.sleep(0.2)
    lsf.lab.heal()
    holder.reconfigure(lsf.settings(), poll_s=0.5)
    holder.release(frozenset(f.name for f in polled(holder)))
    assert "released" in gone(lsf, holder)


def test_a_job_that_is_gone_between_two_polls_is_gone(lsf: StandInLsf) -> None:
    """Killed and cleaned away before anybody looks; the payload's mark says why."""
    holder, fragment = held(lsf)
    lsf.lab.run("bkill", fragment.id)
    lsf.until(lambda: lsf.lab.job(fragment.id)["stat"] == "EXIT", "the job to end")
    lsf.lab.forget(fragment.id)
    assert "SIGINT" in gone(lsf, holder)


def test_a_bsub_that_never_says_what_it_has_submitted_leaves_no_holder_behind(
    lsf: StandInLsf,
) -> None:
    holder = lsf.holder(timeout_s=5.0)
    holder.poll()
    lsf.lab.fault("bsub", "no-answer", times=1)
    (refusal,) = holder.acquire((NodeRequest("node01"),)).refusals
    assert "no response within 5 s" in refusal.reason
    lsf.until(
        lambda: lsf.lab.run("bjobs", "-a", "-o", "stat", "-json").count("RUN") == 1,
        "the holder to run",
    )

    def ended() -> bool:
        assert polled(holder) == ()
        return "RUN" not in lsf.lab.run("bjobs", "-a", "-o", "stat", "-json")

    lsf.until(ended, "the holder that nobody knows to be killed")


def test_without_an_answer_about_the_queue_nothing_is_submitted(lsf: StandInLsf) -> None:
    holder = lsf.holder()
    holder.poll()
    lsf.lab.fault("bqueues", "down-at-once")
    (refusal,) = holder.acquire((NodeRequest("node01"),)).refusals
    assert "LSF is down. Please wait ..." in refusal.reason


def test_release_works_while_mbatchd_is_down(lsf: StandInLsf) -> None:
    holder, fragment = held(lsf)
    lsf.start_worker(fragment)
    lsf.lab.fault("*", "down-at-once")
    holder.release(frozenset({fragment.name}))
    lsf.until(lambda: not lsf.lab.processes_of(fragment.id), "the payload to leave by its lease")


def test_clear_and_a_killed_prefix_end_a_worker_with_its_children(lsf: StandInLsf) -> None:
    holder, fragment = held(lsf)
    lsf.start_worker(fragment, "setsid sleep 1000 & sleep 1000 & wait")
    lsf.until(lambda: lsf.workers() == 3, "the worker's children")
    holder.clear(frozenset({fragment.name}))
    lsf.until(lambda: lsf.workers() == 0, "all of it to end")
    lsf.start_worker(fragment, "sleep 1000 & wait")
    lsf.prefixes[-1].kill()
    lsf.until(lambda: lsf.workers() == 0, "the starter to miss the prefix")
    assert [f.phase for f in polled(holder)] == [FragmentPhase.READY]


def test_a_driver_hears_of_a_workers_end_after_it(lsf: StandInLsf) -> None:
    """A SIGKILL of the prefix would leave the worker for ten seconds beside the next group, which
    its checkpoints overwrite.
    """
    _, fragment = held(lsf)
    process = lsf.spawn_worker(
        fragment, "trap '' TERM INT; echo up; while true; do sleep 0.05; done"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    found = identify(process.pid)
    assert found is not None
    end_all([found], ENDS_BY)
    assert process.wait(30 * PATIENCE) == 137
    assert lsf.workers() == 0


def test_workers_start_by_blaunch_and_end_as_their_prefix_says(lsf: StandInLsf) -> None:
    _, fragment = held(lsf, worker_prefix=("blaunch", "{node}"))
    process = lsf.spawn_worker(fragment, 'read line; echo "got $line on $LSB_JOBID"; exit 7')
    out, _ = process.communicate(b"hello\n", timeout=30 * PATIENCE)
    assert process.returncode == 7
    assert out.decode() == f"got hello on {fragment.id}\n"
    assert (lsf.lab.root / "blaunched").read_text() == "node01\n"
    process = lsf.spawn_worker(
        fragment, "trap 'exit 5' USR1; echo up; while true; do sleep 0.05; done"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(30 * PATIENCE) == 5


def test_the_notice_for_the_pilots_job_is_not_the_workers_but_a_drivers_signal_is(
    lsf: StandInLsf,
) -> None:
    """At the run limit of the pilot's job LSF may signal every process of it, prefixes of workers
    too.
    """
    _, fragment = held(lsf)
    process = lsf.spawn_worker(
        fragment, "trap 'echo heard; exit 5' USR2; echo up; while read line; do echo $line; done"
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"up\n"
    subprocess.run(["kill", "-USR2", str(process.pid)], check=True)
    process.stdin.write(b"still here\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"still here\n"
    process.send_signal(signal.SIGUSR2)
    with suppress(BrokenPipeError):  # it may have heard already
        os.write(process.stdin.fileno(), b"and now\n")
    assert process.wait(30 * PATIENCE) == 5
    assert process.stdout.read().endswith(b"heard\n")
