"""Commands: their output, their errors in words, and nothing of them left after a timeout."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bftrainer.errors import CommandError
from bftrainer.system.command import run, scrubbed
from bftrainer.system.processes import with_variable


def test_output_and_input() -> None:
    assert run(["cat"], timeout_s=60, stdin="a line\n") == "a line\n"
    assert run(["sh", "-c", "cat; echo $EXTRA"], timeout_s=60, env={"EXTRA": "more"}) == "more\n"


def test_bytes_that_are_no_utf8_do_not_stop_it() -> None:
    assert run(["printf", r"a\377b"], timeout_s=60) == "a\ufffdb"


def test_variables_of_a_batch_job_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "SRUN_CPUS_PER_TASK", "SQUEUE_FORMAT", "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    out = run(["env"], timeout_s=60)
    found = [line for line in out.splitlines() if line.startswith("S") and line.endswith("=x")]
    assert found == ["SLURM_CONF=x"]
    assert scrubbed({"SLURM_TIME_FORMAT": "relative", "HOME": "/h"}) == {"HOME": "/h", "LC_ALL": "C.UTF-8"}


def test_not_there() -> None:
    with pytest.raises(CommandError, match="squeue-of-nobody: not found") as caught:
        run(["squeue-of-nobody", "-h"], timeout_s=60)
    assert caught.value.status is None
    assert caught.value.argv == ("squeue-of-nobody", "-h")


def test_status_with_the_last_lines_of_stderr() -> None:
    with pytest.raises(CommandError, match=r"sh: exit status 3: 2 / 3 / 4$") as caught:
        run(["sh", "-c", "for i in 1 2 3 4; do echo $i >&2; done; exit 3"], timeout_s=60)
    assert caught.value.status == 3
    with pytest.raises(CommandError, match="ended by SIGKILL: said nothing"):
        run(["sh", "-c", "kill -9 $$"], timeout_s=60)


@pytest.mark.parametrize("script", ["sleep 1000 & wait", "trap '' TERM; sleep 1000 & wait", "setsid sleep 1000 & wait"])
def test_a_timeout_kills_the_whole_group_and_does_not_wait_for_strangers(script: str, tmp_path: Path) -> None:
    begun_s, mine = time.monotonic(), str(tmp_path)  # of this test alone: others like it may run at the same time
    with pytest.raises(CommandError, match="no response within 2 s"):
        run(["sh", "-c", script], timeout_s=2, env={"BFTRAINER_TEST_COMMAND": mine})
    assert time.monotonic() - begun_s < 500  # it did not wait for the sleep
    left = list(with_variable("BFTRAINER_TEST_COMMAND", mine))
    assert len(left) == (1 if "setsid" in script else 0)
    for process in left:
        run(["kill", "-9", str(process.pid)], timeout_s=60)
