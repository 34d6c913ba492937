"""Logs whose unit is a GPU: the format, what a pilot holds, and a day of Philly beside the
prototype's results.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.commands import executed
from support.command_line import bftrainer, complaint
from support.data import data_file
from support.log_examples import EXAMPLES
from support.reading_logs import read

from bftrainer.decide.domain.events import PoolChanged
from bftrainer.slots import slot_of
from bftrainer_replay.logs.event_log import read_event_log, write_event_log
from bftrainer_replay.logs.gpus import counted, held_parts, on_idle_nodes
from bftrainer_replay.logs.model import EventLog, GpuFacts, PoolEvent, level, restricted_log

HEADER = "time,joined,left\n"
LISTED = "# unit=gpu a:4 b:8\n" + HEADER
PHILLY = Path(__file__).parents[2] / "recorded" / "philly-2017-10-12"


def test_entries_count_gpus_and_the_last_that_joined_leaves_first(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "# unit=gpu\n" + HEADER + "2021-01-01T00:00:00,a:3,\n2021-01-01T00:01:00,b:2,a:2\n"
    )
    log = read_event_log(path)
    assert [event.change for event in log.events] == [
        PoolChanged(frozenset(("a:0", "a:1", "a:2"))),
        PoolChanged(frozenset(("b:0", "b:1")), frozenset(("a:1", "a:2"))),
    ]
    assert (log.gpus, log.machine_nodes) == (GpuFacts({"a": 3, "b": 2}), 5)  # the most idle at once
    told = bftrainer("replay", "convert", path, "--out", tmp_path / "out.csv").out
    assert told.endswith("2 events, 5 GPUs idle at some time\n")
    assert complaint(bftrainer("replay", "characterize", path, "--machine-nodes", 3)).endswith(
        "specify --gpus-per-node"
    )


@st.composite
def counts(draw: st.DrawFn) -> EventLog:
    """Up to 4 nodes of 3 GPUs, with any number of idle ones."""
    idle, events = dict.fromkeys("abcd", 0), []
    for at_s in sorted(draw(st.sets(st.integers(0, 500), min_size=1, max_size=12))):
        joined, left = set[str](), set[str]()
        for node, now in draw(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3))).items():
            joined |= {level(node, index) for index in range(idle[node], now)}
            left |= {level(node, index) for index in range(now, idle[node])}
            idle[node] = now
        events.append(PoolEvent(float(at_s), PoolChanged(frozenset(joined), frozenset(left))))
    return EventLog(
        tuple(events), "drawn", machine_nodes=12, gpus=GpuFacts(dict.fromkeys("abcd", 3))
    )


@settings(deadline=None, max_examples=60)
@given(log=counts())
def test_what_is_written_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, log: EventLog
) -> None:
    path = tmp_path_factory.mktemp("round") / "log.csv.gz"
    write_event_log(path, log)
    again = read_event_log(path)
    assert (again.events, again.gpus) == (log.events, log.gpus)


@settings(deadline=None, max_examples=200)
@given(log=counts(), back_s=st.sampled_from((0.0, 7.0, 100.0)))
def test_a_pilot_holds_no_gpu_that_is_not_idle_and_loses_whole_parts(
    log: EventLog, back_s: float
) -> None:
    window = restricted_log(log)
    held = held_parts(window, back_s)
    idle, pool, quiet_s = set(window.initial), set(held.initial), window.start_s
    changes = {e.at_s: e.change for e in window.events}
    steps = {e.at_s: e.change for e in held.events}
    for at_s in sorted(changes.keys() | steps.keys()):
        if at_s in changes:
            idle = (idle - changes[at_s].left) | changes[at_s].joined
            quiet_s = at_s
        step = steps.get(at_s, PoolChanged())
        assert step.left <= pool
        assert {slot_of(name).fragment for name in step.left}.isdisjoint(
            slot_of(name).fragment for name in pool - step.left
        ), "a part that broke"
        assert step.joined.isdisjoint(pool), "a part that returns is another one"
        pool = (pool - step.left) | step.joined
        for node in "abcd":
            mine = sum(slot_of(name).node == node for name in pool)
            free = sum(name.startswith(node) for name in idle)
            assert mine <= free
            assert mine == free or at_s <= quiet_s + back_s, "idle GPUs are held again"


def test_a_main_job_of_one_gpu_takes_the_part_and_the_rest_returns(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        LISTED + "2021-01-01T00:00:00,a:3 "
        "b:8,\n2021-01-01T00:10:00,,a:1\n2021-01-01T00:20:00,a:2,\n2021-01-01T01:00:00,,\n"
    )
    window = restricted_log(read_event_log(path))
    sizes = [
        (event.at_s - window.start_s, len(event.change.joined), len(event.change.left))
        for event in held_parts(window, 20.0).events
    ]
    assert sizes == [(600.0, 0, 3), (620.0, 2, 0), (1220.0, 2, 0)]
    by_node = window.gpus.by_node
    assert (by_node.initial, by_node.machine_nodes) == (frozenset("b"), 2)
    assert [(e.at_s - window.start_s, e.change.joined) for e in by_node.events] == [
        (1200.0, frozenset("a"))
    ]
    assert len(on_idle_nodes(window).initial) == 8


SACCT = "JobID|Submit|Start|End|NNodes|NodeList|State|AllocTRES\n"
T0 = 1_700_000_000
OPTIONS = {"warm_up_h": 0.0, "cool_down_h": 0.0, "debounce_s": 0.0, "unit": "gpu"}


def job(
    number: int, start_s: int, end_s: int, nodes: str, count: int, tres: str, waited_s: int = 0
) -> str:
    start, end = T0 + start_s, T0 + end_s
    return f"{number}|{start - waited_s}|{start}|{end}|{count}|{nodes}|COMPLETED|{tres}\n"


def idle_at(log: EventLog | None, at_s: int) -> dict[str, int]:
    """Idle GPUs of each node."""
    pool: frozenset[str] = frozenset()
    for event in log.events:
        if event.at_s <= T0 + at_s:
            pool = (pool - event.change.left) | event.change.joined
    return dict(counted(pool))


FULL = "cpu=8,gres/gpu=4,gres/gpu:a100=4,node=1"


def test_a_job_log_has_the_idle_gpus_that_have_cores_beside_them(tmp_path: Path) -> None:
    text = (
        SACCT
        + job(0, -9, 0, "n1", 1, FULL)
        + job(1, 0, 100, "n1", 1, FULL)
        + job(2, 0, 100, "n2", 1, FULL)
    )
    text += job(3, 100, 200, "n1", 1, "cpu=5,gres/gpu:a100=1,node=1") + job(
        4, 100, 200, "n2", 1, "cpu=2,node=1"
    )
    text += job(5, 0, 300, "login", 1, "cpu=64,node=1") + job(6, 200, 300, "n1", 1, FULL)
    text += job(7, 300, 309, "n1", 1, FULL)
    opened = read(tmp_path, text, **OPTIONS)
    log = opened.log
    assert (log.gpus.per_node, log.machine_nodes) == ({"n1": 4, "n2": 4}, 8)
    assert idle_at(log, 50) == {}
    assert idle_at(log, 150) == {"n1": 1, "n2": 3}  # 3 of 8 cores, 2 for each GPU; 6 of 8 cores
    assert idle_at(log.gpus.every, 150) == {"n1": 3, "n2": 4}
    assert idle_at(log, 250) == {"n2": 4}
    # A node with a job that has no GPU is no idle node.
    gpus = restricted_log(log).gpus
    assert gpus is not None
    (by_node,) = [event for event in gpus.by_node.events if event.change.joined]
    assert (by_node.at_s, by_node.change.joined) == (T0 + 200, frozenset(("n2",)))
    assert any(
        "most in use on it at once; specify them with --gpus-per-node" in each
        for each in opened.remarks
    )
    one_core = read(tmp_path, text, **OPTIONS, part_cpus=1.0, gpus_per_node=8).log
    assert idle_at(one_core, 150) == {"n1": 3, "n2": 6}


@pytest.mark.parametrize("seed", range(20))
def test_idle_gpus_of_random_jobs_are_those_of_a_plain_count(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    jobs = [
        (-9, 0, "a", 1),
        *((0, 500, node, 1) for node in "abc"),
        (500, 510, "a", 1),
    ]  # from the first end to the last start
    for _ in range(60):
        start, node, gpus = rng.randrange(500), rng.choice("abc"), rng.randint(1, 8)
        end = rng.randint(start + 1, 500)
        if all(
            sum(g for s, e, n, g in jobs if n == node and s <= at < e) + gpus <= 8
            for at in range(start, end)
        ):
            jobs.append((start, end, node, gpus))
    text = SACCT + "".join(
        job(k, s, e, n, 1, f"gres/gpu={g},node=1", 7 * (k % 5) * (k > 4))
        for k, (s, e, n, g) in enumerate(jobs)
    )
    log = read(tmp_path, text, **OPTIONS, gpus_per_node=8).log
    for at in range(0, 500, 7):
        used = {node: sum(g for s, e, n, g in jobs if n == node and s <= at < e) for node in "abc"}
        assert idle_at(log, at) == {node: 8 - gpus for node, gpus in used.items() if gpus < 8}, at


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (
            SACCT + job(1, 0, 9, "n1", 1, "cpu=8,node=1"),
            (),
            "in AllocTRES; set AccountingStorageTRES=gres/gpu",
        ),
        (SACCT + job(1, 0, 9, "n1", 1, FULL), ("--gpus-per-node", 2), "--gpus-per-node 2: "),
        (
            SACCT + job(1, 0, 9, "n1", 1, FULL),
            ("--machine-nodes", 2),
            "cannot be combined with --unit gpu",
        ),
        (EXAMPLES["swf"].decode(), (), "names no nodes, so --unit gpu cannot be used"),
        (
            HEADER + "2021-01-01T00:00:00,a,\n2021-01-01T00:01:00,,a\n",
            (),
            "is in nodes, so --unit gpu cannot be used",
        ),
    ],
)
def test_mistakes(tmp_path: Path, text: str, options: tuple[object, ...], words: str) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    ended = bftrainer(
        "replay",
        "characterize",
        log,
        "--unit",
        "gpu",
        "--warm-up-h",
        0,
        "--cool-down-h",
        0,
        *options,
    )
    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err.splitlines()[-1]


# GPU-hours of the pool, and one-GPU hours: results of the plain logs that the prototype wrote,
# `replay run --max-parallel 35`.
TABLE = [("first", "gpu", 3052.418, 1929.918), ("pack", "node", 107.479 * 8, 126.688)]


@pytest.mark.data
@pytest.mark.parametrize(("placement", "unit", "pool_h", "done_h"), TABLE)
def test_a_busy_day_of_philly(
    tmp_path: Path, placement: str, unit: str, pool_h: float, done_h: float
) -> None:
    """By node of 8 GPUs, curves are per node and the last figure is in hours of a node."""
    gpus = 8 if unit == "node" else 1
    table = tmp_path / "trainers.csv"
    executed(
        "replay",
        "trace",
        "--arrivals",
        data_file("dl-job-arrivals/sia_philly.csv.gz"),
        "--curves",
        data_file("dl-throughput-profiles/sia-traces.tar.gz"),
        "--hardware",
        "aws",
        "--gpus-per-node",
        gpus,
        "--from",
        "2017-10-12T00:00:00",
        "--hours",
        24,
        "--out",
        table,
    )
    ended = executed(
        "replay",
        "run",
        PHILLY / f"{placement}-gpus.csv.gz",
        "--unit",
        unit,
        "--trainers",
        table,
        "--curves",
        tmp_path / "trainers.curves.csv",
        "--max-parallel",
        35,
        "--out",
        tmp_path / "out",
        "--json",
    )
    found = json.loads(ended.out)
    assert found["resource_integral_node_h"] * gpus == pytest.approx(pool_h, rel=0.001)
    assert found["outcome_one_node_h"] == pytest.approx(done_h, rel=0.01)
