"""replay compare and replay reproduce, through the command line."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from replay.commands import executed
from support.browser import Browser
from support.live_house import house, spec

from bftrainer.plugins import POLICY_GROUP, installed_names
from bftrainer_replay.comparison.compare import with_sizes_and_losses
from bftrainer_replay.simulation.play import Scenario, play, static_outcome
from bftrainer_replay.workload.curves import TABLE_2
from bftrainer_replay.workload.workload import hpo, read_workload, submissions, write_workload


@pytest.fixture
def inputs(tmp_path: Path) -> list[object]:
    log, trainers = tmp_path / "log.csv.gz", tmp_path / "trainers.csv"
    executed("replay", "generate", "--nodes", 48, "--days", 0.5, "--seed", 3, "--out", log)
    executed("replay", "workload", "diverse", "--count", 12, "--seed", 3, "--out", trainers)
    return [log, "--trainers", trainers]


def test_all_policies_are_ranked_with_one_denominator(inputs: list[object], tmp_path: Path) -> None:
    ended = executed(
        "replay", "compare", *inputs, "--max-parallel", 10, "--json", "--out", tmp_path / "out"
    )
    rows = json.loads(ended.out)
    assert {row["policy"] for row in rows} == set(installed_names(POLICY_GROUP)) - {"specon"}
    assert "policy specon moves trainers between workers" in ended.err
    assert len({row["static_outcome_samples"] for row in rows}) == 1
    hours = [row["outcome_one_node_h"] for row in rows]
    assert hours == sorted(hours, reverse=True)
    for row in rows:
        assert row["efficiency"] == pytest.approx(
            row["outcome_samples"] / row["static_outcome_samples"]
        )
    with (tmp_path / "out" / "data" / "ranking.csv").open() as lines:
        assert [line["policy"] for line in csv.DictReader(lines)] == [row["policy"] for row in rows]
    _check_page(tmp_path / "out")
    with Browser() as browser:
        for width in (1280, 400):
            browser.open(tmp_path / "out" / "report.html", width=width)
            assert browser.evaluate("document.documentElement.scrollWidth") == width
        assert {address.partition(":")[0] for address in browser.requested} == {"file", "data"}


def test_processes_rank_as_one_process_does(inputs: list[object]) -> None:
    common = (*inputs, "--policies", "bftrainer,equal-share,plain?nodes=2", "--json")
    alone = json.loads(executed("replay", "compare", *common).out)
    ended = executed("replay", "compare", *common, "--workers", 2)
    assert "note: 5 replays on 2 cores" in ended.err
    timed = {"decision_s", "wall_s"}
    kept = [
        [{name: row[name] for name in row if name not in timed} for row in rows]
        for rows in (alone, json.loads(ended.out))
    ]
    assert kept[0] == kept[1]


def _check_page(out: Path) -> None:
    """Every measure has its picture with a sentence and its data."""
    text = (out / "report.html").read_text()
    assert len(text) < 5e6
    assert (out / "pictures" / "frontier.png").read_bytes().startswith(b"\x89PNG")
    with (out / "data" / "frontier.csv").open() as lines:
        assert next(csv.reader(lines))
    assert text.count("<figcaption>Read: ") == 1 == len(re.findall(r'alt="[^"]{80,}"', text))
    assert "Left out, because they cannot run on a pool of whole nodes: specon" in text
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}


def test_without_a_number_of_trainers_the_frontier_is_shown(
    inputs: list[object], tmp_path: Path
) -> None:
    ended = executed(
        "replay",
        "compare",
        *inputs,
        "--policies",
        "bftrainer,plain",
        "--json",
        "--out",
        tmp_path / "out",
    )
    rows = {row["policy"]: row for row in json.loads(ended.out)}
    assert set(rows) == {"bftrainer", "bftrainer, soon", "bftrainer, most", "plain"}
    assert rows["bftrainer, soon"]["done"]["mean_h"] < rows["bftrainer, most"]["done"]["mean_h"]
    assert all(row["longest_wait_s"] > 0 for row in rows.values())
    with (tmp_path / "out" / "data" / "frontier.csv").open() as lines:
        drawn = {line["policy"]: float(line["mean_h"]) for line in csv.DictReader(lines)}
    assert drawn == {name: pytest.approx(row["done"]["mean_h"]) for name, row in rows.items()}
    assert (
        "bftrainer,"
        not in executed(
            "replay", "compare", *inputs, "--policies", "bftrainer", "--objective", "soon"
        ).out
    )


def test_what_is_left_of_a_sweep_is_a_workload(inputs: list[object], tmp_path: Path) -> None:
    home = house(tmp_path / "state")
    long = {"samples_total": 1e4, "group": "digits"}
    home.submit(
        spec("one", **long),
        spec("two", **long),
        spec("three", samples_total=1e6),
        spec("endless", group="digits"),
    )
    home.cluster.give(*(f"n{i}" for i in range(16)))
    home.at(10, lambda: home.launcher.progress("one", 400.0))
    home.pilot(20)
    command = ["replay", "compare", inputs[0], "--json", "--state", tmp_path / "state"]
    ended = executed(*command, "--group", "digits")
    rows = json.loads(ended.out)
    assert {row["policy"] for row in rows} == {
        "bftrainer",
        "bftrainer, soon",
        "bftrainer, most",
        "plain",
    }
    assert {row["submitted"] for row in rows} == {2}
    assert "left out, since their length or speed is unknown: endless" in ended.err
    assert all(row["completed"] == 2 for row in rows)
    assert {row["outcome_samples"] for row in rows} == {2e4 - 400}, "what is done is not done again"
    assert {row["submitted"] for row in json.loads(executed(*command).out)} == {3}
    assert (
        "no trainer of group 'letters' with a known length"
        in executed(*command, "--group", "letters", status=2).err
    )
    assert "expected one of --trainers and --state" in executed(*command, *inputs[1:], status=2).err


def test_the_table_names_every_policy(inputs: list[object]) -> None:
    out = executed(
        "replay", "compare", *inputs, "--policies", "equal-share,fcfs-rigid", "--hours", 2
    ).out
    assert "equal-share" in out
    assert "fcfs-rigid" in out
    assert "afs-l" not in out
    assert not re.search(r"pools|\bU\b", out), "columns without a value"


def test_a_pool_gets_what_each_policy_leaves(inputs: list[object]) -> None:
    table = inputs[2]
    head, *rows = table.read_text().splitlines()
    pool = ",".join(["rest", *rows[0].split(",")[1:], "1"])
    table.write_text("\n".join([f"{head},pool", *(f"{row},0" for row in rows[:2]), pool]))
    command = ["replay", "compare", *inputs, "--policies", "equal-share,fcfs-rigid", "--hours", 2]
    assert re.search(r"work +pools +plain one-node jobs", executed(*command).out)
    rows = json.loads(executed(*command, "--json").out)
    for row in rows:
        assert row["submitted"] == 2
        assert row["work_share"] + row["pool_share"] <= 1
        assert row["plain_share"] > 0.9
    assert max(row["pool_share"] for row in rows) > 0.1


def test_a_policy_asked_for_by_name_must_be_there(inputs: list[object]) -> None:
    for name, words in (
        ("specon", "a pool allocates whole nodes"),
        ("afs-m", "did you mean 'afs-"),
    ):
        assert words in executed("replay", "compare", *inputs, "--policies", name, status=2).err


def test_what_a_table_does_not_know_is_added_and_changes_no_denominator(tmp_path: Path) -> None:
    plain = hpo("shufflenet", submissions(0.0, 5, 36.0))
    write_workload(tmp_path / "t.csv", plain)
    read = read_workload(tmp_path / "t.csv", TABLE_2).arrivals
    rich = with_sizes_and_losses(read, requested=6)
    assert {a.trainer.requested_nodes for a in rich} == {6}
    assert all(a.trainer.reports_loss and a.losses is not None for a in rich)
    assert with_sizes_and_losses(rich, requested=9) == rich, "what is there stays"
    from bftrainer.decide.policies.equal_share import EqualShare
    from bftrainer_papers.fixed_pool import fixed_window

    window = fixed_window(7, 0.0, 7200.0)
    assert static_outcome(Scenario(window, rich, 3)) == static_outcome(Scenario(window, read, 3))
    assert (
        play(Scenario(window, rich, 3), EqualShare()).totals
        == play(Scenario(window, read, 3), EqualShare()).totals
    )


@pytest.mark.parametrize("name", ["afs", "loss-phase", "flowcon", "specon"])
def test_reproductions_print_the_paper_beside_ours(name: str) -> None:
    out = executed("replay", "reproduce", name, "--seeds", 1).out
    assert "tolerance" in out
    assert "within" in out
    rows = json.loads(executed("replay", "reproduce", name, "--seeds", 1, "--json").out)["rows"]
    assert all({"what", "paper", "ours", "verdict"} <= row.keys() for row in rows)


def test_an_unknown_reproduction_lists_the_known() -> None:
    assert "'flowcon'" in executed("replay", "reproduce", "flocon", status=2).err
    executed("replay", "reproduce", "afs", "--seeds", 0, status=2)
