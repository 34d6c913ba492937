"""``bftrainer advise`` where the better choice is plain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from replay.commands import executed
from support.command_line import bftrainer, complaint

from bftrainer.config.pilot import PilotConfig, read_config
from bftrainer_replay.cli.advise import advise
from bftrainer_replay.cli.report import report
from bftrainer_replay.comparison.advise import _SLURM_CONF, SettingChoice

HEAD = "job,model,Tcup,Tcdw,Jmin,Jmax,Pmax,Tsub\n"


DAY = "2021-01-01T"
LINEAR = {"linear": (1000.0, 64000.0)}


def advised(
    folder: Path, rows: list[str], trainers: str, curves: dict[str, tuple[float, float]]
) -> dict[str, Any]:
    """The advice on a log (rows of time,joined,left); ``curves`` are samples/s on 1 and on 64
    nodes.
    """
    (folder / "log.csv").write_text("time,joined,left\n" + "\n".join(rows) + "\n")
    (folder / "trainers.csv").write_text(HEAD + trainers)
    lines = [f"{model},{one},{most}" for model, (one, most) in curves.items()]
    (folder / "curves.csv").write_text("model,nodes_1,nodes_64\n" + "\n".join(lines) + "\n")
    given = (
        "--trainers",
        folder / "trainers.csv",
        "--curves",
        folder / "curves.csv",
        "--jobs",
        1,
        "--json",
    )
    ended = executed("advise", folder / "log.csv", "--out", folder / "out", *given)
    told: dict[str, Any] = json.loads(ended.out)
    return {
        choice["name"]: choice | {"losses": dict(map(tuple, choice["losses"]))}
        for choice in told["choices"]
    } | told


def nodes(count: int) -> str:
    return " ".join(f"n{i:02}" for i in range(count))


@pytest.mark.parametrize(
    ("largest", "expected"),
    [(1, 18), (64, 5)],
    ids=[
        "trainers of one node need as many at once as there are nodes",
        "trainers of any size need few",
    ],
)
def test_how_many_at_once(tmp_path: Path, largest: int, expected: int) -> None:
    log = [f"{DAY}00:00:00,{nodes(18)},"]
    log += [
        f"{DAY}{hour:02}:30:00,{'' if hour % 2 else 'n00'},{'n00' if hour % 2 else ''}"
        for hour in range(1, 9)
    ]
    rows = "".join(f"j{i},linear,20,10,1,{largest},1e8,2021-01-01T00:00:00\n" for i in range(200))
    found = advised(tmp_path, log, rows, LINEAR)
    assert found["max_parallel"]["value"] == expected
    losses = found["max_parallel"]["losses"]
    if (
        largest == 1
        # 35 trainers could use twice the mean of 17.5 nodes; half and a quarter of them are tried,
        # too
    ):
        assert losses[9] == pytest.approx(1 / 2, abs=0.05)
    else:
        assert losses[5] <= 0.02
    assert found["measure"] == "outcome_samples"
    assert found["min_window_s"] == 30
    lines = (tmp_path / "out" / "bftrainer.toml").read_text()
    config = read_config(tmp_path / "out" / "bftrainer.toml")
    assert isinstance(config, PilotConfig)
    assert config.decisions == PilotConfig().decisions, (
        "a fixed number of trainers is the site's choice"
    )
    assert f"\n#max_parallel = {expected}\n" in lines
    assert config.nodes.min_window_s == 30
    assert "longest_s = 32400.0" in lines or "longest_s = 28800.0" in lines
    assert config.nodes.holder == "slurm"
    assert "log.csv, January 1, 2021" in lines.splitlines()[0]
    setup = (Path(__file__).parents[3] / "docs" / "site-setup.md").read_text()
    for line in _SLURM_CONF.replace("YOURS    ", "main     ").splitlines():
        assert line in setup
        assert f"#   {line.replace('main     ', 'YOURS    ')}" in lines


ONE = f"j0,linear,20,10,1,64,1e12,{DAY}00:00:00\n"


def test_a_node_that_stays_is_worth_a_long_look_ahead(tmp_path: Path) -> None:
    """Ten nodes give up 20 s for an eleventh: worth it only where T_fwd is above 200 s; then it
    serves for seven hours.
    """
    log = [f"{DAY}00:00:00,{nodes(10)},", f"{DAY}01:00:00,n10,", f"{DAY}08:00:00,,n10"]
    found = advised(tmp_path, log, ONE, LINEAR)
    assert found["forward_s"]["value"] == 240
    losses = found["forward_s"]["losses"]
    without, with_it = 80.0, 87 - 220 / 3600  # node-hours, less the stall of eleven
    assert [losses[s] for s in (30, 60, 120)] == pytest.approx(
        [1 - without / with_it] * 3, abs=1e-3
    )
    assert losses[240] == losses[480] == 0
    assert (
        "# 30 loses 8.0%, 60 loses 8.0%, 120 loses 8.0%"
        in (tmp_path / "out" / "bftrainer.toml").read_text()
    )
    given = (
        "--trainers",
        tmp_path / "trainers.csv",
        "--curves",
        tmp_path / "curves.csv",
        "--jobs",
        1,
    )
    ended = bftrainer("advise", tmp_path / "log.csv", "--out", tmp_path / "out", *given)
    assert (
        "forward_s = 240.0  (30 loses 8.0%, 60 loses 8.0%, 120 loses 8.0%, 480 loses 0.0%)"
        in ended.out
    )


def test_nodes_that_come_and_go_ask_for_a_short_one(tmp_path: Path) -> None:
    """An eleventh node comes for 40 s of every 100: who takes it stalls ten others for 20 s, and 10
    s more when it leaves.
    """
    log = [f"{DAY}00:00:00,{nodes(10)},"]
    for minute in range(60):
        log += [f"{DAY}00:{minute:02}:10,n10,", f"{DAY}00:{minute:02}:50,,n10"]
    found = advised(tmp_path, log, ONE, LINEAR)
    assert found["forward_s"]["value"] == 30
    losses = found["forward_s"]["losses"]
    assert losses[30] == losses[60] == losses[120] == 0
    # A minute: 600 node-s without the eleventh; with it 10 s on 10, 20 s of stall, 20 s on 11, 10 s
    # of stall after the loss.
    assert losses[240] == losses[480] == pytest.approx(1 - (10 * 10 + 20 * 11) / 600, abs=0.02)


def test_models_that_differ_do_not_ask_for_throughput(tmp_path: Path) -> None:
    """Under throughput the cheap samples of a model that hardly scales take all; by one-node hours
    that is a waste.
    """
    curves = {
        "cheap": (1000.0, 7300.0),
        "dear": (10.0, 640.0),
    }  # a second node brings 100 samples/s and 10
    rows = "".join(f"{m},{m},20,10,1,64,1e12,{DAY}00:00:00\n" for m in curves)
    found = advised(tmp_path, [f"{DAY}00:00:00,{nodes(10)},", f"{DAY}08:00:00,,n09"], rows, curves)
    assert found["measure"] == "outcome_one_node_h"
    assert found["objective"]["value"] == "relative-speed"
    # Ten nodes of the one: 1.9 one-node hours an hour; nine of the other and one of the one: 10.
    assert found["objective"]["losses"] == {
        "relative-speed": 0,
        "throughput": pytest.approx(0.81, abs=0.01),
        "scaling-efficiency": 0,
    }


def test_models_alike_ask_for_no_other_objective(tmp_path: Path) -> None:
    log = [f"{DAY}00:00:00,{nodes(10)},", f"{DAY}08:00:00,,n09"]
    found = advised(tmp_path, log, ONE, LINEAR)
    assert found["objective"]["value"] == "relative-speed"
    assert found["objective"]["losses"] == {
        "relative-speed": 0,
        "throughput": 0,
        "scaling-efficiency": 0,
    }


def test_a_best_value_at_the_edge_of_those_tried_is_said() -> None:
    rising = SettingChoice("max_parallel", 100, ((25, 0.6), (50, 0.3), (100, 0.1), (200, 0.0)))
    assert rising.others.endswith("; 200 is the largest value tried: the best may lie beyond")
    falling = SettingChoice("forward_s", 30.0, ((30.0, 0.0), (60.0, 0.01), (120.0, 0.3)))
    assert falling.others.endswith("; 30 is the smallest value tried: the best may lie beyond")
    flat = SettingChoice("max_parallel", 10, ((5, 0.2), (10, 0.01), (20, 0.01), (35, 0.0)))
    assert flat.others == "5 loses 20.0%, 20 loses 1.0%, 35 loses 0.0%"
    assert (
        SettingChoice("objective", "throughput", (("throughput", 0.0), ("progress", 0.1))).others
        == "progress loses 10.0%"
    )


def test_advise_has_the_options_of_report() -> None:
    """All but those of the page and its figures, and of the settings that it chooses itself."""
    both = [{option.name for option in command.params} for command in (report, advise)]
    of_page = {"compare", "title", "to_json", "give_way"}
    of_costs = {"node_hour_price", "currency", "extra_kw", "co2_g_per_kwh"}
    assert both[0] - both[1] == {"forward_s", "max_parallel", *of_page, *of_costs}


def test_mistakes(tmp_path: Path) -> None:
    assert "cannot be read" in complaint(
        bftrainer("advise", tmp_path / "none.csv", "--out", tmp_path / "out")
    )


def test_any_executor_gives_the_same_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--workers`` is where the replays run, and no more."""
    (tmp_path / "pool_of_advise.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\n\nPOOL = ThreadPoolExecutor(1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    log = [f"{DAY}00:00:00,{nodes(4)},", f"{DAY}02:00:00,,n00"]
    expected = advised(tmp_path, log, ONE, LINEAR)
    tables = ("--trainers", tmp_path / "trainers.csv", "--curves", tmp_path / "curves.csv")
    where = ("--workers", "pool_of_advise:POOL", "--out", tmp_path / "pool")
    ended = bftrainer("advise", tmp_path / "log.csv", *tables, *where, "--json")
    assert ended.status == 0, ended
    assert "on ThreadPoolExecutor" in ended.err
    advice = json.loads(ended.out)
    assert {name: expected[name] for name in advice} == advice
    assert list((tmp_path / "pool" / "cells").iterdir())
