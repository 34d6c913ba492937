"""The five verbs on a live OAR, in one story; the contract suites are longer (nightly)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from support.oar_lab import Lab
from support.oar_under_test import LiveOar

from bftrainer.api import Availability
from bftrainer.errors import CommandError
from bftrainer_clusters.simple import JobPhase, JobRequest, SimpleCluster

pytestmark = [pytest.mark.root, pytest.mark.slow]
NOTES = """\
trap 'echo TERM >>{log}; exit' TERM
trap 'echo USR2 >>{log}; exit' USR2
echo up >>{log}
while :; do sleep 0.1; done
"""


def phase(cluster: SimpleCluster[Any], job: str) -> JobPhase | None:
    states = {record.id: cluster.states[record.state] for record in cluster.list()}
    return states.get(job)


def test_the_five_verbs(oar_lab: Lab, tmp_path: Path) -> None:
    live = LiveOar(oar_lab, tmp_path)
    cluster = live.cluster()
    seen = cluster.observe()
    assert [node.name for node in seen.nodes] == oar_lab.node_names
    assert {(node.availability, node.cpus) for node in seen.nodes} == {(Availability.FREE, 2)}
    assert seen.pending == seen.reservations == ()
    # The jobs of earlier tests are listed for a while.
    assert {cluster.states[record.state] for record in cluster.list()} <= {JobPhase.OVER}

    logs = [tmp_path / f"{name}.log" for name in ("preempted", "left", "canceled")]
    jobs = [
        cluster.submit(
            JobRequest(
                node, 10, f"bft:x.y-1:{node}", ("/bin/bash", "-c", NOTES.format(log=log), "it's")
            )
        )
        for node, log in zip(oar_lab.node_names, logs, strict=False)
    ]
    live.until(lambda: all(log.exists() for log in logs), "three jobs to start")
    records = {record.id: record for record in cluster.list()}
    assert [records[job].label for job in jobs] == [
        f"bft:x.y-1:{node}" for node in oar_lab.node_names[:3]
    ]
    assert all(records[job].ends_s for job in jobs)
    busy = [n.name for n in cluster.observe().nodes if n.availability is Availability.BUSY]
    assert busy == oar_lab.node_names[:3]
    assert cluster.why_no_holder() == ""

    # A main job of another user takes all nodes: its notice is SIGUSR2. What is over is no error.
    preempted, left, canceled = jobs
    cluster.signal([left, "999999"], signal.SIGTERM)
    cluster.cancel([canceled, "999999"])
    live.until(
        lambda: {phase(cluster, job) for job in (left, canceled)} == {JobPhase.OVER}, "two ends"
    )
    cluster.signal([left], signal.SIGTERM)
    cluster.cancel([left, canceled])
    oar_lab.oarsub("-l", "/network_address=8,walltime=0:1:0", "exec sleep 5")
    live.until(lambda: phase(cluster, preempted) is JobPhase.OVER, "the preemption")
    assert [log.read_text().split()[1:] for log in logs] == [["USR2"], ["TERM"], []]
    reason = {record.id: record.reason for record in cluster.list()}[preempted]
    assert "CHECKPOINT" in reason
    oar_lab.tidy_up()


def test_a_node_that_does_not_exist_is_an_error(oar_lab: Lab, tmp_path: Path) -> None:
    cluster = LiveOar(oar_lab, tmp_path).cluster()
    with pytest.raises(CommandError, match="oarsub"):
        cluster.submit(JobRequest("node99", 10, "x", ("/bin/true",)))
