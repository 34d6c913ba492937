"""Main-queue jobs beside held parts of nodes on a real Slurm, and trainers on parts. ``parts.py``
measures more.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import started
from support.command_line import bftrainer
from support.live_machine import machine
from support.promises import promised
from support.shared_nodes import BY_GPU, PARTITION, WAYS, beside, holding, land, main_job
from support.slurm_lab import Lab, wait_until
from support.slurm_versions import SlurmVersion

from bftrainer.pilot.nodes import decisions

pytestmark = [pytest.mark.slow, pytest.mark.root]  # makes device files
TABLE = WAYS["partition"][1]


@pytest.fixture(scope="module")
def shared_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    yield from started(replace(PARTITION, nodes=2), slurm_version)


def test_main_jobs_land_where_they_would_without_a_pilot(
    shared_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed, idle = shared_lab.node_names
    with promised():
        places = {situation: node for situation, node, _, _ in land(shared_lab, TABLE, mixed, idle)}
        assert set(places.values()) == {mixed}, places
        assert beside(shared_lab, TABLE)[1], "a job without GPUs preempts no part"
    # The same with the rule off: the part is held while the idle node is not, and the job avoids
    # the preemption.
    monkeypatch.setattr(decisions, "barred_partitions", lambda *_: frozenset())
    monkeypatch.setattr(decisions, "parts_to_end", lambda *_: [])
    shared_lab.cancel_all()
    main_job(shared_lab, 1, 2, 8_000, mixed)
    with holding(shared_lab, TABLE, exclude=(idle,)) as pilot:
        pilot.wait(**{mixed: 7})
        job, _ = main_job(shared_lab, 1, 2, 8_000)
        assert shared_lab.run("squeue", "-h", "-j", job, "-o", "%N").strip() == idle
    shared_lab.cancel_all()


def test_trainers_on_a_part_keep_to_its_gpus_and_go_on_with_what_a_main_job_leaves(
    shared_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_lab.enter(monkeypatch.setenv)
    mixed, other = shared_lab.node_names
    main_job(shared_lab, 8, 16, 60_000, other)
    main_job(shared_lab, 1, 2, 8_000, mixed)
    it = machine(tmp_path, [], BY_GPU)
    stepper = Path(__file__).parents[1] / "live" / "stepper.py"
    (it.work / "noted.py").write_text(
        "import os, runpy, sys, time\n"
        "gpus = os.environ['CUDA_VISIBLE_DEVICES'].split(',')\n"
        "with open(sys.argv[2] + '.gpus', 'a') as file:\n"
        "    file.write(' '.join([os.environ['BFTRAINER_INCARNATION'], "
        "gpus[int(os.environ['LOCAL_RANK'])], *gpus]) + '\\n')\n"
        f"runpy.run_path({str(stepper)!r}, run_name='__main__')\n"
    )
    try:
        for name, most in (("a", 5), ("b", 4)):
            command = [
                sys.executable,
                "noted.py",
                f"{name}.json",
                f"{name}.steps",
                "1000000",
                "0.1",
            ]
            options = ["--name", name, "--max-gpus", most, "--samples-per-s", 10, "--cwd", it.work]
            fast = ["--set", "scale_up_s = 0.2", "--set", "scale_down_s = 0.1", "--state", it.state]
            ended = bftrainer("submit", *options, *fast, "--", *command)
            assert ended.status == 0, ended
        pilot = it.pilot()
        sizes = [0, 0]

        def trained(but: str = "") -> int:
            """GPUs that trainers run on, each of them once, and none of these."""
            sizes[:] = []
            used: list[str] = []
            for name in "ab":
                if it.status(name) != "running":
                    sizes.append(0)
                    continue
                path = it.work / f"{name}.steps.gpus"
                lines = (
                    [line.split() for line in path.read_text().splitlines()]
                    if path.exists()
                    else []
                )
                last = [line for line in lines if line[0] == lines[-1][0]]
                used += [line[1] for line in last]
                sizes.append(len(last))
                assert all(
                    set(line[2:]) == {other[1] for other in last}
                    for line in last
                    if len(last) == len(line) - 2
                )
            return len(used) if len({*used, *but}) == len(used) + len(but) else 0

        wait_until(lambda: trained() == 7, f"7 GPUs in use: {sizes}", 60)
        job, took_s = main_job(shared_lab, 2, 4, 8_000, mixed)
        begun_s = time.monotonic()
        shown = re.search(
            r"GRES=gpu:a100:2\(IDX:(\d)[-,](\d)\)",
            shared_lab.run("scontrol", "-d", "show", "job", job),
        )
        assert shown, "two GPUs"
        taken = shown[1] + shown[2]
        wait_until(lambda: trained(taken) == 5, f"5 GPUs in use without {taken}: {sizes}", 60)
        print(
            f"a 2-GPU job after {took_s:.2f} s; trainers on the other 5 after "
            f"{time.monotonic() - begun_s:.1f} s"
        )
        assert shared_lab.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
        shared_lab.run("scancel", job)
        wait_until(lambda: trained() == 7, f"all 7 GPUs in use again: {sizes}", 60)
        it.end(pilot)
    finally:
        it.close()
        shared_lab.cancel_all()
