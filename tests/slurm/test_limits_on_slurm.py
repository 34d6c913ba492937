"""Limits of a site: QOSes that cap jobs, Prologs that take time, and answers of scontrol that are whole but "failed"."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from clusters_under_test import RealSlurm
from conftest import started
from slurm_accounting import limit
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import SlurmVersion

from bftrainer.domain.cluster import FragmentPhase, NodeRequest
from bftrainer_adapters.slurm.hold import SlurmHolder
from bftrainer_adapters.slurm.observe import SlurmScheduler

QOS = {"partition": "", "qos": "scavenger", "account": "pilots"}


def held(holder: SlurmHolder) -> int:
    return [fragment.phase for fragment in holder.poll()].count(FragmentPhase.READY)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MaxSubmitJobsPerUser", "MaxJobsPerUser"])
def test_a_limit_on_jobs_is_the_pilots_and_no_node_is_backed_off_for_it(by_qos: RealSlurm, name: str) -> None:
    limit(by_qos.lab, f"{name}=2")
    holder = by_qos.holder(start_within_s=3.0, back_off_s=600.0, back_off_most_s=6000.0, **QOS)
    reasons: set[str] = set()

    def asked() -> int:
        holder.renew()
        there = {fragment.node for fragment in holder.poll()}
        found = holder.acquire(tuple(NodeRequest(node) for node in by_qos.nodes if node not in there))
        reasons.update(refusal.reason for refusal in found.refusals)
        return held(holder)

    wait_until(lambda: asked() == 2, "as many holders as the limit allows")
    wait_until(
        lambda: asked() and any("a limit on the pilot's jobs: " in reason for reason in reasons), "the limit", 40
    )
    assert any("QOSMax" in reason for reason in reasons), reasons
    assert held(holder) == 2
    limit(by_qos.lab, f"{name}=-1")
    wait_until(lambda: asked() == 4, "all nodes, soon after the limit is lifted", 90)
    assert not any("backing off" in reason for reason in reasons), reasons


@pytest.mark.slow
@pytest.mark.every_slurm
@pytest.mark.parametrize("more", ["", "PrologFlags=Alloc"], ids=["at launch", "at allocation"])
def test_a_prolog_longer_than_the_payload_may_take_is_waited_for(
    slurm_version: SlurmVersion, tmp_path: Path, more: str
) -> None:
    """A job is RUNNING during its Prolog. How long holders take to start is measured, and counts in windows."""
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-prolog."))
    prolog = folder / "prolog"
    prolog.write_text("#!/bin/sh\nsleep 8\n")
    prolog.chmod(0o755)
    try:
        for lab in started(Settings(nodes=2, prolog=str(prolog), more=more), slurm_version):
            cluster = RealSlurm(lab, tmp_path)
            holder = cluster.holder(start_within_s=3.0, ready_within_s=3.0)
            holder.poll()
            assert len(holder.acquire((NodeRequest(cluster.nodes[0]),)).fragments) == 1
            seen: set[FragmentPhase] = set()

            def ready(holder: SlurmHolder = holder, seen: set[FragmentPhase] = seen) -> bool:
                seen.update(fragment.phase for fragment in holder.poll())
                return FragmentPhase.READY in seen

            wait_until(ready, "the holder to be ready")
            assert seen <= {FragmentPhase.PENDING, FragmentPhase.READY}, "it was not given up in between"
            (refusal,) = holder.acquire((NodeRequest(cluster.nodes[1], 70.0),)).refusals
            assert "too short" in refusal.reason
            assert holder.acquire((NodeRequest(cluster.nodes[1], 300.0),)).fragments
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_configuration_is_asked_rarely_and_a_ping_that_is_refused_does_no_harm(lab: Lab, tmp_path: Path) -> None:
    """With rl_enable, `scontrol show config` prints everything, takes the controller for down, and exits with 1."""
    asked = tmp_path / "asked"
    fake = f"""#!/bin/sh
echo "$@" >>{asked}
case "$*" in
    "show config") {lab.real("scontrol")} "$@" | sed 's/ is UP$/ is DOWN/'; exit 1 ;;
    *) exec {lab.real("scontrol")} "$@" ;;
esac
"""
    lab.put_fake("scontrol", fake)
    scheduler = SlurmScheduler(env=lab.env)
    for _ in range(5):
        assert len(scheduler.observe().nodes) == 8
    assert asked.read_text().count("show config") == 1
    holder = RealSlurm(lab, tmp_path).holder()
    holder.poll()
    assert holder.acquire((NodeRequest("node01"),)).fragments


def test_what_keeps_the_holder_from_working_is_in_its_refusals(lab: Lab, tmp_path: Path) -> None:
    lab.put_fake("scontrol", "#!/bin/sh\necho 'SLURM_VERSION = 1.2.3'\n")
    holder = RealSlurm(lab, tmp_path).holder()
    holder.poll()
    (refusal,) = holder.acquire((NodeRequest("node01"),)).refusals
    assert "has not listed the existing holders yet: " in refusal.reason
    assert "Epilog" in refusal.reason
