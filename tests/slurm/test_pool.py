"""Pools on a real Slurm: tasks beside main jobs and kills, as ``pool.py tasks``; Dask as the docs
have it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.horovod_trainer import CHECKOUT
from support.live_machine import Machine, eventually
from support.needs import need_package
from support.patience import PATIENCE
from support.promises import promise
from support.slurm_lab import Lab, free_ports

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


RAY = """
import sys, time, ray
@ray.remote(num_cpus=1, max_retries=-1)
def square(n, begun):
    open(begun, "a").write(f"{time.time()}\\n")
    time.sleep(0.4)
    return n * n
ray.init(address=sys.argv[1], log_to_driver=False)
print(ray.get([square.remote(n, sys.argv[2]) for n in range(200)]) == [n * n for n in range(200)])
"""


def recipe(name: str) -> list[str]:
    """Its blocks."""
    text = (
        (CHECKOUT / "docs/recipes.md").read_text().partition(f"## {name}")[2].partition("\n## ")[0]
    )
    return re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)


def taken_by_main_jobs(beside: Machine) -> int:
    """Nodes; of a main job that the pilot sees planned, it has released them before."""
    return sum(
        str(row["reason"]).startswith(("preempted", "planned"))
        for row in beside.rows("nodes", "--all")
    )


@contextmanager
def beside_a_client(
    beside: Machine,
    lab: Lab,
    folder: Path,
    program: str,
    address: str,
    most: int,
    taken: Sequence[int],
) -> Iterator[Path]:
    """While a client's tasks run, main jobs take nodes of its pool, whose file is in place; then
    all results are right.
    """
    if most < 8:
        lab.submit("sleep 600", "-p", "main", f"-N{8 - most}", "-t", "10")
    main = lab.submit("sleep 600", "-p", "main", f"-N{most}", "-t", "10")
    (folder / "sums.py").write_text(program)
    begun = folder / "begun"
    argv = [sys.executable, str(folder / "sums.py"), address, str(begun)]
    with (folder / "client.log").open("w") as log:
        client = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        beside.bftrainer("submit", beside.work / "pool.toml")
        beside.pilot()
        eventually(beside.state_is_there)
        lab.run("scancel", main)
        idle_s = time.time()
        eventually(begun.exists, 90)
        print(
            f"first task {float(begun.read_text().split()[0]) - idle_s:.1f} s after the main "
            "job's end was asked for"
        )
        for nodes in taken:
            # With as many idle nodes as the main job wants, it would take those.
            wanted = most - nodes
            eventually(lambda: _taken(beside) > wanted, 90)  # noqa: B023 - called at once
            lost = taken_by_main_jobs(beside)
            lab.submit("sleep 3", "-p", "main", f"-N{nodes}", "-t", "5")
            eventually(lambda: taken_by_main_jobs(beside) > lost, 60)  # noqa: B023
        client.wait(120 * PATIENCE)
        assert "True" in (folder / "client.log").read_text()
        yield begun
    finally:
        client.kill()
        client.wait()


@pytest.mark.slow
def test_every_result_is_there_once_beside_main_jobs_and_kills() -> None:
    options = ["--tasks", "800", "--pace-s", "0.8", "--kills", "5", "--kill-every-s", "5"]
    argv = [sys.executable, "tests/slurm/pool.py", "tasks", *options]
    ended = subprocess.run(
        argv, text=True, capture_output=True, timeout=300 * PATIENCE, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    print(found)
    promise(bool(found["each_once"]), f"each result is there once: {found}")
    assert found["status"] == "done"
    assert found["preempted"] > 0
    assert set(found["killed"]) == {"worker", "driver", "pilot"}


@pytest.mark.slow
def test_dask_workers_come_and_go_and_every_result_is_right(
    beside: Machine, lab: Lab, tmp_path: Path
) -> None:
    need_package("distributed")
    (port,) = free_ports(1)
    start, trainer = recipe("A Dask cluster")
    trainer = trainer.replace("login1:8786", f"127.0.0.1:{port}").replace("64", "8")
    (beside.work / "pool.toml").write_text(
        trainer.replace('["dask"', f'["{Path(sys.executable).with_name("dask")}"')
    )
    variable, _, command = start.strip().partition(" ")
    words = [*command.replace("8786", str(port)).split(), "--host", "127.0.0.1", "--no-dashboard"]
    env = (
        os.environ
        | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        | dict([variable.split("=")])
    )
    with (tmp_path / "scheduler.log").open("w") as log:
        scheduler = subprocess.Popen(words, env=env, stdout=log, stderr=log)
    try:
        with beside_a_client(
            beside, lab, tmp_path, DASK, f"tcp://127.0.0.1:{port}", 8, (2, 5, 3)
        ) as begun:
            eventually(lambda: beside.status("dask") == "done", 60)
            print(f"{len(begun.read_text().splitlines())} starts of 1000 tasks")
    finally:
        scheduler.kill()
        scheduler.wait()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="run by hand, with ray installed (240 MB)")
def test_ray_nodes_come_and_go_and_every_result_is_right(
    beside: Machine, lab: Lab, tmp_path: Path
) -> None:
    """All nodes of the cluster are on this host; each raylet finds free ports."""
    (port,) = free_ports(1)
    ray = str(Path(sys.executable).with_name("ray"))
    small = [
        "--block",
        "--min-worker-port",
        "0",
        "--max-worker-port",
        "0",
        "--object-store-memory",
        "80000000",
    ]
    (line,) = recipe("A Ray cluster")
    line = line.replace("login1:6379", f"127.0.0.1:{port}").replace('["ray"', f'["{ray}"')
    line = line.replace('"--block"', json.dumps([*small, "--num-cpus", "1"])[1:-1])
    trainer = re.sub("command = .*\n", line, recipe("A Dask cluster")[1]).replace("64", "3")
    (beside.work / "pool.toml").write_text(
        f'{trainer}env = {{ RAY_raylet_start_wait_time_s = "120" }}\n'
    )
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        words = [
            ray,
            "start",
            "--head",
            "--port",
            str(port),
            "--num-cpus",
            "0",
            *small,
            "--temp-dir",
            folder,
        ]
        words += ["--include-dashboard", "false"]
        slow = {"RAY_raylet_start_wait_time_s": "120"}
        with (tmp_path / "head.log").open("w") as log:
            head = subprocess.Popen(words, env=os.environ | slow, stdout=log, stderr=log)
        try:
            with beside_a_client(
                beside, lab, tmp_path, RAY, f"127.0.0.1:{port}", 3, (1, 2)
            ) as begun:
                beside.bftrainer("cancel", "dask")
                eventually(lambda: not beside.processes(), 60)
                print(f"{len(begun.read_text().splitlines())} starts of 200 tasks")
        finally:
            head.send_signal(signal.SIGTERM)
            head.wait(30)


def _taken(machine: Machine) -> int:
    """How many fragments of a pilot are or were held."""
    return sum(bool(row["taken_s"]) for row in machine.rows("nodes"))
