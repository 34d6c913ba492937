"""The ready parts in scripts: at most ten changed lines, stopped and resumed without a trace, the
same weights at the end.
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.needs import need_package
from support.patience import PATIENCE

from bftrainer.progress import Reporter
from bftrainer.wires.control import STOPPED_STATUS, ControlMessage, ControlRequest
from bftrainer.wires.environment import INCARNATION, REPORT_EVERY_S, TRAINER_DIR
from bftrainer.wires.messages import StartedPer, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import write_json

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "examples" / "scripts"
KINDS = sorted(path.name.removesuffix("_plain.py") for path in SCRIPTS.glob("*_plain.py"))
MOST_LINES = 10
MODULES = {
    "torch": "torch",
    "lightning": "lightning",
    "transformers": "transformers",
    "accelerate": "accelerate",
}


def changed(before: list[str], after: list[str]) -> int:
    """Lines that were added, removed or replaced (the larger side of each); blank lines and the
    first docstring apart.
    """
    first, second = ([line for line in lines[1:] if line.strip()] for lines in (before, after))
    steps = difflib.SequenceMatcher(a=first, b=second, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in steps if tag != "equal")


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_needs_ten_changed_lines_or_fewer(kind: str) -> None:
    plain, idle = (
        SCRIPTS.joinpath(f"{kind}_{end}.py").read_text().splitlines() for end in ("plain", "idle")
    )
    assert 0 < changed(plain, idle) <= MOST_LINES


def test_the_count_sees_what_it_counts() -> None:
    assert changed(["doc", "a", "b"], ["other doc", "a", "", "c", "d"]) == 2
    assert sorted(MODULES) == KINDS


def start(kind: str, folder: Path, incarnation: int, epochs: int) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        TRAINER_DIR: str(folder / "trainer"),
        INCARNATION: str(incarnation),
        REPORT_EVERY_S: "0",
        "EPOCHS": str(epochs),
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "TORCHELASTIC_RUN_ID": "t",
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
    }
    with (folder / f"{incarnation}.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPTS / f"{kind}_idle.py")],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            text=True,
        )


def prepared(folder: Path) -> TrainerDirectory:
    directory = TrainerDirectory(folder / "trainer")
    directory.logs.mkdir(parents=True)
    message = TrainerMessage(
        id="t",
        command=("true",),
        cwd=folder,
        environment={},
        setup=(),
        started_per=StartedPer.WORKER,
        min_nodes=1,
        max_nodes=1,
        stop_s=30.0,
    )
    write_json(directory.trainer, message)
    directory.leave.touch()
    return directory


def lines(directory: TrainerDirectory) -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in directory.progress.read_text().splitlines()]
        if directory.progress.exists()
        else []
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_that_was_stopped_ends_with_the_same_weights(kind: str, tmp_path: Path) -> None:
    need_package(MODULES[kind])
    import torch

    whole, halves = tmp_path / "whole", tmp_path / "halves"
    directories = {folder: prepared(folder) for folder in (whole, halves)}
    epochs = 2
    straight = start(kind, whole, 1, epochs)
    # Asked before it begins, so that it leaves after its first step, however fast or slow it is.
    write_json(directories[halves].control, ControlMessage(ControlRequest.STOP, 1))
    first = start(kind, halves, 1, epochs)
    assert first.wait(100 * PATIENCE) == STOPPED_STATUS, (halves / "1.log").read_text()
    stopped = lines(directories[halves])
    assert (stopped[-1]["phase"], stopped[-1]["step"]) == ("checkpointed", 1)
    assert (halves / stopped[-1]["checkpoint"]).exists()
    write_json(directories[halves].control, ControlMessage(ControlRequest.RUN, 2))
    second = start(kind, halves, 2, epochs)
    for child, folder in ((straight, whole), (second, halves)):
        assert child.wait(100 * PATIENCE) == 0, "".join(
            path.read_text() for path in sorted(folder.glob("*.log"))
        )
    ended = [lines(directories[folder]) for folder in (whole, halves)]
    assert [it[-1]["phase"] for it in ended] == ["done", "done"]
    assert ended[0][-1]["samples"] == ended[1][-1]["samples"]
    lengths = {
        line["samples_total"] for it in ended for line in it if line["phase"] in ("running", "done")
    }
    assert lengths == {float(ended[0][-1]["samples"])}, "the length is known from the first step"
    steps = [line["step"] for line in ended[1] if line["phase"] == "running"]
    assert steps == list(range(1, len(steps) + 1)), "each step once, over the restart"
    assert len(steps) > 10
    weights = [torch.load(folder / "weights.pt", weights_only=True) for folder in (whole, halves)]
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


def test_a_loop_reports_how_long_it_will_be(tmp_path: Path) -> None:
    need_package("torch")
    import torch

    from bftrainer.progress import Batches, Replicas, Sampler, Scaling
    from bftrainer.progress.torch import StepLoop, Training

    model, data = torch.nn.Linear(2, 1), torch.utils.data.TensorDataset(torch.ones(32, 2))

    def reporter() -> Reporter:
        return Reporter({})

    def optimizer() -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1)

    file = tmp_path / "model.pt"
    training = Training(model, optimizer(), data, batch=2, checkpoint=file, reporter=reporter())
    assert training.report.samples_total is None
    next(training.epochs(3))
    assert training.report.samples_total == 96
    steps = StepLoop(model, optimizer(), batch=4, checkpoint=file, reporter=reporter())
    next(steps.range(10))
    assert steps.report.samples_total == 40
    for _ in range(3):
        optimizer().step()
        steps.step()
    steps.save()
    resumed = StepLoop(model, optimizer(), batch=4, steps=10, checkpoint=file, reporter=reporter())
    assert resumed.step_number == 3
    assert resumed.report.samples_total == 40, "the steps that are done count once"
    report, sampler = reporter(), Sampler(data, Batches(Scaling.WEAK, 2))
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
    next(Replicas(model, optimizer(), sampler, reporter=report).batches(loader, 5))
    assert report.samples_total == 160


class Asked(Reporter):
    """A reporter whose trainer is asked to stop at once."""

    def stop_requested(self) -> bool:
        return True


def test_saving_and_leaving_wait_for_the_step_that_applies_gradients_of_several_batches(
    tmp_path: Path,
) -> None:
    need_package("torch")
    import torch

    from bftrainer.progress.torch import Training

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.ones(32, 2))
    file = tmp_path / "model.pt"
    training = Training(
        model, optimizer, data, batch=2, checkpoint=file, checkpoint_every_s=0.0, reporter=Asked({})
    )
    seen = []

    def train() -> None:
        for batch, (inputs,) in enumerate(training.loader):
            seen.append(file.exists())
            training.backward(model(inputs).mean())
            if batch % 3 == 2:
                optimizer.step()
            training.step()

    with pytest.raises(SystemExit):
        train()
    assert seen == [False, False, False], "no checkpoint without gradients of batches before it"
    saved = torch.load(file, weights_only=True)
    assert (saved["step"], saved["sampler"]["samples"]) == (3, 6)
    assert torch.equal(saved["model"]["weight"], model.weight)


def test_the_time_between_saves_follows_what_a_save_costs(tmp_path: Path) -> None:
    need_package("torch")
    import torch

    from bftrainer.progress.torch import StepLoop

    class Slow:
        def state_dict(self) -> dict[str, Any]:
            time.sleep(0.1)
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            return

    def loop(**options: Any) -> StepLoop:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        file = tmp_path / "model.pt"
        return StepLoop(
            model, optimizer, batch=4, checkpoint=file, reporter=Reporter({}), **options
        )

    first = loop(keep={"slow": Slow()})
    assert first._due_s() == 10.0, "no save was measured"
    first.save()
    once_s = first._due_s()
    assert once_s > (2 * 0.1 * 120) ** 0.5
    first.save()  # this file says how long the save before took
    killed = loop(keep={"slow": Slow()})
    assert 0.6 < killed._due_s() / once_s < 0.85, "the start before was killed"
    killed.end()
    killed = loop(keep={"slow": Slow()})
    assert (killed._losses, killed._all_trained_s() > 0.1) == (1, True), "it ended by itself"
    (tmp_path / "model.pt").unlink()
    fast = loop()
    fast.save()
    fast._save_s = 0.001
    assert fast._due_s() == 1.0
    fast._save_s, fast._trained_s = 5.0, 1e6
    assert fast._due_s() == 600.0
    fast._save_s, fast._trained_s = 100.0, 604_800.0  # 10 GB on slow storage, a week without a loss
    assert 100.0 / (100.0 + fast._due_s()) == pytest.approx(0.05)
    assert loop(checkpoint_every_s=7.0)._due_s() == 7.0


def test_starts_that_end_before_their_first_save_save_earlier_and_earlier(tmp_path: Path) -> None:
    """After a week without a loss, a save is due after 600 s: starts of 100 s would make none."""
    need_package("torch")
    import torch

    from bftrainer.progress.torch import StepLoop

    def loop(start: int) -> StepLoop:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        reporter = Reporter({"BFTRAINER_INCARNATION": str(start)})
        return StepLoop(
            model, optimizer, batch=4, checkpoint=tmp_path / "model.pt", reporter=reporter
        )

    first = loop(7)
    first._save_s, first._trained_s = 5.0, 604_800.0
    first.save()
    due_s = []
    for start in (8, 9, 10, 11, 10_000):
        later = loop(start)
        later._save_s = 5.0
        due_s.append(round(later._due_s()))
    assert due_s == [600, 300, 150, 75, 1]
    later.save()
    later._save_s = 5.0
    assert later._due_s() == 600.0, "this start has saved"


def test_a_stop_at_the_last_step_ends_the_loop(tmp_path: Path) -> None:
    """A further start would make no pass, and names that the loop sets would have no values."""
    need_package("torch")
    import torch

    from bftrainer.progress.torch import StepLoop

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = StepLoop(
        model, optimizer, batch=4, checkpoint=tmp_path / "model.pt", reporter=Asked({})
    )
    steps.step_number = 9
    passes = []
    for number in steps.range(10):
        passes.append(number)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        steps.step()
    assert passes == [9], "no SystemExit"
    assert torch.load(tmp_path / "model.pt", weights_only=True)["step"] == 10


def test_a_script_that_loads_its_own_optimizer_keeps_the_rate_of_one_worker(tmp_path: Path) -> None:
    """Its own checkpoint has the rate of a larger group."""
    need_package("torch")
    import torch

    from bftrainer.progress.torch import Training

    data, model = torch.utils.data.TensorDataset(torch.ones(32, 2)), torch.nn.Linear(2, 1)

    def begin(rate: float) -> float:
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        training = Training(
            model, optimizer, data, batch=2, checkpoint=tmp_path / "model.pt", reporter=Reporter({})
        )
        training.apply_rate()
        training.save()
        return float(optimizer.param_groups[0]["lr"])

    assert [begin(0.1), begin(0.3)] == [0.1, 0.1]


def test_elastic_training_hooks_nothing_into_the_optimizer(tmp_path: Path) -> None:
    """Its steps are those of ``state.commit()``."""
    need_package("torch")
    import torch

    from bftrainer.progress.horovod import ElasticTraining

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    calls = dict.fromkeys(
        ("commit", "save", "restore", "sync", "register_reset_callbacks"), lambda *_: None
    )
    state = SimpleNamespace(model=model, optimizer=optimizer, **calls)
    hvd: Any = SimpleNamespace(rank=lambda: 0, size=lambda: 1)
    data = torch.utils.data.TensorDataset(torch.ones(32, 2))
    ElasticTraining(
        hvd, state, data, batch=2, checkpoint=tmp_path / "model.pt", reporter=Reporter({})
    )
    assert not optimizer._optimizer_step_post_hooks
