"""The recipes of docs/train.md: without a pilot, a training that resumes at another number of
workers uses each sample of the epoch once.

Beside each recipe stands the same script as its users write it, which uses samples twice: the test
would see it.
"""

from __future__ import annotations

import os
import random
import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.needs import need_package
from support.ran import ran

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "examples" / "standalone"
SAMPLES = 96
PACKAGES = {
    "torch_loop": "torch",
    "accelerate_loop": "accelerate",
    "transformers_trainer": "transformers",
}
USUAL = {
    # Accelerate's documentation: prepare the loader, and skip the batches that were done.
    "accelerate_loop": {
        "from accelerate import Accelerator\n": (
            "from accelerate import Accelerator, skip_first_batches\n"
        ),
        "loader = DataLoader(data, batch_sampler=sampler)\n": (
            "generator = torch.Generator().manual_seed(7)\n"
            "loader = DataLoader(data, batch_size=4, shuffle=True, generator=generator)\n"
            "loader = accelerator.prepare(loader)\n"
            "if options.checkpoint.exists():\n"
            "    loader = skip_first_batches(loader, 6)\n"
        ),
        "while sampler.epoch < options.epochs and steps != options.stop_after:\n": "if True:\n",
    },
    # The Trainer skips the steps that were done; they had the batches of two workers.
    "transformers_trainer": {
        "    **constant_batch(12),\n": "    per_device_train_batch_size=6,\n",
    },
}
"""By recipe: its lines, and what a script without bftrainer has in their place."""


def used(script: Path, folder: Path, sizes: tuple[int, int]) -> Counter[int]:
    """How often each sample is used by a training that ends after six steps of the first size, and
    resumes at the second one.
    """
    (folder / "log").mkdir()
    names = ("BFTRAINER", "TORCHELASTIC")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(names)}
    environment = kept | {
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "HF_HUB_OFFLINE": "1",
    }
    for size, arguments in zip(sizes, (["--stop-after", "6"], []), strict=True):
        launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}")
        command = (sys.executable, *launcher, script, "--samples-log", "log", *arguments)
        done = ran(*command, limit_s=300, cwd=folder, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
    words = " ".join(path.read_text() for path in (folder / "log").iterdir()).split()
    return Counter(map(int, words))


def of_tests(recipe: str) -> object:
    """Return the parameter of a recipe: that of the largest framework is for `make nightly`."""
    marks = [pytest.mark.nightly] if recipe == "transformers_trainer" else []
    return pytest.param(recipe, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [of_tests(recipe) for recipe in PACKAGES])
def test_a_resumed_training_uses_each_sample_once(recipe: str, tmp_path: Path) -> None:
    need_package(PACKAGES[recipe])
    counts = used(RECIPES / f"{recipe}.py", tmp_path, (2, 3))
    assert counts == Counter(range(SAMPLES))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [of_tests(recipe) for recipe in USUAL])
def test_the_usual_script_uses_samples_twice(recipe: str, tmp_path: Path) -> None:
    need_package(PACKAGES[recipe])
    text = (RECIPES / f"{recipe}.py").read_text()
    for line, replacement in USUAL[recipe].items():
        assert text.count(line) == 1, line
        text = text.replace(line, replacement)
    script = tmp_path / "usual.py"
    script.write_text(text)
    counts = used(script, tmp_path, (2, 1))
    assert max(counts.values()) == 2, "the fault that the recipe is for"


# --- The loader in torchtitan's style, at many sizes


class Group:
    """The loaders of all ranks of a group, in one process."""

    def __init__(self, loader: Any, data: Any, size: int, state: dict[str, int] | None) -> None:
        self.loaders = [loader(data, 12, rank, size, seed=3) for rank in range(size)]
        if state is not None:
            for each_rank in self.loaders:
                each_rank.load_state_dict(state)
        self.batches = [iter(of_rank) for of_rank in self.loaders]

    def step(self) -> list[int]:
        return [index for of_rank in self.batches for index in next(of_rank)[0].tolist()]

    def state(self) -> dict[str, int]:
        states = [of_rank.state_dict() for of_rank in self.loaders]
        assert all(state == states[0] for state in states), "one state for all ranks"
        return dict(states[0])


@pytest.mark.parametrize("seed", range(5))
def test_the_loader_gives_each_sample_once_an_epoch_over_any_sizes(seed: int) -> None:
    need_package("torch")
    recipe = runpy.run_path(str(RECIPES / "torch_loop.py"))
    draws, data = random.Random(seed), recipe["Numbers"]()
    state: dict[str, int] | None = None
    indices: list[int] = []
    while len(indices) < 3 * SAMPLES:
        group = Group(recipe["ElasticLoader"], data, draws.randint(1, 12), state)
        for _ in range(min(draws.randint(1, 5), 3 * SAMPLES // 12 - len(indices) // 12)):
            indices += group.step()
        state = group.state()
    for epoch in range(3):
        assert sorted(indices[epoch * SAMPLES : (epoch + 1) * SAMPLES]) == list(range(SAMPLES))


def test_skipped_batches_of_a_distributed_sampler_are_used_twice() -> None:
    """What a loop without a state of its own does: the batches that each rank has had are skipped."""
    need_package("torch")
    from torch.utils.data import DistributedSampler

    def shares(size: int) -> list[list[int]]:
        data = range(SAMPLES)
        return [list(DistributedSampler(data, size, rank, seed=3)) for rank in range(size)]

    per_rank = 6 * 4
    before = [index for share in shares(2) for index in share[:per_rank]]
    after = [index for share in shares(1) for index in share[per_rank:]]
    assert max(Counter(before + after).values()) == 2
