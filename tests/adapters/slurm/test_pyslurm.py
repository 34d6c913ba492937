"""pyslurm's side of the Scheduler port: a module with its names, filled with a recorded moment,
says what the commands say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.recorded_slurm import recorded

from bftrainer.cluster.model import Observation
from bftrainer.errors import SchedulerError, UserError
from bftrainer_clusters.slurm import text as slurm_text
from bftrainer_clusters.slurm.observe import SlurmScheduler
from bftrainer_clusters.slurm.pyslurm import PyslurmScheduler, probe


class FakePyslurm:
    """Node and Job have the attributes of pyslurm's classes that are read."""

    class RPCError(Exception):
        pass

    def __init__(self, down: bool = False) -> None:
        def load(items: dict[Any, Any]) -> SimpleNamespace:
            def loaded() -> dict[Any, Any]:
                if down:
                    raise self.RPCError("Unable to contact slurm controller (connect failure)")
                return items

            return SimpleNamespace(load=loaded)

        nodes = json.loads(recorded("moment-pyslurm_moment.sinfo.json"))["nodes"]
        self.Nodes = load({n["name"]: self.node(n) for n in nodes})
        self.Jobs = load(dict(self.jobs()))

    @staticmethod
    def node(item: dict[str, Any]) -> SimpleNamespace:
        state = "+".join([item["state"].upper(), *item["state_flags"]])
        return SimpleNamespace(
            name=item["name"],
            state=state,
            partitions=item["partitions"],
            active_features=[],
            total_cpus=item["cpus"],
            configured_gres={},
        )

    @staticmethod
    def jobs() -> Iterator[tuple[int, SimpleNamespace]]:
        for line in recorded("moment-pyslurm_moment.squeue.txt").splitlines():
            job, name, partition, _, user, state, _, nodes, *_, planned, _, _ = line.split("|")
            yield (
                int(job),
                SimpleNamespace(
                    id=int(job),
                    name=name,
                    partition=partition,
                    user_name=user,
                    state=state,
                    num_nodes=int(nodes),
                    start_time=1795224719 + int(job),
                    scheduled_nodes=None if planned == "(null)" else planned,
                ),
            )


class RecordedRest(SlurmScheduler):
    def observe_rest(self, nodes: Any, pending: Any) -> Observation:
        return Observation(1795224764.0, nodes, pending)


def test_it_says_what_the_commands_say() -> None:
    seen = PyslurmScheduler(RecordedRest(), lambda _: FakePyslurm()).observe()
    assert seen.nodes == slurm_text.parse_nodes(recorded("moment-pyslurm_moment.nodes.txt"))
    jobs = {job.id: job for job in seen.pending}
    assert set(jobs) == {"9", "10", "11"}
    assert jobs["9"].nodes == {f"node{n:02d}" for n in range(4, 9)}
    assert (jobs["10"].starts_s, jobs["10"].size, jobs["10"].partitions) == (
        1795224729.0,
        3,
        ("main",),
    )


def test_slurmctld_down_is_an_error() -> None:
    with pytest.raises(SchedulerError, match="Unable to contact"):
        PyslurmScheduler(RecordedRest(), lambda _: FakePyslurm(down=True)).observe()


@pytest.mark.parametrize("text", ["import sys; sys.exit(1)", "raise ImportError('made up')"])
def test_a_pyslurm_that_ends_the_interpreter_is_a_line_of_text(tmp_path: Path, text: str) -> None:
    """What the real one does without a usable slurm.conf."""
    (tmp_path / "pyslurm.py").write_text(text)
    with pytest.raises(UserError, match="backend = 'commands'"):
        probe({"PYTHONPATH": str(tmp_path)})
    assert "pyslurm" not in sys.modules


def test_a_pyslurm_that_works_tells_its_version(tmp_path: Path) -> None:
    (tmp_path / "pyslurm.py").write_text(
        "class Nodes:\n    load = None\nclass Jobs:\n    load = None\n__version__ = '25.11.0'\n"
    )
    assert probe({"PYTHONPATH": str(tmp_path)}) == "25.11.0"
