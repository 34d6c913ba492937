"""Prologs and Epilogs as holders measure them: by node class, for the next pilot, and in what is
asked for.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fakes_jobs import Job

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.cluster.site_plugin import find_site
from bftrainer.config.pilot import read_config
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.errors import InputFileError
from bftrainer.pilot.own_site import build_site
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.holding.holder_fragment import (
    HolderFragment,
    OwnSubmission,
    left_at,
    ready_since,
)
from bftrainer_clusters.holding.holder_jobs import JobPhase
from bftrainer_clusters.holding.node_times import FILE, NodeTimes, read_times, save_times
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.doctor import measured


def filled(folder: Path) -> NodeTimes:
    times = NodeTimes()
    for seconds in (44.0, 46.0, 300.0):
        times = times.started("4 a100", seconds)
    times = times.started("32 cpus", 1.0).ended("4 a100", 11.0)
    save_times(folder, times)
    return times


def test_classes_have_their_own_times_and_others_those_of_all(tmp_path: Path) -> None:
    times = filled(tmp_path)
    for it in (times, read_times(tmp_path)):
        assert [it.start_s(name) for name in ("4 a100", "32 cpus", "new")] == [46.0, 1.0, 45.0]
        assert [it.end_s(name) for name in ("4 a100", "32 cpus")] == [11.0, 11.0]
    assert read_times(tmp_path / "other").start_s("4 a100") == 0.0


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"starts": {"a": ["x"]}, "ends": {}}', '{"starts": 1, "ends": 2}', "\0"],
)
def test_a_file_that_cannot_be_read_is_measured_again(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    times = read_times(tmp_path)
    assert times.start_s("a") == 0.0
    save_times(tmp_path, times.started("a", 2.0))
    assert read_times(tmp_path).start_s("a") == 2.0


@pytest.mark.parametrize(
    ("window_s", "useful_s", "fits"),
    [
        (1000.0, 20.0, True),
        (123.0, 20.0, True),
        (121.0, 20.0, False),
        (250.0, 200.0, False),
        (float("inf"), 20.0, True),
    ],
)
def test_a_window_has_room_for_prolog_rescale_and_epilog(
    tmp_path: Path, window_s: float, useful_s: float, fits: bool
) -> None:
    """46 s to start, 11 s to end, a minute as the shortest time limit and 5 s of margin."""
    why = filled(tmp_path).why_too_short(
        NodeRequest("n1", window_s, 4, "4 a100", useful_s), 86_400.0
    )
    assert (why == "") is fits
    assert fits or "46 s to start a holder" in why


def test_doctor_tells_what_an_epilog_costs_main_jobs(tmp_path: Path) -> None:
    filled(tmp_path)
    found = [
        check
        for check in measured(SlurmSettings(partition="scavenge"), tmp_path)
        if check.name == "holder end"
    ]
    (slow,) = found
    assert slow.state is CheckStatus.WARNING
    assert (
        "idle 11 s after a holder's end: a main job that preempts holders waits that long for "
        "the Epilog" in slow.detail
    )
    assert '[ "$SLURM_JOB_PARTITION" = scavenge ] && exit 0' in slow.remedy
    assert not list(measured(SlurmSettings(partition="scavenge"), tmp_path / "new"))


# --- Time-outs of commands that could let leases lapse are refused, on every site and with the
# remedy

TABLES = {"slurm": 'partition = "scavenge"', "lsf": 'queue = "idle"\nslots_per_node = 4'}


def built(tmp_path: Path, site: str, timeout_s: float | None, lease_s: float) -> None:
    path = tmp_path / "bftrainer.toml"
    timeout = "" if timeout_s is None else f"timeout_s = {timeout_s}"
    path.write_text(
        f'[nodes]\nholder = "{site}"\n[times]\nlease_s = '
        f"{lease_s}\n[{site}]\n{TABLES[site]}\n{timeout}\n",
        encoding="utf-8",
    )
    build_site(read_config(path), tmp_path, SystemClock())


@pytest.mark.parametrize("site", TABLES)
def test_a_lease_holds_four_commands_without_an_answer(tmp_path: Path, site: str) -> None:
    built(tmp_path, site, None, 60.0)
    built(tmp_path, site, 20.0, 80.0)
    with pytest.raises(InputFileError) as refused:
        built(tmp_path, site, 20.0, 60.0)
    assert str(refused.value) == (
        f"configuration: {site}.timeout_s: is 20 s, but times.lease_s is only 60 s: a few "
        "commands without an answer would let "
        f"every holder end; set {site}.timeout_s to 15 or less, or times.lease_s to 80 or more"
    )
    assert find_site(site).table


# --- What a holder knows of a fragment's start: the payload's mark, and the scheduler's list


def listed(ends_s: float | None) -> Job:
    return Job("7", "n1", JobPhase.RUNS, ends_s)


def test_a_job_began_its_limit_before_its_end() -> None:
    held = HolderFragment(
        Fragment("n1#7", FragmentPhase.PENDING), 0.0, OwnSubmission(0.0, 600.0, "")
    )
    held = held.listed_as(listed(None), 1.0)
    assert held.fragment.reached == ()
    held = held.listed_as(listed(1_700_000_600.0), 2.0)
    held = held.listed_as(listed(1_700_000_900.0), 3.0)  # prolonged
    assert held.fragment.reached == ((NodeStage.JOB_STARTED, 1_700_000_000.0),)
    predecessors = HolderFragment.adopted("n1#7", 0.0)
    assert predecessors.listed_as(listed(1_700_000_600.0), 2.0).fragment.reached == ()


def test_a_mark_that_is_no_time_is_no_instant() -> None:
    assert ready_since("1700000000.123456\n") == ((NodeStage.PAYLOAD_READY, 1_700_000_000.123456),)
    for mark in ("", "ready", "1e400", "nan", "17", "1700000000.1 x"):
        assert ready_since(mark) == ()


def test_a_payload_s_last_mark_is_the_instant_at_which_it_left_once() -> None:
    """The pilot hears of the end of a job only when it lists its jobs, seconds later."""
    left = (NodeStage.LEFT, 1_700_000_000.75)
    held = HolderFragment(Fragment("n1#7", FragmentPhase.READY), 0.0)
    for _ in range(2):  # it is read again until the job is over
        held = held.left("1700000000.500000 notice killed=3 took_s=0.250000", 5.0)
    assert held.fragment.reached == (left,)
    assert held.fragment.phase is FragmentPhase.LEAVING
    assert held.fragment.why == "preempted; 3 processes ended in 0.25 s"
    for mark in (
        "released",
        "1e400 notice killed=3 took_s=0.25",
        "1700000000.5 notice killed=3 took_s=1.2.3",
        "\u0661 x killed=1 took_s=1",
    ):
        assert left_at(mark) == ()
