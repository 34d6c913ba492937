"""One rank ends, and its peers fail for it: the failure names that rank, not a peer's broken connection."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from horovod_trainer import Trainer
from needs import need_package

pytestmark = pytest.mark.slow
SCRIPT = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(1000):
    if step == 5 and dist.get_rank() == 1:
        {end}
    dist.all_reduce(torch.ones(1))
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("sys.exit(0)", "status 0 before the others had finished, node b, slot 0; then "),
        ("raise ValueError('bad data')", "status 1, node b, slot 0"),
        ("sys.exit('bad data')", "status 1, node b, slot 0"),
    ],
    ids=["it completes early", "it raises", "it exits with a message"],
)
def test_the_rank_that_ended_first_is_the_cause(tmp_path: Path, end: str, reason: str) -> None:
    need_package("torch")
    command = [sys.executable, "-c", SCRIPT.format(end=end)]
    with Trainer(tmp_path / "trainer", command, driver="torchrun", environment={"OMP_NUM_THREADS": "1"}) as trainer:
        trainer.start("a:1:1 b:1:2 c:1:3")
        assert trainer.wait() == 1
        failed = trainer.event("failed")
        assert failed["reason"].startswith(reason), trainer.story()
        assert "bad data" not in end or "bad data" in failed["tail"][-1]
        assert not [event for event in trainer.events if event["event"] == "withheld"]
