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
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import SchedulerError, UserError
from bftrainer_clusters.slurm import text as slurm_text
from bftrainer_clusters.slurm.observe import SlurmScheduler
from bftrainer_clusters.slurm.pyslurm import PyslurmScheduler, probe, pyslurm_check


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


def test_what_a_pyslurm_prints_while_it_is_imported_is_not_its_version(tmp_path: Path) -> None:
    """A site's wrapper may announce itself; the line of doctor would be two."""
    (tmp_path / "pyslurm.py").write_text(
        "print('site module 1.2 loaded')\n__version__ = '26.5.0'\n"
        "Nodes = Jobs = type('X', (), {'load': 1})\n"
    )
    assert probe({"PYTHONPATH": str(tmp_path)}) == "26.5.0"


@pytest.mark.parametrize(
    ("slurm", "pyslurm", "state", "words"),
    [
        ("22.05.8", "22.5.3", CheckStatus.OK, "22.5.3, for Slurm 22.05.8"),
        ("26.05.5", "26.05.0", CheckStatus.OK, "26.05.0, for Slurm 26.05.5"),
        ("26.05.5", "25.11.2", CheckStatus.BROKEN, "not for Slurm 26.05.5, which needs 26.5.x"),
        ("23.02.1", "23.11.1", CheckStatus.BROKEN, "which needs 23.2.x"),
        ("22.05.8", "none", CheckStatus.BROKEN, "no version in 'none'"),
    ],
)
def test_doctor_names_the_version_that_fits(
    slurm: str, pyslurm: str, state: CheckStatus, words: str
) -> None:
    check = pyslurm_check(slurm, is_used=True, version=lambda: pyslurm)
    assert check.state is state
    assert words in check.detail
    year, month = (int(part) for part in slurm.split(".")[:2])
    assert (f"pyslurm=={year}.{month}.*" in check.remedy) is (state is CheckStatus.BROKEN)


def test_doctor_starts_no_pyslurm_that_is_not_used() -> None:
    def version() -> str:
        raise AssertionError

    check = pyslurm_check("22.05.8", is_used=False, version=version)
    assert (check.state, check.required) == (CheckStatus.OK, False)
    assert "22.5.x" in check.detail


def test_doctor_says_that_pyslurm_is_missing() -> None:
    def version() -> str:
        raise UserError("pyslurm cannot be used here (No module named 'pyslurm')")

    check = pyslurm_check("24.11.5", is_used=True, version=version)
    assert check.state is CheckStatus.BROKEN
    assert "pyslurm==24.11.*" in check.remedy
