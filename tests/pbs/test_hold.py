"""Holders on the stand-in PBS: preemption, the second qdel, queues that suspend, PBS's bad days."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.pbs_lab import PbsLab
from support.pbs_under_test import QUEUE, StandInPbs
from support.recorded_pbs import recorded, status_of

from bftrainer.cluster.model import (
    Availability,
    Fragment,
    FragmentPhase,
    GiveWay,
    NodeRequest,
)
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.errors import CommandError, InputFileError, InvalidValueError, SchedulerError
from bftrainer.fragment_names import job_of
from bftrainer.pilot.own_site import build_site
from bftrainer.system import command
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.on_node import job_payload
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.simple import JobRequest, SimpleHolder

Holder = SimpleHolder[PbsSettings]


def held(pbs: StandInPbs, count: int = 1, **settings: object) -> tuple[Holder, list[Fragment]]:
    """A holder with ready fragments on the first nodes."""
    holder = pbs.holder(**settings)
    holder.poll()
    fragments: list[Fragment] = []
    while len(fragments) < count:  # a slow machine leaves the last ones for the next call
        requests = (NodeRequest(node, 3600.0) for node in pbs.nodes[len(fragments) : count])
        acquired = holder.acquire(tuple(requests))
        assert not acquired.refusals
        fragments += acquired.fragments
    pbs.until(
        lambda: [f.phase for f in polled(holder)] == [FragmentPhase.READY] * count,
        "the holders to be ready",
    )
    return holder, sorted(holder.poll(), key=lambda fragment: fragment.name)


def polled(holder: Holder) -> tuple[Fragment, ...]:
    holder.renew()
    return holder.poll()


def gone(pbs: StandInPbs, holder: Holder) -> str:
    """Why the first fragment went."""
    whys: list[str] = []

    def is_over() -> bool:
        whys.extend(f.why for f in polled(holder) if f.phase is FragmentPhase.GONE)
        return bool(whys)

    pbs.until(is_over, "the fragment to go")
    return whys[0]


def seen_until(
    pbs: StandInPbs, holder: Holder, condition: Callable[[], object], what: str
) -> dict[str, Fragment]:
    """Poll until the condition holds; each fragment as it was shown last, since one that is gone is
    shown once.
    """
    seen: dict[str, Fragment] = {}

    def is_so() -> bool:
        seen.update({fragment.name: fragment for fragment in polled(holder)})
        return bool(condition())

    pbs.until(is_so, what)
    return seen


def log_of(pbs: StandInPbs) -> list[str]:
    return list(pbs.lab.state()["log"])


def refusal(pbs: StandInPbs, **settings: object) -> str:
    """Why no holder is submitted."""
    holder = pbs.holder(**settings)
    holder.poll()
    acquired = holder.acquire((NodeRequest("node01"),))
    assert acquired.fragments == ()
    assert pbs.lab.calls("qsub") == []
    return acquired.refusals[0].reason


def test_a_holder_is_a_program_and_no_script_and_requests_the_whole_node(pbs: StandInPbs) -> None:
    holder, (fragment,) = held(pbs)
    (words,) = pbs.lab.calls("qsub")
    assert words[words.index("--") + 1 :][:2] == ["/bin/bash", words[words.index("--") + 2]]
    job = pbs.lab.job(fragment.id)
    assert not job["has_script"]
    assert not job["reruns"]
    assert job["select"] == "1:host=node01:ncpus=8"
    assert "place=exclhost" in words
    pbs.until(lambda: polled(holder)[0].ends_s is not None, "a list with the job as running")
    leader = job["leader"]
    # The payload is the first process of the job: the scheduler's pid, and the session's leader.
    assert b"job_payload" in Path(f"/proc/{leader}/cmdline").read_bytes()
    assert os.getsid(leader) == leader


@pytest.mark.parametrize("restarts", [False, True], ids=["", "new-pilot"])
def test_a_holder_that_a_hook_moves_to_another_queue_ends(pbs: StandInPbs, restarts: bool) -> None:
    """Main jobs would wait for it: PBS preempts it by the queue that it is in."""
    holder, (fragment,) = held(pbs)
    pbs.lab.edit(lambda state: state["jobs"][fragment.id].update(queue="main"))
    assert "in queue main, not scavenge" in gone(pbs, pbs.holder() if restarts else holder)
    assert pbs.workers() == 0


@pytest.mark.parametrize(("ahead_s", "seen_s"), [(0.0, 0.0), (300.0, 300.0), (-300.0, -300.0)])
def test_the_servers_clock_is_read_from_the_first_holder(
    pbs: StandInPbs, ahead_s: float, seen_s: float
) -> None:
    """pbsnodes has this host's time; plans and ends of jobs have the server's."""
    cluster = pbs.cluster()
    id_ = cluster.submit(JobRequest("node01", 60, "bftrainer:me-1:node01", ("/bin/sleep", "60")))
    pbs.lab.edit(
        lambda state: state["jobs"][id_].update(queued_s=state["jobs"][id_]["queued_s"] + ahead_s)
    )
    cluster.list()
    assert cluster.observe().at_s - cluster.clock.now_s() == pytest.approx(seen_s, abs=30.0)
    assert cluster.glance().at_s - cluster.clock.now_s() == pytest.approx(seen_s, abs=30.0)


@pytest.mark.parametrize("options", [("-v", "A=1"), ("-vA=1",), ("-N", "mine"), ("-q", "prod")])
def test_options_do_not_replace_what_marks_a_holder(options: tuple[str, ...]) -> None:
    """qsub takes the last -v: a holder without its label would be nobody's, and keep its node."""
    with pytest.raises(InputFileError, match="which would replace what marks a holder"):
        check_table({"queue": QUEUE, "options": list(options)}, PbsSettings, "bftrainer.toml: pbs")


def test_a_server_without_a_history_of_jobs(pbs: StandInPbs) -> None:
    """Ends have no reasons then, and are seen all the same."""
    pbs.lab.change(history=False)
    holder, (fragment,) = held(pbs)
    pbs.lab.run("qdel", fragment.id)
    gone(pbs, holder)
    asked = [words for words in pbs.lab.calls("qstat") if "-x" in words]
    assert len(asked) == 1


def test_the_output_of_a_job_is_deleted_with_it(pbs: StandInPbs) -> None:
    holder, (fragment,) = held(pbs)
    folder = pbs.state / "holders-test"
    assert [path.name for path in folder.glob("*.OU")] == [f"{fragment.id}.head.OU"]
    holder.release(frozenset({fragment.name}))
    gone(pbs, holder)
    pbs.until(lambda: polled(holder) == () and not list(folder.glob("*.OU")), "the file to go")


@pytest.mark.parametrize(
    "script",
    [
        "sleep 1000",
        "trap '' INT TERM; sleep 1000",
        "setsid bash -c \"trap '' INT TERM; sleep 1000\" & sleep 1000",
        "for i in 1 2 3; do (sleep 0.2 &) ; done; sleep 1000",
    ],
    ids=["plain", "deaf", "setsid", "orphans"],
)
def test_no_process_of_a_holders_session_is_left_when_the_payload_ends(
    pbs: StandInPbs, script: str
) -> None:
    """Zombies included: PBS would take the job for an orphan, and the whole site would wait."""
    holder, (fragment,) = held(pbs)
    pbs.start_worker(fragment, script)
    main = pbs.lab.main_job(host="node01")
    pbs.until(lambda: pbs.lab.started_s(main), "the main job")
    assert [line for line in log_of(pbs) if line.startswith("orphans")] == []
    assert pbs.workers() == 0
    assert "preempted" in gone(pbs, holder)


def test_a_worker_gets_no_time_to_save_and_the_pilot_says_so(pbs: StandInPbs) -> None:
    """While a preempted job lingers, PBS starts nothing on the whole site."""
    pbs.lab.change(kill_delay=60.0)
    cluster = pbs.cluster()
    cluster.asked_notice_s = 30.0
    folder = pbs.state / "holders-test"
    holder = SimpleHolder(cluster, "pbs", folder, "test", SystemClock(), 60.0, 1.0)
    holder.poll()
    (fragment,) = holder.acquire((NodeRequest("node01", 3600.0),)).fragments
    pbs.until(lambda: [f.phase for f in polled(holder)] == [FragmentPhase.READY], "it")
    (remark,) = holder.permit().remarks
    assert "workers.notice_s (BFTRAINER_NOTICE_S) is 30 s, and a preempted holder on PBS" in remark
    pbs.start_worker(fragment, "trap '' TERM; export BFTRAINER_NOTICE_S=30; exec sleep 99")
    pbs.lab.main_job(host="node01")
    assert gone(pbs, holder).startswith("preempted")
    assert pbs.workers() == 0


def test_every_preemption_and_every_release_is_followed_by_a_second_qdel(pbs: StandInPbs) -> None:
    """PBS notices an end a second later, or when it is asked about the job after it. Here it would
    take a minute.
    """
    pbs.lab.change(obit_s=60.0)
    holder, (first, second) = held(pbs, 2)
    main = pbs.lab.main_job(host="node01")
    pbs.until(lambda: polled(holder) and pbs.lab.started_s(main), "the main job to start")
    log = log_of(pbs)
    end = log.index(f"end {first.id}")
    assert f"qdel {first.id}" in log[end:]
    holder.release(frozenset({second.name}))
    pbs.until(lambda: all(f.phase is FragmentPhase.GONE for f in polled(holder)), "the release")
    log = log_of(pbs)
    end = log.index(f"end {second.id}")
    assert f"qdel {second.id}" in log[:end]
    assert f"qdel {second.id}" in log[end:]


def test_several_holders_are_released_in_one_command(pbs: StandInPbs) -> None:
    holder, fragments = held(pbs, 4)
    before = len(pbs.lab.calls("qdel"))
    holder.release(frozenset(fragment.name for fragment in fragments))
    first = pbs.lab.calls("qdel")[before]
    assert sorted(first[1:]) == sorted(fragment.id for fragment in fragments)


def test_holders_that_are_preempted_at_once_are_deleted_once_more_in_one_command(
    pbs: StandInPbs,
) -> None:
    """PBS would notice each end after a minute here, and one after the other."""
    pbs.lab.change(obit_s=60.0)
    holder, fragments = held(pbs, 4)
    before = len(pbs.lab.calls("qdel"))
    main = pbs.lab.main_job(4)
    pbs.until(lambda: _ends(pbs) == {each.id for each in fragments}, "all payloads to leave")
    assert pbs.lab.started_s(main) is None
    polled(holder)
    (words,) = pbs.lab.calls("qdel")[before:]
    assert sorted(words[1:]) == [each.id for each in fragments]
    pbs.until(lambda: pbs.lab.started_s(main), "the main job to start")


def test_a_burst_of_main_jobs_gets_a_node_each(pbs: StandInPbs) -> None:
    """PBS preempts for one after the other, so each holder is deleted once more on its own; nothing
    is deleted that no main job has taken.
    """
    pbs.lab.change(obit_s=60.0)
    holder, fragments = held(pbs, 4)
    before = len(pbs.lab.calls("qdel"))
    pbs.lab.edit(lambda state: state["queues"]["main"].update(started=False))
    mains = [pbs.lab.main_job() for _ in range(2)]
    pbs.lab.edit(lambda state: state["queues"]["main"].update(started=True))
    mains.append(pbs.lab.main_job())
    pbs.until(lambda: polled(holder) and all(map(pbs.lab.started_s, mains)), "all to start")
    taken = _ends(pbs)
    assert len(taken) == 3
    assert {id_ for words in pbs.lab.calls("qdel")[before:] for id_ in words[1:]} == taken
    (kept,) = (each for each in fragments if each.id not in taken)
    states = {each.name: each.phase for each in polled(holder)}
    assert states[kept.name] is FragmentPhase.READY


@pytest.fixture
def of_three(pbs: StandInPbs) -> StandInPbs:
    """Three nodes may share a holder."""
    pbs.nodes_per_holder = 3
    return pbs


def test_a_holder_of_three_nodes_gives_back_one_and_keeps_the_others(of_three: StandInPbs) -> None:
    pbs = of_three
    holder, fragments = held(pbs, 3)
    (id_,) = {job_of(fragment.name) for fragment in fragments}
    job = pbs.lab.job(id_)
    assert job["nodes"] == ["node01", "node02", "node03"]
    chunks = [f"1:host={node}:ncpus=8" for node in job["nodes"]]
    assert job["select"] == "+".join(chunks)
    for fragment in fragments:
        pbs.start_worker(fragment)
    pbs.until(
        lambda: [f.node for f in polled(holder) if f.is_separable] == ["node02", "node03"],
        "a list with the nodes of the job",
    )
    before = len(pbs.lab.calls("qdel"))
    holder.release(frozenset({fragments[1].name}))
    pbs.until(lambda: len(polled(holder)) == 2, "the node to be given back")
    assert pbs.lab.job(id_)["nodes"] == ["node01", "node03"]
    assert pbs.workers() == 2
    assert {f.phase for f in polled(holder)} == {FragmentPhase.READY}
    assert pbs.lab.calls("pbs_release_nodes") == [
        ["pbs_release_nodes", "-j", f"{id_}.head", "node02"]
    ]
    assert len(pbs.lab.calls("qdel")) == before
    main = pbs.lab.main_job(host="node02", seconds=1)
    pbs.until(lambda: pbs.lab.started_s(main), "a main job on its node")
    assert pbs.lab.job(id_)["state"] == "R"

    # A successor of the pilot finds the two, and knows which of them can be given back.
    successor = pbs.holder()
    pbs.until(
        lambda: (
            [(f.node, f.is_separable) for f in polled(successor)]
            == [("node01", False), ("node03", True)]
        ),
        "its list",
    )
    successor.release(frozenset({fragments[0].name}))
    pbs.until(lambda: polled(successor) == (), "the whole holder to end")
    assert pbs.lab.job(id_)["state"] == "F"
    assert pbs.workers() == 0
    assert not [line for line in log_of(pbs) if line.startswith("orphans")]


def test_a_payload_that_hangs_leaves_nothing_on_a_node_that_is_given_back(
    of_three: StandInPbs,
) -> None:
    """PBS kills it, and its guardian what it would have ended; the others go on."""
    pbs = of_three
    holder, fragments = held(pbs, 3)
    id_ = job_of(fragments[0].name)
    for fragment in fragments:
        pbs.start_worker(fragment, "setsid sleep 1000 & sleep 1000")
    pbs.until(lambda: [f.is_separable for f in holder.poll()].count(True) == 2, "a list")
    pbs.stop_payload(fragments[1])
    holder.release(frozenset({fragments[1].name}))
    pbs.until(lambda: len(polled(holder)) == 2, "the node to be given back")
    here = f"{job_payload.ONE_OF_SEVERAL}=node02".encode()
    pbs.until(
        lambda: (
            not any(
                here in job_payload.read_variables(process.pid)
                for process in pbs.lab.processes_of(id_)
            )
        ),
        "the guardian's sweep",
    )
    assert {f.phase for f in polled(holder)} == {FragmentPhase.READY}
    assert pbs.lab.job(id_)["nodes"] == ["node01", "node03"]


def test_a_main_job_that_needs_one_node_ends_the_whole_holder(of_three: StandInPbs) -> None:
    """The second qdel comes when the last payload has left: PBS would notice a minute later."""
    pbs = of_three
    pbs.lab.change(obit_s=60.0)
    holder, fragments = held(pbs, 3)
    for fragment in fragments:
        pbs.start_worker(fragment)
    main = pbs.lab.main_job(2)  # node04 is idle
    seen = seen_until(pbs, holder, lambda: pbs.lab.started_s(main), "the main job to start")
    assert all("preempted" in fragment.why for fragment in seen.values())
    assert pbs.workers() == 0
    assert not [line for line in log_of(pbs) if line.startswith("orphans")]


def test_a_script_of_the_site_that_starts_one_payload_holds_no_several_nodes(
    of_three: StandInPbs,
) -> None:
    script = of_three.state / "mine.sh"
    script.write_text("#!/bin/bash\nexec $1 -I -S $2\n")
    words = refusal(of_three, holder_script=script)
    assert f"pbs.nodes_per_holder is 3, but {script} starts its payload on one node" in words


def test_pbs_refuses_a_node_of_the_first_process_and_of_another_owner(
    of_three: StandInPbs,
) -> None:
    """In the words and with the statuses of a real server."""
    holder, fragments = held(of_three, 3)
    id_ = job_of(fragments[0].name)
    first = of_three.lab.job(id_)["started_s"]
    of_three.until(lambda: time.time() - first > 2.0, "the job's first two seconds")
    cluster = of_three.cluster()
    with pytest.raises(CommandError, match="it's on a primary execution host") as error:
        cluster.release_nodes(id_, ["node01"])
    assert error.value.status == status_of("release.first-node.txt")
    argv = jobs.release_argv(f"{id_}.head", ["node02"])
    env = {**of_three.lab.env, "PBS_STANDIN_HOST": "node07"}
    output = command.outcome(argv, timeout_s=60, env=env)
    assert output.status == status_of("release.not-owner.txt")
    assert output.err.strip() == recorded("release.not-owner.txt.err").strip()
    assert of_three.lab.job(id_)["nodes"] == ["node01", "node02", "node03"]
    del holder


def _ends(pbs: StandInPbs) -> set[str]:
    """The jobs whose first processes have ended."""
    return {line.removeprefix("end ") for line in log_of(pbs) if line.startswith("end ")}


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("SCR", "PBS suspends or checkpoints preempted jobs"),
        ("D 80 S", "PBS suspends preempted jobs"),
        ("R", "PBS only requeues preempted jobs"),
    ],
)
def test_no_holder_runs_where_pbs_does_not_delete(pbs: StandInPbs, order: str, words: str) -> None:
    pbs.lab.order(order)
    assert words in refusal(pbs)


def test_no_holder_runs_where_a_main_queue_does_not_preempt(pbs: StandInPbs) -> None:
    pbs.lab.edit(lambda state: state["queues"]["main"].update(Priority=149))
    assert "main (149) have a Priority below preempt_queue_prio = 150" in refusal(pbs)


def test_a_requeued_holder_is_deleted_and_runs_no_worker(pbs: StandInPbs) -> None:
    """A site that makes holders rerunnable against their option -r n, and changes to R."""
    holder, (fragment,) = held(pbs, 1, options=("-r", "y"))
    pbs.lab.edit(lambda state: state["jobs"][fragment.id].update(reruns=True))
    pbs.lab.order("R")
    pbs.lab.main_job(host="node01", seconds=1)
    pbs.until(lambda: pbs.lab.job(fragment.id)["run_count"] == 2 or not _waits(pbs, fragment), "it")
    pbs.until(lambda: all(f.phase is FragmentPhase.GONE for f in polled(holder)), "its end")
    assert pbs.lab.job(fragment.id)["state"] == "F"
    assert pbs.workers() == 0


def _waits(pbs: StandInPbs, fragment: Fragment) -> bool:
    return bool(pbs.lab.job(fragment.id)["state"] in ("R", "E", "Q"))


def test_a_payload_that_is_started_again_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PBS_JOBID", "445.head")
    folder = tmp_path / "n1#445"
    folder.mkdir()
    (folder / "leaving").write_text("1700000000.1 SIGTERM killed=0 took_s=0.1\n")
    job_payload.main(str(tmp_path), 60.0, 0.0, "n1", "PBS_JOBID")
    assert "was started again; it ends" in capsys.readouterr().err


def test_a_suspended_holder_is_deleted(pbs: StandInPbs) -> None:
    """An operator suspends it: it keeps memory and GPUs of a node that looks free."""
    holder, (fragment,) = held(pbs)

    def suspend(state: dict[str, Any]) -> None:
        job = state["jobs"][fragment.id]
        os.killpg(job["leader"], signal.SIGSTOP)
        job["state"] = "S"

    pbs.lab.edit(suspend)
    views = {node.name: node.availability for node in pbs.scheduler.observe().nodes}
    assert views["node01"] is Availability.BUSY
    assert views["node02"] is Availability.FREE
    assert "suspended" in gone(pbs, holder)


def test_a_holder_of_another_host_is_left_to_its_lease_and_named(pbs: StandInPbs) -> None:
    """The same user on another host is another owner, unless the server has flatuid."""
    holder, (fragment,) = held(pbs)
    pbs.lab.edit(lambda state: state["jobs"][fragment.id].update(owner=_elsewhere(state, fragment)))
    before = len(pbs.lab.calls("qdel"))
    holder.release(frozenset({fragment.name}))
    gone(pbs, holder)
    assert len(pbs.lab.calls("qdel")) - before == 1
    assert not pbs.lab.processes_of(fragment.id)


def _elsewhere(state: dict[str, Any], fragment: Fragment) -> str:
    job = state["jobs"][fragment.id]
    return str(job["owner"]).replace("@head", "@node07")


def test_the_pilot_says_which_holders_it_cannot_end(pbs: StandInPbs) -> None:
    cluster = pbs.cluster()
    id_ = pbs.lab.run(
        "qsub", "-q", QUEUE, "-N", "bftrainer-holder", "--", "/bin/sleep", "60",
        PBS_STANDIN_HOST="node07",
    ).partition(".")[0]  # fmt: skip
    assert [job.id for job in cluster.list()] == [id_]
    for _ in range(3):
        cluster.cancel([id_])
    assert len(pbs.lab.calls("qdel")) == 1
    (remark,) = cluster.remarks
    assert id_ in remark
    assert "flatuid = True" in remark
    pbs.lab.change(flatuid=True)
    pbs.cluster().cancel([id_])
    pbs.until(lambda: pbs.lab.job(id_)["state"] == "F", "its end")


def test_unknown_asks_for_several_jobs_in_one_command(pbs: StandInPbs) -> None:
    cluster = pbs.cluster()
    id_ = pbs.lab.main_job()
    assert cluster.unknown(["1", id_, "2"]) == {"1", "2"}
    (words,) = pbs.lab.calls("qstat")
    assert "json" not in words
    pbs.lab.fault("qstat", "down")
    with pytest.raises(CommandError, match="Connection refused"):
        cluster.unknown(["1"])


def test_a_list_that_lacks_a_job_is_an_error(pbs: StandInPbs) -> None:
    pbs.lab.main_job()
    pbs.lab.main_job()
    pbs.lab.fault("qstat", "without-last-line")
    with pytest.raises(SchedulerError, match=r"truncated"):
        pbs.cluster().commands.all_jobs()


def test_pending_jobs_are_unknown_where_they_are_hidden(pbs: StandInPbs) -> None:
    pbs.lab.main_job(4)
    pbs.lab.main_job(4)
    assert [job.user for job in pbs.scheduler.observe().pending] == ["max"]
    pbs.lab.change(query_other_jobs=False)
    hidden = pbs.scheduler.observe()
    assert (hidden.pending, hidden.lists_pending) == ((), False)
    cluster = pbs.cluster()
    cluster.way = GiveWay.YIELD
    with pytest.raises(SchedulerError, match="query_other_jobs = False"):
        cluster.observe()


def test_a_holder_is_shortened_and_never_prolonged(pbs: StandInPbs) -> None:
    holder, (fragment,) = held(pbs)
    pbs.until(lambda: polled(holder)[0].ends_s is not None, "a list with the job as running")
    holder.shorten(frozenset({fragment.name}), 600.0)
    assert 599 < pbs.lab.job(fragment.id)["limit_s"] < 700


def test_a_glance_changes_with_every_main_job(pbs: StandInPbs) -> None:
    cluster = pbs.cluster()
    texts = [cluster.glance().state]
    for count in (4, 1):  # the first starts, the second waits
        pbs.lab.main_job(count)
        texts.append(cluster.glance().state)
    assert len(set(texts)) == 3


def test_the_standin_blocks_the_site_while_a_preempted_job_lingers(tmp_path: Path) -> None:
    """As measured: another user's job for another, idle node waits as well."""
    pbs = StandInPbs(PbsLab(tmp_path / "pbs", nodes=2, queue=QUEUE), tmp_path)
    try:
        deaf = "trap '' TERM; while :; do sleep 0.1; done"
        pbs.lab.run(
            "qsub", "-q", QUEUE, "-l", "select=1:host=node01", "--", "/bin/bash", "-c", deaf
        )
        pbs.until(lambda: pbs.lab.state()["jobs"] and _leads(pbs), "the job to run")
        first = pbs.lab.main_job(host="node01")
        second = pbs.lab.main_job(host="node02")
        assert [pbs.lab.job(id_)["state"] for id_ in (first, second)] == ["Q", "Q"]
    finally:
        pbs.close()


def _leads(pbs: StandInPbs) -> bool:
    return all(job["leader"] for job in pbs.lab.state()["jobs"].values())


@pytest.mark.parametrize(
    ("way", "is_refused"), [("yield", False), ("blind", True), ("site", False), ("auto", False)]
)
def test_modes_that_cannot_be_kept_are_refused_in_one_line(
    way: str, is_refused: bool, tmp_path: Path
) -> None:
    tables = {"nodes": {"holder": "pbs", "give_way": way}, "pbs": {"queue": QUEUE}}
    config = check_table(tables, PilotConfig, "test")
    if is_refused:
        with pytest.raises(InvalidValueError, match=r"holder 'pbs' .* cannot tell") as error:
            build_site(config, tmp_path, SystemClock())
        assert "\n" not in str(error.value)
        return
    site = build_site(config, tmp_path, SystemClock())
    assert site.ways == {GiveWay.SITE, GiveWay.YIELD}
    assert site.yielding is not None


def test_a_main_queue_cannot_be_the_holders_queue() -> None:
    with pytest.raises(InputFileError, match="main_queues has 'preempt', the queue of the holders"):
        check_table({"queue": "preempt", "main_queues": ["preempt"]}, PbsSettings, "pbs")


def test_a_server_with_a_long_name(tmp_path: Path) -> None:
    """As at ALCF: a main job, a release, a job that is over, and the files of a job's output."""
    server = "polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov"
    lab = PbsLab(tmp_path / "pbs", nodes=2, queue=QUEUE, server=server)
    pbs = StandInPbs(lab, tmp_path)
    try:
        holder, (first, second) = held(pbs, 2)
        folder = pbs.state / "holders-test"
        assert f"{first.id}.{server}.OU" in {path.name for path in folder.glob("*.OU")}
        pbs.start_worker(first)
        main = lab.main_job(host="node01")
        seen = seen_until(pbs, holder, lambda: lab.started_s(main), "the main job to start")
        assert pbs.workers() == 0
        assert "preempted" in seen[first.name].why
        assert pbs.cluster().unknown([first.id, second.id, main]) == {first.id}
        holder.release(frozenset({second.name}))
        pbs.until(lambda: polled(holder) == () and not list(folder.glob("*.OU")), "its end")
        (view,) = (node for node in pbs.scheduler.observe().nodes if node.name == "node01")
        assert view.availability is Availability.BUSY
    finally:
        pbs.close()
