"""Main jobs that wait for nodes, as three versions of Slurm list them, and the counters of sdiag."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded_slurm import MARK, VERSIONS, recorded

from bftrainer.cluster.model import Availability, Device, NodeView, NodeWaits, Reservation
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm.job_list import parse_jobs, query
from bftrainer_clusters.slurm.node_waits import (
    MANY_TASKS,
    UsableNodes,
    node_waits,
    parse_task_count,
)
from bftrainer_clusters.slurm.text import parse_counters, parse_nodes

NODES = frozenset({"node01", "node02", "node03", "node04"})


def waits(version: str) -> NodeWaits:
    jobs = parse_jobs(recorded("waiting.jobs.txt", version), MARK)
    assert jobs.has_waits
    return node_waits(jobs, parse_nodes(recorded("waiting.nodes.txt", version)))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_waiting_jobs_need(version: str) -> None:
    seen = waits(version)
    first = min(int(job.job) for job in seen.jobs)
    jobs = {int(job.job) - first: job for job in seen.jobs}
    assert [jobs[n].size for n in range(6)] == [2, 2, 4, 2, 1, 2]
    assert [jobs[n].task_size for n in range(6)] == [0, 0, 0, 1, 0, 0]
    assert [jobs[n].nodes for n in range(4)] == [NODES] * 4
    assert jobs[4].nodes == {"node03", "node04"}, "-x"
    assert [jobs[n].fewest for n in range(6)] == [0, 0, 1, 0, 0, 0], "-N1-4"
    assert [jobs[n].size for n in range(17, 21)] == [4, 3, 4, 2]
    assert [jobs[n].fewest for n in range(17, 21)] == [1, 1, 2, 1], "at most what it takes"
    assert jobs[5].required == {"node02", "node03"}, "-w"
    assert jobs[9].size == 1, "a job that only calls itself a holder is a main job"
    assert 7 not in jobs, "held by its user"
    assert all(job.submitted_s and job.submitted_s > 1.7e9 for job in seen.jobs)
    assert "Resources" in {job.reason for job in seen.jobs}


@pytest.mark.parametrize("version", VERSIONS)
def test_only_nodes_count_that_have_what_a_job_asks_for(version: str) -> None:
    """Of four nodes with two GPUs, two are "big", one of these with "ib", and one is "old"."""
    seen = waits(version)
    first = min(int(job.job) for job in seen.jobs)
    jobs = {int(job.job) - first: job.nodes for job in seen.jobs}
    assert jobs[10] == {"node01"}, "big&ib"
    assert jobs[11] == {"node01", "node04"}, "ib|old, and a name with bars"
    assert jobs[12] == NODES, "one node of each feature: counts are not understood"
    assert [jobs[n] for n in range(13, 17)] == [NODES] * 4, "memory, cores, GPUs"
    kinds = [{"node01"}, {"node02"}, {"node03"}, {"node04"}]
    assert sorted(map(set, seen.kinds), key=sorted) == kinds


SMALL = NodeView("small", Availability.FREE, ("main",), cpus=4, memory_mib=8000)
LARGE = replace(SMALL, name="large", cpus=64, memory_mib=500_000)
GPUS = replace(LARGE, name="gpus", devices=(Device("a100", 4),))
SECOND = replace(GPUS, name="gpus2")
PLAIN = {"%P": "main", "%f": "(null)", "%c": "1", "%m": "0", "%b": "N/A"}


@pytest.mark.parametrize(
    ("asks", "names"),
    [
        ({}, "gpus gpus2 large small"),
        ({"%m": "9000M"}, "gpus gpus2 large"),
        ({"%m": "9G"}, "gpus gpus2 large"),
        ({"%m": "4000M"}, "gpus gpus2 large small"),
        ({"%c": "8"}, "gpus gpus2 large"),
        ({"%b": "gres:gpu:1"}, "gpus gpus2"),
        ({"%b": "gres/gpu:a100:4"}, "gpus gpus2"),
        ({"%b": "gres/nvme:1"}, "gpus gpus2 large small"),
        ({"%b": "gres/gpu:8"}, "gpus gpus2 large small"),  # none seems to have them
        ({"%f": "a&(b|c)"}, "gpus gpus2 large small"),  # not understood
        ({"%P": "other"}, ""),
    ],
)
def test_what_jobs_ask_of_each_node(asks: dict[str, str], names: str) -> None:
    usable = UsableNodes([SMALL, LARGE, GPUS, SECOND])
    assert usable.of(PLAIN | asks) == set(names.split())
    assert {"gpus", "gpus2"} in usable.kinds


def test_nodes_that_some_job_can_tell_apart_are_of_two_kinds() -> None:
    """A job that does not take the idle ones may take those that are held."""
    with_tmp = replace(SECOND, name="gpus3", rest="TmpDisk=1")
    assert {"gpus3"} in UsableNodes([GPUS, SECOND, with_tmp]).kinds
    soon = Reservation("maintenance", 1e9, 2e9, frozenset({"gpus2"}))
    assert {"gpus2"} in UsableNodes([GPUS, SECOND], [soon]).kinds
    planned = replace(SECOND, availability=Availability.PLANNED)
    assert {"gpus2"} in UsableNodes([GPUS, planned]).kinds
    record = recorded("waiting.nodes.txt").splitlines()[0]
    plain, disk, nvme = (
        parse_nodes(record.replace(old, new) + "\n")[0].rest
        for old, new in (("", ""), ("TmpDisk=0", "TmpDisk=9"), ("Gres=", "Gres=nvme:1,"))
    )
    assert len({plain, disk, nvme}) == 3


def test_thousands_of_jobs_share_the_sets_of_their_nodes() -> None:
    """A user may give each job another amount of memory."""
    usable = UsableNodes([SMALL, LARGE, GPUS])
    sets = {id(usable.of(PLAIN | {"%m": f"{mib}M"})) for mib in range(1, 20_000, 10)}
    assert len(sets) == 2


def test_jobs_that_wait_for_a_time_or_another_job_do_not_count() -> None:
    """26.05.5 shows such reasons a moment later."""
    assert len(waits("22.05.8").jobs) == 18
    assert len(waits("24.11.5").jobs) in (18, 20)


@pytest.mark.parametrize("version", VERSIONS)
def test_holders_of_all_pilots(version: str) -> None:
    holders = sorted(waits(version).holders, key=lambda holder: holder.node)
    assert [(holder.node, holder.pilot) for holder in holders] == [
        ("node01", "root/a"),
        ("node02", "root/a"),
        ("node03", "root/b"),
    ]
    assert not any(holder.is_leaving for holder in holders)


@pytest.mark.parametrize("version", VERSIONS)
def test_main_jobs_that_have_started_lately(version: str) -> None:
    ((job, start_s),) = waits(version).starts
    assert job.isdecimal()
    assert start_s > 1.7e9


@pytest.mark.parametrize("version", VERSIONS)
def test_counters(version: str) -> None:
    seen = parse_counters(recorded("waiting.sdiag.txt", version))
    assert (seen.submitted, seen.started, seen.ended) == (28, 4, 0)
    assert seen.pending <= 24, "as of pending_at_s"
    assert seen.at_s - 60 < seen.pending_at_s <= seen.at_s


def test_a_cycle_that_goes_on_is_not_a_complete_one() -> None:
    text = recorded("waiting.sdiag.txt")
    seen = parse_counters(text)
    assert seen.planned_s is not None
    assert seen.at_s - 1.0 <= seen.planned_s <= seen.at_s
    warning = "Backfilling stats (WARNING: data obtained in the middle of backfilling execution.)"
    assert parse_counters(text.replace("Backfilling stats", warning)).planned_s is None


def test_counters_that_are_missing_are_an_error() -> None:
    text = recorded("waiting.sdiag.txt").replace("Jobs started:", "Jobs begun:")
    with pytest.raises(SchedulerError, match="Jobs started"):
        parse_counters(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("N/A", 1),
        ("", 1),
        ("7", 1),
        ("1,3,5,7%2", 2),
        ("0-9", 10),
        ("0-20:5", 5),
        ("0-20:5,30%50", 6),
        ("1-3,5%0", 1),
        ("0-99,200-...", MANY_TASKS),
        ("1,2,...%3", 3),
    ],
)
def test_tasks_of_an_array(text: str, count: int) -> None:
    assert parse_task_count(text) == count


@given(st.text(alphabet="0123456789,-:%.x", max_size=20))
def test_tasks_that_are_no_tasks_are_an_error(text: str) -> None:
    with suppress(SchedulerError):
        assert 1 <= parse_task_count(text) <= 10**10


def test_the_list_without_these_columns_is_read_as_before() -> None:
    plain = query(mark=MARK)
    text = plain.columns.replace("%", "")
    assert "Q" not in text.split("|")
    assert query(mark=MARK, with_waits=True).columns.startswith("%A|%Q|")
