"""The grid of a sweep: its keys are the settings of a cell, and its shards are all of it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from bftrainer.errors import UserError
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.event_log import write_event_log
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.grid import GridSweep, GridTable, cells_of, read_sweep, shard_of

NO_AXIS = {"log", "workload", "detail"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    write_event_log(folder / "log.csv", generate(24, 0.1, 1))
    return folder


def read(folder: Path, text: str) -> GridSweep:
    path = folder / "grid.toml"
    path.write_text(text)
    return read_sweep(path)


LOG = '[[logs]]\npath = "log.csv"\n'


def test_every_setting_of_a_cell_is_an_axis() -> None:
    assert set(GridTable.model_fields) == {field.name for field in fields(Cell)} - NO_AXIS


def test_every_combination_is_a_cell() -> None:
    grid = GridTable(policy=("bftrainer", "equal-share"), seed=(1, 2, 3), checkpoint_s=(0.0, 60.0))
    cells = cells_of(grid, ("a", "b"), ("w",))
    assert len(set(cells)) == len(cells) == 2 * 2 * 3 * 2
    assert {(cell.log, cell.policy, cell.seed, cell.checkpoint_s) for cell in cells} == {
        (log, policy, seed, checkpoint_s)
        for log in ("a", "b")
        for policy in ("bftrainer", "equal-share")
        for seed in (1, 2, 3)
        for checkpoint_s in (0.0, 60.0)
    }


def test_the_objective_suits_the_number_of_trainers_and_t_fwd_the_objective() -> None:
    cells = cells_of(GridTable(max_parallel=("auto", 10)), ("a",), ("w",))
    assert [(cell.objective, cell.forward_s, cell.max_parallel) for cell in cells] == [
        ("fair", 240.0, 0),
        ("relative-speed", 120.0, 10),
    ]


def test_logs_are_parts_of_files_beside_the_grid(folder: Path) -> None:
    more = "hours = 1\nnodes = 6\n"
    sweep = read(folder, f"{LOG}{LOG}{more}[grid]\nseed = [1, 2]\n")
    assert [(cell.log, cell.seed) for cell in sweep.cells] == [
        ("log.csv", 1),
        ("log.csv", 2),
        ("log.csv#2", 1),
        ("log.csv#2", 2),
    ]
    part = sweep.inputs.windows["log.csv#2"]
    assert (part.span_s, part.machine_nodes) == (3600.0, 6)
    assert sum(map(sweep.cost_s, sweep.tasks)) > 0


def test_workloads_of_one_name_are_not_taken_for_one_another(folder: Path) -> None:
    (folder / "slow.csv").write_text("model,nodes_1,nodes_2\nshufflenet,1,2\n")
    slow = '[[workloads]]\nkind = "hpo"\ncurves = "slow.csv"\n'
    sweep = read(folder, f'{LOG}{slow}[[workloads]]\nkind = "hpo"\n')
    assert [cell.workload for cell in sweep.cells] == ["hpo-shufflenet", "hpo-shufflenet#2"]
    first, second = [sweep.inputs.arrivals_of(cell)[0].trainer for cell in sweep.cells]
    assert (first.max_nodes, second.max_nodes) == (2, 64)
    assert len(sweep.tasks) == 2


@pytest.mark.parametrize("count", [1, 3, 7, 40])
def test_shards_are_all_tasks_each_once(folder: Path, count: int) -> None:
    tasks = read(folder, f"{LOG}[grid]\nforward_s = [30, 60, 90, 120]\nsplit = [1, 2, 3]\n").tasks
    shards = [shard_of(tasks, f"{number}/{count}") for number in range(1, count + 1)]
    assert sorted(task.key for shard in shards for task in shard) == sorted(
        task.key for task in tasks
    )


@pytest.mark.parametrize(
    "text", ["", "3", "0/4", "5/4", "1/0", "a/4", "-1/4", "1/4/2", "1/" + "9" * 5000]
)
def test_a_wrong_shard_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"--shard .*: expected i"):
        shard_of((), text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "logs: is missing"),
        ('[[logs]]\npath = "none.csv"\n', "none.csv: cannot be read"),
        (f'{LOG}start = "noon"\n', "log.csv: start 'noon' is not ISO 8601"),
        (f'{LOG}start = "1999-01-01"\n', "log.csv: start 1999-01-01 is outside the log"),
        (f"{LOG}nodes = 1000\n", "log.csv: nodes = 1000: there are only"),
        (f'{LOG}partition = "gpu"\n', "gpu: .* no partitions"),
        (f"{LOG}[grid]\nseed = {list(range(1001))}\nforward_s = {list(range(1000))}\n", "cells"),
        (f"{LOG}unit = 3\n", "unknown key 'unit'"),
        (f"{LOG}[grid]\nforward = [3]\n", "unknown key 'forward', did you mean 'forward_s'"),
        (f"{LOG}[grid]\nsplit = [0]\n", r"grid.split.0: input should be greater"),
        (f'{LOG}[grid]\npolicy = ["bftrainr"]\n', "unknown policy 'bftrainr'"),
        (f'{LOG}[grid]\nobjective = ["fame"]\n', "unknown objective 'fame'"),
        (f'{LOG}[[workloads]]\nkind = "nas"\n', r"workloads.0.kind"),
    ],
)
def test_every_mistake_names_its_place(folder: Path, text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        read(folder, text)
