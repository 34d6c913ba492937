"""Files of problems: what the audit writes is the pilot's problem, bit for bit."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from support import random_problems

from bftrainer.config.problem_file import document_of, problem_of, read_problem
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.domain.problem import PendingStart, Problem
from bftrainer.errors import InputFileError


def with_everything(seed: int) -> Problem:
    """A problem whose trainers have weights, sizes, two costs and a pending start."""
    rng = random.Random(seed)
    problem = random_problems.like_table_2(rng, 6, 60)
    first, second, third, *others = problem.demands
    demands = (
        replace(first, stalled_s=rng.random(), ramp_s=7.0 * rng.random()),
        replace(second, stalled_s=3.0, pending=PendingStart(1, rng.random(), 2.0, 0.5)),
        replace(third, sizes=(0, third.min_nodes, third.max_nodes)),
        *others,
    )
    weights = tuple([rng.random() + 0.1 for _ in demands])
    return replace(problem, demands=demands, weights=weights)


@pytest.mark.parametrize("seed", range(5))
def test_a_problem_is_read_as_it_was_written(seed: int) -> None:
    problem = with_everything(seed)
    again = read_problem(json.dumps(document_of(problem)), "a file")
    assert again == problem
    assert [d.pending for d in again.demands] == [d.pending for d in problem.demands]
    assert Exact().solve(again) == Exact().solve(problem)


def test_one_without_weights_gets_none() -> None:
    problem = replace(with_everything(1), weights=())
    assert problem_of(json.loads(json.dumps(document_of(problem))), "a file") == problem


def test_a_trainer_has_a_curve_or_a_value() -> None:
    document = json.loads(json.dumps(document_of(with_everything(1))))
    document["trainers"][0]["curve"] = {"nodes": [1], "samples_per_s": [1.0]}
    with pytest.raises(InputFileError, match=r"a file: trainers.0: .* either a curve or a value"):
        problem_of(document, "a file")
