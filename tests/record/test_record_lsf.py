"""``bftrainer record --scheduler lsf`` beside the stand-in: the dry check of a site that only
reads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lsf_lab import Lab, wait_until
from support.patience import PATIENCE
from support.recording import Recording, changes_of, idle_at_the_end

from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.logs.event_log import read_event_log
from bftrainer_replay.logs.model import restricted_log

LSF = ("--scheduler", "lsf")
A_LOOK_S = 60.0
"""No look takes as long: a record in another time zone, or in minutes, would be further off."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path / "lsf")
    yield lab
    lab.stop()


def test_a_job_is_in_the_record_with_its_node_and_times(lab: Lab, tmp_path: Path) -> None:
    out = tmp_path / "idle.csv"
    recording = Recording(out, lab.env, (*LSF, "--json"))
    everyone = frozenset(lab.node_names)
    recording.until(lambda log: idle_at_the_end(log) == everyone, "four idle nodes")
    asked_s = time.time()
    job = lab.main_job("node03")
    recording.until(
        lambda log: idle_at_the_end(log) == everyone - {"node03"}, "the job to have its node"
    )
    lab.run("bkill", job)
    killed_s = time.time()
    recording.until(lambda log: idle_at_the_end(log) == everyone, "its node to be idle again")
    status, said, complaints = recording.end()
    assert status == 0, complaints
    assert "assuming 4 slots per node, as on 4 of 4 hosts" in complaints
    assert json.loads(said)["failed"] == 0
    log = read_event_log(out)
    (left_s, _), (joined_s, _) = changes_of(log, frozenset({"node03"}))
    # LSF tells no time, so a look is dated from before its first question: as much earlier as it
    # takes here.
    assert asked_s - A_LOOK_S < left_s < killed_s
    assert killed_s - A_LOOK_S < joined_s
    assert left_s < joined_s
    found = characterize(restricted_log(log))
    assert found.node_hours * 3600 == pytest.approx(4 * found.span_h * 3600 - (joined_s - left_s))
    assert (found.machine_nodes, found.fragments) == (4, 5)


def test_an_unknown_answer_is_kept_and_told_once_and_nothing_is_taken_to_be_idle(
    lab: Lab, tmp_path: Path
) -> None:
    out = tmp_path / "idle.csv"
    recording = Recording(out, lab.env, (*LSF, "--slots-per-node", "4"))
    recording.until(
        lambda log: idle_at_the_end(log) == frozenset(lab.node_names), "four idle nodes"
    )
    lab.edit(lambda state: state["hosts"]["node02"].update(status="closed_Moon"))
    kept = tmp_path / "idle.csv.answers" / "lsf-bhosts-1.txt"
    wait_until(kept.exists, "the answer to be kept")
    status, said, complaints = recording.end()
    assert status == 0
    assert complaints.count("closed_Moon") == 1
    assert f"please report this as an issue and attach {kept}" in complaints
    assert kept.read_text().startswith("$ bhosts -o")
    assert "closed_Moon" in kept.read_text()
    assert " 0 failed" not in said


def test_the_first_answer_of_all_is_not_understood(lab: Lab, tmp_path: Path) -> None:
    lab.edit(lambda state: state["hosts"]["node02"].update(status="closed_Moon"))
    recording = Recording(tmp_path / "idle.csv", lab.env, (*LSF, "--keep", str(tmp_path / "kept")))
    _, complaints = recording.process.communicate(timeout=60 * PATIENCE)
    assert recording.process.returncode == 1
    assert (
        "unknown node state 'closed_Moon' (please report this as an issue and attach "
        f"{tmp_path}/kept/" in complaints
    )
    assert "closed_Moon" in (tmp_path / "kept" / "lsf-bhosts-1.txt").read_text()


def test_no_lsf_at_all(lab: Lab, tmp_path: Path) -> None:
    for path in lab.bin.iterdir():
        path.unlink()
    recording = Recording(tmp_path / "idle.csv", lab.env, (*LSF, "--for", "30s"))
    _, complaints = recording.process.communicate(timeout=60 * PATIENCE)
    assert recording.process.returncode == 1
    assert "bhosts: not found" in complaints
    assert "Traceback" not in complaints


def test_the_totals_of_polls_that_failed_are_json_too(lab: Lab, tmp_path: Path) -> None:
    lab.edit(lambda state: state["hosts"]["node02"].update(status="closed_\u202eMoon\x1b[2J"))
    recording = Recording(
        tmp_path / "idle.csv", lab.env, (*LSF, "--slots-per-node", "4", "--json", "--for", "3s")
    )
    out, err = recording.process.communicate(timeout=60 * PATIENCE)
    totals = json.loads(out)
    assert totals["failed"] == totals["polls"] > 0
    ((text, count),) = totals["errors"].items()
    assert (count, "unknown node state" in text) == (totals["failed"], True)
    assert "\x1b" not in err
    assert "\u202e" not in err
