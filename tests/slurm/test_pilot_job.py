"""The whole story on a real Slurm with real groups of workers: the pilot is a job, trainers come
and go by the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

import pytest
from support.pilot_job import QUICK, PilotJob
from support.promises import promise

from bftrainer.system.command import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]


def discovered(on: PilotJob, name: str) -> set[str]:
    """The nodes that a trainer's host-discovery script prints."""
    lines = run([str(on.machine.state / "trainers" / name / "discover_hosts.sh")], timeout_s=30)
    return {line.partition(":")[0] for line in lines.splitlines()}


def no_script_prints(on: PilotJob, nodes: Iterable[str]) -> bool:
    """Whether no Horovod trainer announces one of these nodes."""
    return not (discovered(on, "a") | discovered(on, "stock")) & set(nodes)


def test_four_trainers_through_main_jobs_of_1_4_and_8_nodes(
    on: PilotJob, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an ordinary user with an empty HOME."""
    assert os.geteuid() != 0, "tests/support/ordinary_user.py"
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    on.configure(**{**QUICK, "workers_allow_root": False})
    launchers = {"a": "horovod", "b": "torchrun", "stock": "horovodrun", "plain": "restart"}
    for name, launcher in launchers.items():
        on.submit(name, launcher)
    pilot = on.sbatch()
    on.until_training(*launchers, size=2, seconds=120)
    assert len(on.machine.rows("nodes")) == 8

    for size, trainers in ((1, 4), (4, 3)):
        _, nodes, ours = on.main_job(size)
        promise(not ours, f"nothing of ours is on the nodes of a main job: {ours}")
        on.until_training(*launchers, least=trainers)
        assert not on.ours_on(nodes)
        on.until(
            "no discovery script prints a node of the main job",
            partial(no_script_prints, on, nodes),
        )
    on.end_main_jobs()
    on.until_training(*launchers, size=2)
    assert [len(discovered(on, name)) for name in ("a", "stock")] == [2, 2]

    _, nodes, ours = on.main_job(8)
    assert len(nodes) == 8
    promise(not ours, f"nothing of ours is on the nodes of a main job: {ours}")
    on.until("all wait", lambda: {on.machine.status(n) for n in launchers} == {"waiting"})
    assert not on.ours_on(nodes)
    on.end_main_jobs()
    on.until_training(*launchers, seconds=120)
    on.finish(*launchers)
    on.until("all are done", lambda: {on.machine.status(n) for n in launchers} == {"done"})

    on.stop(pilot)
    on.until("nothing of ours is left", lambda: not on.left(), 20)
    for name in launchers:
        on.check_story(name)
    assert {1, 2} <= {size for name in launchers for size in on.sizes(name)}, (
        "somebody has made room for the others"
    )
    assert "0 differ" in on.machine.bftrainer_replay()
    refused = {
        str(row["text"]).partition(":")[0]
        for row in on.machine.rows("events")
        if row["kind"] == "refused"
    }
    assert not refused & set(on.lab.service_names), "a node of other partitions is left alone"
    assert all(row["released_s"] is not None for row in on.machine.rows("nodes", "--all"))
