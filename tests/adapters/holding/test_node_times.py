"""Prologs and Epilogs as holders measure them: by node class, for the next pilot, and in what is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.domain.checks import CheckStatus
from bftrainer.domain.cluster import NodeRequest
from bftrainer_adapters.holding.node_times import FILE, NodeTimes, read_times, save_times
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.doctor import measured


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
    "text", ["", "[]", "{}", '{"starts": {"a": ["x"]}, "ends": {}}', '{"starts": 1, "ends": 2}', "\0"]
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
    why = filled(tmp_path).why_too_short(NodeRequest("n1", window_s, 4, "4 a100", useful_s), 86_400.0)
    assert (why == "") is fits
    assert fits or "46 s to start a holder" in why


def test_doctor_tells_what_an_epilog_costs_main_jobs(tmp_path: Path) -> None:
    filled(tmp_path)
    found = [check for check in measured(SlurmSettings(partition="scavenge"), tmp_path) if check.name == "holder end"]
    (slow,) = found
    assert slow.state is CheckStatus.WARNING
    assert (
        "idle 11 s after a holder's end: a main job that preempts holders waits that long for the Epilog" in slow.detail
    )
    assert '[ "$SLURM_JOB_PARTITION" = scavenge ] && exit 0' in slow.remedy
    assert not list(measured(SlurmSettings(partition="scavenge"), tmp_path / "new"))
