"""The page of the demo, from a short log and a pilot's run by hand."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from bftrainer.allocation.exact import Exact
from bftrainer.allocation.objectives import OBJECTIVES
from bftrainer.policies.bftrainer import BFTrainer
from bftrainer.policies.equal_share import EqualShare
from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.model import cut
from bftrainer_replay.report.demo_page import DemoReplay, DemoRun, demo_page
from bftrainer_replay.report.page import write
from bftrainer_replay.simulation.bounds import Bounds
from bftrainer_replay.simulation.play import Scenario, play, static_outcome, static_outcomes
from bftrainer_replay.simulation.summary import summarize
from bftrainer_replay.sweep.detail import detail_of, read_detail
from bftrainer_replay.workload.workload import hpo, submissions

RUN = DemoRun(
    run_s=60.0,
    nodes=36,
    speedup=120.0,
    idle=[(0.0, 4), (30.0, 2), (60.0, 2)],
    decisions=[(1.0, 3, 3), (31.0, 2, 2)],
    steps={"digits-a": [(5.0, 10), (50.0, 400)], "digits-b": []},
    fragments=3,
    lost=1,
    rescales=2,
    held_node_s=120.0,
    trained_node_s=90.0,
    differ=0,
)


def test_the_page_holds_what_both_policies_and_the_pilot_did(tmp_path: Path) -> None:
    window = cut(generate(32, 0.5, 1), machine_nodes=32)
    scenario = Scenario(window, hpo("shufflenet", submissions(window.start_s, 10, 36.0)))
    static = static_outcome(scenario)
    replays = []
    for policy in (EqualShare(), BFTrainer(Exact(), OBJECTIVES["throughput"], 120.0)):
        outcome = play(scenario, policy)
        summary = summarize(policy.name, scenario, outcome, static, Bounds(static))
        replays.append(DemoReplay(summary, read_detail(detail_of(scenario, outcome))))
    equal, best = replays
    bins = static_outcomes(scenario, best.detail.bin_edges_s.tolist())
    write(tmp_path, demo_page(window, characterize(window), equal, best, bins, RUN, ("bftrainer demo",)))
    text = (tmp_path / "report.html").read_text()
    assert f"did {best.summary.efficiency:.1%} of the training" in text
    assert "digits-a 400 steps. Of 2.0 node-minutes, 75% were training" in text
    assert text.count("<figcaption>Read: ") == 6
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    with (tmp_path / "data" / "policies.csv").open(newline="") as file:
        rows = {row["policy"]: row for row in csv.DictReader(file)}
    assert rows["efficiency U"] == {
        "policy": "efficiency U",
        **{each.summary.policy: f"{each.summary.efficiency:.1%}" for each in replays},
    }
    with (tmp_path / "data" / "pilot.csv").open(newline="") as file:
        lines = [row["line"] for row in csv.DictReader(file)]
    assert lines == ["idle"] * 3 + ["held"] * 2 + ["in training"] * 2 + ["digits-a step"] * 2
    assert len(list((tmp_path / "pictures").iterdir())) == 6
