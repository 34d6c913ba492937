"""Shards of FSDP2 at every size: bit-identical weights after each change, each sample once, also
after a kill.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from support.horovod_trainer import CHECKOUT, Line, Trainer
from support.live_machine import CONFIG, eventually, machine
from support.needs import need_package

pytestmark = pytest.mark.slow
COMMAND = [
    sys.executable,
    str(CHECKOUT / "docs/examples/fsdp_text.py"),
    "--epochs=100000",
    "--checkpoint-every=5",
    "--step-s=0.02",
]
EVERY_STEP = {"BFTRAINER_REPORT_EVERY_S": "0"}


def sharded(folder: Path) -> Trainer:
    need_package("torch")
    command = [*COMMAND, "--step-s=0"]  # a checkpoint takes several of such steps
    return Trainer(folder, command, driver="torchrun", environment=EVERY_STEP)


def lines_of(*files: Path) -> list[Line]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def ranks(path: Path) -> list[Line]:
    return lines_of(*(path / "ranks").iterdir())


def whole_weights(path: Path, word: str) -> dict[int, set[tuple[int, str]]]:
    """Step and digest of all weights at the beginning or the end, by incarnation."""
    found: dict[int, set[tuple[int, str]]] = {}
    for log in path.glob("logs/*/*.log"):
        for words in (
            line.split() for line in log.read_text().splitlines() if f" {word} at step " in line
        ):
            found.setdefault(int(log.parent.name), set()).add(
                (int(words[7].rstrip(":")), words[-1])
            )
    return found


def judged(path: Path) -> int:
    """The samples used.

    Four groups of workers: each begins with the weights that the one before has left, and no sample
    is used twice.
    """
    begun, left = whole_weights(path, "begins"), whole_weights(path, "leaves")
    assert len(begun) == len(left) == 4
    assert [begun[number] for number in sorted(begun)][1:] == [
        left[number] for number in sorted(left)
    ][:-1]
    assert all(len(of_all_ranks) == 1 for of_all_ranks in (*begun.values(), *left.values()))
    used = Counter(
        (epoch, one)
        for line in ranks(path)
        for epoch, numbers in line["indices"]
        for one in numbers
    )
    assert set(used.values()) == {1}
    progress = lines_of(path / "progress.jsonl")
    assert used.total() == max(line["samples"] for line in progress)
    assert {line["phase"] for line in progress} == {"running", "checkpointed"}
    return used.total()


def test_weights_are_bit_identical_at_2_4_3_and_1_nodes_of_a_pilot_with_a_tracker(
    tmp_path: Path,
) -> None:
    need_package("torch", "tensorboard")
    nodes = {
        size: CONFIG.replace("[nodes]", f"[nodes]\nmax_nodes = {size}") for size in (2, 4, 3, 1)
    }
    with machine(tmp_path, "n1 n2 n3 n4", nodes[2]) as on:
        text = (
            (CHECKOUT / "docs/examples/fsdp_text.toml")
            .read_text()
            .partition("command")[2]
            .partition("\n")[2]
        )
        keys = (
            'name = "text"\ntrackers = ["tensorboard"]\nenv = { BFTRAINER_REPORT_EVERY_S = "0" }\n'
        )
        (on.work / "text.toml").write_text(f"{keys}command = {json.dumps(COMMAND)}\n{text}")
        path = on.state / "trainers/text"
        on.bftrainer("submit", "text.toml")
        pilot = on.pilot()
        for size, config in nodes.items():
            (on.state / "bftrainer.toml").write_text(config)
            if size != 2:
                pilot.send_signal(signal.SIGHUP)
            reached = f'"world_size": {size},'
            eventually(
                lambda reached=reached: (
                    (path / "progress.jsonl").read_text().count(reached) > 3
                    if (path / "progress.jsonl").exists()
                    else False
                ),
                240,
            )
        on.end(pilot)
        judged(path)
        reader = import_module(
            "tensorboard.backend.event_processing.event_accumulator"
        ).EventAccumulator(str(on.work / "runs/text"))
        reader.Reload()
        steps = [event.step for event in reader.Scalars("loss")]
        assert steps == list(range(1, steps[-1] + 1)), "one run, each step once"


def test_a_kill_leaves_a_checkpoint_that_was_written_while_training_went_on(tmp_path: Path) -> None:
    with sharded(tmp_path / "trainer") as trainer:
        trainer.start("a:1:1 b:1:2")

        def earlier() -> bool:
            saved = [
                at for at, line in enumerate(trainer.progress) if line["phase"] == "checkpointed"
            ]
            return any(
                trainer.progress[at]["step"] < trainer.progress[at - 1]["step"] for at in saved
            )

        trainer.until("a checkpoint that training has overtaken", earlier, 240)
        killed_s = trainer.kill("2")
        trainer.event("running", killed_s, world_size=1, timeout_s=240)
        trainer.steps(1, timeout_s=240)
        ((step, _),) = whole_weights(trainer.path, "begins")[2]
        assert step in {
            line["step"] for line in trainer.progress if line["phase"] == "checkpointed"
        }
        old = {
            line["step"]: line["weights"]
            for line in ranks(trainer.path)
            if line["incarnation"] == 1
        }
        assert {line["begun"] for line in ranks(trainer.path) if line["incarnation"] == 2} == {
            old[step]
        }
