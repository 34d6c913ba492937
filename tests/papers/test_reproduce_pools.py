"""Reproductions on pools: the claims that must hold, on seeds of their own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bftrainer.decide.domain.model import Curve
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.errors import InputFileError
from bftrainer_papers import afs, loss_phase, modelarts
from bftrainer_papers.policies.loss_phase import LossPhase
from bftrainer_papers.reproduction import PaperResult, ReproductionOptions, ResultVerdict
from bftrainer_papers.virtual_clusters import virtual_clusters


@pytest.mark.parametrize("load", afs.LOADS)
def test_afs_l_afs_p_equal_share_srtf_in_that_order(load: float) -> None:
    """Mean completion over six seeds."""
    hours = [
        float(np.mean([afs.mean_completion_h(policy, load, seed) for seed in range(11, 17)]))
        for policy in afs.policies()
    ]
    assert hours == sorted(hours)
    assert hours[-1] > hours[2], "srtf is strictly the slowest"


def test_loss_phase_within_the_tolerance_of_the_published_times() -> None:
    rows = loss_phase.reproduce(ReproductionOptions()).rows
    published = [row for row in rows if row.paper is not None and not row.what.startswith("Fig.")]
    assert len(published) == 8
    assert {row.verdict for row in published} == {ResultVerdict.WITHIN}


def test_a_hundred_iterations_tell_the_younger_task_and_one_does_not() -> None:
    by_one, by_hundred = (loss_phase.right_order_share(n, (11, 12)) for n in (1, 100))
    assert 40 < by_one < 70
    assert by_hundred > 95


def test_factors_are_judged_around_one() -> None:
    hours = {"afs-l": 10.0, "srtf": 27.0, "themis": 9.0, "tiresias-l": 20.0}
    rows = {row.what: row for row in afs.factor_rows("x", hours, "why")}
    assert [row.verdict.value for row in rows.values()] == ["FAILED", "within", "direction only"]


def test_virtual_clusters_have_their_own_jobs_and_a_load_that_can_be_served(
    tmp_path: Path,
) -> None:
    trace = tmp_path / "philly.csv"
    lines = ["timestamp,duration,num_gpus,gpu_time,cluster"]
    for hour in range(24):
        lines += [
            f"2017-10-09 {hour:02}:00:00,3600.0,2,0,busy",
            f"2017-10-09 {hour:02}:30:00,360.0,1,0,idle",
            f"2017-10-09 {hour:02}:10:00,0.0,1,0,busy",
        ]
    trace.write_text("\n".join(lines) + "\n")
    (busy,) = virtual_clusters(trace, 3)
    assert (busy.name, len(busy.jobs)) == ("busy", 24), "a job of 0 s has not run"
    assert busy.load(3) == pytest.approx(2 * 24 / (3 * 23))
    arrivals = busy.arrivals(3, seed=1)
    assert arrivals == busy.arrivals(3, seed=1)
    for arrival in arrivals:
        trainer = arrival.trainer
        assert trainer.requested_nodes == 2
        assert trainer.samples_total == pytest.approx(3600.0 * trainer.curve.at(2))
    result = afs.times(afs.Srtf(), arrivals, 3)
    assert result.mean_h == pytest.approx(1.0), "each ends before the next one comes"
    assert result.busy == pytest.approx(100 * 2 / 3)
    assert 0 < result.efficiency <= result.busy
    with pytest.raises(InputFileError, match="no virtual cluster"):
        virtual_clusters(trace, 300)


def test_the_trace_adds_rows_for_each_virtual_cluster(tmp_path: Path) -> None:
    trace = tmp_path / "philly.csv"
    rows = [f"2017-10-{day:02} 00:00:00,250000.0,16,0,vc" for day in range(1, 29)]
    trace.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + "\n".join(rows) + "\n")
    found = afs.traced_rows(ReproductionOptions(seeds=(1,)), trace)
    assert {row.what.partition(":")[0] for row in found} == {"vc (28 jobs, 27 days)"}
    assert [row.paper for row in found if row.paper is not None] == [2.2, 2.7, 3.1]
    assert len([row for row in found if "makespan" in row.what]) == 3


@pytest.mark.parametrize("power", [0.3, 0.6, 0.8, 1.0])
def test_with_a_concave_curve_3_to_1_gains_nothing_in_total(power: float) -> None:
    speeds = tuple((n / 4) ** power for n in (1, 2, 3, 4))
    setting = loss_phase.SpeedSetting("concave", (speeds[0], speeds[1], speeds[2], speeds[3]), None)
    equal, phased = (loss_phase.train(setting, policy) for policy in (EqualShare(), LossPhase()))
    assert phased.total >= equal.total - 1e-6
    assert phased.older < equal.older


def test_modelarts_jobs_have_the_published_statistics() -> None:
    minutes = [
        a.trainer.samples_total / 60
        for seed in range(20)
        for a in _jobs(seed, modelarts.Disturbance.NONE)
    ]
    assert np.mean(minutes) == pytest.approx(232.6, rel=0.05)
    assert min(minutes) >= 5
    every = modelarts.jobs(1, 1.0, modelarts.Disturbance.NONE, short_too=True)
    assert len(every) == 1252
    assert sum(a.trainer.samples_total >= 300 for a in every) in range(447, 470)
    assert Curve((1,), (1.0,)).at(1) == modelarts.LAW.at(1)
    assert modelarts.LAW.at(8) == pytest.approx(8 * 0.8**3)


def test_modelarts_disturbances_are_what_section_5_4_says() -> None:
    eta = _jobs(1, modelarts.Disturbance.ETA)
    errors = [a.trainer.samples_total / a.actual_samples for a in eta]
    assert 0.9 <= min(errors) < 0.92
    assert 1.08 < max(errors) <= 1.1
    bugs = _jobs(1, modelarts.Disturbance.BUGS)
    stopped = [a for a in bugs if math.isfinite(a.stops_after_s)]
    assert 0.2 < len(stopped) / len(bugs) < 0.3
    assert sum(a.stops_after_s <= 300 for a in stopped) > 0.5 * len(stopped)
    assert {a.trainer.scale_up_s for a in _jobs(1, modelarts.Disturbance.DELAY)} == {15.0}


@pytest.mark.slow
def test_the_optimal_allocator_queues_less_and_finishes_sooner_than_the_greedy_one() -> None:
    found = modelarts.gain(seed=5, count=1.0, nodes=110)
    assert found.queueing < 0 < found.extra
    assert np.mean(found.decision_s) < 0.4


def test_rows_are_judged_by_their_tolerance() -> None:
    assert PaperResult("", -30.0, -20.0, tolerance=10.0).verdict is ResultVerdict.WITHIN
    assert PaperResult("", -30.0, -19.0, tolerance=10.0).verdict is ResultVerdict.DIRECTION
    assert PaperResult("", -30.0, 19.0, tolerance=10.0).verdict is ResultVerdict.FAILED
    assert PaperResult("", -30.0, math.nan, tolerance=10.0).verdict is ResultVerdict.FAILED
    assert PaperResult("", -3.0, 1.0, tolerance=10.0).verdict is ResultVerdict.FAILED, (
        "near, and the wrong way"
    )
    assert PaperResult("", 3.0, -1.0, tolerance=10.0, signed=False).verdict is ResultVerdict.WITHIN
    assert PaperResult("", 90.0, 54.0, tolerance=25.0, signed=False).verdict is ResultVerdict.FAILED
    assert PaperResult("", -2.0, -2.0, tolerance=3.0).verdict is ResultVerdict.DIRECTION, (
        "a tolerance of more than half the effect"
    )
    factor = PaperResult("", 2.7, 0.9, "x", tolerance=0.675, neutral=1.0)
    assert factor.verdict is ResultVerdict.FAILED, "0.9 times is faster, not slower"
    assert replace(factor, ours=1.3).verdict is ResultVerdict.DIRECTION
    assert replace(factor, ours=3.3).verdict is ResultVerdict.WITHIN
    assert PaperResult("", 0.0, 1e-9, tolerance=1e-6).verdict is ResultVerdict.WITHIN
    assert PaperResult("", None, -1.0, sign=1).verdict is ResultVerdict.FAILED
    assert PaperResult("", None, 1.0, sign=1).verdict is ResultVerdict.DIRECTION
    assert PaperResult("", None, 1.0).verdict is ResultVerdict.SHOWN


def _jobs(seed: int, disturbance: modelarts.Disturbance) -> tuple[modelarts.Arrival, ...]:
    return modelarts.jobs(seed, 1.0, disturbance)
