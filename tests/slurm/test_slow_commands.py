"""Every Slurm command takes 1.5 s, then 2 s, of a time limit of 3 s: no lease lapses, and no node
is released for it.

In CI 2 holders, taken at 1.5 s a command and kept at 2 s for longer than a lease; by hand, 64
holders for ten minutes each, with 5 s and 9 s of 10 s::

    BFTRAINER_SLOW_NODES=64 BFTRAINER_SLOW_S=600 pytest tests/slurm/test_slow_commands.py
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import started
from support.live_machine import COMMAND_S, Machine, eventually, machine
from support.pilot_config import pilot_config
from support.slurm_lab import Lab, Settings

from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import open_store
from bftrainer_clusters.on_node.payload import limit_s
from bftrainer_clusters.slurm.jobs import HOLDER_NAME

NODES = int(os.environ.get("BFTRAINER_SLOW_NODES", "2"))
MANY = NODES >= 16
TIMEOUT_S, LEASE_S = (
    (10, 60) if MANY else (3, 12)
)  # the defaults, and the least lease for that time limit
SECONDS = float(
    os.environ.get("BFTRAINER_SLOW_S", limit_s(LEASE_S) + 5)
)  # a lapse and its end come within
SLOW = {5: SECONDS, 9: SECONDS} if MANY else {1.5: 0.0, 2: SECONDS}
COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "sdiag", "sinfo")
CONFIG = pilot_config(
    nodes={"min_window_s": 0, "unused_after_s": 3600},
    times={"poll_s": None, "lease_s": LEASE_S, "shutdown_s": 60},
    slurm={"timeout_s": TIMEOUT_S},
)


@pytest.fixture
def slow_lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    for lab in started(Settings(nodes=NODES)):
        lab.enter(monkeypatch.setenv)
        yield lab


def slow_down(lab: Lab, seconds: float) -> None:
    for name in COMMANDS:
        lab.put_fake(name, f'#!/bin/sh\nsleep {seconds}\nexec {lab.real(name)} "$@"\n')


def held(lab: Lab) -> set[str]:
    """The holders that run, by Slurm itself and at once: the pilot would notice a lapse many
    commands later.
    """
    argv = [lab.real("squeue"), "-h", "-t", "R", "-n", HOLDER_NAME, "-o", "%A"]
    return set(
        subprocess.run(
            argv, check=True, capture_output=True, text=True, timeout=COMMAND_S
        ).stdout.split()
    )


def fragments(on: Machine) -> list[object]:
    with closing(open_store(on.state)) as store:
        return [
            (it.name, it.taken_s is not None, it.released_s, it.reason)
            for it in Registry(store).fragments()
        ]


@pytest.mark.slow
def test_no_holder_lapses_while_every_command_takes_its_time(slow_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "pilot").mkdir(mode=0o700)
    on = machine(tmp_path / "pilot", [], CONFIG)
    try:
        on.submit("a", 1_000_000, 0.1, NODES, "--set", f"min_nodes = {NODES}")
        slow_down(slow_lab, min(SLOW))
        on.pilot()
        eventually(on.state_is_there, 60)
        eventually(lambda: sum(taken for _, taken, _, _ in fragments(on)) == NODES, 60 + 12 * NODES)  # type: ignore[misc]
        begun, holders = fragments(on), held(slow_lab)
        assert len(holders) == NODES
        for command_s, kept_s in SLOW.items():
            slow_down(slow_lab, command_s)
            until_s = time.monotonic() + kept_s
            while time.monotonic() < until_s:
                time.sleep(2.0)
                assert fragments(on) == begun, Counter(reason for *_, reason in fragments(on))  # type: ignore[misc]
                assert held(slow_lab) == holders
        with closing(open_store(on.state)) as store:
            notes = [note.text for note in Registry(store).notes(1000) if note.kind == "slow tick"]
        print(json.dumps({"holders": len(begun), "seconds": SECONDS, "slow ticks": notes}))
        for name in COMMANDS:
            (slow_lab.root / "bin" / name).unlink()
    finally:
        on.close()
        time.sleep(max(SLOW) + 1)  # commands of the pilot that were on their way end by themselves
