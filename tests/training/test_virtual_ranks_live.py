"""The example with virtual ranks under torchrun, and under a pilot whose nodes come and go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.command_line import bftrainer
from support.live_machine import eventually, machine
from support.needs import need_package
from support.patience import PATIENCE
from support.virtual_rank_schedules import digest

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "same_bits.py"
OPTIONS = ["--epochs", "4"]
LAST_STEP = 125


def bits(checkpoint: Path) -> str:
    import torch

    return digest(torch.load(checkpoint, weights_only=True))


@cache
def uninterrupted(folder: Path) -> str:
    """The bits at the end of a training on one worker without a launcher."""
    checkpoint = folder / "whole.pt"
    argv = [sys.executable, "-W", "ignore", str(EXAMPLE), *OPTIONS, "--checkpoint", str(checkpoint)]
    subprocess.run(argv, check=True, timeout=120 * PATIENCE, capture_output=True)
    return bits(checkpoint)


def torchrun(folder: Path, workers: int, *options: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    argv += [f"--nproc-per-node={workers}", str(EXAMPLE), *OPTIONS, *options]
    argv += ["--checkpoint", str(folder / "run.pt")]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def workers_of(agent: int) -> list[int]:
    """The processes that torchrun started, each in a session of its own."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text()
    return [int(child) for child in children.split()]


def step_of(checkpoint: Path) -> int:
    import torch

    return int(torch.load(checkpoint, weights_only=True)["step"])


def test_torchrun_with_a_kill_and_another_number_of_workers(tmp_path: Path) -> None:
    need_package("torch")
    checkpoint = tmp_path / "run.pt"
    first = torchrun(tmp_path, 3, "--step-s", "0.3")
    try:
        # The first save is 10 s after the start.
        eventually(checkpoint.exists, 120)
    finally:
        for process in [*workers_of(first.pid), first.pid]:
            os.kill(process, signal.SIGKILL)
        first.communicate()
    assert 0 < step_of(checkpoint) < LAST_STEP
    second = torchrun(tmp_path, 2, "--loader-workers", "1")
    output = second.communicate(timeout=240 * PATIENCE)[0]
    assert second.returncode == 0, output
    assert bits(checkpoint) == uninterrupted(tmp_path)


def test_a_pilot_whose_nodes_come_and_go(tmp_path: Path) -> None:
    need_package("torch")
    rows: list[Any] = [
        (0.0, "n1 n2", ""),
        (14.0, "n3", "n1"),
        (26.0, "", "n2"),
        (36.0, "n1 n2", ""),
        (3600.0, "", "n1"),
    ]
    with machine(tmp_path, rows) as on:
        argv = [sys.executable, str(EXAMPLE), *OPTIONS, "--step-s", "0.3"]
        options: list[Any] = ["--name", "bits", "--launcher", "torchrun", "--max-nodes", "3"]
        fast = ["--set", "scale_up_s = 0.2", "--set", "scale_down_s = 0.1", "--set", "stop_s = 30"]
        checkpoint = on.work / "run.pt"
        options += [*fast, "--samples-per-s", "100", "--cwd", on.work, "--state", on.state]
        ended = bftrainer("submit", *options, "--", *argv, "--checkpoint", checkpoint)
        assert ended.status == 0, ended
        pilot = on.pilot()
        eventually(lambda: on.status("bits") == "done", 300)
        on.end(pilot)
        lines = (on.state / "trainers/bits/progress.jsonl").read_text()
        sizes = [size for size in (1, 2, 3) if f'"world_size": {size},' in lines]
        assert len(sizes) >= 2, lines
        assert bits(checkpoint) == uninterrupted(tmp_path)
