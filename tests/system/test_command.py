"""Commands: their output, their errors in words, and nothing of them left after a timeout."""

from __future__ import annotations

import json
import os
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.errors import CommandError, InvalidValueError, SchedulerError
from bftrainer.system.command import parsed, run, scrubbed
from bftrainer.system.printable import printable
from bftrainer.system.processes import with_variable


def test_output_and_input() -> None:
    assert run(["cat"], timeout_s=60, stdin="a line\n") == "a line\n"
    assert run(["sh", "-c", "cat; echo $EXTRA"], timeout_s=60, env={"EXTRA": "more"}) == "more\n"


def test_bytes_that_are_no_utf8_do_not_stop_it() -> None:
    assert run(["printf", r"a\377b"], timeout_s=60) == "a\ufffdb"


def test_variables_of_a_batch_job_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SLURM_JOB_ID",
        "SBATCH_PARTITION",
        "SRUN_CPUS_PER_TASK",
        "SQUEUE_FORMAT",
        "SLURM_CONF",
    ):
        monkeypatch.setenv(name, "x")
    out = run(["env"], timeout_s=60)
    found = [line for line in out.splitlines() if line.startswith("S") and line.endswith("=x")]
    assert found == ["SLURM_CONF=x"]
    assert scrubbed({"SLURM_TIME_FORMAT": "relative", "HOME": "/h"}) == {
        "HOME": "/h",
        "LC_ALL": "C.UTF-8",
    }


def test_not_there() -> None:
    with pytest.raises(CommandError, match="squeue-of-nobody: not found") as caught:
        run(["squeue-of-nobody", "-h"], timeout_s=60)
    assert caught.value.status is None
    assert caught.value.argv == ("squeue-of-nobody", "-h")


def test_a_folder_on_the_path_that_cannot_be_searched_does_not_hide_that_a_program_is_missing(
    tmp_path: Path,
) -> None:
    (tmp_path / "program").write_text(
        "#!/bin/sh\n"
    )  # not executable, as in a folder that cannot be searched
    with pytest.raises(CommandError, match="program: not found"):
        run(["program"], timeout_s=60, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    with pytest.raises(CommandError, match="cannot be started: Permission denied"):
        run([str(tmp_path / "program")], timeout_s=60)


def test_line_ends_stay_as_they_are() -> None:
    """Other users' texts contain them: a CR must not become a new line, which would be another
    record.
    """
    assert run(["printf", r"a\rb\r\nc\n"], timeout_s=60) == "a\rb\r\nc\n"


def test_status_with_the_first_and_the_last_lines_of_stderr() -> None:
    with pytest.raises(CommandError, match=r"sh: exit status 3: 1 / \.\.\. / 4 / 5 / 6$") as caught:
        run(["sh", "-c", "for i in 1 2 3 4 5 6; do echo $i >&2; done; exit 3"], timeout_s=60)
    assert caught.value.status == 3
    with pytest.raises(CommandError, match="ended by SIGKILL: said nothing"):
        run(["sh", "-c", "kill -9 $$"], timeout_s=60)
    with pytest.raises(CommandError, match=r"exit status 1: \\x1b\[2Ja\\u202eb$"):
        run(["sh", "-c", r"printf '\033[2Ja\342\200\256b\n' >&2; exit 1"], timeout_s=60)


@pytest.mark.parametrize(
    "parse",
    [
        lambda text: int(text * 2000),
        lambda _: int(float("inf")),
        lambda _: {}["JOBS"],
        lambda text: json.loads("[" * 200_000),
        lambda _: _raise(InvalidValueError("not a node")),
    ],
)
def test_whatever_goes_wrong_in_a_parser_is_an_error_of_the_scheduler_with_its_command(
    parse: Callable[[str], object],
) -> None:
    with pytest.raises(
        SchedulerError, match=r"^squeue -a -t: the output cannot be parsed: "
    ) as caught:
        parsed(["squeue", "-a", "-t", "PD"], "123", parse)
    assert caught.value.answer == (("squeue", "-a", "-t", "PD"), "123")
    assert caught.value.exit_status == 1


def _raise(error: Exception) -> object:
    raise error


@pytest.mark.parametrize(
    "script", ["sleep 1000 & wait", "trap '' TERM; sleep 1000 & wait", "setsid sleep 1000 & wait"]
)
def test_a_timeout_kills_the_whole_group_and_does_not_wait_for_strangers(
    script: str, tmp_path: Path
) -> None:
    begun_s, mine = (
        time.monotonic(),
        str(tmp_path),
    )  # of this test alone: others like it may run at the same time
    with pytest.raises(CommandError, match="no response within 2 s"):
        run(["sh", "-c", script], timeout_s=2, env={"BFTRAINER_TEST_COMMAND": mine})
    assert time.monotonic() - begun_s < 500  # it did not wait for the sleep
    left = list(with_variable("BFTRAINER_TEST_COMMAND", mine))
    assert len(left) == (1 if "setsid" in script else 0)
    for process in left:
        run(["kill", "-9", str(process.pid)], timeout_s=60)


# --- What others wrote reaches a terminal without its control characters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 0.5, lr 1e-3", "loss 0.5, lr 1e-3"),
        ("Größe 三", "Größe 三"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b31m", r"\x9b31m"),
        ("a\nb\r\x0c\x85c", r"a\x0ab\x0d\x0c\x85c"),
        ("a\u2028b\u202ec", r"a\u2028b\u202ec"),
        (b"\xff".decode(errors="surrogateescape"), r"\udcff"),
    ],
)
def test_controls_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_log_keeps_the_characters_that_it_is_allowed() -> None:
    assert printable("a\tb\n\x1b", keep="\t\n") == "a\tb\n\\x1b"


@given(st.text())
def test_the_result_is_one_line_that_encodes(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not any(
        unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c) in BIDI for c in shown
    )
    shown.encode()
    assert printable(shown) == shown


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
