"""A data set that is another one at each start or rank is refused in one line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.needs import need_package

from bftrainer import progress
from bftrainer.errors import InvalidValueError
from bftrainer.wires.data_summary import DataSummary, parse_summary


def images(count: int = 400, augmented: bool = False) -> Any:
    import torch

    class Images:
        """Numbers and labels; augmented ones are multiplied by a random number."""

        def __len__(self) -> int:
            return count

        def __getitem__(self, number: int) -> Any:
            fixed = torch.randn(16, generator=torch.Generator().manual_seed(number))
            return fixed * torch.rand(1) if augmented else fixed, number % 10

    return Images()


def trained(folder: Path, data: Any, seed: int | None = None, workers: int = 0) -> Any:
    """A start of a training, which makes one step."""
    import torch

    from bftrainer.progress.torch import Training

    if seed is not None:
        torch.manual_seed(seed)
        random.seed(seed)
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    training = Training(
        model,
        optimizer,
        data,
        batch=4,
        checkpoint=folder / "c.pt",
        reporter=progress.Reporter({}),
        loader_options={"num_workers": workers},
    )
    inputs, _ = next(iter(training.loader))
    training.backward(model(inputs).sum())
    optimizer.step()
    training.step()
    training.save()
    return training


def split(data: Any, seed: int) -> Any:
    import torch

    return torch.utils.data.random_split(data, [360, 40], torch.Generator().manual_seed(seed))[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unseeded_split_is_refused_at_the_next_start(workers: int, tmp_path: Path) -> None:
    need_package("torch")
    trained(tmp_path, split(images(), 1), workers=workers)
    trained(tmp_path, split(images(), 1), workers=workers)
    with pytest.raises(InvalidValueError, match=r"not the one of the checkpoint .*c.pt") as refused:
        trained(tmp_path, split(images(), 2), workers=workers)
    assert "(360 samples, but others): split and shuffle with a fixed seed" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_other_samples_are_seen_in_the_samples(workers: int, tmp_path: Path) -> None:
    """A split by another library leaves lists, without indices."""
    need_package("torch")
    data = images()
    order = list(range(400))
    random.Random(1).shuffle(order)
    trained(tmp_path, [data[number] for number in order[:360]], workers=workers)
    random.Random(2).shuffle(order)
    with pytest.raises(InvalidValueError, match="360 samples, but others"):
        trained(tmp_path, [data[number] for number in order[:360]], workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_augmentation_is_no_other_data_set(workers: int, tmp_path: Path) -> None:
    need_package("torch")
    for seed in range(3):
        trained(tmp_path, images(augmented=True), seed, workers)


def test_data_whose_samples_are_never_the_same_are_not_compared(tmp_path: Path) -> None:
    need_package("torch")
    import torch

    generator = torch.Generator()

    class Noise(list[int]):
        def __getitem__(self, number: Any) -> Any:
            return torch.randn(16, generator=generator), number

    for seed in range(3):
        generator.manual_seed(seed)
        trained(tmp_path, Noise(range(400)))


def test_data_that_cannot_be_read_here_are_not_compared(tmp_path: Path) -> None:
    need_package("torch")

    class ByName(dict[Any, Any]):
        def __getitem__(self, number: Any) -> Any:
            raise KeyError(number)

    from bftrainer.progress.data_set import summary_of

    assert summary_of(ByName({1: 2}), 0) == DataSummary(1)


def test_reading_samples_leaves_the_random_numbers_as_they_were() -> None:
    need_package("torch")
    import torch

    from bftrainer.progress.data_set import summary_of

    drawn = []
    for workers in (None, 0, 1):
        torch.manual_seed(7)
        random.seed(7)
        summary_of(images(augmented=True), workers)
        drawn.append((random.random(), torch.rand(1).item()))
    assert len(set(drawn)) == 1


def test_a_summary_survives_numbers_and_json() -> None:
    for summary in (
        DataSummary(360),
        DataSummary(360, 2**47, ((1.5, -0.25), (2.0, 0.1), (0.0, 0.0))),
    ):
        assert DataSummary.of_numbers(summary.numbers()) == summary
        assert len(summary.numbers()) == len(DataSummary(1).numbers())
        assert parse_summary(json.loads(json.dumps(summary.as_dict()))) == summary
    for hostile in (None, [], {"length": "x"}, {"length": 1e400}):
        assert parse_summary(hostile) is None
    assert parse_summary({"length": 3, "samples": [[1, float("nan")]]}) == DataSummary(3)
    assert parse_summary({"length": 3, "samples": [[1]] * 2}) == DataSummary(3)


def test_rounding_is_no_difference() -> None:
    one = DataSummary(360, None, ((100.0, 3.0),))
    assert one.difference(DataSummary(360, None, ((100.01, 3.01),))) is None
    assert one.difference(DataSummary(360, None, ((100.0, 3.2),))) is not None
    assert one.difference(DataSummary(361)) == "361 samples instead of 360"
    assert one.difference(DataSummary(360)) is None
