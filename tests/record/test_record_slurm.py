"""``bftrainer record`` beside a real Slurm: a job runs, and the record knows which nodes it had,
and when.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from support.recording import Recording, changes_of, idle_at_the_end
from support.slurm_lab import Lab

from bftrainer.console.cli.main import run
from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.analysis.idle_causes import IdleCause
from bftrainer_replay.logs.event_log import read_event_log
from bftrainer_replay.logs.model import restricted_log


def test_a_job_is_in_the_record_with_its_nodes_and_times(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "idle.csv"
    recording = Recording(out, lab.env, ("--json",))
    everyone = frozenset(lab.node_names)
    try:
        recording.until(lambda log: idle_at_the_end(log) == everyone, "eight idle nodes")
        lab.submit("true", "-N1", "--hold")  # could not start on an empty machine either
        asked_s, enough = time.time(), lab.root / "log" / "enough"
        job = lab.submit(
            f"while [ ! -e {enough} ]; do sleep 0.1; done; date +%s > {lab.root}/log/ended",
            "-N3",
            "--exclusive",
        )
        recording.until(lambda log: len(idle_at_the_end(log)) == 5, "the job to have three nodes")
        enough.touch()
        recording.until(lambda log: idle_at_the_end(log) == everyone, "the nodes to be idle again")
    finally:
        status, said, complaints = recording.end()
    note = (
        "note: polling every 1 s; for long recordings, use 10 s or more to reduce the load "
        "on the scheduler\n"
    )
    assert (status, complaints) == (0, note)
    totals = json.loads(said)
    assert (totals["failed"], totals["gaps"], totals["machine_nodes"]) == (0, 0, 8)
    log = read_event_log(out)
    (held,) = {event.change.left for event in log.events if event.change.left}
    assert held == frozenset(
        re.findall(r"node\d\d", lab.run("scontrol", "show", "hostnames", _nodes_of(lab, job)))
    )
    ((left_s, _),) = changes_of(log, held)[:1]
    joined_s = []  # one by one, perhaps: a node is idle when its epilog is through
    for node in sorted(held):
        (gone_s, gone), (back_s, back) = changes_of(log, frozenset({node}))
        assert (gone_s, gone, back) == (left_s, False, True)
        joined_s.append(back_s)
    # Slurm's times are whole seconds, and what happens is seen at the next look: how late that is,
    # the machine decides.
    ended = int((lab.root / "log" / "ended").read_text())
    assert asked_s - 1 <= left_s <= ended
    assert ended - 1 <= min(joined_s) <= max(joined_s) <= log.events[-1].at_s
    found = characterize(restricted_log(log))
    assert found.idle_while is not None
    assert found.idle_while.of(IdleCause.NO_JOB) > 0
    assert out.read_text().splitlines()[-1].endswith(",8,"), "the held job does not wait"
    busy_s = sum(each_s - left_s for each_s in joined_s)
    assert found.node_hours * 3600 == pytest.approx(8 * found.span_h * 3600 - busy_s)
    assert found.machine_nodes == 8
    assert run(["replay", "characterize", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine_nodes"] == 8


def _nodes_of(lab: Lab, job: str) -> str:
    found = re.search(r"^   NodeList=(\S+)", lab.run("scontrol", "show", "job", job), re.MULTILINE)
    assert found
    return found[1]
