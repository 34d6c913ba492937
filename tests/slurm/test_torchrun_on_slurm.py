"""The whole story again with torch.distributed trainers: the pilot is a job, main jobs come and go."""

from __future__ import annotations

import pytest
from pilot_job import QUICK, PilotJob
from promises import promise

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]


def test_two_torchrun_trainers_through_main_jobs_of_4_and_8_nodes(on: PilotJob) -> None:
    on.configure(**QUICK)
    for name in ("x", "y"):
        on.submit(name, "torchrun", max_nodes=4)
    pilot = on.sbatch()
    on.until_training("x", "y", size=4, seconds=120)
    _, nodes, ours = on.main_job(4)
    promise(not ours, f"nothing of ours is on the nodes of a main job: {ours}")
    on.until_training("x", "y", size=2)
    assert not on.ours_on(nodes)
    _, nodes, ours = on.main_job(4)
    promise(not ours, f"nothing of ours is on the nodes of a main job: {ours}")
    on.until("both wait", lambda: {on.machine.status(n) for n in ("x", "y")} == {"waiting"})
    assert not on.ours_on(nodes)
    on.end_main_jobs()
    on.until_training("x", "y", size=4, seconds=120)
    on.finish("x", "y")
    on.until("both are done", lambda: {on.machine.status(n) for n in ("x", "y")} == {"done"})
    on.stop(pilot)
    on.until("nothing of ours is left", lambda: not on.left(), 20)
    for name in ("x", "y"):
        on.check_story(name)
        assert on.sizes(name) >= {2, 4}
    assert "0 differ" in on.machine.bftrainer_replay()
