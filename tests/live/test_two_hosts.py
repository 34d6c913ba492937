"""What one host waits for while another writes, through caches that believe for an hour what they
once saw.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live.test_restart_driver import TWO, Driven
from support.live_machine import STEPPER, Machine, eventually, machine
from support.two_hosts import TwoHosts, two_hosts

from bftrainer.pilot.persistence.spool import Request, RequestKind, Spool
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.reports import Ending
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.on_node import payload

pytestmark = [pytest.mark.slow, pytest.mark.root]
NAME = "n1#12"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    tmp_path.chmod(0o700)
    with two_hosts(tmp_path) as made:
        yield made


def test_the_file_system_remembers_what_was_missing_and_open_asks_the_server(
    hosts: TwoHosts,
) -> None:
    """The caches are there: without them the other tests show nothing."""
    assert not (hosts.other / "late").exists()
    (hosts.one / "late").write_text("x")
    assert not (hosts.other / "late").exists()
    with pytest.raises(FileNotFoundError):
        (hosts.other / "late").read_text()
    (hosts.one / "early").touch()
    assert (hosts.other / "early").stat().st_size == 0
    (hosts.one / "early").write_text("one")
    assert (hosts.other / "early").stat().st_size == 0, "attributes are remembered, too"
    assert (hosts.other / "early").read_text() == "one"
    (hosts.one / "new").write_text("other")
    (hosts.one / "new").replace(hosts.one / "early")
    assert (hosts.other / "early").read_text() == "other", "replaced by rename"


@contextmanager
def holding(hosts: TwoHosts) -> Iterator[subprocess.Popen[bytes]]:
    """A payload on the other host."""
    environment = {**os.environ, "SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1"}
    argv = [sys.executable, payload.__file__, str(hosts.other / "holders"), "600"]
    held = subprocess.Popen(argv, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield held
    finally:
        held.kill()
        held.wait()


def test_the_marks_of_a_payload_are_seen_and_it_sees_its_lease(hosts: TwoHosts) -> None:
    files = HolderFiles(hosts.one / "holders")
    files.hold(NAME)
    files.renew()
    assert not files.ready(NAME)
    assert files.leaving(NAME) is None
    with holding(hosts) as held:
        eventually(lambda: files.ready(NAME))
        assert files.leaving(NAME) is None
        held.send_signal(signal.SIGTERM)
        eventually(lambda: files.leaving(NAME) is not None)
        assert "SIGTERM" in str(files.leaving(NAME))


def test_a_payload_that_starts_before_its_pilot_has_written_the_lease_sees_the_release(
    hosts: TwoHosts,
) -> None:
    files = HolderFiles(hosts.one / "holders")
    with holding(hosts) as held:
        eventually((hosts.one.parent / "behind" / "holders" / NAME / "lease").exists)
        files.hold(NAME)
        eventually(lambda: files.ready(NAME))
        files.mark_released(NAME)
        assert held.wait(60) == 0
        eventually(lambda: "released" in str(files.leaving(NAME)))


def test_a_request_from_another_host_is_seen_by_a_pilot_that_has_looked_before(
    hosts: TwoHosts,
) -> None:
    pilots = Spool(hosts.one)
    assert list(pilots.take(1)) == []
    Spool(hosts.other).put(Request(kind=RequestKind.CANCEL, trainer="a"))
    (received,) = pilots.take(1)
    assert received.request is not None
    assert received.request.trainer == "a"


def test_a_trainer_on_another_host_checkpoints_at_a_rescale_and_at_a_stop(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    directory = TrainerDirectory.of(hosts.one, "t")

    def incarnations() -> set[int]:
        path = work / "steps"
        return (
            {int(line.split()[0]) for line in path.read_text().splitlines()}
            if path.exists()
            else set()
        )

    def trained(incarnation: int) -> bool:
        view = it.look()
        return incarnation in incarnations() and view.trains and view.incarnation == incarnation

    with Driven(work, hosts.one, prefix=hosts.prefix(), warm=False) as it:
        it.start(
            [sys.executable, str(STEPPER), "c.json", "steps", "1000000", "0.02"],
            TWO[:1],
            stop_s=600.0,
        )
        eventually(lambda: trained(1), 60)
        it.launcher.order("t", TWO)
        eventually(lambda: trained(2), 60)
        it.launcher.ask_to_stop("t")
        it.ends(Ending.STOPPED)
    events = [json.loads(line) for line in directory.events.read_text().splitlines()]
    exits = [event["status"] for event in events if event["event"] == "worker_exited"]
    assert exits == [83, 83, 83], "every worker left after its checkpoint; none was killed"
    assert events[-1]["checkpointed"] is True
    steps = [int(line.split()[1]) for line in (work / "steps").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1)), "no step is missing or repeated"


def test_a_pilot_trains_what_another_host_submits(hosts: TwoHosts, tmp_path: Path) -> None:
    on = machine(tmp_path, "n1 n2", state=hosts.one / "state")
    far = Machine(hosts.other / "state", on.work)
    with on:
        pilot = on.pilot()
        eventually(on.state_is_there, 60)
        far.submit("a", 100)
        eventually(lambda: on.status("a") == "done" or pilot.poll() is not None, 120)
        assert pilot.poll() is None, (on.work / "pilot.log").read_text()
        assert far.status("a") == "done"
        assert [step for _, step in on.steps("a")] == list(range(1, 101))
        on.end(pilot)
