"""A pilot on the stand-in LSF that makes way for main jobs itself: what it reads, which queues it
accepts for that, and how long main jobs wait.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.live_machine import Machine, eventually, machine
from support.lsf_lab import Lab, locked, wait_until
from support.lsf_under_test import StandInLsf

from bftrainer.cluster.model import Availability, FragmentPhase, GiveWay, NodeRequest, NodeView
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.decide.yielding.facts import JobCounters, ListedHolder
from bftrainer.errors import InvalidValueError, SchedulerError, UnknownStateError
from bftrainer.pilot.nodes.glances import has_moved
from bftrainer.pilot.own_site import build_site, reconfigure
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.lsf import hold, jobs
from bftrainer_clusters.lsf.jobs import hosts_of, shorten_argv
from bftrainer_clusters.lsf.node_waits import ListedHolders, parse_jobs
from bftrainer_clusters.lsf.preempt import reasons_against
from bftrainer_clusters.lsf.queue import AppFacts, ParamFacts, QueueFacts, parse_counts
from bftrainer_clusters.simple import SimpleHolder

RECORDED = Path(__file__).parents[1] / "recorded" / "lsf-descendant-2.2" / "bqueues.txt"
POOL = ("node01", "node02", "node03", "node04")
CONFIG = f"""
[decisions]
solver = "exact"
gather_s = 0
[learning]
measure = false
[nodes]
holder = "lsf"
give_way = "yield"
min_window_s = 0
confirm_s = 0
settled_s = 0
flap_back_off_s = 0.5
[times]
poll_s = 5
file_poll_s = 0.05
shutdown_s = 35
lease_s = 120
[workers]
allow_root = true
[lsf]
queue = "idle"
slots_per_node = 4
timeout_s = 30
python = "{sys.executable}"
"""

PLAIN = QueueFacts(
    "idle", "Open:Active", False, frozenset(), "", "", True, False, True, False, False, "", {}
)
PARAMS = ParamFacts(frozenset(), frozenset(), {}, 10.0)


def record(job: str, stat: str, **fields: str) -> str:
    values = {
        "JOBID": job,
        "STAT": stat,
        "USER": "u",
        "QUEUE": "normal",
        "NREQ_SLOT": "8",
        "RUN_TIME": "0 second(s)",
        "EXEC_HOST": "",
        **fields,
    }
    return "{" + ",".join(f'"{key}":"{value}"' for key, value in values.items()) + "}"


def jobs_text(*records: str) -> str:
    body = ",".join(records)
    return f'{{"COMMAND":"bjobs","JOBS":{len(records)},"RECORDS":[{body}]}}'


def test_waiting_jobs_holders_and_starts_are_told_apart() -> None:
    holder = {"EXEC_HOST": "4*node01", "QUEUE": "idle"}
    text = jobs_text(
        record("1", "PEND"),
        record("2", "PSUSP"),
        record("3", "RUN", RUN_TIME="12 second(s)", EXEC_HOST="node02:node02"),
        record("4", "RUN", **holder),
        record("5", "RUN", **holder),
        record("6", "SSUSP", **holder, USER="v"),
        record("7", "PEND"),
        record("8", "EXIT"),
        record("9", "RUN", RUN_TIME="4000 second(s)"),
    )
    labels = {"4": "bftrainer:p-1:node01", "5": "just", "7": "bftrainer:q:n2"}
    holders = ListedHolders(frozenset({"4", "5", "6", "7"}), "u", labels)
    jobs = parse_jobs(text, {"normal": 40}).with_holders(holders)
    nodes = [NodeView(name, Availability.BUSY, cpus=4) for name in POOL]
    waits = jobs.node_waits(nodes, dict.fromkeys(POOL, 4), 1000.0)
    (job,) = waits.jobs
    assert (job.job, job.size, job.priority, job.nodes) == ("1", 2, 40.0, frozenset(POOL))
    assert waits.holders == (
        ListedHolder("4", "node01", False, "u/p-1"),
        ListedHolder("6", "node01", True, "v/"),
    )
    assert waits.starts == (("3", 988.0), ("5", 1000.0))
    assert [(job.id, job.is_eligible) for job in jobs.pending(4)] == [
        ("1", True),
        ("2", False),
        ("7", True),
    ]


def test_no_text_of_users_is_read_but_of_this_pilots_user(
    lsf: StandInLsf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's job has a name that breaks the JSON of an LSF that escapes nothing."""
    monkeypatch.setenv("STANDIN_RAW_JSON", "1")
    lsf.lab.run("bsub", "-q", "normal", "-n", "99", "-J", 'a"b', "sleep", "600")
    cluster = lsf.cluster()
    cluster.way = GiveWay.YIELD
    waits = cluster.observe().node_waits
    assert waits is not None
    assert [job.size for job in waits.jobs] == [25]


def test_a_state_that_is_not_known_is_no_answer() -> None:
    with pytest.raises(UnknownStateError, match="MOON"):
        parse_jobs(jobs_text(record("1", "MOON")), {})
    with pytest.raises(SchedulerError, match="not a number of slots"):
        parse_jobs(jobs_text(record("1", "PEND", NREQ_SLOT="many")), {})


@pytest.mark.parametrize("slots", ["-", ""])
def test_a_waiting_job_of_unknown_size_is_no_answer(slots: str) -> None:
    """With basic rights on other users' jobs, bjobs shows their slots as a dash. One node each
    would be too few.
    """
    with pytest.raises(SchedulerError, match="how many slots job 1 needs"):
        parse_jobs(jobs_text(record("1", "PEND", NREQ_SLOT=slots)), {})
    assert parse_jobs(jobs_text(record("1", "RUN", NREQ_SLOT=slots)), {}).jobs


def test_the_recorded_table_of_queues() -> None:
    text = RECORDED.read_text()
    body = text.partition("\n")[2].partition("--- stderr")[0]
    counts = {queue.name: (queue.priority, queue.slots) for queue in parse_counts(body)}
    assert counts["normal"] == (30, (8, 4, 4, 0))
    assert counts["idle"] == (1, (1, 1, 0, 0))
    for cut in range(len(body) - 1):
        if body[cut - 1 : cut] == "\n" and body[:cut].count("\n") > 1:
            continue  # whole lines: bqueues announces no number of queues
        with pytest.raises(SchedulerError):
            parse_counts(body[:cut])


def test_hosts_of_a_job() -> None:
    assert hosts_of("4*node01") == ("node01",)
    assert hosts_of("node01:node01:3*node02") == ("node01", "node02")
    assert hosts_of("") == ()


def test_a_run_limit_counts_from_the_start_in_minutes_of_its_host() -> None:
    assert shorten_argv("7", 200.0, "node01", 600.0) == ["bmod", "-W", "13/node01", "7"]
    assert shorten_argv("7", 0.0, "node01", 5.0)[2] == "1/node01"


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        (PLAIN, ""),
        (replace(PLAIN, delays={"NO_PREEMPT_RUN_TIME": "600"}), ""),
        (replace(PLAIN, preemptable=True, terminate_when=frozenset({"PREEMPT"})), ""),
        (replace(PLAIN, preemptable=True), "suspends preempted jobs"),
        (replace(PLAIN, rerunnable=True), "reruns jobs"),
        (replace(PLAIN, interruptible=True), "INTERRUPTIBLE_BACKFILL"),
        (replace(PLAIN, status="Closed:Active"), "Closed:Active"),
        (replace(PLAIN, loads=True), "busy host"),
        (replace(PLAIN, windows="1:00-2:00"), "RUN_WINDOW"),
    ],
)
def test_what_a_pilot_that_ends_its_holders_cures(queue: QueueFacts, words: str) -> None:
    """All of these queues are refused where LSF has to preempt the holders."""
    yields = reasons_against(queue, AppFacts(), PARAMS, False, True, ends_holders=True)
    assert len(yields) == bool(words)
    assert words in "".join(yields)
    assert reasons_against(queue, AppFacts(), PARAMS, False, True)


@pytest.mark.parametrize(
    ("way", "table", "is_refused"),
    [
        ("yield", {}, False),
        ("blind", {}, True),
        ("yield", {"pending": "none"}, True),
        ("site", {"pending": "none"}, False),
        ("auto", {}, False),
    ],
)
def test_modes_that_cannot_be_kept_are_refused_in_one_line(
    way: str, table: dict[str, object], is_refused: bool, tmp_path: Path
) -> None:
    lsf = {"queue": "idle", "slots_per_node": 4, **table}
    tables = {"nodes": {"holder": "lsf", "give_way": way}, "lsf": lsf}
    config = check_table(tables, PilotConfig, "test")
    if is_refused:
        with pytest.raises(InvalidValueError, match=r"holder 'lsf' .* cannot tell") as caught:
            build_site(config, tmp_path, SystemClock())
        assert "\n" not in str(caught.value)
        return
    site = build_site(config, tmp_path, SystemClock())
    assert site.ways >= {GiveWay.SITE}
    assert (GiveWay.YIELD in site.ways) is (site.yielding is not None)


def test_a_pilot_that_no_longer_frees_nodes_itself_ends_its_holders(tmp_path: Path) -> None:
    """Their queue may be one that LSF does not preempt."""
    lsf = {"queue": "idle", "slots_per_node": 4}
    yields, leaves = (
        check_table({"nodes": {"holder": "lsf", "give_way": way}, "lsf": lsf}, PilotConfig, "test")
        for way in ("yield", "site")
    )
    site = build_site(yields, tmp_path, SystemClock())
    assert isinstance(site.holder, SimpleHolder)
    jobs = site.holder._jobs
    assert not jobs.permit().refusal
    reconfigure(site, leaves)
    permit = jobs.permit()
    assert (permit.releases, permit.give_way) == (True, GiveWay.SITE)
    assert "may not preempt" in permit.refusal
    reconfigure(site, yields)
    assert not jobs.permit().refusal, "the reload was taken back"


@pytest.fixture
def lsf(tmp_path: Path) -> Iterator[StandInLsf]:
    lsf = StandInLsf(Lab(tmp_path / "lsf", nodes=3, slots=4, queue="scavenge"), tmp_path)
    yield lsf
    lsf.close()


def test_a_glance_shows_that_a_job_has_come(lsf: StandInLsf) -> None:
    cluster = lsf.cluster()
    before: JobCounters = cluster.glance()
    assert not has_moved(before, cluster.glance())
    lsf.main_job(1, 10)
    assert has_moved(before, cluster.glance())


def test_where_lsf_hides_the_jobs_of_others_nothing_is_observed(
    lsf: StandInLsf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pilot that saw no main job would hold nodes that they wait for."""
    cluster = lsf.cluster()
    cluster.way = GiveWay.YIELD
    lsf.lab.run("bsub", "-q", "normal", "-n", "99", "sleep", "600")
    assert cluster.observe().node_waits is not None
    monkeypatch.setenv("STANDIN_HIDES_JOBS", "1")
    with pytest.raises(SchedulerError, match="SECURE_JOB_INFO_LEVEL") as caught:
        cluster.observe()
    assert "\n" not in str(caught.value)
    cluster.way = GiveWay.SITE
    cluster.observe()


def test_a_holder_is_shortened_or_the_next_ones_are_short(lsf: StandInLsf) -> None:
    """A site may forbid to modify running jobs (LSB_MOD_ALL_JOBS)."""
    cluster = lsf.cluster()
    job = lsf.lab.run("bsub", "-q", "scavenge", "-n", "4", "-W", "60", "sleep", "600")
    id_ = job.partition("<")[2].partition(">")[0]
    lsf.until(lambda: lsf.lab.job(id_)["stat"] == "RUN", "the job to run")
    cluster.shorten([id_], 600.0)
    assert lsf.lab.job(id_)["limit_s"] in (600.0, 660.0)
    lsf.lab.change(mod_all_jobs=False)
    with pytest.raises(Exception, match="Cannot change parameters"):
        cluster.shorten([id_], 300.0)


def test_a_holder_that_ends_meanwhile_keeps_no_other_from_being_shortened(
    lsf: StandInLsf, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = lsf.cluster()
    outputs = [
        lsf.lab.run("bsub", "-q", "scavenge", "-n", "4", "-W", "60", "sleep", "600")
        for _ in range(2)
    ]
    first, second = [output.partition("<")[2].partition(">")[0] for output in outputs]
    lsf.until(
        lambda: {lsf.lab.job(id_)["stat"] for id_ in (first, second)} == {"RUN"}, "the jobs to run"
    )
    build = jobs.shorten_argv

    def first_ends(job: str, ran_s: float, host: str, seconds: float) -> list[str]:
        if job == first:
            lsf.lab.run("bkill", first)
            lsf.until(lambda: lsf.lab.job(first)["stat"] == "EXIT", "the first job to end")
        return build(job, ran_s, host, seconds)

    monkeypatch.setattr(jobs, "shorten_argv", first_ends)
    monkeypatch.setattr(hold, "_SHORTEN_S", 60.0)
    cluster.shorten([first, second], 600.0)
    assert lsf.lab.job(second)["limit_s"] in (600.0, 660.0)


@pytest.mark.parametrize(("may_modify", "limit_s"), [(True, 3600.0), (False, 600.0)])
def test_where_no_limit_can_be_lowered_new_holders_last_for_ten_minutes(
    lsf: StandInLsf, may_modify: bool, limit_s: float
) -> None:
    lsf.lab.change(mod_all_jobs=may_modify)
    cluster = lsf.cluster()
    cluster.way = GiveWay.YIELD
    folder = lsf.state / "holders-test"
    holder = SimpleHolder(cluster, "lsf", folder, "test", SystemClock(), 60.0, 1.0)
    holder.poll()
    (first,) = holder.acquire((NodeRequest("node01", 3605.0),)).fragments
    lsf.until(
        lambda: [f.phase for f in holder.poll()] == [FragmentPhase.READY], "the holder to be ready"
    )
    holder.shorten(frozenset({first.name}), 1200.0)
    (second,) = holder.acquire((NodeRequest("node02", 3605.0),)).fragments
    assert lsf.lab.job(second.id)["limit_s"] == limit_s


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Lab, Machine]]:
    """A stand-in whose holders' queue preempts nothing, and a state directory."""
    lab = Lab(tmp_path / "lsf", nodes=4)
    lab.queue("idle", preemptable=False)
    lab.enter(monkeypatch.setenv)
    it = machine(tmp_path, [], CONFIG)
    yield lab, it
    lab.stop()
    it.close()


def held(lab: Lab) -> int:
    with locked(lab.root) as state:
        jobs = state["jobs"].values()
        return sum(job["queue"] == "idle" and job["stat"] == "RUN" for job in jobs)


@pytest.mark.slow
def test_main_jobs_start_although_lsf_preempts_nothing(on: tuple[Lab, Machine]) -> None:
    lab, machine_ = on
    pilot = machine_.pilot()
    machine_.submit("a", 1_000_000, 0.05, 4)
    wait_until(lambda: held(lab) == 4, "all nodes to be held", 60)
    delays = []
    for hosts in (POOL[:1], POOL[:2], POOL):
        began_s = time.time()
        job = lab.main_job(*hosts, seconds=2)
        wait_until(lambda job=job: lab.started_s(job), "the main job to start", 60)
        started_s = lab.started_s(job)
        assert started_s is not None
        delays.append(started_s - began_s)
        wait_until(lambda: held(lab) == 4, "all nodes to be held again", 60)
    print(f"delays of main jobs: {', '.join(f'{delay_s:.1f} s' for delay_s in delays)}")
    rows = machine_.rows("events", "-n", 1000)
    texts = [str(row["text"]) for row in rows if row["kind"] in ("yield", "give way")]
    assert any(text.startswith("yield: the pilot releases nodes") for text in texts)
    eventually(
        lambda: len([r for r in machine_.rows("events", "-n", 1000) if r["kind"] == "yield"]) == 3
    )
    machine_.end(pilot)
