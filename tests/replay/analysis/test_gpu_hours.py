"""Where GPUs are idle: by hand, beside the prototype's figures of a day of Philly, and on the page
of a report.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from replay.commands import executed
from replay.logs.test_gpus import FULL, PHILLY, SACCT, job

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer_replay.report.gpu_chapter import by_node

# Of 96 nodes of 8 GPUs: share that is idle, share of these on idle nodes, shares of the rest by
# size (the README's simulator).
FIGURES = {
    "first": (0.1663, 0.2235, (0.051, 0.08, 0.081, 0.143, 0.241, 0.277, 0.127)),
    "pack": (0.1663, 0.2806, (0.032, 0.055, 0.088, 0.127, 0.268, 0.205, 0.224)),
}


def characterized(*arguments: object) -> dict[str, float]:
    ended = executed("replay", "characterize", *arguments, "--json")
    found: dict[str, float] = json.loads(ended.out)["gpus"]
    return found


@pytest.mark.parametrize("placement", FIGURES)
def test_a_day_of_philly_as_the_prototype_counts_it(placement: str) -> None:
    found = characterized(PHILLY / f"{placement}-gpus.csv.gz")
    idle, whole, sizes = FIGURES[placement]
    assert found["idle_h"] / (768 * 24) == pytest.approx(idle, abs=5e-5)
    assert found["whole_h"] / found["idle_h"] == pytest.approx(whole, abs=5e-5)
    parts: dict[str, float] = found["parts_h"]  # type: ignore[assignment]
    shares = [parts[str(size)] / found["part_h"] for size in range(1, 8)]
    assert shares == pytest.approx(sizes, abs=5e-4)
    assert found["stranded_h"] is None  # an event log does not tell


def test_gpus_without_cores_are_counted_apart(tmp_path: Path) -> None:
    log = tmp_path / "sacct.txt"
    text = SACCT + job(
        0, 0, 7200, "n1", 1, "cpu=5,gres/gpu=1,node=1"
    )  # 3 of 4 GPUs are idle; cores are left for 1
    for number, (start_h, node) in enumerate(
        ((-1, "n1"), (-1, "n2"), (1, "n2"), (2, "n1"), (2, "n2")), 1
    ):
        text += job(number, 3600 * start_h, 3600 * start_h + 3600, node, 1, FULL)
    log.write_text(text)
    found = characterized(
        log, "--unit", "gpu", "--warm-up-h", 0, "--cool-down-h", 0, "--outage", "none"
    )
    assert (found["whole_h"], found["part_h"], found["stranded_h"]) == (4, 2, 4)
    assert found["parts_h"] == {"1": 2}
    n1 = tmp_path / "n1"
    n1.write_text("n1\n")
    options = (
        "--unit",
        "gpu",
        "--warm-up-h",
        0,
        "--cool-down-h",
        0,
        "--outage",
        "none",
        "--node-list",
        n1,
    )
    found = characterized(log, *options)
    assert (found["gpus"], found["whole_h"], found["part_h"], found["stranded_h"]) == (4, 0, 2, 4)
    without_cores = tmp_path / "gpus.txt"
    without_cores.write_text(re.sub(r"cpu=\d,", "", log.read_text()))
    assert characterized(without_cores, *options)["stranded_h"] is None


def test_a_trainer_by_node_has_the_rate_of_the_gpus_of_its_nodes() -> None:
    curve = Curve((1, 4, 12), (10.0, 40.0, 80.0))
    found = by_node(Trainer("t", curve, 2, 12, 5.0, 5.0, sizes=(2, 6, 12), requested_nodes=6), 8)
    assert (found.min_nodes, found.max_nodes, found.sizes, found.requested_nodes) == (
        1,
        2,
        (1, 2),
        1,
    )
    assert found.curve == Curve((1, 2), (50.0, 80.0))  # 6 of the 8 GPUs are the largest legal size


def test_the_report_compares_three_pools(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ended = executed(
        "replay", "report", PHILLY / "first-gpus.csv.gz", "--hours", 6, "--out", out, "--jobs", 1
    )
    with (out / "data" / "gpu-pools.csv").open(newline="") as file:
        nodes, whole, every = csv.DictReader(file)
    assert nodes["GPU-hours"] == whole["GPU-hours"]
    work = [float(row["one-GPU hours"]) for row in (nodes, whole, every)]
    assert work[0] > 0
    assert work == sorted(work)
    assert f"and {work[2] / work[0]:.1f} times as much with those of partly used nodes" in ended.out
    assert "A cluster of 96 nodes" in (out / "report.html").read_text()
