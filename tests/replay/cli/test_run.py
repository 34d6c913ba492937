"""``bftrainer replay run`` end to end on a small log of its own, and what it refuses."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from replay.commands import executed
from support.command_line import bftrainer, complaint
from support.ran import python

LOG = """time,joined,left
2021-01-01T00:00:00,n1 n2 n3 n4 n5 n6,
2021-01-01T00:10:00,n7 n8,n1
2021-01-01T00:30:00,,n5 n6 n7
2021-01-01T01:00:00,n1,n2
2021-01-01T02:00:00,n2,
"""
NUMBERS = [
    *(
        "efficiency",
        "no_cost_bound",
        "resource_integral_node_h",
        "eq_nodes",
        "pool_events",
        "decisions",
        "outcome_samples",
    ),
    *(
        "static_outcome_samples",
        "outcome_one_node_h",
        "rescale_cost_samples",
        "preemption_cost_samples",
        "preemptions",
    ),
    *("rescales", "unused_node_h", "completed", "wall_s"),
]


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, Path]:
    log, trainers = tmp_path / "log.csv", tmp_path / "trainers.csv"
    log.write_text(LOG)
    executed("replay", "workload", "hpo", "--count", 30, "--spacing-s", 60, "--out", trainers)
    return log, trainers


def replay(inputs: tuple[Path, Path], *options: object, out: Path) -> dict[str, Any]:
    ended = bftrainer(
        "replay",
        "run",
        inputs[0],
        "--trainers",
        inputs[1],
        "--out",
        out,
        "--json",
        *options,
    )
    assert (ended.status, ended.err) == (0, ""), ended
    summary: dict[str, Any] = json.loads(ended.out)
    return summary


def test_numbers_and_files(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    summary = replay(inputs, "--max-parallel", 10, out=tmp_path / "out")
    assert all(isinstance(summary[name], int | float) for name in NUMBERS), summary
    assert set(summary["decision_s"]) == {"p50", "p99", "max"}
    assert summary["pool_events"] == 5
    assert summary["resource_integral_node_h"] == pytest.approx(
        (6 * 10 + 7 * 20 + 4 * 30 + 4 * 60) / 60
    )
    assert 0 < summary["efficiency"] < summary["start_bound"] < summary["no_cost_bound"]
    assert summary["bound_work_ran_out_at"] is None
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"summary.json", "trainers.csv", "decisions.csv.gz", "timeline.png"}
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    with (tmp_path / "out" / "trainers.csv").open(newline="") as file:
        trainers = list(csv.DictReader(file))
    assert len(trainers) == 30
    assert sum(float(row["samples"]) for row in trainers) == pytest.approx(
        summary["outcome_samples"], abs=5
    )
    assert sum(float(row["node_hours"]) for row in trainers) == pytest.approx(
        summary["resource_integral_node_h"] - summary["unused_node_h"], abs=0.01
    )
    assert sum(bool(row["finished"]) for row in trainers) == summary["completed"]
    with gzip.open(tmp_path / "out" / "decisions.csv.gz", "rt", newline="") as file:
        decisions = list(csv.DictReader(file))
    assert len(decisions) == summary["decisions"]
    assert decisions[0]["time"] == "2021-01-01T00:00:00"
    assert (decisions[0]["joined"], decisions[0]["pool_nodes"], decisions[0]["used_nodes"]) == (
        "6",
        "6",
        "6",
    )
    for row in decisions:
        counts = [int(cell.rpartition(":")[2]) for cell in row["counts"].split()]
        assert sum(counts) == int(row["used_nodes"]) <= int(row["pool_nodes"])
    assert (tmp_path / "out" / "timeline.png").read_bytes().startswith(b"\x89PNG")


def test_no_set_order_decides_anything(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    for seed in ("1", "2"):
        options = (inputs[0], "--trainers", inputs[1], "--out", tmp_path / seed)
        environment = os.environ | {"PYTHONHASHSEED": seed}
        python(
            "-m", "bftrainer", "replay", "run", *options, limit_s=120, env=environment, check=True
        )
    for file in ("trainers.csv", "decisions.csv.gz"):
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / "2" / file).read_bytes(), file


def test_options_change_what_they_say(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    everything = replay(inputs, out=tmp_path / "a")
    pool_only = replay(inputs, "--decide-on", "pool", "--cost-model", "paper", out=tmp_path / "b")
    assert pool_only["decisions"] == everything["pool_events"] < everything["decisions"]
    equal = replay(inputs, "--policy", "equal-share", out=tmp_path / "c")
    assert (
        equal["static_outcome_samples"]
        == everything["static_outcome_samples"]
        == pool_only["static_outcome_samples"]
    )
    one = replay(inputs, "--max-parallel", 1, out=tmp_path / "d")
    assert one["outcome_samples"] != everything["outcome_samples"]
    short = replay(inputs, "--hours", 1, "--nodes", 4, out=tmp_path / "e")
    assert short["resource_integral_node_h"] < 4


def test_a_table_for_people_and_no_bar_in_a_pipe(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    ended = bftrainer(
        "replay", "run", inputs[0], "--trainers", inputs[1], "--out", tmp_path / "out"
    )
    assert (ended.status, ended.err) == (0, "")
    assert "efficiency U" in ended.out
    assert "no-cost bound" in ended.out
    assert "summary.json" in ended.out
    assert "\x1b" not in ended.out


def test_a_policy_that_ends_the_process_does_not_end_it_well(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    options = [
        "--policy",
        "leaving:build",
        inputs[0],
        "--trainers",
        inputs[1],
        "--out",
        tmp_path / "out",
    ]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = python("-m", "bftrainer", "replay", "run", *options, env=environment)
    assert ended.returncode == 3, ended.stderr


def test_work_that_runs_out_is_said(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    inputs[0].write_text(LOG.replace("01T02:00", "01T09:00"))
    bftrainer("replay", "workload", "hpo", "--count", 1, "--out", inputs[1])
    options = ("--max-parallel", 10, "--out", tmp_path / "out")
    ended = bftrainer("replay", "run", inputs[0], "--trainers", inputs[1], *options)
    told = " ".join(ended.out.split())
    assert "Trainers ran out of work at 2021-01-01T0" in told
    assert "the no-cost bound of more trainers is higher" in told


def test_a_workload_of_another_time_is_noted(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    bftrainer(
        "replay", "workload", "hpo", "--count", 3, "--start", "2031-01-01", "--out", inputs[1]
    )
    ended = executed(
        "replay",
        "run",
        inputs[0],
        "--trainers",
        inputs[1],
        "--out",
        tmp_path / "out",
        "--json",
    )
    assert ended.err.startswith("note: no trainer is submitted in the window")
    assert json.loads(ended.out)["efficiency"] is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--policy", "equalshare"), "unknown policy 'equalshare', did you mean 'equal-share'"),
        (
            ("--objective", "speed"),
            "unknown objective 'speed'; valid: ageing, fair, growth, most, priority, progress, "
            "relative-speed, "
            "scaling-efficiency, soon, throughput",
        ),
        (("--solver", "cbc"), "'cbc' is not one of 'auto', 'exact', 'highs', 'gurobi'"),
        (("--cost-model", "none"), "'none' is not one of 'stall', 'paper', 'delay'"),
        (("--decide-on", "never"), "'never' is not one of 'all', 'pool'"),
        (("--model", "gpt"), "unknown model 'gpt'"),
        (("--max-parallel", "0"), "--max-parallel 0: expected 1 or more"),
        (("--forward-s", "-1"), "--forward-s -1: expected seconds, 0 or more"),
        (("--forward-s", "nan"), "--forward-s nan: expected seconds, 0 or more"),
        (("--nodes", "9"), "has only 8 nodes"),
        (("--start", "2022-01-01"), "outside the log"),
    ],
)
def test_mistakes_leave_nothing_behind(
    inputs: tuple[Path, Path], tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    ended = bftrainer(
        "replay",
        "run",
        inputs[0],
        "--trainers",
        inputs[1],
        "--out",
        tmp_path / "out",
        *options,
    )
    assert expected in complaint(ended)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("hpo", "--count", "0"), "--count 0: expected 1 or more"),
        (("hpo", "--spacing-s", "0"), "--spacing-s 0: expected seconds above 0"),
        (("hpo", "--start", "now"), "--start 'now' is not ISO 8601"),
        (("hpo", "--model", "bert"), "unknown model 'bert'"),
        (("hpo", "--seed", "-1"), "--seed -1: expected 0 or more"),
        (("nas",), "'nas' is not one of 'hpo', 'diverse'"),
    ],
)
def test_workload_mistakes(tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    assert expected in complaint(
        bftrainer("replay", "workload", *options, "--out", tmp_path / "t.csv")
    )
    assert not (tmp_path / "t.csv").exists()


def test_a_diverse_workload_replays_without_a_model(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    made = bftrainer(
        "replay", "workload", "diverse", "--count", 14, "--poisson", "--seed", 1, "--out", inputs[1]
    )
    assert (
        made.out == f"{inputs[1]}: 14 trainers (diverse), first submission at 2021-01-01T00:00:00\n"
    )
    assert (
        replay(inputs, "--objective", "scaling-efficiency", out=tmp_path / "out")[
            "outcome_one_node_h"
        ]
        > 0
    )
