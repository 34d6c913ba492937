"""A DistributedDataParallel trainer while nodes join and leave, with and without notice."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.horovod_trainer import Trainer
from support.needs import need_package
from support.promises import promised
from support.ran import ran

from bftrainer.progress import STOPPED_STATUS
from bftrainer.system.processes import identify
from bftrainer_drivers.common import behind_relay
from bftrainer_drivers.common.behind_relay import STORE

pytestmark = pytest.mark.slow


def torch_trainer(folder: Path, command: list[str] | None = None, **driver: Any) -> Trainer:
    need_package("torch")
    return Trainer(folder, command, driver="torchrun", **driver)


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[Trainer]:
    with torch_trainer(tmp_path / "trainer") as made:
        yield made


@promised()
def check_continuity(trainer: Trainer, batch: int = 32) -> None:
    """Steps are contiguous and paid for; an incarnation resumes where the last one ended.

    All ranks begin with the same weights, those that the checkpoint was written with.
    """
    trainer.read()
    lines = [line for line in trainer.progress if line["phase"] == "running"]
    for old, new in itertools.pairwise(lines):
        steps = new["step"] - old["step"]
        if old["incarnation"] == new["incarnation"]:
            assert steps >= 0, (old, new)
        else:
            saved = [
                line
                for line in trainer.progress
                if line["phase"] == "checkpointed" and line["time"] < new["time"]
            ]
            assert new["step"] == saved[-1]["step"] + 1, (saved[-1], new)
            assert steps >= 1, (old, new)
            begun = {
                words
                for words in weights(trainer, new["incarnation"])
                if words[0] == saved[-1]["step"]
            }
            assert begun == {(saved[-1]["step"], saved[-1]["checksum"])}
        if (
            new["step"] > old["step"]
            and new["world_size"] == old["world_size"]
            and new["samples"] % 4096 > old["samples"] % 4096
        ):
            assert new["samples"] - old["samples"] == steps * batch * new["world_size"], (old, new)


def weights(trainer: Trainer, incarnation: int) -> set[tuple[int, float]]:
    """Step and weights with which the ranks of an incarnation started."""
    found = set()
    for log in trainer.path.glob(f"logs/{incarnation}/*.log"):
        for words in (
            line.split() for line in log.read_text().splitlines() if line.startswith("rank ")
        ):
            found.add((int(words[6].rstrip(":")), float(words[-1])))
    return found


def test_grows_shrinks_and_loses_rank_0_by_order(tmp_path: Path) -> None:
    with torch_trainer(
        tmp_path / "trainer", environment={"BFTRAINER_REPORT_EVERY_S": "0"}
    ) as trainer:
        trainer.start("a:1:1")
        trainer.steps(1)
        asked_s = trainer.hosts("a:1:1 b:1:2 c:1:3")
        begun = trainer.event("warming", asked_s, fragment="3")
        stopping = trainer.event("stopping", asked_s)
        trainer.event("running", asked_s, world_size=3, fragments=["1", "2", "3"])
        meanwhile = [
            line for line in trainer.progress if begun["time"] < line["time"] < stopping["time"]
        ]
        assert len(meanwhile) >= 10, "training went on while the joining workers did their imports"
        trainer.steps(3)
        asked_s = trainer.hosts("b:1:2 c:1:3")  # rank 0 leaves
        trainer.event("running", asked_s, fragments=["2", "3"])
        assert identify(trainer.worker("1")) is None, (
            "a fragment is free once the trainer runs without it"
        )
        trainer.steps(2)
        asked_s = trainer.hosts("d:2:4")  # none of the old ones, and two workers on one node
        trainer.event("running", asked_s, fragments=["4"], world_size=2)
        trainer.steps(2)
        assert not [event for event in trainer.events if event["event"] == "withheld"]
        check_continuity(trainer)
        trainer.control("stop")
        assert trainer.wait() == STOPPED_STATUS
        assert trainer.event("stopped")["checkpointed"] is True
        assert trainer.left() == []


def test_torchrun_itself_is_refused_with_what_to_write_instead(tmp_path: Path) -> None:
    with torch_trainer(
        tmp_path / "trainer", ["torchrun", "--nproc-per-node=2", "train.py"]
    ) as trainer:
        trainer.start("a:1:1")
        assert trainer.wait() == 1
        assert "expected the script alone" in trainer.event("failed")["reason"]


def test_workers_see_what_torchrun_would_tell_them(tmp_path: Path) -> None:
    wanted = (
        "RANK LOCAL_RANK GROUP_RANK ROLE_RANK WORLD_SIZE LOCAL_WORLD_SIZE "
        "GROUP_WORLD_SIZE MASTER_ADDR OMP_NUM_THREADS"
    )
    program = (
        f"import os; print(*(os.environ[name] for name in {wanted.split()!r})); import "
        "torch.distributed as d; "
    )
    program += "print(d.is_torchelastic_launched())"
    with torch_trainer(tmp_path / "trainer", [sys.executable, "-c", program]) as trainer:
        trainer.start("a:2:1 b:1:2")
        assert trainer.wait() == 0
        said = sorted(log.read_text() for log in trainer.path.glob("logs/1/*.log"))
    assert said == [
        "0 0 0 0 3 2 2 127.0.0.1 1\nTrue\n",
        "1 1 0 1 3 2 2 127.0.0.1 1\nTrue\n",
        "2 0 1 2 3 1 2 127.0.0.1 1\nTrue\n",
    ]


PUTS = """
import os, sys
import torch.distributed as dist
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
pickled = b"cposix\\nsystem\\n(S'touch " + sys.argv[1].encode() + b"'\\ntR."
for key in ("worker_addresses", "/rdzv", "torch.rendezvous.1", "default_pg/0//0"):
    store.set(key, pickled)
print("set")
"""


def test_the_store_listens_on_its_interface_and_runs_nothing_that_is_put_there(
    trainer: Trainer, tmp_path: Path
) -> None:
    trainer.start("a:1:1")
    trainer.steps(1)
    environ = Path(f"/proc/{trainer.worker('1')}/environ").read_bytes().split(b"\0")
    facts = dict(item.decode().partition("=")[::2] for item in environ if b"=" in item)
    host, port, _ = facts[STORE].split(":")
    tables = [
        line.split()
        for v in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{v}").read_text().splitlines()[1:]
    ]
    listening = [
        words[1] for words in tables if words[3] == "0A" and words[1].endswith(f":{int(port):04X}")
    ]
    assert listening == [f"0100007F:{int(port):04X}"]
    proof = tmp_path / "run"
    putting = [
        sys.executable,
        behind_relay.__file__,
        sys.executable,
        "-W",
        "ignore",
        "-c",
        PUTS,
        str(proof),
    ]
    said = ran(*putting, env={**os.environ, STORE: facts[STORE]}, limit_s=300)
    assert said.stdout == "set\n", said
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(b"DELETE / HTTP/1.1\r\n\r\n" + os.urandom(4096))
    trainer.steps(1, count=30)
    asked_s = trainer.hosts("a:1:1 b:1:2")
    trainer.event("running", asked_s, world_size=2)
    trainer.steps(2)
    assert not proof.exists()


# --- One rank ends, and its peers fail for it: the failure names that rank, not a peer's broken
# connection

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
    with Trainer(
        tmp_path / "trainer", command, driver="torchrun", environment={"OMP_NUM_THREADS": "1"}
    ) as trainer:
        trainer.start("a:1:1 b:1:2 c:1:3")
        assert trainer.wait() == 1
        failed = trainer.event("failed")
        assert failed["reason"].startswith(reason), trainer.story()
        assert "bad data" not in end or "bad data" in failed["tail"][-1]
        assert not [event for event in trainer.events if event["event"] == "withheld"]
