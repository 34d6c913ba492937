"""Trainers on parts of nodes: hosts of 3 and 1 GPUs, and a part that loses one of them, under every
launcher.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.horovod_trainer import CHECKOUT, EXAMPLES, Trainer, example
from support.needs import need_package

from bftrainer.system.processes import identify

pytestmark = pytest.mark.slow
PARTS = "a:3:7:1,2,5 b:1:8:0"
NOTED = """\
import os, runpy, sys
local = int(os.environ.get("LOCAL_RANK") or os.environ["HOROVOD_LOCAL_RANK"])
words = [os.environ[name] for name in ("BFTRAINER_NODE", "BFTRAINER_FRAGMENT", "CUDA_VISIBLE_DEVICES")]
with open("gpus", "a") as file:
    file.write(" ".join([*words, words[2].split(",")[local]]) + "\\n")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SUM = """\
import os, torch, torch.distributed as dist
if os.environ["MASTER_ADDR"] == "a":  # hosts are names only
    os.environ["MASTER_ADDR"] = "127.0.0.1"
dist.init_process_group("gloo")
gpu = int(os.environ["CUDA_VISIBLE_DEVICES"].split(",")[int(os.environ["LOCAL_RANK"])])
mine = torch.tensor(1 << (gpu + 8 * (os.environ["BFTRAINER_NODE"] == "b")))
dist.all_reduce(mine)
assert (dist.get_world_size(), mine.item()) == (4, 0b1_0010_0110), (dist.get_world_size(), mine)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(params=["horovod", "torchrun", "torchft", "restart"])
def trainer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trainer]:
    need_package(EXAMPLES[request.param][0])
    (tmp_path / "noted.py").write_text(NOTED)
    command = [sys.executable, str(tmp_path / "noted.py"), *example(request.param)[1:]]
    environment = {"BFTRAINER_REPORT_EVERY_S": "0", "PYTHONPATH": str(CHECKOUT / "docs/examples")}
    with Trainer(tmp_path / "t", command, driver=request.param, environment=environment) as made:
        yield made


def test_every_gpu_is_used_once_and_a_part_may_lose_one(trainer: Trainer) -> None:
    trainer.start(PARTS)
    trainer.event("running", world_size=4, fragments=["7.g1", "7.g2", "7.g5", "8.g0"])
    trainer.steps(4)
    noted = [line.split() for line in (trainer.path / "gpus").read_text().splitlines()]
    last = {
        fragment: (node, set(visible.split(",")), gpu) for node, fragment, visible, gpu in noted
    }
    part = {"1", "2", "5"}
    assert last == {
        "7.g1": ("a", part, "1"),
        "7.g2": ("a", part, "2"),
        "7.g5": ("a", part, "5"),
        "8.g0": ("b", {"0"}, "0"),
    }
    before = {fragment: trainer.worker(fragment) for fragment in last}
    asked_s = trainer.hosts("a:2:7:1,2 b:1:8:0")
    trainer.event("running", asked_s, world_size=3, fragments=["7.g1", "7.g2", "8.g0"])
    trainer.steps(3)
    assert identify(before["7.g5"]) is None
    if trainer.folder_driver in ("horovod", "torchft"):
        assert all(
            trainer.worker(fragment) == before[fragment] for fragment in ("7.g1", "7.g2", "8.g0")
        )
    else:
        (*_, visible, gpu), *_ = (
            [*line.split()] for line in (trainer.path / "gpus").read_text().splitlines()[::-1]
        )
        assert (visible, gpu) in (("1,2", "1"), ("1,2", "2"), ("0", "0"))
    assert not [event for event in trainer.events if event["event"] == "withheld"]


@pytest.mark.parametrize("driver", ["torchrun", "restart"])
def test_an_all_reduce_over_uneven_parts(driver: str, tmp_path: Path) -> None:
    need_package("torch")
    (tmp_path / "sum.py").write_text(SUM)
    with Trainer(tmp_path / "t", [sys.executable, str(tmp_path / "sum.py")], driver=driver) as t:
        t.start(PARTS)
        assert t.wait() == 0, t.story()
