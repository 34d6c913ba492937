"""The lines of an Epilog that send hints: jobscripts/hint.sh."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from live_machine import eventually

from bftrainer.config.pilot import HintsConfig, WorkersConfig
from bftrainer.live.hints import HintListener
from bftrainer.system.clock import SystemClock

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


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[HintListener]:
    with closing(HintListener(HintsConfig(port=0), WorkersConfig(), tmp_path, SystemClock())) as it:
        yield it


def test_the_script_for_nodes_sends_a_hint_and_never_fails(listener: HintListener) -> None:
    there = f"{listener.counts.address}/{listener.counts.port}"
    for pilots, wanted in ((f"127.0.0.1/9 {there}", 1), ("no.such.host.invalid/7717", 0), ("", 0)):
        done = subprocess.run(
            ["bash", str(SCRIPT)], env={"PATH": os.environ["PATH"], "BFTRAINER_PILOTS": pilots}, timeout=60, check=False,
            capture_output=True,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        if wanted:
            eventually(listener.take)
    without = subprocess.run(
        ["/bin/bash", str(SCRIPT)], env={"PATH": "/nowhere"}, timeout=60, check=False, capture_output=True
    )
    assert (without.returncode, without.stderr) == (0, b""), "no program of its own there"


def test_a_hint_outlives_the_process_group_of_its_epilog(listener: HintListener) -> None:
    """slurmd kills the group as soon as the Epilog has ended."""
    environment = {"PATH": os.environ["PATH"], "BFTRAINER_PILOTS": f"{listener.counts.address}/{listener.counts.port}"}
    for _ in range(20):
        epilog = subprocess.Popen(["bash", str(SCRIPT)], env=environment, process_group=0)
        assert epilog.wait(60) == 0
        with suppress(ProcessLookupError):
            os.killpg(epilog.pid, signal.SIGKILL)
        eventually(listener.take)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for a slow DNS")
def test_a_name_that_dns_is_slow_to_find_costs_no_other_pilot_its_hint(listener: HintListener, tmp_path: Path) -> None:
    (tmp_path / "names.c").write_text(_SLOW_NAMES)
    library = tmp_path / "names.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "names.c", "-ldl"], check=True, timeout=60)
    pilots = f"slow.invalid/7717 127.0.0.1/{listener.counts.port}"
    env = {"PATH": os.environ["PATH"], "BFTRAINER_PILOTS": pilots, "LD_PRELOAD": str(library)}
    subprocess.run(["bash", str(SCRIPT)], env=env, timeout=60, check=True)
    eventually(listener.take)
