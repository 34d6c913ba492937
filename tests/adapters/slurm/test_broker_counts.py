"""One process counts jobs and reads the queue for all pilots that make way for main jobs: how many
calls that costs, and what a broker that is dead or lies cannot do.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from adapters.slurm.test_broker import CONFIG, whole
from adapters.slurm.test_calls import programs
from support.recorded_slurm import recorded

from bftrainer.decide.yielding.facts import JobCounters, NodeWait
from bftrainer_clusters.slurm import job_list
from bftrainer_clusters.slurm.broker import Broker, Guard
from bftrainer_clusters.slurm.calls import OWN_ANSWERS_S, SlurmCalls
from bftrainer_clusters.slurm.job_list import WAITS
from bftrainer_clusters.slurm.observe import (
    BrokerCounters,
    SlurmScheduler,
    lags_behind,
    looks_reset,
)
from bftrainer_clusters.slurm.published import COUNTERS, COUNTERS_S, JOBS, Published, name_of

SDIAG = """sdiag output at Wed Nov 25 12:00:00 2026 ({at_s})
Jobs submitted: {submitted}
Jobs started:   {started}
Jobs completed: {ended}
Jobs canceled:  0
Jobs failed:    0

Job states ts:  Wed Nov 25 12:00:00 2026 ({at_s})
Jobs pending:   0
Jobs running:   0
"""
COLUMNS = WAITS.split("|")


def record(**fields: str) -> str:
    values = dict.fromkeys(COLUMNS, "(null)") | {
        "%A": "1",
        "%u": "ann",
        "%T": "PENDING",
        "%P": "debug",
        "%D": "2",
        "%Q": "10",
        "%S": "N/A",
        "%e": "N/A",
        "%r": "Resources",
        "%j": "x",
        "%k": "",
    }
    values |= {f"%{key}": value for key, value in fields.items()}
    values["%f %j"] = f"(null) {values['%j']}"
    return "|".join(values[column] for column in COLUMNS)


@dataclass
class Cluster:
    """Slurm's commands as scripts that print files and count calls."""

    path: Path

    def __post_init__(self) -> None:
        count = f'echo "$0 $*" >> {self.path}/calls'
        (self.path / "nodes").write_text(recorded("planned.nodes.txt"))
        (self.path / "config").write_text(CONFIG.format("none"))
        self.jobs()
        self.counts(0, 0, 0)
        squeue = f'{count}\nsed "s/MARK$/${{SQUEUE_FORMAT##*|}}/" {self.path}/jobs'
        cases = '*reservation) echo "No reservations in the system" ;; *config)'
        scontrol = (
            f'{count}\ncase "$*" in {cases} cat {self.path}/config ;; '
            f"*) cat {self.path}/nodes ;; esac"
        )
        sdiag = f"{count}\ncat {self.path}/counters"
        self.env = programs(self.path, squeue=squeue, scontrol=scontrol, sdiag=sdiag)
        self.folder = self.path / "published"
        self.folder.mkdir(mode=0o755)

    def jobs(self, *records: str) -> None:
        header = "|".join(job_list._WAIT_COLUMNS.values())
        (self.path / "jobs").write_text("".join(f"{it}|MARK\n" for it in (header, *records)))

    def counts(
        self, submitted: int, started: int, ended: int, after_s: int = 0, cycle_s: int = 0
    ) -> None:
        at_s = int(time.time()) + after_s
        text = SDIAG.format(at_s=at_s, submitted=submitted, started=started, ended=ended)
        if cycle_s:
            text += (
                f"\nBackfilling stats\n\tLast cycle when: Wed Nov 25 12:00:00 2026 ({cycle_s})\n"
            )
        (self.path / "counters").write_text(text)

    def asked(self) -> list[str]:
        if not (self.path / "calls").exists():
            return []
        lines = (self.path / "calls").read_text().splitlines()
        return [it.split()[0].rpartition("/")[2] for it in lines]

    def broker(self) -> Broker:
        calls = SlurmCalls(self.env)
        return Broker(self.folder, calls, Guard(calls, frozenset(), "", lambda _: None), 240.0)

    def pilot(self) -> SlurmScheduler:
        published = Published(self.folder, os.getuid())
        calls = SlurmCalls(self.env, published=published, makes_way=lambda: True)
        return SlurmScheduler(calls=calls)

    def pilots(self, count: int) -> list[SlurmScheduler]:
        """Pilots that have begun: each has asked Slurm once itself."""
        schedulers = [self.pilot() for _ in range(count)]
        for scheduler in schedulers:
            scheduler.glance()
            scheduler.observe()
            scheduler.calls.lists_newer_than_s -= 10.0  # the broker's list is newer than its start
        return schedulers


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def waiting(scheduler: SlurmScheduler) -> tuple[NodeWait, ...]:
    waits = scheduler.observe().node_waits
    assert waits is not None
    return waits.jobs


@pytest.mark.parametrize("count", [1, 5, 20])
def test_the_calls_do_not_grow_with_the_number_of_pilots(cluster: Cluster, count: int) -> None:
    """Ten main jobs come; each pilot glances and looks at each."""
    broker = cluster.broker()
    broker.step()
    schedulers = cluster.pilots(count)
    before = len(cluster.asked())
    for number in range(1, 11):
        cluster.counts(number, 0, 0)
        cluster.jobs(record(A=str(number)))
        broker.step()
        for scheduler in schedulers:
            assert scheduler.glance().submitted == number
            assert [job.job for job in waiting(scheduler)] == [str(number)]
    assert len(cluster.asked()) - before == 30, "sdiag, squeue and nodes, whatever the pilots"
    own = cluster.pilots(count)
    for scheduler in own:
        scheduler.calls.published = None
    before = len(cluster.asked())
    for scheduler in own:
        scheduler.glance()
        scheduler.observe()
    assert len(cluster.asked()) - before >= 4 * count, "without a broker they do"


def test_jobs_that_have_just_started_are_published_and_others_are_not(cluster: Cluster) -> None:
    now_s = int(time.time())
    cluster.jobs(
        record(A="1", T="RUNNING", S=str(now_s - 3), j="secret"),
        record(A="2", T="RUNNING", S=str(now_s - 4000), j="secret"),
    )
    broker = cluster.broker()
    broker.step()
    (scheduler,) = cluster.pilots(1)
    waits = scheduler.observe().node_waits
    assert waits is not None
    assert waits.starts == (("1", float(now_s - 3)),)
    assert "secret" not in (cluster.folder / JOBS).read_text()


def test_a_broker_that_is_dead_for_two_looks_counts_no_more(cluster: Cluster) -> None:
    broker = cluster.broker()
    broker.step()
    (scheduler,) = cluster.pilots(1)
    published = scheduler.calls.published
    assert published is not None
    assert scheduler.glance().is_published
    published.now_s = lambda: time.time() + COUNTERS_S + 0.5
    assert len(Published(cluster.folder, os.getuid(), published.now_s).jobs().jobs) == 0, (
        "its list still counts for pilots that need not make way"
    )
    cluster.counts(1, 0, 0)
    cluster.jobs(record(A="7"))
    assert not scheduler.glance().is_published
    assert [job.job for job in waiting(scheduler)] == ["7"]


def test_a_list_that_is_older_than_what_the_pilot_has_seen_does_not_count(
    cluster: Cluster,
) -> None:
    broker = cluster.broker()
    broker.step()
    (scheduler,) = cluster.pilots(1)
    cluster.counts(1, 0, 0)
    cluster.jobs(record(A="7"))
    scheduler._broker._slurm_read_s -= OWN_ANSWERS_S
    glance = scheduler.glance()
    assert not glance.is_published
    assert [job.job for job in waiting(scheduler)] == ["7"]


def test_a_broker_that_shows_no_new_jobs_is_found_out(cluster: Cluster) -> None:
    """It publishes old counters and an old list with a new time, as the right user."""
    broker = cluster.broker()
    cluster.counts(50, 50, 50, after_s=20)
    broker.step()
    (scheduler,) = cluster.pilots(1)
    cluster.counts(90, 50, 50, after_s=25)
    cluster.jobs(record(A="7"))
    assert scheduler.glance().submitted == 50, "as published"
    scheduler._broker._slurm_read_s -= OWN_ANSWERS_S
    assert scheduler.glance().submitted == 90
    assert [job.job for job in waiting(scheduler)] == ["7"]
    lie = SDIAG.format(at_s=int(time.time()) + 60, submitted=50, started=50, ended=50)
    path = cluster.folder / name_of(COUNTERS)
    path.write_bytes(whole(lie, for_s=60.0))
    before = len(cluster.asked())
    for _ in range(5):
        assert scheduler.glance().submitted == 90
    assert len(cluster.asked()) == before + 5, "it asks itself now"
    cluster.jobs()
    broker.publish()
    cluster.jobs(record(A="8"))
    scheduler.calls.lists_newer_than_s = 0.0
    assert [job.job for job in waiting(scheduler)] == ["8"], "its list counts no more either"


def test_an_own_list_is_read_beside_a_lying_one(cluster: Cluster) -> None:
    """The counters are right, and the list lacks the main job."""
    broker = cluster.broker()
    broker.step()
    (scheduler,) = cluster.pilots(1)
    cluster.jobs(record(A="7"))
    assert waiting(scheduler) == ()
    scheduler.calls._own_list_s -= OWN_ANSWERS_S
    assert [job.job for job in waiting(scheduler)] == ["7"]


def test_a_list_that_leaves_out_a_waiting_job_counts_no_more(cluster: Cluster) -> None:
    """The pilot has seen the job itself. One look later, the job must not be gone again."""
    (scheduler,) = with_hidden_job(cluster)
    for _ in range(3):
        assert [job.job for job in waiting(scheduler)] == ["7"]
    assert scheduler.calls.distrusts_broker


def with_hidden_job(cluster: Cluster, *shown: str) -> list[SlurmScheduler]:
    """A pilot that has just read a list of its own, on which job 7 waits. The broker's lists are
    newer, and show only the records ``shown``.
    """
    (scheduler,) = cluster.pilots(1)
    cluster.jobs(*shown)
    published = cluster.broker()
    published.step()
    cluster.jobs(record(A="7"))
    scheduler.calls._own_list_s -= OWN_ANSWERS_S
    assert [job.job for job in waiting(scheduler)] == ["7"]
    scheduler.calls._audit._at_s -= 10.0  # the broker's list is newer than the pilot's
    return [scheduler]


def test_a_job_that_is_shown_as_started_and_still_waits_ends_the_trust(cluster: Cluster) -> None:
    now_s = int(time.time())
    (scheduler,) = with_hidden_job(cluster, record(A="7", T="RUNNING", S=str(now_s)))
    assert waiting(scheduler) == (), "as published"
    scheduler.calls._own_list_s -= OWN_ANSWERS_S
    assert [job.job for job in waiting(scheduler)] == ["7"]
    assert scheduler.calls.distrusts_broker
    assert [job.job for job in waiting(scheduler)] == ["7"]


def test_a_job_that_was_canceled_costs_one_list_and_no_trust(cluster: Cluster) -> None:
    (scheduler,) = with_hidden_job(cluster)
    cluster.jobs()
    before = cluster.asked().count("squeue")
    for _ in range(3):
        assert waiting(scheduler) == ()
    assert cluster.asked().count("squeue") == before + 1
    assert not scheduler.calls.distrusts_broker


def test_a_backfill_cycle_of_a_broker_ends_no_offer(cluster: Cluster) -> None:
    """Nodes that a cycle has left idle are held again: a false cycle would take them from a job."""
    cluster.jobs(record(A="7"))
    cycle_s = int(time.time()) - 30
    cluster.counts(1, 0, 0, cycle_s=cycle_s)
    broker = cluster.broker()
    broker.step()
    (scheduler,) = cluster.pilots(1)
    lie = (cluster.path / "counters").read_text().replace(f"({cycle_s})", f"({cycle_s + 29})")
    path = cluster.folder / name_of(COUNTERS)
    path.write_bytes(whole(lie, for_s=60.0))
    for _ in range(3):
        assert scheduler.glance().planned_s == cycle_s
    cluster.counts(1, 0, 0, cycle_s=cycle_s + 29)
    assert scheduler.glance().planned_s == cycle_s + 29
    before = len(cluster.asked())
    glances = [scheduler.glance() for _ in range(5)]
    assert {glance.planned_s for glance in glances} == {cycle_s + 29}
    assert len(cluster.asked()) == before, "one call for each cycle"


def test_counters_of_another_user_do_not_count(cluster: Cluster) -> None:
    broker = cluster.broker()
    broker.step()
    (scheduler,) = cluster.pilots(1)
    assert scheduler.calls.published is not None
    scheduler.calls.published.uid = os.getuid() + 1
    cluster.counts(3, 0, 0)
    cluster.jobs(record(A="7"))
    glance = scheduler.glance()
    assert (glance.submitted, glance.is_published) == (3, False)
    assert [job.job for job in waiting(scheduler)] == ["7"]


def test_counters_that_start_again_are_the_pilots_own(cluster: Cluster) -> None:
    own = JobCounters(100.0, 500, 400, 300)
    assert not lags_behind(replace(own, at_s=200.0, submitted=501), own)
    assert lags_behind(replace(own, at_s=200.0, started=399), own)
    assert not lags_behind(replace(own, at_s=100.0, started=399), own), "read at the same time"
    midnight = JobCounters(200.0, 2, 1, 0)
    assert lags_behind(midnight, own)
    assert looks_reset(midnight, own)
    broker = cluster.broker()
    cluster.counts(500, 400, 300)
    broker.step()
    (scheduler,) = cluster.pilots(1)
    cluster.counts(2, 1, 0, after_s=30)
    broker.step()
    glances = [scheduler.glance() for _ in range(3)]
    assert [glance.is_published for glance in glances] == [False, True, True]


def test_without_counters_of_its_own_a_pilot_takes_none(cluster: Cluster) -> None:
    cluster.broker().step()
    calls = SlurmCalls(cluster.env, published=Published(cluster.folder, os.getuid()))
    assert BrokerCounters(calls).counters() is None
