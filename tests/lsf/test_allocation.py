"""The nodes of the LSF job that the pilot itself runs in."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.config.pilot import PilotConfig
from bftrainer.errors import UserError
from bftrainer.pilot.own_site import build_site, reconfigure
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.lsf.hold import LsfCluster
from bftrainer_clusters.simple import SimpleHolder

NODES = {"nodes": {"holder": "allocation"}}


def test_each_host_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostfile = tmp_path / "hosts"
    hostfile.write_text("h36n08\n" * 42 + "h36n09\n" * 42)
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    monkeypatch.setenv("LSB_DJOB_HOSTFILE", str(hostfile))
    site = build_site(PilotConfig.model_validate(NODES), tmp_path, SystemClock())
    assert [node.name for node in site.scheduler.observe().nodes] == ["h36n08", "h36n09"]
    assert site.driver["prefix"] == ["blaunch", "{node}"]
    site = build_site(
        PilotConfig.model_validate({**NODES, "lsf": {"worker_prefix": ["ssh", "{node}"]}}),
        tmp_path,
        SystemClock(),
    )
    assert site.driver["prefix"] == ["ssh", "{node}"]


def test_the_pilots_configuration_names_an_lsf(tmp_path: Path) -> None:
    lsf = {"queue": "idle", "slots_per_node": 42}
    site = build_site(
        PilotConfig.model_validate({"nodes": {"holder": "lsf"}, "lsf": lsf}),
        tmp_path,
        SystemClock(),
    )
    assert isinstance(site.scheduler, LsfCluster)
    assert isinstance(site.holder, SimpleHolder)
    assert "bftrainer_clusters.holding.worker" in str(site.driver["prefix"])
    with pytest.raises(UserError, match="quue"):
        build_site(
            PilotConfig.model_validate({"nodes": {"holder": "lsf"}, "lsf": {"quue": "x"}}),
            tmp_path,
            SystemClock(),
        )


def test_options_of_holders_to_come_are_taken_over_and_their_queue_stays(tmp_path: Path) -> None:
    def config(**keys: object) -> PilotConfig:
        return PilotConfig.model_validate(
            {"nodes": {"holder": "lsf"}, "lsf": {"queue": "idle", "slots_per_node": 4, **keys}}
        )

    site = build_site(config(), tmp_path, SystemClock())
    assert reconfigure(site, config(timeout_s=3.0, queue="other")) == ("lsf.queue",)
    assert isinstance(site.scheduler, LsfCluster)
    now = site.scheduler.settings
    assert (now.queue, now.timeout_s, site.holder._settings) == ("idle", 3.0, now)
