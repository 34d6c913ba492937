"""Trainings with virtual ranks: the same bits at every number of workers, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.needs import need_package
from support.patience import PATIENCE

from bftrainer import progress
from bftrainer.errors import InvalidValueError
from bftrainer.progress.randomness import random_states
from bftrainer.progress.virtual_rank_data import SeededSamples, VirtualSampler
from bftrainer.progress.virtual_rank_tree import TreeSum, subtrees, virtual_ranks_of

SCHEDULES = Path(__file__).parents[1] / "support" / "virtual_rank_schedules.py"
counts = st.sampled_from([2, 4, 8, 16, 32])


# --- The tree


@given(counts, st.integers(1, 32))
def test_workers_share_the_virtual_ranks_in_order(count: int, size: int) -> None:
    size = min(size, count)
    shares = [virtual_ranks_of(count, rank, size) for rank in range(size)]
    assert [rank for share in shares for rank in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(counts, st.data())
def test_subtrees_cover_a_share_and_are_the_largest(count: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, count - 1))
    share = range(begin, data.draw(st.integers(begin + 1, count)))
    trees = subtrees(share)
    assert [rank for tree in trees for rank in tree] == list(share)
    for tree in trees:
        assert len(tree) & (len(tree) - 1) == 0
        assert tree.start % len(tree) == 0
        parent_begin = tree.start - tree.start % (2 * len(tree))
        parent = range(parent_begin, parent_begin + 2 * len(tree))
        assert not (share.start <= parent.start and parent.stop <= share.stop)


class Expression(str):
    """A vector whose sum shows the order of additions."""

    __slots__ = ()

    def add_(self, other: str) -> Expression:
        return Expression(f"({self}+{other})")


def tree_sum(shares: list[range]) -> str:
    """What workers with these shares compute together."""
    total = TreeSum()
    for share in shares:
        own = TreeSum()
        for rank in share:
            own.add(range(rank, rank + 1), Expression(rank))  # type: ignore[arg-type]
        for tree, vector in zip(subtrees(share), own.sums(), strict=True):
            total.add(tree, vector)
    (result,) = total.sums()
    return str(result)


@given(counts, st.integers(1, 32))
def test_sums_have_one_order_at_every_number_of_workers(count: int, size: int) -> None:
    size = min(size, count)
    shares = [virtual_ranks_of(count, rank, size) for rank in range(size)]
    assert tree_sum(shares) == tree_sum([range(count)])


def test_the_order_of_sums_is_a_binary_tree() -> None:
    assert tree_sum([range(3), range(3, 4)]) == "((0+1)+(2+3))"


# --- Data


@given(counts, st.integers(1, 32), st.integers(32, 70), st.integers(32, 40))
def test_samples_of_a_virtual_rank_do_not_depend_on_workers(
    count: int, size: int, samples: int, batch: int
) -> None:
    size = min(size, count)
    batches = progress.Batches(progress.Scaling.STRONG, batch)

    def passes(size: int) -> list[list[Any]]:
        samplers = [VirtualSampler(samples, batches, rank, size, count) for rank in range(size)]
        return [list(sampler) for sampler in samplers]

    (whole,) = passes(1)
    steps = len(whole) // count
    by_worker = passes(size)
    joined = []
    for step in range(steps):
        for rank, own in enumerate(by_worker):
            width = len(virtual_ranks_of(count, rank, size))
            joined += own[step * width : (step + 1) * width]
    assert joined == whole


def test_samples_are_augmented_alike_in_any_order() -> None:
    need_package("torch")
    import torch

    class Random:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> float:
            return index + float(torch.rand(()))

    samples = SeededSamples(Random(), 3)
    forward = [samples[2, index] for index in range(4)]
    assert [samples[2, index] for index in reversed(range(4))] == forward[::-1]
    assert [samples[3, index] for index in range(4)] != forward


# --- Schedules


def tallies(*options: str) -> list[dict[str, Any]]:
    """Play schedules in a process that forks their workers."""
    need_package("torch")
    argv = [sys.executable, str(SCHEDULES), *options]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=600 * PATIENCE)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert lines, ended.stderr
    return lines


@pytest.mark.slow
def test_random_schedules_of_workers_end_with_the_same_bits() -> None:
    for tally in tallies("--schedules", "6", "--seed", "1"):
        assert tally["other_bits"] == 0, tally
        assert tally["kills"] >= 1
        assert len(tally["sizes"]) >= 3


@pytest.mark.nightly
def test_a_thousand_random_schedules_end_with_the_same_bits() -> None:
    assert sum(tally["other_bits"] for tally in tallies("--schedules", "1000")) == 0


@pytest.mark.slow
def test_without_virtual_ranks_the_bits_follow_the_sizes() -> None:
    (tally,) = tallies("--schedules", "2", "--models", "mlp", "--plain")
    assert tally["other_bits"] == 2


# --- One worker


@pytest.fixture
def torch() -> Any:
    need_package("torch")
    import torch

    torch.manual_seed(1)
    return torch


def training_of(torch: Any, folder: Path, model: Any = None, **options: Any) -> Any:
    """A training on 24 samples with 4 virtual ranks."""
    from bftrainer.progress.torch import Training

    model = torch.nn.Linear(3, 1) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs = torch.arange(72.0).view(24, 3) / 72
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    options = {
        "batch": 8,
        "checkpoint": folder / "c.pt",
        "virtual_ranks": 4,
        "reporter": progress.Reporter({}),
        **options,
    }
    return Training(model, optimizer, data, **options)


def loss_in(training: Any) -> Callable[[Any], Any]:
    def loss_of(batch: Any) -> Any:
        inputs, targets = batch
        return (training.model(inputs) - targets).square().mean()

    return loss_of


def test_gradients_are_those_of_the_global_batch(torch: Any, tmp_path: Path) -> None:
    training = training_of(torch, tmp_path, batch=10)  # virtual ranks of 3 and of 2 samples
    batch = next(iter(training.loader))
    assert [len(inputs) for inputs, _ in batch] == [3, 3, 2, 2]
    loss = training.gradients(loss_in(training), batch)
    gradients = [weight.grad.clone() for weight in training.model.parameters()]
    training.model.zero_grad()
    whole = loss_in(training)([torch.cat(parts) for parts in zip(*batch, strict=True)])
    whole.backward()
    torch.testing.assert_close(loss, whole.detach())
    for gradient, weight in zip(gradients, training.model.parameters(), strict=True):
        torch.testing.assert_close(gradient, weight.grad)


def test_gradients_of_several_batches_accumulate(torch: Any, tmp_path: Path) -> None:
    training = training_of(torch, tmp_path)
    loss_of = loss_in(training)
    first, second = list(training.loader)[:2]
    sums = torch.zeros(1, 3)
    for batch in (first, second):
        training.model.zero_grad()
        training.gradients(loss_of, batch)
        sums += training.model.weight.grad
    training.model.zero_grad()
    for batch in (first, second):
        training.gradients(loss_of, batch)
    assert torch.equal(training.model.weight.grad, sums)


def test_a_weight_that_no_virtual_rank_uses_keeps_no_gradient(torch: Any, tmp_path: Path) -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)])
    training = training_of(torch, tmp_path, model)
    training.gradients(lambda batch: model[0](batch[0]).mean(), next(iter(training.loader)))
    assert model[0].weight.grad is not None
    assert model[1].weight.grad is None


def test_running_statistics_are_averaged_and_batches_counted_once(
    torch: Any, tmp_path: Path
) -> None:
    model = torch.nn.BatchNorm1d(3)
    training = training_of(torch, tmp_path, model)
    batch = next(iter(training.loader))
    training.gradients(lambda part: model(part[0]).square().mean(), batch)
    means = torch.stack([inputs.mean(0) for inputs, _ in batch])
    torch.testing.assert_close(model.running_mean, 0.1 * means.mean(0))
    assert model.num_batches_tracked.item() == 1


def test_other_buffers_are_those_of_the_first_virtual_rank(torch: Any, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 1)
    model.register_buffer("latest", torch.zeros(3))
    model.register_buffer("lowest", torch.full((2,), torch.finfo(torch.float32).min))
    training = training_of(torch, tmp_path, model)
    batch = next(iter(training.loader))

    def loss_of(part: Any) -> Any:
        model.latest.add_(part[0].sum(0))
        return model(part[0]).mean()

    for _ in range(2):
        training.gradients(loss_of, batch)
    assert torch.equal(model.latest, 2 * batch[0][0].sum(0))
    assert torch.equal(model.lowest, torch.full((2,), torch.finfo(torch.float32).min))


def test_the_same_loop_trains_without_virtual_ranks(torch: Any, tmp_path: Path) -> None:
    training = training_of(torch, tmp_path, virtual_ranks=None)
    for _ in training.epochs(1):
        for batch in training.step_loader:
            training.optimizer.zero_grad()
            training.gradients(loss_in(training), batch)
            training.optimizer.step()
    assert training.step_number == 3


def test_numbers_that_the_loop_draws_are_equal_on_all_ranks(torch: Any, tmp_path: Path) -> None:
    drawn = []
    for rank in range(2):
        training = training_of(torch, tmp_path / str(rank))
        training.rank = rank
        batch = next(iter(training.loader))
        before = torch.rand(()).item()
        training.gradients(loss_in(training), batch)
        drawn.append((before, torch.rand(()).item()))
    assert drawn[0] == drawn[1]


def test_a_loss_that_a_script_keeps_does_not_keep_the_gradients(torch: Any, tmp_path: Path) -> None:
    training = training_of(torch, tmp_path, torch.nn.Linear(3, 1000))
    loss = training.gradients(loss_in(training), next(iter(training.loader)))
    assert loss.untyped_storage().nbytes() == 4


@pytest.mark.parametrize("takers", [{0}, {3}, {1, 2}, {0, 1, 2, 3}], ids=str)
def test_a_norm_of_a_branch_counts_a_batch_whichever_virtual_ranks_take_it(
    torch: Any, tmp_path: Path, takers: set[int]
) -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(3, 1), torch.nn.BatchNorm1d(3)])
    training = training_of(torch, tmp_path, model)
    ranks = iter(range(4))

    def loss_of(part: Any) -> Any:
        inputs = model[1](part[0]) if next(ranks) in takers else part[0]
        return model[0](inputs).mean()

    training.gradients(loss_of, next(iter(training.loader)))
    assert model[1].num_batches_tracked.item() == 1


def test_random_numbers_of_a_step_do_not_repeat(torch: Any, tmp_path: Path) -> None:
    """Two losses of a step, such as those of a GAN, have noise of their own, and so has the
    script.
    """
    training = training_of(torch, tmp_path)
    drawn: list[float] = []

    def loss_of(part: Any) -> Any:
        drawn.append(torch.rand(()).item())
        return training.model(part[0]).mean()

    def step(batch: Any) -> None:
        for _ in range(2):
            drawn.append(torch.rand(()).item())
            training.gradients(loss_of, batch)
        drawn.append(torch.rand(()).item())
        training.optimizer.step()
        training.step()

    batches = iter(training.loader)
    step(next(batches))
    step(next(batches))
    assert len(set(drawn)) == len(drawn) == 22


def test_numbers_drawn_between_steps_are_equal_on_all_ranks(torch: Any, tmp_path: Path) -> None:
    drawn, reported = [], []
    for rank in range(2):
        torch.manual_seed(1 if rank == 0 else 99)  # a script may seed by rank, or not at all
        training = training_of(torch, tmp_path / str(rank))
        training.rank = rank
        epochs = training.epochs(1)
        next(epochs)
        at_begin = torch.rand(()).item()
        training.gradients(loss_in(training), next(iter(training.loader)))
        training.optimizer.step()
        training.report.step = lambda **_: reported.append(random_states())
        training.step()
        drawn.append((at_begin, torch.rand(()).item()))
    assert drawn[0] == drawn[1]
    assert reported[0] != reported[1]  # the rehearsal compares ranks by these


def test_buffers_that_are_caches_may_grow(torch: Any, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 1)
    model.register_buffer("mask", None, persistent=False)
    model.register_buffer("angles", torch.zeros(1), persistent=False)
    model.register_buffer("latest", torch.zeros(3))
    training = training_of(torch, tmp_path, model)
    batch = next(iter(training.loader))
    calls = iter(range(2, 99))

    def loss_of(part: Any) -> Any:
        length = next(calls)
        model.register_buffer("mask", torch.ones(length), persistent=False)
        model.register_buffer("angles", torch.ones(length), persistent=False)
        model.latest = model.latest + part[0].sum(0)  # by another tensor
        return model(part[0]).mean()

    for _ in range(2):
        training.gradients(loss_of, batch)
    assert torch.equal(model.latest, 2 * batch[0][0].sum(0))


# --- What is refused


def refused(make: Callable[[], Any], *words: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make()
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_models_and_objects_that_cannot_have_virtual_ranks_are_refused(
    torch: Any, tmp_path: Path
) -> None:
    synchronized = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.SyncBatchNorm(3))
    refused(lambda: training_of(torch, tmp_path, synchronized), "SyncBatchNorm")

    class FullyShardedDataParallel(torch.nn.Linear):
        """Stands for torch's, which needs a process group."""

    sharded = FullyShardedDataParallel(3, 1)
    refused(lambda: training_of(torch, tmp_path, sharded), "sharded")
    scaler = torch.amp.GradScaler("cpu")
    refused(lambda: training_of(torch, tmp_path, keep={"scaler": scaler}), "keep['scaler']")
    other = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(other.parameters(), 0.1)

    def with_another_optimizer() -> Any:
        from bftrainer.progress.torch import Training

        model = torch.nn.Linear(3, 1)
        data = torch.utils.data.TensorDataset(torch.zeros(24, 3))
        return Training(
            model,
            optimizer,
            data,
            batch=8,
            checkpoint=tmp_path / "c.pt",
            keep={"other": other},
            virtual_ranks=4,
        )

    refused(with_another_optimizer, "ModuleList")


@pytest.mark.parametrize("count", [0, 1, 3, 6, True])
def test_other_numbers_than_powers_of_two_are_refused(
    torch: Any, tmp_path: Path, count: int
) -> None:
    refused(lambda: training_of(torch, tmp_path, virtual_ranks=count), "power of two")


def test_a_batch_below_the_number_of_virtual_ranks_is_refused(torch: Any, tmp_path: Path) -> None:
    refused(lambda: training_of(torch, tmp_path, batch=3), "4 virtual ranks")


def test_more_workers_than_virtual_ranks_are_refused() -> None:
    from bftrainer.progress.virtual_rank_checks import check_count

    refused(lambda: check_count(8, 9), "9 workers", "max_nodes")


def test_steps_of_another_kind_are_refused(torch: Any, tmp_path: Path) -> None:
    training = training_of(torch, tmp_path)
    batch = next(iter(training.loader))
    loss = loss_in(training)(batch[0])
    refused(lambda: training.backward(loss), "training.gradients(loss_of, batch)")
    loss.backward()
    refused(training.optimizer.step, "training.gradients(loss_of, batches)")
    refused(lambda: training.gradients(loss_in(training), list(batch)), "training.loader")
    refused(lambda: training.gradients(lambda part: 1.0, batch), "loss_of must return")

    sparse = torch.nn.Embedding(3, 1, sparse=True)
    training = training_of(torch, tmp_path, sparse)
    indices = torch.tensor([0, 1])
    refused(lambda: training.gradients(lambda part: sparse(indices).sum(), batch), "sparse")


def test_steps_that_change_weights_or_shapes_are_refused(torch: Any, tmp_path: Path) -> None:
    """An average of weights in ``loss_of`` would be made once for each virtual rank of a worker."""
    model = torch.nn.ModuleList([torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)])
    for weight in model[1].parameters():
        weight.requires_grad_(False)

    def in_place(part: Any) -> Any:
        with torch.no_grad():
            model[1].weight.mul_(0.9).add_(model[0].weight, alpha=0.1)
        return model[0](part[0]).mean()

    def by_data(part: Any) -> Any:
        model[1].weight.data = model[1].weight.data * 0.9 + model[0].weight.data * 0.1
        return model[0](part[0]).mean()

    def longer(part: Any) -> Any:
        model[1].register_buffer("queue", torch.zeros(len(part[0])))
        return model[0](part[0]).mean()

    training = training_of(torch, tmp_path, model)
    batch = next(iter(training.loader))
    for loss_of in (in_place, by_data):
        refused(lambda loss_of=loss_of: training.gradients(loss_of, batch), "1.weight", "after")
    refused(lambda: training.gradients(longer, batch), "1.queue", "persistent=False")
    limited = torch.nn.Embedding(3, 1, max_norm=1.0)
    refused(lambda: training_of(torch, tmp_path, limited), "max_norm")


def test_an_rnn_may_move_its_weights(torch: Any, tmp_path: Path) -> None:
    model = torch.nn.ModuleList([torch.nn.LSTM(3, 2), torch.nn.Linear(2, 1)])
    training = training_of(torch, tmp_path, model)

    def loss_of(part: Any) -> Any:
        for weight in model[0].parameters():  # as flatten_parameters() does on a GPU
            weight.data = weight.data.clone()
        return model[1](model[0](part[0])[0]).mean()

    training.gradients(loss_of, next(iter(training.loader)))


@pytest.mark.slow
def test_collective_calls_are_refused_before_a_training_grows(tmp_path: Path) -> None:
    need_package("torch")
    (tmp_path / "member.py").write_text(COLLECTIVE.replace("if training.size == 1:", "if False:"))
    argv = [sys.executable, "-W", "ignore", str(tmp_path / "member.py"), str(tmp_path)]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    begin = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "FORM_GROUP": "1"}
    ended = subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, env=os.environ | group | begin, check=True
    )
    assert ended.stdout.splitlines()[1].startswith("loss_of calls torch.distributed")


def test_attributes_of_a_data_set_are_those_of_its_samples() -> None:
    class Data(list[int]):
        path = "file"

    samples = SeededSamples(Data([1, 2]), 0)
    assert samples.path == "file"
    assert pickle.loads(pickle.dumps(SeededSamples([1, 2], 0)))[0, 1] == 2
    with pytest.raises(AttributeError):
        _ = samples.other


def test_a_scaler_that_the_script_does_not_keep_is_refused(torch: Any, tmp_path: Path) -> None:
    training = training_of(torch, tmp_path)
    scaler = torch.amp.GradScaler("cpu")
    loss_of = loss_in(training)
    batch = next(iter(training.loader))
    training.gradients(lambda part: scaler.scale(loss_of(part)), batch)
    refused(lambda: scaler.step(training.optimizer), "GradScaler")
    off = torch.amp.GradScaler("cpu", enabled=False)
    off.step(training_with_gradients(torch, tmp_path).optimizer)


def training_with_gradients(torch: Any, folder: Path) -> Any:
    training = training_of(torch, folder)
    training.gradients(loss_in(training), next(iter(training.loader)))
    return training


def test_another_number_of_virtual_ranks_than_the_checkpoints_is_refused(
    torch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training_of(torch, tmp_path).save()
    training_of(torch, tmp_path)
    assert capsys.readouterr().err == ""
    refused(lambda: training_of(torch, tmp_path, virtual_ranks=8), "virtual_ranks=4")
    content = torch.load(tmp_path / "c.pt", weights_only=True)
    content["virtual_ranks"]["arithmetic"] = "torch 1.0, 64 threads, AVX2, cpu"
    torch.save(content, tmp_path / "c.pt")
    training_of(torch, tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert "was written with torch 1.0, 64 threads, AVX2, cpu" in line
    content["virtual_ranks"] = None
    del content["virtual_ranks"]
    torch.save(content, tmp_path / "c.pt")
    training_of(torch, tmp_path)  # trained without them so far


COLLECTIVE = """
import os, sys, torch, torch.distributed as dist
from pathlib import Path
from bftrainer.errors import InvalidValueError
from bftrainer.progress import Reporter
from bftrainer.progress.torch import Training

folder = Path(sys.argv[1])
torch.manual_seed(1)
if "FORM_GROUP" in os.environ:
    dist.init_process_group("gloo")
model = torch.nn.Linear(2, 1)
data = torch.utils.data.TensorDataset(torch.randn(16, 2, generator=torch.Generator().manual_seed(1)))
training = Training(model, torch.optim.SGD(model.parameters(), 0.1), data, batch=8, virtual_ranks=4,
                    checkpoint=folder / "c.pt", reporter=Reporter({}))


def loss_of(batch):
    return model(batch[0]).mean()


def collective_loss_of(batch):
    loss = loss_of(batch)
    dist.all_reduce(loss.detach())
    return loss


batch = next(iter(training.loader))
loss = training.gradients(loss_of, batch)
print(training.size, loss.item().hex(), model.weight.grad.sum().item().hex())
if training.size == 1:
    sys.exit()
try:
    training.gradients(collective_loss_of, batch)
except InvalidValueError as error:
    print(error)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_a_group_that_training_forms_and_collective_calls_that_are_refused(tmp_path: Path) -> None:
    need_package("torch")
    (tmp_path / "member.py").write_text(COLLECTIVE)
    argv = [sys.executable, "-W", "ignore", str(tmp_path / "member.py"), str(tmp_path)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    members = [
        subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | group | {"RANK": str(rank)},
        )
        for rank in range(2)
    ]
    alone = subprocess.run(argv, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    for member in members:
        bits, refusal = member.communicate(timeout=60 * PATIENCE)[0].splitlines()
        assert bits.replace("2 ", "1 ", 1) == alone.stdout.strip()
        assert refusal.startswith("loss_of calls torch.distributed")
