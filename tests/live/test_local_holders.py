"""The NodeHolder contract on the holders of this machine, ``trace`` and ``allocation``, with real processes as workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from contract.test_node_holder import (  # noqa: F401  # collected here with the fixture below
    hold,
    test_clear_ends_workers_and_keeps_the_node,
    test_gone_is_said_once,
    test_held_nodes_are_not_idle_and_a_main_job_gets_them_at_once,
    test_release_gives_back_some_and_keeps_the_others,
    test_while_the_scheduler_is_silent_nothing_is_gone,
    test_without_a_pilot_the_lease_lapses,
)
from patience import PATIENCE

from bftrainer.config.pilot import TraceConfig
from bftrainer.domain.cluster import Fragment, FragmentPhase, NodeRequest
from bftrainer.domain.ports import NodeHolder, Scheduler
from bftrainer.system.clock import SystemClock
from bftrainer.system.files import write_atomically
from bftrainer_adapters.allocation import Allocation
from bftrainer_replay.playback import trace_machine
from bftrainer_replay.playback.trace_site import Timeline, TraceCluster, read_timeline

NODES = [f"n{i}" for i in range(1, 9)]


@dataclass
class Local:
    """``kind`` is trace or allocation; a main job takes nodes by shortening what the log gives."""

    kind: str
    state: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    lease_s: float = 60.0
    nodes: list[str] = field(default_factory=lambda: list(NODES))
    made: Allocation | TraceCluster | None = None

    @property
    def scheduler(self) -> Scheduler:
        return self._made()

    def holder(self, pilot: str = "test", lease_s: float = 60.0) -> NodeHolder:
        self.lease_s, self.made = lease_s, None
        return self._made()

    def _made(self) -> Allocation | TraceCluster:
        if self.made is None:
            timeline = Timeline(dict.fromkeys(NODES, ((0.0, 3600.0),)), 3600.0)
            self.made = (
                TraceCluster(self.state, timeline, self.lease_s, SystemClock())
                if self.kind == "trace"
                else Allocation(self.state, tuple(NODES), SystemClock())
            )
        return self.made

    def main_job(self, size: int, minutes: int) -> str:
        for folder in list((self.state / "holders").glob("*#*"))[:size]:
            write_atomically(folder / "fragment.json", json.dumps({"ends_s": time.time()}).encode())
        return "1"

    def go_silent(self) -> None: ...

    def answer_again(self) -> None: ...

    def start_worker(self, fragment: Fragment, script: str = "sleep 1000") -> None:
        env = {"BFTRAINER_FRAGMENT": fragment.id, "PATH": "/usr/bin:/bin"}
        self.children.append(subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True))

    def workers(self) -> int:
        return sum(child.poll() is None for child in self.children)

    def until(self, condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + 30 * PATIENCE
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what}"
            time.sleep(0.05)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Nobody takes a node out of an allocation, and its job's end ends everything: those two tests are for trace alone."""
    if "cluster" in metafunc.fixturenames:
        only_trace = any(word in metafunc.function.__name__ for word in ("main_job", "lease"))
        metafunc.parametrize("cluster", ["trace"] if only_trace else ["trace", "allocation"], indirect=True)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Local]:
    local = Local(request.param, tmp_path)
    yield local
    # The machines would go on until there is nothing left to watch.
    for child in [*local.children, *trace_machine._started]:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def test_a_successor_finds_the_fragments(cluster: Local) -> None:
    before = hold(cluster, 2)  # type: ignore[arg-type]
    successor = cluster.holder()
    assert [f.name for f in successor.poll()] == sorted(before.latest)
    assert {f.phase for f in successor.poll()} == {FragmentPhase.READY}
    held = successor.acquire((NodeRequest(cluster.nodes[0]),))
    assert held.fragments == ()
    assert len(held.refusals) == 1
    fresh = successor.acquire((NodeRequest(cluster.nodes[5]),)).fragments[0]
    assert fresh.name not in before.latest
    successor.release(frozenset({fresh.name, *before.latest}))


def test_a_timeline_follows_its_log_and_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "time,joined,left\n2021-01-01T00:00:00,a b,\n2021-01-01T00:01:00,,a\n2021-01-01T00:02:00,a,b\n2021-01-01T00:04:00,,\n"
    )
    timeline = read_timeline(TraceConfig(log=tmp_path / "log.csv", nodes=2, speedup=60.0))
    assert timeline == Timeline({"a": ((0.0, 1.0), (2.0, 4.0)), "b": ((0.0, 2.0),)}, 4.0)
    assert [timeline.until_s("a", t) for t in (0.5, 1.5, 2.0, 3.9, 4.0, 5.0)] == [1.0, None, 4.0, 4.0, 5.0, None]
    assert timeline.until_s("c", 0.0) is None


def test_a_node_that_left_the_job_is_gone(tmp_path: Path) -> None:
    first = Allocation(tmp_path, ("a", "b"), SystemClock())
    first.acquire((NodeRequest("a"), NodeRequest("b")))
    second = Allocation(tmp_path, ("b",), SystemClock())
    assert {(f.node, f.phase) for f in second.poll()} == {("a", FragmentPhase.GONE), ("b", FragmentPhase.READY)}
    assert [f.node for f in second.poll()] == ["b"]
