"""Random numbers of steps: as if no restart had come, and different on each rank."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.needs import need_package

from bftrainer import progress
from bftrainer.progress.randomness import step_seed


def test_no_two_of_seed_step_rank_and_purpose_share_a_seed() -> None:
    seeds = {
        step_seed(seed, step, rank, purpose)
        for seed in range(10)
        for step in range(100)
        for rank in range(10)
        for purpose in ("step", "data")
    }
    assert len(seeds) == 20_000
    assert all(0 <= seed < 2**64 for seed in seeds)


class Drawn:
    """Data whose samples are augmented at random."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, number: int) -> Any:
        import torch

        return torch.rand(2)


def numbers(folder: Path, kind: str, starts: list[int], rank: int = 0) -> list[tuple[float, ...]]:
    """What a script with a seed draws at each step; it is started once for each number of steps."""
    import torch

    from bftrainer.progress.torch import StepLoop, Training

    drawn: list[tuple[float, ...]] = []
    folder.mkdir()

    def step_of(loop: Any, batch: Any) -> None:
        mask = torch.rand(1).item()
        drawn.append((loop.step_number, mask, random.random(), *batch.flatten().tolist()))
        loss = loop.model(batch).sum()
        loop.optimizer.zero_grad()
        loss.backward()
        loop.optimizer.step()
        loop.step(loss)

    for steps in starts:
        torch.manual_seed(7)
        random.seed(7)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        checkpoint = folder / "c.pt"
        reporter = progress.Reporter({})
        if kind == "StepLoop":
            loop = StepLoop(model, optimizer, batch=2, checkpoint=checkpoint, reporter=reporter)
            loop.rank = rank
            loop._seed()
            for _ in range(steps):
                step_of(loop, torch.rand(2, 2))
        else:
            loop = Training(
                model, optimizer, Drawn(), batch=2, checkpoint=checkpoint, reporter=reporter
            )
            loop.rank = rank
            left = steps
            while left:
                for batch in loop.loader:
                    step_of(loop, batch)
                    left -= 1
                    if not left:
                        break
        loop.save()
    return drawn


@pytest.mark.parametrize("kind", ["StepLoop", "Training"])
def test_a_restart_changes_and_repeats_no_random_number(kind: str, tmp_path: Path) -> None:
    need_package("torch")
    whole = numbers(tmp_path / "whole", kind, [10])
    assert numbers(tmp_path / "restarted", kind, [4, 1, 5]) == whole
    assert len({values[1:] for values in whole}) == 10
    other = numbers(tmp_path / "other", kind, [10], rank=1)
    assert not {values[1] for values in other} & {values[1] for values in whole}
