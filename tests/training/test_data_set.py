"""A data set that is another one at each start or rank is refused in one line."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
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


def trained(
    folder: Path,
    data: Any,
    seed: int | None = None,
    workers: int = 0,
    *,
    compare_data: bool = True,
) -> Any:
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
        compare_data=compare_data,
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


def test_a_data_set_that_grew_on_purpose_continues_at_the_same_share(tmp_path: Path) -> None:
    need_package("torch")
    from bftrainer.progress.torch import Training

    def start(count: int, compare_data: bool) -> Any:
        import torch

        model = torch.nn.Linear(16, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        return Training(
            model,
            optimizer,
            images(count),
            batch=4,
            checkpoint=tmp_path / "c.pt",
            reporter=progress.Reporter({}),
            compare_data=compare_data,
        )

    first = start(40, True)
    for _ in range(15):
        first.sampler.advance()  # the middle of the second epoch
    first.save()
    with pytest.raises(InvalidValueError, match="pass compare_data=False to accept another number"):
        start(60, True)
    grown = start(60, False)
    assert (grown.sampler.epoch, grown.sampler.samples) == (1, 90)
    grown.save()
    shrunk = start(10, False)
    assert (shrunk.sampler.epoch, shrunk.sampler.samples) == (1, 15)
    shrunk.save()
    assert start(10, True).sampler.samples == 15


def test_other_samples_on_purpose_are_accepted(tmp_path: Path) -> None:
    need_package("torch")
    import torch

    values = torch.randn(8, 16)
    trained(tmp_path, [(row, 1) for row in values])
    others = [(row + 5, 1) for row in values]
    with pytest.raises(InvalidValueError, match="compare_data=False accepts data that change"):
        trained(tmp_path, others)
    trained(tmp_path, others, compare_data=False)


def test_samples_that_are_equal_twice_by_chance_are_not_refused() -> None:
    """Augmentation by a generator of the data set's own, which acts on one sample in ten."""
    from bftrainer.progress.data_set import check_start, samples_are_fixed, summary_of

    class Augmented(list[int]):
        draws = random.Random(3)

        def __getitem__(self, number: Any) -> Any:
            return number + 1000 * (self.draws.random() < 0.1)

    data, compared = Augmented(range(1, 9)), 0
    saved = DataSummary(8, None, ((0.0, 0.0), (1003.0, 1003.0), (7.0, 7.0))).as_dict()
    for _ in range(50):
        summary = summary_of(data, 0)
        compared += summary.samples is not None
        later = check_start(
            summary, saved, "c.pt", lambda present=summary: samples_are_fixed(data, present, 0)
        )
        assert later == DataSummary(8) or later.as_dict() == saved, "no longer compared"
    assert compared > 10, "two reads are often equal"


@pytest.mark.parametrize("indices", [[(0, 1), (0, 2)], {"a": 1, "b": 2}, ["x.png"], 3, {1, 2}])
def test_indices_of_a_class_of_the_script_may_be_anything(indices: Any) -> None:
    from bftrainer.progress.data_set import summary_of

    class Windows(list[int]):
        dataset = "the recording"

    data = Windows([1, 2])
    data.indices = indices  # type: ignore[attr-defined]
    assert summary_of(data, 0).split is None


def test_of_a_large_array_few_values_are_read() -> None:
    need_package("numpy")
    import tracemalloc

    import numpy

    from bftrainer.progress.data_set import summary_of

    volume = numpy.ones((128, 128, 128), numpy.float32)
    tracemalloc.start()
    try:
        summary = summary_of([volume], 0)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert summary.samples is not None
    assert peak_bytes < 4e6


def test_an_iterable_data_set_with_a_length_is_refused_in_one_line() -> None:
    need_package("torch")
    import torch

    from bftrainer.progress.loaders import parts

    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(5))

        def __len__(self) -> int:
            return 5

    with pytest.raises(InvalidValueError, match="is an IterableDataset: expected a data set whose"):
        parts(Stream(), 4, None)


def test_a_loader_whose_sampler_chooses_samples_is_refused() -> None:
    """Its sampler would be replaced: samples of a validation set would be trained on."""
    need_package("torch")
    from torch.utils import data as torch_data

    from bftrainer.progress.loaders import parts

    samples = list(range(8))

    class Balanced(torch_data.Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return iter([0, 0, 1])

        def __len__(self) -> int:
            return 3

    choosing = [
        torch_data.SubsetRandomSampler(range(4)),
        torch_data.WeightedRandomSampler([1.0] * 8, 8),
        torch_data.RandomSampler(samples, replacement=True),
        torch_data.RandomSampler(samples, num_samples=4),
        Balanced(),
    ]
    for sampler in choosing:
        with pytest.raises(InvalidValueError, match=f"{type(sampler).__name__} chooses samples"):
            parts(torch_data.DataLoader(samples, batch_size=2, sampler=sampler), None, None)
    in_batches = torch_data.BatchSampler(Balanced(), 2, False)
    with pytest.raises(InvalidValueError, match="Balanced chooses samples"):
        parts(torch_data.DataLoader(samples, batch_sampler=in_batches), None, None)
    for sampler in (None, torch_data.DistributedSampler(samples, 2, 0)):
        loader = torch_data.DataLoader(samples, batch_size=2, sampler=sampler)
        assert parts(loader, None, None).batch == 2
    assert parts(torch_data.DataLoader(samples, batch_size=2, shuffle=True), None, None).shuffle
    shuffled = torch_data.BatchSampler(torch_data.RandomSampler(samples), 2, False)
    assert parts(torch_data.DataLoader(samples, batch_sampler=shuffled), None, None).shuffle


def test_a_prepared_loader_stays_shuffled() -> None:
    """Its own sampler is a SequentialSampler; that of its batch sampler gives the order."""
    need_package("torch", "accelerate")
    import accelerate
    from torch.utils.data import DataLoader

    from bftrainer.progress.loaders import parts

    accelerator = accelerate.Accelerator(cpu=True)
    for shuffle in (True, False):
        loader = DataLoader(list(range(8)), batch_size=2, shuffle=shuffle)  # type: ignore[arg-type]
        assert parts(accelerator.prepare(loader), None, None).shuffle is shuffle
