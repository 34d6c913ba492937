"""The check of what a trainer has lived through finds every kind of lie."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from pilot_job import check_story

Story = dict[str, list[dict[str, Any]]]


def story() -> Story:
    """Two nodes, steps 1 to 7; a node is lost, 6 and 7 are made again on one; a restart from the checkpoint of step 8."""
    told: Story = {"steps": [], "begins": [], "saved": []}
    clock = iter(range(1000))

    def tell(kind: str, incarnation: int, size: int, step: int, samples: int, **more: object) -> None:
        weights = f"{step}.{samples}"
        line = {"incarnation": incarnation, "size": size, "step": step, "samples": samples, "weights": weights}
        told[kind].append(line | {"at_s": next(clock), **more})

    def group(incarnation: int, size: int, step: int, samples: int, last: int) -> int:
        for rank in range(size):
            tell("begins", incarnation, size, step, samples, rank=rank)
        for number in range(step + 1, last + 1):
            samples += 8 * size
            tell("steps", incarnation, size, number, samples)
        return samples

    group(1, 2, 0, 0, 7)
    samples = group(1, 1, 5, 80, 8)
    tell("saved", 1, 1, 8, samples)
    group(2, 2, 8, samples, 12)
    return told


def lies() -> dict[str, Callable[[Story], object]]:
    return {
        "a step is missing": lambda s: s["steps"].pop(3),
        "a step is there twice": lambda s: s["steps"].insert(3, deepcopy(s["steps"][3])),
        "more is made again than was lost": lambda s: s["begins"][2].update(step=1, samples=16, weights="1.16"),
        "other weights after a rescale": lambda s: s["begins"][2].update(weights="other"),
        "a rank with other weights": lambda s: s["begins"][1].update(weights="other"),
        "other samples after a rescale": lambda s: s["begins"][2].update(samples=81),
        "a restart from nothing": lambda s: s["begins"][3].update(step=0, samples=0, weights="0.0"),
        "a restart with other weights": lambda s: [b.update(weights="other") for b in s["begins"][3:]],
        "an orphan trains on beside its successor": lambda s: s["steps"][-1].update(incarnation=1),
        "a step at another size than its group": lambda s: s["steps"][2].update(size=3),
        "samples that nobody made": lambda s: s["steps"][4].update(samples=1000),
        "nothing at all": lambda s: s["steps"].clear(),
    }


def test_a_true_story_passes() -> None:
    check_story(**story(), commit_every=5)


@pytest.mark.parametrize("lie", lies())
def test_a_lie_is_found(lie: str) -> None:
    told = story()
    lies()[lie](told)
    with pytest.raises(AssertionError):
        check_story(**told, commit_every=5)
