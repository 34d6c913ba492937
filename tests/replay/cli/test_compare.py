"""replay compare and replay reproduce, through the command line."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from browser import Browser
from live_house import house, spec

from bftrainer.cli.main import run
from bftrainer.plugins import POLICY_GROUP, installed_names
from bftrainer_replay.comparison.compare import enriched
from bftrainer_replay.simulation.play import Scenario, play, static_outcome
from bftrainer_replay.workload.curves import TABLE_2
from bftrainer_replay.workload.workload import hpo, read_workload, submissions, write_workload


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    log, trainers = tmp_path / "log.csv.gz", tmp_path / "trainers.csv"
    assert run(["replay", "generate", "--nodes", "48", "--days", "0.5", "--seed", "3", "--out", str(log)]) == 0
    assert run(["replay", "workload", "diverse", "--count", "12", "--seed", "3", "--out", str(trainers)]) == 0
    return ["--log", str(log), "--trainers", str(trainers)]


def test_all_policies_are_ranked_with_one_denominator(
    inputs: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    assert run(["replay", "compare", *inputs, "--max-parallel", "10", "--json", "--out", str(tmp_path / "out")]) == 0
    out, notes = capfd.readouterr()
    rows = json.loads(out)
    assert {row["policy"] for row in rows} == set(installed_names(POLICY_GROUP)) - {"specon"}
    assert "policy specon moves trainers between workers" in notes
    assert len({row["static_outcome_samples"] for row in rows}) == 1
    hours = [row["outcome_one_node_h"] for row in rows]
    assert hours == sorted(hours, reverse=True)
    for row in rows:
        assert row["efficiency"] == pytest.approx(row["outcome_samples"] / row["static_outcome_samples"])
    with (tmp_path / "out" / "data" / "ranking.csv").open() as lines:
        assert [line["policy"] for line in csv.DictReader(lines)] == [row["policy"] for row in rows]
    _check_page(tmp_path / "out")
    with Browser() as browser:
        for width in (1280, 400):
            browser.open(tmp_path / "out" / "report.html", width=width)
            assert browser.evaluate("document.documentElement.scrollWidth") == width
        assert {address.partition(":")[0] for address in browser.requested} == {"file", "data"}


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
    inputs: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    page = str(tmp_path / "out")
    assert run(["replay", "compare", *inputs, "--policies", "bftrainer,plain", "--json", "--out", page]) == 0
    rows = {row["policy"]: row for row in json.loads(capfd.readouterr().out)}
    assert set(rows) == {"bftrainer", "bftrainer, soon", "bftrainer, most", "plain"}
    assert rows["bftrainer, soon"]["done"]["mean_h"] < rows["bftrainer, most"]["done"]["mean_h"]
    assert all(row["longest_wait_s"] > 0 for row in rows.values())
    with (tmp_path / "out" / "data" / "frontier.csv").open() as lines:
        drawn = {line["policy"]: float(line["mean_h"]) for line in csv.DictReader(lines)}
    assert drawn == {name: pytest.approx(row["done"]["mean_h"]) for name, row in rows.items()}
    assert run(["replay", "compare", *inputs, "--policies", "bftrainer", "--objective", "soon"]) == 0
    assert "bftrainer," not in capfd.readouterr().out


def test_what_is_left_of_a_sweep_is_a_workload(
    inputs: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = house(tmp_path / "state")
    long = {"samples_total": 1e4, "group": "digits"}
    home.submit(
        spec("one", **long), spec("two", **long), spec("three", samples_total=1e6), spec("endless", group="digits")
    )
    home.cluster.give(*(f"n{i}" for i in range(16)))
    home.at(10, lambda: home.launcher.progress("one", 400.0))
    home.pilot(20)
    command = ["replay", "compare", *inputs[:2], "--json", "--state", str(tmp_path / "state")]
    capfd.readouterr()
    assert run([*command, "--group", "digits"]) == 0
    out, notes = capfd.readouterr()
    rows = json.loads(out)
    assert {row["policy"] for row in rows} == {"bftrainer", "bftrainer, soon", "bftrainer, most", "plain"}
    assert {row["submitted"] for row in rows} == {2}
    assert "left out, since their length or speed is unknown: endless" in notes
    assert all(row["completed"] == 2 for row in rows)
    assert {row["outcome_samples"] for row in rows} == {2e4 - 400}, "what is done is not done again"
    assert run(command) == 0
    assert {row["submitted"] for row in json.loads(capfd.readouterr().out)} == {3}
    assert run([*command, "--group", "letters"]) == 2
    assert "no trainer of group 'letters' with a known length" in capfd.readouterr().err
    assert run([*command, *inputs[2:]]) == 2
    assert "expected one of --trainers and --state" in capfd.readouterr().err


def test_the_table_names_every_policy(inputs: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "compare", *inputs, "--policies", "equal-share,fcfs-rigid", "--hours", "2"]) == 0
    out = capfd.readouterr().out
    assert "equal-share" in out
    assert "fcfs-rigid" in out
    assert "afs-l" not in out
    assert not re.search(r"pools|\bU\b", out), "columns without a value"


def test_a_pool_gets_what_each_policy_leaves(inputs: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    table = Path(inputs[3])
    head, *rows = table.read_text().splitlines()
    pool = ",".join(["rest", *rows[0].split(",")[1:], "1"])
    table.write_text("\n".join([f"{head},pool", *(f"{row},0" for row in rows[:2]), pool]))
    command = ["replay", "compare", *inputs, "--policies", "equal-share,fcfs-rigid", "--hours", "2"]
    capfd.readouterr()
    assert run(command) == 0
    assert re.search(r"work +pools +plain one-node jobs", capfd.readouterr().out)
    assert run([*command, "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    for row in rows:
        assert row["submitted"] == 2
        assert row["work_share"] + row["pool_share"] <= 1
        assert row["plain_share"] > 0.9
    assert max(row["pool_share"] for row in rows) > 0.1


def test_a_policy_asked_for_by_name_must_be_there(inputs: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "compare", *inputs, "--policies", "specon"]) == 2
    assert "a pool allocates whole nodes" in capfd.readouterr().err
    assert run(["replay", "compare", *inputs, "--policies", "afs-m"]) == 2
    assert "did you mean 'afs-" in capfd.readouterr().err


def test_what_a_table_does_not_know_is_added_and_changes_no_denominator(tmp_path: Path) -> None:
    plain = hpo("shufflenet", submissions(0.0, 5, 36.0))
    write_workload(tmp_path / "t.csv", plain)
    read = read_workload(tmp_path / "t.csv", TABLE_2).arrivals
    rich = enriched(read, requested=6)
    assert {a.trainer.requested_nodes for a in rich} == {6}
    assert all(a.trainer.reports_loss and a.losses is not None for a in rich)
    assert enriched(rich, requested=9) == rich, "what is there stays"
    from bftrainer.policies.equal_share import EqualShare
    from bftrainer_papers.fixed_pool import fixed_window

    window = fixed_window(7, 0.0, 7200.0)
    assert static_outcome(Scenario(window, rich, 3)) == static_outcome(Scenario(window, read, 3))
    assert play(Scenario(window, rich, 3), EqualShare()).totals == play(Scenario(window, read, 3), EqualShare()).totals


@pytest.mark.parametrize("name", ["afs", "loss-phase", "flowcon", "specon"])
def test_reproductions_print_the_paper_beside_ours(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "reproduce", name, "--seeds", "1"]) == 0
    out = capfd.readouterr().out
    assert "tolerance" in out
    assert "within" in out
    assert run(["replay", "reproduce", name, "--seeds", "1", "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    assert all({"what", "paper", "ours", "verdict"} <= row.keys() for row in rows)


def test_an_unknown_reproduction_lists_the_known(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "reproduce", "flocon"]) == 2
    assert "'flowcon'" in capfd.readouterr().err
    assert run(["replay", "reproduce", "afs", "--seeds", "0"]) == 2
