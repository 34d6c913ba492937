"""Training under random rescales and kills, against training at a constant size, at equal numbers
of samples.

    python tests/support/training_schedules.py [--schedules 20] [--launchers horovod torchrun restart lightning]      (make training)

The shipped examples train on their digits with local workers. A schedule changes the size (1 to 3
workers) every 10 to 40 steps; one change in three is a SIGKILL. Checked at each run: equal weights
and learning rates on all ranks at every step, and each sample of an epoch once in the steps that
count. The loss curve of a run is the mean loss of each eighth of the training; the distance of two
curves is the mean difference of their logarithms, in percent.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bftrainer.system.json_tail import JsonTail
from bftrainer.wires.rank_line import RankLine, disagreement, parse_rank
from support.horovod_trainer import CHECKOUT, Line, Trainer

LARGEST = 3
WINDOWS = 8
SAMPLES = 4096
BATCH = 32
EXAMPLES = CHECKOUT / "docs/examples"


@dataclass(frozen=True)
class Kind:
    """A launcher and its example. ``{epochs}`` and ``{seed}`` are filled in."""

    driver: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def kind(driver: str, script: str, *options: str) -> Kind:
    return Kind(driver, (script, "--epochs={epochs}", "--seed={seed}", *options))


KINDS = {
    "horovod": kind("horovod", "horovod_digits.py", "--step-s=0.01", "--checkpoint-every-s=1"),
    "torchrun": kind("torchrun", "torch_digits.py", "--step-s=0.01", "--checkpoint-every=20"),
    "torchft": kind("torchft", "torchft_digits.py", "--step-s=0.01", "--checkpoint-every-s=1"),
    "lightning": Kind(
        "torchrun",
        ("lightning_digits.py",),
        (("EPOCHS", "{epochs}"), ("SEED", "{seed}"), ("STEP_S", "0.01"), ("SAVE_EVERY", "20")),
    ),
    "restart": kind(
        "restart", "numpy_parallel.py", "--steps=1000000", "--pace-s=0.01", "--checkpoint-every=20"
    ),
}


@dataclass(frozen=True)
class Run:
    """What one training did."""

    kind: str
    curve: tuple[float, ...]
    rescales: int
    kills: int
    sizes: tuple[int, ...]
    compared: int
    """Steps at which two or more ranks were compared."""


def train(
    name: str,
    folder: Path,
    seed: int,
    size: int | None,
    epochs: int,
    own: Kind | None = None,
    samples: int = SAMPLES,
) -> Run:
    """One training to its end: at a constant size, or (None) by a random schedule. Raises
    AssertionError where it is wrong.
    """
    kind = own or KINDS[name]
    words = [word.format(epochs=epochs, seed=seed) for word in kind.command]
    environment = {key: value.format(epochs=epochs, seed=seed) for key, value in kind.environment}
    with Trainer(
        folder,
        [sys.executable, str(EXAMPLES / words[0]), *words[1:]],
        driver=kind.driver,
        environment={"BFTRAINER_REPORT_EVERY_S": "0", **environment},
    ) as trainer:
        player = _Player(trainer, random.Random(f"{name} {seed}"), size)
        player.play()
        lines = rank_lines(folder)
        compared = equal_on_all_ranks(lines)
        each_sample_once(lines, samples, epochs)
        trainer.read()
        return Run(
            name,
            curve(trainer.progress, epochs * samples) if own is None else (),
            player.rescales,
            player.kills,
            tuple(player.sizes),
            compared,
        )


class _Player:
    """Changes the nodes of one trainer until its training is complete."""

    def __init__(self, trainer: Trainer, chance: random.Random, size: int | None) -> None:
        self.trainer, self.chance, self.constant = trainer, chance, size
        self.rescales = self.kills = self.count = 0
        self.sizes: list[int] = []
        self.nodes: list[str] = []

    def play(self) -> None:
        """Start, change, and start again what was lost as a whole, as a pilot does."""
        self._take(self.constant or self.chance.randint(1, LARGEST))
        self.trainer.start(self._hosts())
        while not self._has_ended_after(self.chance.randint(10, 40)):
            if self.constant is None:
                self._change()

    def _has_ended_after(self, steps: int) -> bool:
        """Wait for so many steps on the present nodes; True once training is complete."""
        since_s, give_up = time.time(), time.monotonic() + 300
        while time.monotonic() < give_up:
            self.trainer.read()
            process = self.trainer.process
            assert process is not None
            if (status := process.poll()) is not None:
                self.trainer.read()
                if status == 0:
                    return True
                assert self.trainer.events[-1]["event"] == "stopped", self.trainer.story()
                self._take(max(1, len(self.nodes)), fresh=True)
                self.trainer.start(self._hosts())
                since_s = time.time()
            made = {
                x["step"]
                for x in self.trainer.progress
                if x["time"] > since_s and x["world_size"] == len(self.nodes)
            }
            if len(made) > steps and self.constant is None:
                return False
            time.sleep(0.02)
        raise AssertionError(f"no end, and no {steps} steps\n{self.trainer.story()}")

    def _change(self) -> None:
        self.rescales += 1
        if self.chance.random() < 1 / 3:
            self.kills += 1
            victim = self.chance.choice(self.nodes)
            self.nodes.remove(victim)
            self.trainer.kill(victim)
            if self.nodes:
                self.sizes.append(len(self.nodes))
                return
        self._take(self.chance.choice([n for n in range(1, LARGEST + 1) if n != len(self.nodes)]))
        self.trainer.hosts(self._hosts())

    def _take(self, size: int, fresh: bool = False) -> None:
        """Nodes are added at the end, and leave at random, rank 0 included."""
        self.nodes = [] if fresh else self.chance.sample(self.nodes, min(size, len(self.nodes)))
        while len(self.nodes) < size:
            self.count += 1
            self.nodes.append(str(self.count))
        self.sizes.append(size)

    def _hosts(self) -> str:
        return " ".join(f"node{number}:1:{number}" for number in sorted(self.nodes, key=int))


def rank_lines(folder: Path) -> list[RankLine]:
    """Of all ranks, by time."""
    found = [
        parse_rank(line)
        for path in (folder / "ranks").glob("*.jsonl")
        for line in JsonTail(path).read()
    ]
    return sorted((line for line in found if line is not None), key=lambda line: line.at_s)


def equal_on_all_ranks(lines: Iterable[RankLine]) -> int:
    """Weights and rates, at every step of every group; the number of steps that two or more ranks
    reported.
    """
    steps: dict[object, dict[int, RankLine]] = {}
    for line in lines:
        steps.setdefault((line.group, line.step), {})[line.rank] = line
    shared = [list(by_rank.values()) for by_rank in steps.values() if len(by_rank) > 1]
    for found in shared:
        assert disagreement(found) is None, disagreement(found)
    return len(shared)


def each_sample_once(lines: Sequence[RankLine], size: int, epochs: int) -> None:
    """In the steps that count: those that no later group has made again."""
    groups: dict[object, list[RankLine]] = {}
    for line in lines:
        groups.setdefault(line.group, []).append(line)
    kept: dict[int, list[RankLine]] = {}
    for group in groups.values():
        steps = [line.step for line in group if line.indices]
        if not steps:  # the last survivor of a loss, which is no legal size, saves and stops
            continue
        kept = {step: made for step, made in kept.items() if step < min(steps)}
        for line in {(line.step, line.rank): line for line in group if line.indices}.values():
            kept.setdefault(line.step, []).append(line)
    used = Counter(
        (epoch, number)
        for made in kept.values()
        for line in made
        for epoch, numbers in line.indices or ()
        for number in numbers
    )
    twice = {sample: count for sample, count in used.items() if count > 1}
    assert not twice, f"{len(twice)} samples twice, among them {min(twice)}"
    missing = sum(size - sum(1 for other, _ in used if other == epoch) for epoch in range(epochs))
    # A worker that was killed after its part of a step, which the others have saved, did not report
    # it.
    unreported = sum(BATCH * (made[0].world_size - len(made)) for made in kept.values())
    assert missing <= unreported, (
        f"{missing} samples never used; workers that were killed had {unreported}"
    )


def curve(lines: Iterable[Line], total: int) -> tuple[float, ...]:
    """The mean loss of each eighth of the training; a step that was made again counts with its last
    loss.
    """
    last: dict[int, Line] = {}
    for line in lines:
        if line["phase"] == "running" and line["step"] is not None and line.get("loss") is not None:
            if line["step"] in last:  # this one and all after it are made again
                last = {step: kept for step, kept in last.items() if step < line["step"]}
            last[line["step"]] = line
    windows: list[list[float]] = [[] for _ in range(WINDOWS)]
    for line in last.values():
        if 0 < line["samples"] <= total:
            windows[min(WINDOWS - 1, (line["samples"] - 1) * WINDOWS // total)].append(line["loss"])
    return tuple(statistics.fmean(window) for window in windows)


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two curves: the mean difference of their logarithms, in percent."""
    return 100 * statistics.fmean(abs(math.log(a / b)) for a, b in zip(one, other, strict=True))


def centre(curves: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The geometric mean of curves."""
    return tuple(
        math.exp(statistics.fmean(map(math.log, values))) for values in zip(*curves, strict=True)
    )


def constant_distances(curves: Sequence[Sequence[float]]) -> list[float]:
    """Of each curve from the centre of the others."""
    return [distance(one, centre([*curves[:n], *curves[n + 1 :]])) for n, one in enumerate(curves)]


def main() -> None:
    """Run and print a table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--schedules", type=int, default=20)
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--seeds", type=int, default=3, help="constant-size runs per size")
    options.add_argument("--launchers", nargs="+", choices=KINDS, default=list(KINDS))
    given = options.parse_args()
    columns = (
        "launcher",
        "schedules",
        "rescales",
        "kills",
        "steps compared",
        "constant size",
        "random schedules",
    )
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    with tempfile.TemporaryDirectory(prefix="bftrainer-training-") as temporary:

        def made(name: str, seed: int, size: int | None) -> Run:
            folder = Path(temporary) / f"{name}-{seed}-{size}"
            run = train(name, folder, seed, size, given.epochs)
            print(f"{name} seed {seed} size {size}: {run}", file=sys.stderr, flush=True)
            shutil.rmtree(folder)
            return run

        for name in given.launchers:
            constant = [
                made(name, seed, size)
                for seed in range(given.seeds)
                for size in range(1, LARGEST + 1)
            ]
            random_runs = [made(name, seed, None) for seed in range(100, 100 + given.schedules)]
            curves = [run.curve for run in constant]
            spread = constant_distances(curves)
            found = [distance(run.curve, centre(curves)) for run in random_runs]
            cells = [
                f"{statistics.median(x):.0f} % ({min(x):.0f} to {max(x):.0f})"
                for x in (spread, found)
            ]
            sums = [
                sum(getattr(run, key) for run in random_runs)
                for key in ("rescales", "kills", "compared")
            ]
            print(
                f"| {name} | {len(found)} | {sums[0]} | {sums[1]} | {sums[2]:,} | {cells[0]} | "
                f"{cells[1]} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
