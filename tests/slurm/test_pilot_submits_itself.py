"""``bftrainer pilot --submit`` on a real Slurm: its job trains, and ends as the command says."""

from __future__ import annotations

import re

import pytest
from support.pilot_job import QUICK, PilotJob

pytestmark = pytest.mark.slow


def test_the_job_that_submit_writes_trains(on: PilotJob) -> None:
    on.configure(**QUICK)
    on.submit("plain", "restart")
    refused = on.machine.bftrainer("pilot", "--submit", "--partition", "nowhere", check=False)
    assert refused.returncode == 2
    submitted = on.machine.bftrainer("pilot", "--submit", "--partition", "service").stdout
    match = re.search(r"submitted: job (\d+)\n", submitted)
    assert match is not None, submitted
    assert f"stop it: scancel --batch --signal=TERM {match[1]}" in submitted
    on.until_training("plain", seconds=120)
    again = on.machine.bftrainer("pilot", "--submit", check=False)
    assert f"runs already, on {on.lab.run('hostname').strip()}" in again.stderr
    on.finish("plain")
    on.until("it is done", lambda: on.machine.status("plain") == "done")
    on.stop(match[1])
    on.until("nothing of ours is left", lambda: not on.left(), 20)
    assert (on.machine.state / f"bftrainer-pilot.{match[1]}.out").stat().st_size
