"""NCCL over several nodes is refused where other users can reach the interface."""

from __future__ import annotations

import dataclasses
import sys
import threading
from pathlib import Path

import pytest
from support.horovod_trainer import SITE, Trainer

from bftrainer.errors import InvalidValueError
from bftrainer.wires.messages import DriverSettings
from bftrainer_drivers.common.group_guards import guard_variables, refuse_unguarded
from bftrainer_drivers.common.vouching import SHARED_INTERFACE, VOUCH, refuse_several_nodes

LOOPBACK = DriverSettings(**{"driver": "torchrun", **SITE})  # type: ignore[arg-type]  # of a JSON file
SHARED = dataclasses.replace(LOOPBACK, interface="ib0")
PRIVATE = dataclasses.replace(SHARED, private_interface=True)
ADDRESSES = {"lo": "127.0.0.1", "ib0": "10.0.0.5"}


@pytest.mark.parametrize(
    ("settings", "vouch", "interface"),
    [(SHARED, "1", "ib0"), (LOOPBACK, "1", ""), (PRIVATE, "", "")],
    ids=["shared", "loopback", "private"],
)
def test_a_worker_is_told_of_an_interface_that_others_reach(
    settings: DriverSettings, vouch: str, interface: str
) -> None:
    variables = guard_variables(settings, ADDRESSES.__getitem__)
    assert variables == {VOUCH: vouch, SHARED_INTERFACE: interface}


def test_only_python_starts_groups_on_a_shared_interface() -> None:
    shell, address_of = ["bash", "train.sh"], ADDRESSES.__getitem__
    with pytest.raises(InvalidValueError, match=r"command bash: .*workers.private_interface"):
        refuse_unguarded(shell, SHARED, address_of)
    refuse_unguarded(["python3", "train.py"], SHARED, address_of)
    refuse_unguarded(shell, PRIVATE, address_of)
    refuse_unguarded(shell, LOOPBACK, address_of)


class MemoryStore:
    """The store of a group, in the memory of its workers."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._changed:
            self._values[key] = value.encode()
            self._changed.notify_all()

    def wait(self, keys: list[str]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._values.keys() >= set(keys), 60)

    def get(self, key: str) -> bytes:
        return self._values[key]


def outcomes(*nodes: str) -> list[str]:
    """What becomes of the workers of a group of NCCL on these nodes."""
    store, endings = MemoryStore(), ["connected"] * len(nodes)

    def connect(rank: int, node: str) -> None:
        try:
            refuse_several_nodes(store, rank, len(nodes), "NCCL", node, "ib0")
        except SystemExit as error:
            endings[rank] = str(error)

    workers = [threading.Thread(target=connect, args=place) for place in enumerate(nodes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return endings


def test_every_worker_of_a_group_over_several_nodes_ends_with_one_line() -> None:
    refused = outcomes("n1", "n1", "n2")
    assert len(set(refused)) == 1, refused
    assert refused[0].startswith("bftrainer: NCCL over several nodes (n1, n2, ...) is refused: ")
    assert "workers.private_interface = true" in refused[0]
    assert len(refused[0].splitlines()) == 1


def test_a_group_within_a_node_connects() -> None:
    assert outcomes("n1", "n1") == ["connected", "connected"]


TORCH = {
    "torch/__init__.py": "",
    "torch/distributed.py": """
import os, time

class ProcessGroupNCCL:
    def __init__(self, store, rank, size):
        print("NCCL connects", rank, size)

class FileStore:
    def set(self, key, value):
        with open(self.path(key) + ".part" + os.environ["RANK"], "w") as file:
            file.write(value)
        os.replace(file.name, self.path(key))

    def path(self, key):
        return key.replace("/", "-")

    def wait(self, keys):
        while not all(os.path.exists(self.path(key)) for key in keys):
            time.sleep(0.01)

    def get(self, key):
        with open(self.path(key), "rb") as file:
            return file.read()

def init_process_group(backend):
    rank, size = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    return ProcessGroupNCCL(FileStore(), rank, size)
""",
    "train.py": """
import torch.distributed as dist
try:
    dist.init_process_group("nccl")
except Exception:
    print("a script's own handler")
""",
}
"""A stand-in for a torch with NCCL, whose wheels need a GPU; and a script."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hosts", "status"), [("a:1:1 b:1:2", 1), ("a:2:1", 0)], ids=["two nodes", "one node"]
)
def test_a_trainer_with_nccl(tmp_path: Path, hosts: str, status: int) -> None:
    folder = tmp_path / "trainer"
    for name, text in TORCH.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, "train.py"]
    # The interface of this host is the loopback: the variable of the trainer stands for another.
    environment = {SHARED_INTERFACE: "ib0"}
    with Trainer(folder, command, driver="torchrun", environment=environment) as trainer:
        trainer.start(hosts)
        assert trainer.wait() == status
        logs = [log.read_text() for log in trainer.path.glob("logs/1/*.log")]
        if status:
            (line,) = trainer.event("failed")["tail"]
            assert "NCCL over several nodes (a, b, ...) is refused" in line
            assert not [log for log in logs if "connects" in log or "handler" in log], logs
        else:
            assert sorted(logs) == ["NCCL connects 0 2\n", "NCCL connects 1 2\n"]
