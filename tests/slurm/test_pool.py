"""Pools on a real Slurm: tasks beside main jobs and kills, as ``pool.py tasks``; Dask as the docs have it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from horovod_trainer import CHECKOUT
from live_machine import Machine, eventually
from needs import need_package
from patience import PATIENCE
from promises import promise
from slurm_lab import Lab, free_ports

DASK = """
import sys, time
from dask.distributed import Client, as_completed
def square(n, begun):
    open(begun, "a").write(f"{time.time()}\\n")
    time.sleep(0.4)
    return n * n
if __name__ == "__main__":
    client = Client(sys.argv[1])
    tasks = client.map(square, range(1000), begun=sys.argv[2])
    print(sorted(n for _, n in as_completed(tasks, with_results=True)) == [n * n for n in range(1000)])
    client.shutdown()
"""


@pytest.mark.slow
def test_every_result_is_there_once_beside_main_jobs_and_kills() -> None:
    options = ["--tasks", "800", "--pace-s", "0.8", "--kills", "5", "--kill-every-s", "5"]
    argv = [sys.executable, "tests/slurm/pool.py", "tasks", *options]
    ended = subprocess.run(argv, text=True, capture_output=True, timeout=300 * PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    print(found)
    promise(bool(found["each_once"]), f"each result is there once: {found}")
    assert found["status"] == "done"
    assert found["preempted"] > 0
    assert set(found["killed"]) == {"worker", "driver", "pilot"}


@pytest.mark.slow
def test_dask_workers_come_and_go_and_every_result_is_right(beside: Machine, lab: Lab, tmp_path: Path) -> None:
    need_package("distributed")
    (port,) = free_ports(1)
    recipe = (CHECKOUT / "docs/recipes.md").read_text().partition("## A Dask cluster")[2].partition("\n## ")[0]
    start, trainer = re.findall(r"```\w*\n(.*?)```", recipe, re.DOTALL)
    trainer = trainer.replace("login1:8786", f"127.0.0.1:{port}").replace("64", "8")
    (beside.work / "dask.toml").write_text(trainer.replace('["dask"', f'["{Path(sys.executable).with_name("dask")}"'))
    variable, _, command = start.strip().partition(" ")
    words = [*command.replace("8786", str(port)).split(), "--host", "127.0.0.1", "--no-dashboard"]
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | dict([variable.split("=")])
    with (tmp_path / "scheduler.log").open("w") as log:
        scheduler = subprocess.Popen(words, env=env, stdout=log, stderr=log)
    main = lab.submit("sleep 600", "-p", "main", "-N8", "-t", "10")
    (tmp_path / "sums.py").write_text(DASK)
    begun = tmp_path / "begun"
    argv = [sys.executable, str(tmp_path / "sums.py"), f"tcp://127.0.0.1:{port}", str(begun)]
    with (tmp_path / "client.log").open("w") as log:
        client = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        beside.bftrainer("submit", beside.work / "dask.toml")
        beside.pilot()
        eventually(beside.state_is_there)
        lab.run("scancel", main)
        idle_s = time.time()
        eventually(begun.exists, 90)
        print(f"first task {float(begun.read_text().split()[0]) - idle_s:.1f} s after the main job's end was asked for")
        for nodes in (2, 5, 3):
            eventually(lambda: len(beside.rows("nodes")) >= 6, 90)
            lab.submit("sleep 3", "-p", "main", f"-N{nodes}", "-t", "5")
            eventually(lambda: len(beside.rows("nodes")) <= 8 - nodes, 60)  # noqa: B023
        client.wait(120 * PATIENCE)
        assert "True" in (tmp_path / "client.log").read_text()
        eventually(lambda: beside.status("dask") == "done", 60)
        print(f"{len(begun.read_text().splitlines())} starts of 1000 tasks")
    finally:
        for process in (client, scheduler):
            process.kill()
            process.wait()
