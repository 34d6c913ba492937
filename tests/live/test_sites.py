"""Sites are found by entry point, and what they share holds for each of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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
from support.command_line import bftrainer, complaint
from support.fakes_live import FakeClock, FakeCluster
from support.patience import PATIENCE

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.cluster.ports import NodeHolder, Scheduler
from bftrainer.cluster.site_plugin import batch_systems, find_site, observed_site
from bftrainer.config.config_text import commented_default
from bftrainer.config.pilot import NodesConfig, PilotConfig, read_config
from bftrainer.config.validation import check_table, parse_toml
from bftrainer.errors import InputFileError, UnknownNameError
from bftrainer.pilot import own_site
from bftrainer.pilot.own_site import build_site
from bftrainer.plugins import SITE_GROUP, installed_names
from bftrainer.system.clock import SystemClock
from bftrainer.system.files import write_atomically
from bftrainer_clusters.allocation import SITE as ALLOCATION
from bftrainer_clusters.allocation import Allocation
from bftrainer_clusters.lsf.site import LsfBatch
from bftrainer_clusters.slurm.site import SlurmBatch
from bftrainer_replay.playback import trace_machine
from bftrainer_replay.playback.trace_site import Timeline, TraceCluster, TraceConfig, read_timeline


def test_the_installed_sites() -> None:
    assert installed_names(SITE_GROUP) == ("allocation", "lsf", "oar", "pbs", "slurm", "trace")
    assert [name for name, _ in batch_systems()] == ["lsf", "oar", "pbs", "slurm"]
    assert {name for name in installed_names(SITE_GROUP) if find_site(name).runs_here} == {"trace"}


def test_a_name_that_is_not_installed_lists_those_that_are(tmp_path: Path) -> None:
    config = check_table({"nodes": {"holder": "slrum"}}, PilotConfig, "test")
    with pytest.raises(
        UnknownNameError,
        match=r"unknown holder 'slrum', did you mean 'slurm'\? valid: allocation, lsf",
    ):
        build_site(config, tmp_path, SystemClock())
    with pytest.raises(
        UnknownNameError, match="unknown scheduler 'trace'; valid: lsf, oar, pbs, slurm"
    ):
        observed_site("trace", None, "", SystemClock())
    assert "unknown holder 'flux'" in complaint(
        bftrainer("init", "--holder", "flux", "--state", tmp_path / "s")
    )


@pytest.mark.parametrize("name", installed_names(SITE_GROUP))
def test_init_writes_a_configuration_that_can_be_read(name: str, tmp_path: Path) -> None:
    ended = bftrainer("init", "--holder", name, "--state", tmp_path / "s")
    assert ended.status == 0
    last_line = ended.out.splitlines()[-1]
    assert last_line.startswith("All keys and their defaults: bftrainer config --all --state ")
    path = tmp_path / "s" / "bftrainer.toml"
    assert read_config(path).nodes.holder == name
    assert path.read_text().endswith("# All keys and their defaults: bftrainer config --all\n")
    model = find_site(name).table
    assert (f"[{name}]  # " in path.read_text()) is (model is not None)
    assert len(re.findall(r"^#?[a-z_]+ = ", path.read_text(), re.MULTILINE)) <= 15
    every_key = bftrainer("config", "--all", "--state", tmp_path / "s").out
    for key in () if model is None else model.model_fields:
        assert f"#{key} = " in every_key
    for key in NodesConfig.model_fields:
        assert f"\n#{key} = " in every_key or key == "holder"
    file = tmp_path / "all.toml"
    file.write_text(every_key)
    assert read_config(file) == read_config(path)


def test_config_shows_what_a_file_sets_and_its_node_classes(tmp_path: Path) -> None:
    state = tmp_path / "s"
    bftrainer("init", "--state", state)
    path = state / "bftrainer.toml"
    path.write_text(path.read_text() + '[classes."a 100"]\nhosts = ["n[1-4]"]\n[slurm]\n')
    with path.open("a") as config:
        config.write('[classes.b]\ngpu = "two\\nlines"\n')
    shown = bftrainer("config", "--state", state).out
    assert parse_toml(shown, "x") == parse_toml(path.read_text(), "x")
    file = tmp_path / "all.toml"
    file.write_text(bftrainer("config", "--all", "--state", state).out)
    assert read_config(file) == read_config(path)


def test_a_table_is_a_sites_or_an_error() -> None:
    config = check_table({"lsf": {"queue": "idle"}}, PilotConfig, "test")
    assert (config.site_table("lsf"), config.site_table("slurm")) == ({"queue": "idle"}, {})
    with pytest.raises(InputFileError, match="test: unknown key 'slrum', did you mean 'slurm'"):
        check_table({"slrum": {}}, PilotConfig, "test")
    with pytest.raises(InputFileError, match="test: slurm: expected a table, got 3"):
        check_table({"slurm": 3}, PilotConfig, "test")
    assert "[slurm]" not in commented_default()


@pytest.mark.parametrize(
    ("environment", "nodes", "prefix"),
    [
        ({}, ("localhost",), []),
        ({"SLURM_JOB_ID": "12"}, ("localhost",), ["srun", "--jobid=12"]),
        (
            {"SLURM_JOB_NODELIST": "node[01-02,5],login1", "SLURM_JOB_ID": "12"},
            ("login1", "node01", "node02", "node5"),
            ["srun", "--jobid=12"],
        ),
        ({"LSB_DJOB_HOSTFILE": "hosts", "SLURM_JOB_ID": "12"}, ("a", "b"), ["blaunch", "{node}"]),
    ],
)
def test_the_nodes_of_the_job_around(
    environment: Mapping[str, str],
    nodes: tuple[str, ...],
    prefix: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LSB_DJOB_HOSTFILE", "SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("hosts").write_text("a\na\nb\n")
    site = ALLOCATION.build(PilotConfig(), tmp_path, SystemClock())
    assert tuple(node.name for node in site.scheduler.observe().nodes) == nodes
    words = site.driver["prefix"]
    assert isinstance(words, list)
    assert words[:2] == prefix


@pytest.mark.parametrize(
    ("by_lsf", "by_slurm", "expected"),
    [
        (None, None, None),
        (True, None, True),
        (None, True, True),
        (True, False, False),
        (False, True, False),
    ],
)
def test_outside_of_a_job_a_scheduler_that_lists_the_other_pilots_job_has_the_last_word(
    by_lsf: bool | None,
    by_slurm: bool | None,
    expected: bool | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(LsfBatch, "job_is_gone", lambda self, job: by_lsf)
    monkeypatch.setattr(SlurmBatch, "job_is_gone", lambda self, job: by_slurm)
    job = own_site.batch_job({}, "trace", tmp_path, SystemClock())
    assert (job.id, job.own, job.is_gone("7")) == ("", None, expected)


def test_a_site_that_cannot_be_imported_is_one_line_and_a_finding(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bftrainer.sites]\nflux = no_such_module:SITE\n")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bftrainer", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60 * PATIENCE,
        )

    said = run("init", "--holder", "flux", "--state", tmp_path / "s")
    assert said.returncode == 2
    assert said.stderr.startswith(
        "bftrainer: site 'flux' (no_such_module:SITE) cannot be loaded: ModuleNotFoundError"
    )
    assert run("init", "--holder", "slurm", "--state", tmp_path / "s").returncode == 0
    checks = {
        check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]
    }
    assert (checks["flux"]["state"], checks["flux"]["required"]) == ("BROKEN", False)


# --- The NodeHolder contract on the holders of this machine, ``trace`` and ``allocation``, with
# real processes as workers

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
        self.children.append(
            subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True)
        )

    def workers(self) -> int:
        return sum(child.poll() is None for child in self.children)

    def until(self, condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + 30 * PATIENCE
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what}"
            time.sleep(0.05)


class Faked:
    """The cluster in memory of the pilot's other tests."""

    def __init__(self) -> None:
        self.made = FakeCluster(FakeClock(), set(NODES))
        self.nodes, self.scheduler, self.children = (
            NODES,
            self.made,
            list[subprocess.Popen[bytes]](),
        )
        self.on = list[str]()

    def holder(self, pilot: str = "test", lease_s: float = 60.0) -> NodeHolder:
        return self.made

    def main_job(self, size: int, minutes: int) -> str:
        for node in NODES[:size]:
            self.made.take(node)
        return "1"

    def go_silent(self) -> None:
        self.made.down = True

    def answer_again(self) -> None:
        self.made.down = False

    def start_worker(self, fragment: Fragment, script: str = "") -> None:
        self.on.append(fragment.name)

    def workers(self) -> int:
        held = {f.name for f in self.made.fragments.values() if f.phase is FragmentPhase.READY}
        return sum(name in held - self.made.cleared for name in self.on)

    def until(self, condition: Callable[[], object], what: str) -> None:
        while not condition():
            assert self.made.clock.elapsed_s() < 60, f"waited in vain for {what}"
            self.made.clock.sleep(0.5)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Nobody takes a node out of an allocation, and its job's end ends everything; the fake knows
    no leases.
    """
    if "cluster" in metafunc.fixturenames:
        name = metafunc.function.__name__
        left_out = (
            {"allocation"}
            if "main_job" in name
            else {"allocation", "fake"}
            if "lease" in name
            else set()
        )
        metafunc.parametrize(
            "cluster", sorted({"trace", "allocation", "fake"} - left_out), indirect=True
        )


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Local | Faked]:
    local = Faked() if request.param == "fake" else Local(request.param, tmp_path)
    yield local
    # The machines would go on until there is nothing left to watch.
    for child in [*local.children, *trace_machine._machines]:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.fixture
def cluster_is_over() -> Iterator[None]:
    """The machines of a test end with it."""
    yield
    for machine in trace_machine._machines:
        if machine.poll() is None:
            os.killpg(machine.pid, signal.SIGKILL)
        machine.wait()


def test_a_successor_finds_the_fragments(cluster: Local | Faked) -> None:
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


def test_workers_of_the_trace_site_may_save_unless_the_configuration_says_otherwise(
    tmp_path: Path,
) -> None:
    def notice_s(holder: str, **workers: float) -> object:
        config = check_table({"nodes": {"holder": holder}, "workers": workers}, PilotConfig, "test")
        site = build_site(config, tmp_path, SystemClock())
        own_site.reconfigure(site, config)
        return site.driver["notice_s"]

    assert notice_s("trace") == 5.0
    assert notice_s("trace", notice_s=0.0) == 0.0
    assert notice_s("trace", notice_s=2.5) == 2.5
    assert notice_s("allocation") == 0.0
    assert TraceConfig().speedup == 1.0


@pytest.mark.parametrize(
    ("notice_s", "script", "status"),
    [
        (
            "60",
            'while [ ! -s "$BFTRAINER_TRAINER_DIR/preempted.jsonl" ]; do sleep 0.02; done; exit 83',
            83,
        ),
        ("0.3", "sleep 1000", -signal.SIGKILL),
        ("nan", "sleep 1000", -signal.SIGKILL),
        ("", "sleep 1000", -signal.SIGKILL),
    ],
    ids=["saves", "does not end", "no number", "no notice"],
)
def test_a_preempted_worker_of_the_trace_site_may_save(
    notice_s: str, script: str, status: int, tmp_path: Path, cluster_is_over: None
) -> None:
    cluster, trainer = trace_cluster(tmp_path), tmp_path / "trainer"
    trainer.mkdir()
    (trainer / "preempted.jsonl").touch()
    folder = trace_fragment(tmp_path / "holders", "n1#t-1")
    env = {
        "BFTRAINER_FRAGMENT": "t-1",
        "BFTRAINER_TRAINER_DIR": str(trainer),
        "PATH": "/usr/bin:/bin",
    }
    if notice_s:
        env["BFTRAINER_NOTICE_S"] = notice_s
    worker = subprocess.Popen(["sh", "-c", script], env=env)
    try:
        write_atomically(folder / "fragment.json", json.dumps({"ends_s": time.time()}).encode())
        end_s = time.monotonic() + 30 * PATIENCE
        while FragmentPhase.GONE not in [fragment.phase for fragment in cluster.poll()]:
            assert time.monotonic() < end_s, "waited in vain for the fragment's end"
            time.sleep(0.02)
        assert worker.wait() == status
    finally:
        worker.kill()
    lines = (trainer / "preempted.jsonl").read_text().splitlines()
    is_told = notice_s in ("60", "0.3")
    assert [json.loads(line) for line in lines] == [{"fragment": "t-1"}] * is_told


def trace_fragment(holders: Path, name: str, *marks: str, files: int = 0) -> Path:
    """A fragment's folder, as the pilot and the machine of the site ``trace`` write it."""
    folder = holders / name
    folder.mkdir()
    (folder / "lease").touch()
    (folder / "fragment.json").write_text(json.dumps({"ends_s": time.time() + 3600}))
    for number in range(files):
        (folder / str(number)).touch()
    for mark in marks:
        (folder / mark).touch()
    return folder


def trace_cluster(state: Path) -> TraceCluster:
    return TraceCluster(
        state, Timeline(dict.fromkeys(NODES, ((0.0, 3600.0),)), 3600.0), 60.0, SystemClock()
    )


def test_a_fragment_whose_files_cannot_be_deleted_ends_no_pilot(
    tmp_path: Path, cluster_is_over: None
) -> None:
    """A worker's child may still write there when the pilot tidies up."""
    cluster = trace_cluster(tmp_path)
    folder = trace_fragment(tmp_path / "holders", "n1#t-1", "ready", "gone")
    (folder / "work").mkdir()
    (folder / "work" / "out").touch()
    (folder / "work").chmod(0o500)
    try:
        assert [(f.name, f.phase) for f in cluster.poll()] == [("n1#t-1", FragmentPhase.GONE)]
        assert cluster.poll() == ()
    finally:
        for path in (tmp_path / "holders").rglob("work"):
            path.chmod(0o700)


def test_a_fragments_folder_that_cannot_be_removed_is_told_once(
    tmp_path: Path, cluster_is_over: None
) -> None:
    cluster = trace_cluster(tmp_path)
    trace_fragment(tmp_path / "holders", "n1#t-1", "gone")
    trace_machine.ensure_running(tmp_path / "holders", 60.0)
    (tmp_path / "holders").chmod(0o500)
    try:
        assert [f.phase for f in cluster.poll()] == [FragmentPhase.GONE]
        assert cluster.poll() == ()
    finally:
        (tmp_path / "holders").chmod(0o700)


def test_the_machine_sees_all_of_a_folder_or_nothing_while_the_pilot_removes_it(
    tmp_path: Path, cluster_is_over: None
) -> None:
    """The mark ``gone`` may be the first file to be deleted: the machine took the rest for a new
    fragment and marked it.

    The many other files make the removal last.
    """
    cluster = trace_cluster(tmp_path)
    names = [f"n1#t-{number}" for number in range(20)]
    folders = [
        trace_fragment(tmp_path / "holders", name, "ready", "gone", files=300) for name in names
    ]
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for folder in trace_machine.fragment_folders(tmp_path / "holders")[:2]:
                if not (folder / "gone").exists():
                    trace_machine.play(folder, 60.0, trace_machine._Watched())

    machine = threading.Thread(target=look)
    machine.start()
    try:
        assert len(cluster.poll()) == len(folders)
    finally:
        over.set()
        machine.join()
    assert cluster.poll() == ()
    assert not [path.name for path in (tmp_path / "holders").iterdir() if "#" in path.name]


def test_a_fragment_that_was_removed_gets_no_mark(tmp_path: Path) -> None:
    trace_machine.make_mark(tmp_path / "n1#t-1", "gone", "preempted")
    assert not [*tmp_path.iterdir()]


def test_a_timeline_follows_its_log_and_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "time,joined,left\n2021-01-01T00:00:00,a "
        "b,\n2021-01-01T00:01:00,,a\n2021-01-01T00:02:00,a,b\n2021-01-01T00:04:00,,\n"
    )
    timeline = read_timeline(TraceConfig(log=tmp_path / "log.csv", nodes=2, speedup=60.0))
    assert timeline == Timeline({"a": ((0.0, 1.0), (2.0, 4.0)), "b": ((0.0, 2.0),)}, 4.0)
    assert [timeline.until_s("a", t) for t in (0.5, 1.5, 2.0, 3.9, 4.0, 5.0)] == [
        1.0,
        None,
        4.0,
        4.0,
        5.0,
        None,
    ]
    assert timeline.until_s("c", 0.0) is None


def test_a_node_that_left_the_job_is_gone(tmp_path: Path) -> None:
    first = Allocation(tmp_path, ("a", "b"), SystemClock())
    first.acquire((NodeRequest("a"), NodeRequest("b")))
    second = Allocation(tmp_path, ("b",), SystemClock())
    assert {(f.node, f.phase) for f in second.poll()} == {
        ("a", FragmentPhase.GONE),
        ("b", FragmentPhase.READY),
    }
    assert [f.node for f in second.poll()] == ["b"]
