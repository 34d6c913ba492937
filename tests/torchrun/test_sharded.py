"""Shards of FSDP2 at every size: bit-identical weights after each change, each sample once, also after a kill."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from horovod_trainer import CHECKOUT, Line, Trainer
from needs import need_package

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, str(CHECKOUT / "docs/examples/fsdp_text.py"), "--epochs=100000", "--checkpoint-every=5"]
EVERY_STEP = {"BFTRAINER_REPORT_EVERY_S": "0"}


def sharded(folder: Path) -> Trainer:
    need_package("torch")
    return Trainer(folder, COMMAND, driver="torchrun", environment=EVERY_STEP)


def ranks(trainer: Trainer) -> list[Line]:
    return [json.loads(line) for file in (trainer.path / "ranks").iterdir() for line in file.read_text().splitlines()]


def whole_weights(trainer: Trainer, word: str) -> dict[int, set[tuple[int, str]]]:
    """Step and digest of all weights at the beginning or the end, by incarnation."""
    found: dict[int, set[tuple[int, str]]] = {}
    for log in trainer.path.glob("logs/*/*.log"):
        for words in (line.split() for line in log.read_text().splitlines() if f" {word} at step " in line):
            found.setdefault(int(log.parent.name), set()).add((int(words[7].rstrip(":")), words[-1]))
    return found


def test_weights_are_bit_identical_and_each_sample_is_used_once_at_2_4_3_and_1_nodes(tmp_path: Path) -> None:
    with sharded(tmp_path / "trainer") as trainer:
        trainer.start("a:1:1 b:1:2")
        trainer.steps(2, timeout_s=240)
        for size, hosts in ((4, "a:1:1 b:1:2 c:1:3 d:1:4"), (3, "a:1:1 b:1:2 c:1:3"), (1, "d:1:5")):
            asked_s = trainer.hosts(hosts)
            trainer.event("running", asked_s, world_size=size, timeout_s=240)
            trainer.steps(size, timeout_s=240)
        trainer.control("stop")
        trainer.wait()
        begun, left = whole_weights(trainer, "begins"), whole_weights(trainer, "leaves")
        assert len(begun) == len(left) == 4
        assert [begun[number] for number in sorted(begun)][1:] == [left[number] for number in sorted(left)][:-1]
        assert all(len(of_all_ranks) == 1 for of_all_ranks in (*begun.values(), *left.values()))
        lines = ranks(trainer)
        used = Counter((epoch, one) for line in lines for epoch, numbers in line["indices"] for one in numbers)
        assert set(used.values()) == {1}
        assert used.total() == max(line["samples"] for line in trainer.progress)
        assert {line["phase"] for line in trainer.progress} == {"running", "checkpointed"}


def test_a_kill_leaves_a_checkpoint_that_was_written_while_training_went_on(tmp_path: Path) -> None:
    with sharded(tmp_path / "trainer") as trainer:
        trainer.start("a:1:1 b:1:2 c:1:3")

        def earlier() -> bool:
            saved = [at for at, line in enumerate(trainer.progress) if line["phase"] == "checkpointed"]
            return any(trainer.progress[at]["step"] < trainer.progress[at - 1]["step"] for at in saved)

        trainer.until("a checkpoint that training has overtaken", earlier, 240)
        killed_s = trainer.kill("3")
        trainer.event("running", killed_s, world_size=2, timeout_s=240)
        trainer.steps(2, timeout_s=240)
        ((step, _),) = whole_weights(trainer, "begins")[2]
        assert step in {line["step"] for line in trainer.progress if line["phase"] == "checkpointed"}
        old = {line["step"]: line["weights"] for line in ranks(trainer) if line["incarnation"] == 1}
        assert {line["begun"] for line in ranks(trainer) if line["incarnation"] == 2} == {old[step]}
