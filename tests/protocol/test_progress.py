"""The helper in the training script, with a fake Horovod."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.needs import need_package
from support.ran import python

from bftrainer import progress
from bftrainer.errors import UserError
from bftrainer.progress.reporter import named
from bftrainer.system.json_tail import JsonTail
from bftrainer.wires.environment import TRAINER_DIR
from bftrainer.wires.messages import StartedPer, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import parse_progress
from bftrainer.wires.reports import DriverView, after_progress
from bftrainer.wires.typed_json import write_json


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class World:
    """The part of horovod.torch that is used. Broadcasts return the argument: this is rank 0."""

    def __init__(self) -> None:
        self.ranks, self.broadcasts = (0, 1), 0

    def rank(self) -> int:
        return self.ranks[0]

    def size(self) -> int:
        return self.ranks[1]

    def broadcast(self, numbers: Any, root_rank: int, name: str) -> Any:
        assert root_rank == 0
        self.broadcasts += 1
        return numbers


class Interrupted(Exception):  # noqa: N818
    """Horovod's HostsUpdatedInterrupt."""


class ElasticState:
    def __init__(self) -> None:
        self.step, self.samples, self.loss, self.interrupts = 0, 0, 0.5, False
        self.saved = 0
        self.callbacks: list[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        self.callbacks += callbacks

    def reset(self) -> None:
        for callback in self.callbacks:
            callback()

    def save(self) -> None:
        self.saved = self.step

    def restore(self) -> None:
        self.step = self.saved

    def sync(self) -> None:
        return

    def commit(self) -> None:
        self.save()
        if self.interrupts:
            self.interrupts = False
            raise Interrupted


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def report(folder: Path, clock: Clock) -> progress.Reporter:
    """The reporter of rank 0 in the fourth incarnation."""
    return progress.Reporter(
        {"BFTRAINER_TRAINER_DIR": str(folder), "BFTRAINER_INCARNATION": "4"}, clock
    )


def lines(folder: Path) -> list[dict[str, Any]]:
    return JsonTail(folder / "progress.jsonl").read()


def ask(folder: Path, file: str, number: int, request: str = "stop") -> None:
    (folder / file).write_text(json.dumps({"version": 1, "request": request, "number": number}))


def steps(state: ElasticState, clock: Clock, count: int, each_s: float = 0.1) -> None:
    for _ in range(count):
        clock.now_s += each_s
        state.step += 1
        state.samples += 32
        state.commit()


def test_one_line_a_second_and_one_for_every_change(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    for step in range(25):
        size = 1 if step < 12 else 2
        assert not report.step(step=step, samples=step * 8, loss=1.0, world_size=size, lr=0.1)
        clock.now_s += 0.25
    written = lines(folder)
    assert [line["step"] for line in written] == [0, 4, 8, 12, 16, 20, 24]
    facts = {"world_size": 2, "step": 12, "samples": 96, "loss": 1.0, "lr": 0.1}
    assert written[3] == {"time": 1003.0, "phase": "running", "incarnation": 4, **facts}
    report.checkpointed()
    report.done()
    assert [line["phase"] for line in lines(folder)[-2:]] == ["checkpointed", "done"]


def test_workers_that_form_no_group_are_told_so_at_the_first_report(
    folder: Path, clock: Clock
) -> None:
    here = {"BFTRAINER_TRAINER_DIR": str(folder), "RANK": "0", "WORLD_SIZE": "2"}
    for started_per in StartedPer:
        message = TrainerMessage("t", ("python", "t.py"), folder, 1, 2, started_per=started_per)
        write_json(TrainerDirectory(folder).trainer, message)
        if started_per is StartedPer.WORKER:
            with pytest.raises(
                UserError, match="2 workers were started, but this one trains alone"
            ):
                progress.Reporter(here, clock).step(step=1, samples=1)
        else:
            progress.Reporter(here, clock).step(step=1, samples=1)
    progress.Reporter(here, clock).step(step=2, samples=2, world_size=2)
    progress.Reporter({**here, "HOROVOD_RANK": "0"}, clock).step(step=3, samples=3)
    assert [line["world_size"] for line in lines(folder)] == [1, 2, 1]


def test_a_sign_of_life_is_a_line_without_a_step_at_most_once_a_second(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    report.step(step=7, samples=56)
    for number in range(25):
        clock.now_s += 0.1
        assert not report.busy()
        report.metrics(accuracy=number)
    written = lines(folder)
    assert [line["phase"] for line in written] == ["running", "busy", "busy"]
    assert (written[1]["step"], written[1]["metrics"]) == (None, {"accuracy": 8})
    ask(folder, "control", 1)
    clock.now_s += 1
    assert report.busy(), "a stop request is obeyed in an evaluation as well"


@pytest.mark.parametrize(
    ("end", "phase"), [("pass", "running"), ("report.done()", "done"), ("1 / 0", "running")]
)
def test_the_last_step_of_a_process_is_reported(folder: Path, end: str, phase: str) -> None:
    script = "from bftrainer.progress import Reporter\nreport = Reporter()\n"
    script += f"for step in range(5):\n    report.step(step=step, samples=step * 8)\n{end}"
    python("-c", script, env=os.environ | {"BFTRAINER_TRAINER_DIR": str(folder)})
    written = lines(folder)
    assert [line["samples"] for line in written] == [0, 32]
    assert written[-1]["phase"] == phase


def test_only_rank_0_writes(folder: Path, clock: Clock, report: progress.Reporter) -> None:
    here = {"BFTRAINER_TRAINER_DIR": str(folder), "SLURM_PROCID": "1"}
    progress.Reporter(here, clock).step(step=1, samples=1)
    assert lines(folder) == []
    progress.Reporter(here, clock, rank=0).step(step=1, samples=1)
    assert len(lines(folder)) == 1


@pytest.mark.parametrize(
    ("file", "number", "request_", "stops"),
    [
        ("control", 9, "stop", True),
        ("control", 9, "run", False),
        ("leave", 4, "stop", True),
        ("leave", 3, "stop", False),
    ],
)
def test_who_may_ask_for_a_stop(
    folder: Path,
    clock: Clock,
    report: progress.Reporter,
    file: str,
    number: int,
    request_: str,
    stops: bool,
) -> None:
    ask(folder, file, number, request_)
    assert report.stop_requested() is stops


def test_files_that_cannot_be_read_ask_for_nothing(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    (folder / "control").write_text("{")
    (folder / "leave").mkdir()
    assert not report.stop_requested()


def test_a_checkpoint_has_the_name_of_the_trainer_or_of_the_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/home/ada/train.py"])
    assert named("a/{name}.pt", {TRAINER_DIR: "/state/trainers/sweep-lr0.1"}) == Path(
        "a/sweep-lr0.1.pt"
    )
    assert named("{name}.pt", {}) == Path("train.pt")


def test_the_exit_status_is_the_known_one(report: progress.Reporter) -> None:
    with pytest.raises(SystemExit) as left:
        report.leave()
    assert left.value.code == progress.STOPPED_STATUS == 83


def test_outside_of_bftrainer_nothing_happens(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    report = progress.Reporter({})
    state, world, rescales = ElasticState(), World(), []
    original = ElasticState.commit
    assert (
        progress.track(
            state, world, checkpoint=pytest.fail, on_rescale=lambda *sizes: rescales.append(sizes)
        )
        is state
    )
    assert state.commit.__func__ is original  # type: ignore[attr-defined]
    assert not report.step(step=1, samples=1)
    report.checkpointed()
    world.ranks = (0, 2)
    state.reset()
    assert rescales == [(1, 2)], "the learning rate follows the size there too"
    assert list(folder.iterdir()) == []


def test_a_rescale_shows_the_last_step_before_and_the_first_after(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    state, world, rescales = ElasticState(), World(), []
    progress.track(
        state,
        world,
        on_rescale=lambda *sizes: rescales.append(sizes),
        further=lambda: {"lr": 0.5},
        reporter=report,
    )
    steps(state, clock, 15)
    state.interrupts = True
    with pytest.raises(Interrupted):
        steps(state, clock, 1)
    clock.now_s += 0.3
    world.ranks = (0, 3)
    state.reset()
    steps(state, clock, 2, each_s=0.2)
    written = lines(folder)
    assert [(line["step"], line["world_size"], line.get("formed")) for line in written[-3:]] == [
        (16, 1, None),
        (16, 3, True),
        (17, 3, None),
    ]
    assert written[-1]["time"] - written[-3]["time"] == pytest.approx(0.5)
    assert written[-1]["lr"] == 0.5
    assert rescales == [(1, 3)]


def test_a_new_rank_0_goes_on_writing(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    state, world = ElasticState(), World()
    world.ranks = (1, 2)
    progress.track(state, world, reporter=report)
    steps(state, clock, 5)
    assert lines(folder) == []
    world.ranks = (0, 1)
    state.reset()
    assert [line["world_size"] for line in lines(folder)] == [2, 1]


def test_a_stop_request_is_a_checkpoint_a_barrier_and_an_exit(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    state, world, saved = ElasticState(), World(), []
    progress.track(state, world, checkpoint=lambda: saved.append(world.broadcasts), reporter=report)
    steps(state, clock, 10)
    ask(folder, "control", 1)
    before = state.step
    with pytest.raises(SystemExit) as left:
        steps(state, clock, 10)
    assert left.value.code == progress.STOPPED_STATUS
    assert state.step - before <= 4, "asked about every 0.2 s"
    assert saved == [world.broadcasts - 1], "nobody may leave before rank 0 has saved"
    assert lines(folder)[-1]["phase"] == "checkpointed"
    assert lines(folder)[-1]["step"] == state.step


def test_a_group_that_is_asked_to_stop_while_it_forms_makes_no_step(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    """It may have no legal size; the request may be younger than the last look for one."""
    state, world, saved = ElasticState(), World(), []
    progress.track(state, world, checkpoint=lambda: saved.append(state.step), reporter=report)
    state.sync()
    steps(state, clock, 3)
    ask(folder, "leave", 4)
    state.restore()
    state.reset()
    with pytest.raises(SystemExit) as left:
        state.sync()
    assert left.value.code == progress.STOPPED_STATUS
    assert saved == [3]


def test_a_checkpoint_file_is_loaded_by_the_next_state(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    need_package("torch")
    torch, path = import_module("torch"), folder / "t.pt"

    def tracked() -> tuple[ElasticState, progress.Sampler]:
        state, (sampler, rate) = ElasticState(), kept()
        state.model = torch.nn.Linear(2, 1)  # type: ignore[attr-defined]
        state.optimizer = torch.optim.SGD(state.model.parameters(), lr=0.1)  # type: ignore[attr-defined]
        progress.track(state, World(), checkpoint=str(path), keep=[sampler, rate], reporter=report)
        return state, sampler

    first, sampler = tracked()
    sampler.advance()
    steps(first, clock, 10)
    ask(folder, "control", 1)
    with pytest.raises(SystemExit):
        steps(first, clock, 10)
    second, again = tracked()
    assert (second.step, again.samples) == (first.step, sampler.samples) == (first.step, 10)
    assert torch.equal(second.model.weight, first.model.weight)  # type: ignore[attr-defined]


def test_asking_costs_a_broadcast_every_0_2_s_not_every_commit(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    state, world = ElasticState(), World()
    progress.track(state, world, reporter=report)
    steps(state, clock, 1000, each_s=0.01)
    assert 40 <= world.broadcasts <= 60


def kept() -> tuple[progress.Sampler, progress.LearningRate]:
    sampler = progress.Sampler(1000, progress.Batches(progress.Scaling.WEAK, 10))
    return sampler, progress.LearningRate(base=0.1, base_batch=10, warmup_steps=10)


@pytest.mark.parametrize("inside", [True, False])
def test_what_is_kept_follows_the_state(folder: Path, inside: bool) -> None:
    """Back to the commit after a loss, and from rank 0 to a worker that joins; outside bftrainer as
    well.
    """
    report = progress.Reporter({"BFTRAINER_TRAINER_DIR": str(folder)} if inside else {})
    state, world, (sampler, rate) = ElasticState(), World(), kept()
    progress.track(state, world, keep=[sampler, rate], reporter=report)
    for step in range(3):
        rate.at(10, step)
        sampler.advance()
    state.commit()
    world.ranks = (0, 2)
    state.reset()
    assert len(next(iter(sampler))) == 10
    before = sampler.state_dict(), rate.state_dict()
    rate.at(20, 3)
    sampler.advance()
    assert sampler.samples == 50, "both workers' batches"
    state.restore()
    assert (sampler.state_dict(), rate.state_dict()) == before
    sampler.advance()
    assert rate.at(20, 3) == 0.1
    sent: list[Any] = []
    world.broadcast = lambda numbers, root_rank, name: sent.append(numbers) or numbers  # type: ignore[method-assign, assignment]
    state.sync()

    newcomer, (its_sampler, its_rate) = World(), kept()
    newcomer.ranks = (1, 2)
    joined = progress.track(
        ElasticState(), newcomer, keep=[its_sampler, its_rate], reporter=progress.Reporter({})
    )
    newcomer.broadcast = lambda numbers, root_rank, name: sent.pop(0)  # type: ignore[method-assign]
    joined.sync()
    assert its_rate.at(20, 8) == rate.at(20, 8) == pytest.approx(0.15)
    assert its_sampler.samples == sampler.samples
    assert not set(next(iter(its_sampler))) & set(next(iter(sampler)))
    its_sampler.advance()
    joined.restore()
    assert its_sampler.samples == sampler.samples, (
        "a worker that has just joined restores what it has received"
    )


def test_horovods_own_sampler_hears_of_workers_that_only_left() -> None:
    class ElasticSampler:
        processed_num, resets = 0, 0

        def record_batch(self, index: int, size: int) -> None: ...

        def reset(self) -> None:
            self.resets += 1

    state, world = ElasticState(), World()
    state.sampler = ElasticSampler()  # type: ignore[attr-defined]
    progress.track(state, world, reporter=progress.Reporter({}))
    before = state.sampler.resets  # type: ignore[attr-defined]
    state.reset()
    assert state.sampler.resets == before + 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(("rank", "saves"), [(0, 3), (1, 0)])
def test_rank_0_alone_saves_every_so_often(
    folder: Path, clock: Clock, report: progress.Reporter, rank: int, saves: int
) -> None:
    state, world, saved = ElasticState(), World(), []
    world.ranks = (rank, 2)
    progress.track(
        state,
        world,
        checkpoint=lambda: saved.append(state.step),
        checkpoint_every_s=1.0,
        reporter=report,
    )
    steps(state, clock, 35)
    assert len(saved) == saves
    assert [line["step"] for line in lines(folder) if line["phase"] == "checkpointed"] == saved


def test_a_stop_that_is_requested_during_a_checkpoint_needs_no_second_one(
    folder: Path, clock: Clock, report: progress.Reporter
) -> None:
    """Two checkpoints of 3 s do not fit into the 5 s for which a main job waits."""
    state, saved = ElasticState(), list[int]()

    def save() -> None:
        saved.append(state.step)
        clock.now_s += 3.0
        ask(folder, "control", 1)

    progress.track(state, World(), checkpoint=save, checkpoint_every_s=1.0, reporter=report)
    with pytest.raises(SystemExit) as left:
        steps(state, clock, 35)
    assert left.value.code == progress.STOPPED_STATUS
    assert saved == [state.step]


def test_a_disk_that_is_full_does_not_end_the_training(
    folder: Path, report: progress.Reporter, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "progress.jsonl").mkdir()
    assert not report.step(step=1, samples=1)
    assert "progress is not written" in capsys.readouterr().err


class Array:
    """The part of a NumPy array that a digest reads."""

    def __init__(self, value: float) -> None:
        self.value, self.size = value, 1

    def reshape(self, _: int) -> Array:
        return self

    def __getitem__(self, _: slice) -> Array:
        return self

    def tobytes(self) -> bytes:
        return repr(self.value).encode()

    def __abs__(self) -> Array:
        return Array(abs(self.value))

    def sum(self) -> float:
        return self.value


def ranks_that_train(
    folder: Path, clock: Clock, values: list[float], rates: list[float], steps: int
) -> None:
    """All ranks report the same steps, rank 0 last."""
    here = {"BFTRAINER_TRAINER_DIR": str(folder), "BFTRAINER_INCARNATION": "2"}
    made = []
    for rank, (value, base) in enumerate(zip(values, rates, strict=True)):
        report, rate = (
            progress.Reporter(here, clock, rank=rank),
            progress.LearningRate(base=base, base_batch=1),
        )
        report.watch(lambda value=value: [Array(value)], rate=rate)
        made.append((report, rate))
    for step in range(steps):
        clock.now_s += 1
        for report, rate in reversed(made):
            rate.at(1, step)
            report.step(step=step, samples=step, world_size=len(made))


@pytest.mark.parametrize(
    ("values", "rates", "said"),
    [
        ([5.0, 5.0, 5.0], [0.1, 0.1, 0.1], ""),
        ([5.0, 5.0, 7.0], [0.1, 0.1, 0.1], "weights differ at step 0: rank 0 has 5, rank 2 has 7"),
        (
            [5.0, 7.0, 5.0],
            [0.1, 0.2, 0.1],
            "learning rates differ at step 0: rank 0 has 0.1, rank 1 has 0.2",
        ),
    ],
)
def test_rank_0_says_which_ranks_disagree(
    folder: Path, clock: Clock, values: list[float], rates: list[float], said: str
) -> None:
    ranks_that_train(folder, clock, values, rates, 2)
    found = [parse_progress(line).ranks_disagree for line in lines(folder)]
    assert found == [None, said], "the second line is the first for which all ranks have reported"
    assert after_progress(DriverView(), lines(folder)).ranks_disagree == said


def test_ranks_report_ever_more_seldom_and_their_files_are_bounded(
    folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks_that_train(folder, clock, [1.0, 1.0], [0.1, 0.1], 1000)
    path = TrainerDirectory(folder).rank(1)
    assert [line["step"] + 1 for line in JsonTail(path).read()] == [
        1,
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
        512,
    ]
    monkeypatch.setattr("bftrainer.progress.ranks.FILE_BYTES", 400)
    for _ in range(20):
        ranks_that_train(folder, clock, [1.0, 1.0], [0.1, 0.1], 1)
    assert sum(file.stat().st_size for file in path.parent.glob("1.jsonl*")) < 1200 + 400


def test_a_hostile_rank_file_is_neither_believed_nor_followed(folder: Path, clock: Clock) -> None:
    path = TrainerDirectory(folder).rank(1)
    path.parent.mkdir()
    same = {"time": 1, "incarnation": 2, "rank": 1, "world_size": 2, "since_step": 0, "step": 0}
    hostile = [
        {},
        [],
        5,
        same | {"weights": "\x1b[2J"},
        same | {"rate": 1e999},
        same | {"step": 10**400},
        same | {"level": "x"},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in hostile) + "torn")
    report = progress.Reporter(
        {"BFTRAINER_TRAINER_DIR": str(folder), "BFTRAINER_INCARNATION": "2"}, clock, rank=0
    )
    report.watch(lambda: [Array(1.0)])
    for step in range(4):
        report.step(step=step, samples=0, world_size=2)
    assert [parse_progress(line).ranks_disagree or "" for line in lines(folder)] == [""]
    path.unlink()
    (folder / "elsewhere").write_text("mine")
    path.symlink_to(folder / "elsewhere")
    other = progress.Reporter({"BFTRAINER_TRAINER_DIR": str(folder)}, clock, rank=1)
    other.watch(lambda: [Array(1.0)])
    other.step(step=1, samples=1, world_size=2)
    assert (folder / "elsewhere").read_text() == "mine"


def test_it_needs_the_standard_library_only() -> None:
    script = (
        "import sys; sys.path_hooks[:] = sys.path_hooks\n"
        "import bftrainer.progress\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - "
        "set(sys.stdlib_module_names)))"
    )
    found = python("-I", "-c", script, check=True)
    assert not {"numpy", "torch", "click", "rich", "highspy"} & set(eval(found.stdout)), (
        found.stdout
    )
