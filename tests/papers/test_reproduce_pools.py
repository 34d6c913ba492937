"""Reproductions on pools: the claims that must hold, on seeds of their own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bftrainer.decide.domain.model import Curve
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer_papers import afs, loss_phase, modelarts
from bftrainer_papers.policies.loss_phase import LossPhase
from bftrainer_papers.reproduction import PaperResult, ReproductionOptions, ResultVerdict


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
