"""An ordinary user with an empty HOME: a torchrun trainer and a Horovod trainer, from submit to done."""

from __future__ import annotations

import os

import pytest
from pilot_job import QUICK, PilotJob

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]


def test_a_torchrun_and_a_horovod_trainer_from_submit_to_done(
    on: PilotJob, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert os.geteuid() != 0, "tests/ordinary_user.py"
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    on.configure(**{**QUICK, "workers_allow_root": False})
    for launcher in ("torchrun", "horovod"):
        on.submit(launcher, launcher)
    pilot = on.sbatch()
    on.until_training("torchrun", "horovod", size=2, seconds=180)
    on.finish("torchrun", "horovod")
    on.until(
        "both are done", lambda: {on.machine.status(name) for name in ("torchrun", "horovod")} == {"done"}, seconds=120
    )
    on.stop(pilot)
    for name in ("torchrun", "horovod"):
        on.check_story(name)
    assert "0 differ" in on.machine.bftrainer_replay()
