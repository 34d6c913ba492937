"""Hints: real datagrams to a pilot over fakes, the counts that doctor reads, and another user who
floods the port.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from support.fakes_live import FakeClock
from support.live_house import House, spec
from support.live_machine import eventually

from bftrainer.config.pilot import HintsConfig, WorkersConfig
from bftrainer.console.cli.doctor.pilot_checks import examine_hints
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import UserError
from bftrainer.pilot.hints import MAX_DATAGRAMS_PER_TICK, HintCounts, HintListener, send_test
from bftrainer.system.clock import SystemClock

_FLOOD = """
import os, pwd, socket, sys
if os.geteuid() == 0:
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("begun", flush=True)
while True:
    sender.sendto(os.urandom(2), (sys.argv[1], int(sys.argv[2])))
"""


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[HintListener]:
    with closing(HintListener(HintsConfig(port=0), WorkersConfig(), tmp_path, SystemClock())) as it:
        yield it


def house(path: Path, poll_s: float = 10.0, **hints: object) -> House:
    path.chmod(0o700)
    it = House(
        path, {"hints": {"port": 0, **hints}, "times": {"poll_s": poll_s, "stale_after_s": 60.0}}
    )
    it.cluster.busy = {"n1", "n2", "n3", "n4", "n5", "n6"}
    return it


def send(path: Path, text: bytes = b"whatever") -> None:
    counts = HintCounts.read(path)
    assert counts is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(text, (counts.address, counts.port))


def frees(it: House, node: str, *, announced: bool = True) -> Callable[[], object]:
    """The main job on the node ends; its Epilog has just sent a hint."""

    def end() -> None:
        it.cluster.give(node)
        if announced:
            send(it.path)

    return end


@contextmanager
def flood(counts: HintCounts) -> Iterator[subprocess.Popen[str]]:
    """As root the flood is nobody's, else this user's."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FLOOD, counts.address, str(counts.port)],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_hint_is_followed_by_a_look_and_a_request(tmp_path: Path) -> None:
    it = house(tmp_path, poll_s=30.0)
    it.submit(spec("a"))
    it.at(40.0, frees(it, "n1"))
    asked: list[float] = []
    it.at(45.0, lambda: asked.extend([len(it.cluster.acquired)]))
    it.pilot(60.0)
    assert asked == [1], "without the hint the node is seen at 60 s"


def test_a_hint_names_no_node_and_makes_none_idle(tmp_path: Path) -> None:
    it = house(tmp_path)
    it.submit(spec("a"))
    for at_s in range(5, 55, 5):
        it.at(float(at_s), lambda: send(it.path, b"n1 is idle"))
    it.pilot(60.0)
    assert it.cluster.acquired == []


def test_looks_without_hints_become_rarer_and_then_not(tmp_path: Path) -> None:
    it = house(tmp_path, poll_s=5.0)
    it.submit(spec("a", max_nodes=6))
    for number in (1, 2, 3):
        it.at(20.0 * number, frees(it, f"n{number}"))
    seen: dict[str, int] = {}
    it.at(80.0, lambda: seen.setdefault("begin", it.cluster.observations))
    it.at(170.0, lambda: seen.setdefault("calm", it.cluster.observations))
    it.at(170.0, frees(it, "n4", announced=False))
    it.at(210.0, lambda: seen.setdefault("again", it.cluster.observations))
    it.at(260.0, lambda: seen.setdefault("end", it.cluster.observations))
    it.pilot(265.0)
    assert seen["calm"] - seen["begin"] <= 4, "30 s apart"
    assert seen["end"] - seen["again"] >= 9, "5 s apart: a node was idle that no hint had announced"
    assert len(it.cluster.acquired) == 4
    assert it.reasons().count("the pilot ends") == 4, (
        "the scheduler was not taken for silent meanwhile"
    )


def test_a_flood_of_another_user_costs_a_tick_a_few_reads_and_the_scheduler_a_few_looks(
    tmp_path: Path,
) -> None:
    it = house(tmp_path, looks_per_minute=12.0)
    with_flood: list[int] = []

    def begin() -> None:
        counts = HintCounts.read(tmp_path)
        assert counts is not None
        stack.enter_context(flood(counts))

    with ExitStack() as stack:
        it.at(1.0, begin)
        it.at(155.0, lambda: with_flood.append(it.cluster.observations))
        it.pilot(161.0)
    assert with_flood[0] <= 16 + 12 * 155 / 60 + 5, "polls, the allowance, and what it had saved"
    counts = HintCounts.read(tmp_path)
    assert counts is not None
    assert counts.received > 100


def test_reads_are_bounded_and_the_rest_is_dropped(listener: HintListener) -> None:
    with flood(listener.counts) as process:
        deadline_s = time.monotonic() + 60
        while listener.take() < MAX_DATAGRAMS_PER_TICK:
            assert time.monotonic() < deadline_s
        spent_s = -time.process_time()
        reads = sum(listener.take() for _ in range(100))
        spent_s += time.process_time()
        assert reads <= 100 * MAX_DATAGRAMS_PER_TICK
        assert process.poll() is None
    print(f"{reads} datagrams in {spent_s:.3f} s of CPU time")


def test_datagrams_from_elsewhere_are_dropped_by_the_kernel(
    listener: HintListener, tmp_path: Path
) -> None:
    workers = WorkersConfig(allow_from=("10.99.0.0/16",))
    with closing(HintListener(HintsConfig(port=0), workers, tmp_path, SystemClock())) as closed:
        assert send_test(closed.counts)
        assert send_test(listener.counts)
        eventually(lambda: listener.take() + listener.counts.tests)
        assert closed.take() + closed.counts.tests == 0


def test_a_port_that_is_taken_is_refused_in_one_line(
    listener: HintListener, tmp_path: Path
) -> None:
    with pytest.raises(
        UserError, match=r"hints: cannot listen on lo, port \d+: Address already in use"
    ):
        HintListener(
            HintsConfig(port=listener.counts.port), WorkersConfig(), tmp_path, SystemClock()
        )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"port": "x"}', '{"port": 1}', '{"address": 1, "port": [], "since_s": 0}'],
)
def test_counts_that_cannot_be_read_are_none(tmp_path: Path, text: str) -> None:
    assert HintCounts.read(tmp_path) is None
    (tmp_path / "hints.json").write_text(text)
    assert HintCounts.read(tmp_path) is None


def test_counts_are_written_once_a_second(tmp_path: Path) -> None:
    clock = FakeClock()
    listener = HintListener(HintsConfig(port=0), WorkersConfig(), tmp_path, clock)
    send(tmp_path)
    eventually(listener.take)
    send(tmp_path)
    eventually(listener.take)
    assert listener.counts.received == 2
    before = HintCounts.read(tmp_path)
    assert before is not None
    assert before.received < 2
    clock.sleep(1.0)
    listener.take()
    after = HintCounts.read(tmp_path)
    assert after == listener.counts
    listener.close()


def test_doctor_tells_whether_hints_arrive(tmp_path: Path) -> None:
    assert examine_hints(tmp_path, HintsConfig()).detail == "off (hints.port is not set)"
    config = HintsConfig(port=0)
    assert "no pilot has listened" in examine_hints(tmp_path, config).detail
    listener = HintListener(config, WorkersConfig(), tmp_path, SystemClock())
    over = threading.Event()
    thread = threading.Thread(
        target=lambda: [listener.take() for _ in iter(lambda: over.wait(0.05), True)]
    )
    thread.start()
    try:
        none = examine_hints(tmp_path, config)
        assert none.state is CheckStatus.WARNING
        assert "a test from this host arrived, but no hint since" in none.detail
        send(tmp_path)
        eventually(
            lambda: (counts := HintCounts.read(tmp_path)) is not None and counts.received == 1
        )
        found = examine_hints(tmp_path, config)
        assert found.state is CheckStatus.OK
        assert "1 hint since the pilot began to listen" in found.detail
    finally:
        over.set()
        thread.join()
    listener.close()
    gone = examine_hints(tmp_path, config)
    assert gone.state is CheckStatus.WARNING
    assert "a test from this host did not arrive" in gone.detail


# --- The lines of an Epilog that send hints: jobscripts/hint.sh

SCRIPT = Path(__file__).parents[2] / "jobscripts" / "hint.sh"
_SLOW_NAMES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    if (node && strstr(node, "slow")) sleep(60);
    return real(node, service, hints, found);
}
"""


def test_the_script_for_nodes_sends_a_hint_and_never_fails(listener: HintListener) -> None:
    there = f"{listener.counts.address}/{listener.counts.port}"
    for pilots, wanted in ((f"127.0.0.1/9 {there}", 1), ("no.such.host.invalid/7717", 0), ("", 0)):
        done = subprocess.run(
            ["bash", str(SCRIPT)],
            env={"PATH": os.environ["PATH"], "BFTRAINER_PILOTS": pilots},
            timeout=60,
            check=False,
            capture_output=True,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        if wanted:
            eventually(listener.take)
    without = subprocess.run(
        ["/bin/bash", str(SCRIPT)],
        env={"PATH": "/nowhere"},
        timeout=60,
        check=False,
        capture_output=True,
    )
    assert (without.returncode, without.stderr) == (0, b""), "no program of its own there"


def test_a_hint_outlives_the_process_group_of_its_epilog(listener: HintListener) -> None:
    """slurmd kills the group as soon as the Epilog has ended."""
    environment = {
        "PATH": os.environ["PATH"],
        "BFTRAINER_PILOTS": f"{listener.counts.address}/{listener.counts.port}",
    }
    for _ in range(20):
        epilog = subprocess.Popen(["bash", str(SCRIPT)], env=environment, process_group=0)
        assert epilog.wait(60) == 0
        with suppress(ProcessLookupError):
            os.killpg(epilog.pid, signal.SIGKILL)
        eventually(listener.take)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for a slow DNS")
def test_a_name_that_dns_is_slow_to_find_costs_no_other_pilot_its_hint(
    listener: HintListener, tmp_path: Path
) -> None:
    (tmp_path / "names.c").write_text(_SLOW_NAMES)
    library = tmp_path / "names.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, tmp_path / "names.c", "-ldl"],
        check=True,
        timeout=60,
    )
    pilots = f"slow.invalid/7717 127.0.0.1/{listener.counts.port}"
    env = {"PATH": os.environ["PATH"], "BFTRAINER_PILOTS": pilots, "LD_PRELOAD": str(library)}
    subprocess.run(["bash", str(SCRIPT)], env=env, timeout=60, check=True)
    eventually(listener.take)
