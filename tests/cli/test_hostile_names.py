"""Names and texts that others choose, where they are read or shown: users, logs, answers of Slurm,
folders of other users.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.test_messages import EVIL, UNPRINTABLE
from replay.commands import executed
from support.command_line import bftrainer
from support.recorded_slurm import MARK
from support.strangers import NOBODY

import bftrainer as product
from bftrainer.errors import StateDirError
from bftrainer_clusters.slurm import jobs, peers

USERS = (
    "DOMAIN\\eve",
    "eve@site.org",
    "Eve Smith",
    "\u00e9ve",
    "-eve",
    "1234",
    "eve$",
    "a of b",
    "pilot x of root",
)
SCRIPT = "<script>alert(1)<\\script>$\\frac{"


@pytest.mark.parametrize("user", USERS)
def test_a_user_with_an_odd_name_holds_nodes_and_is_seen_by_others(user: str) -> None:
    words = jobs.comment("train", user) + peers.claim_words(("n[1-3]",), 5)
    (seen,) = peers.parse_peers(
        f"JOBID|USER|STATE|NAME|REASON|NODES|COMMENT|{MARK}\n17|{user}|RUNNING|{jobs.HOLDER_NAME}|None|1|{words}|{MARK}\n",
        MARK,
        "train",
        "another",
    )
    assert (seen.user, seen.pilot, seen.held, seen.wants, seen.hosts) == (
        user,
        "train",
        1,
        5,
        ("n[1-3]",),
    )


@pytest.mark.slow
def test_a_page_shows_names_of_a_log_as_text(tmp_path: Path) -> None:
    rows = ["JobID|User|Account|Partition|State|Submit|Start|End|NNodes|NodeList|Timelimit|JobName"]
    for number in range(60):
        hour = f"2026-01-{1 + number // 12:02d}T{number % 12 * 2:02d}"
        rows.append(
            f"{100 + number}|{SCRIPT}{number % 3}|{SCRIPT}|{SCRIPT}|COMPLETED|{hour}:00:00|{hour}:05:00|{hour}:59:00|"
            f"{1 + number % 3}|n[1-{1 + number % 3}]|01:00:00|{SCRIPT}"
        )
    log = tmp_path / f"{SCRIPT}.txt"
    log.write_text("\n".join(rows) + "\n")
    executed("replay", "report", log, "--out", tmp_path / "out", "--machine-nodes", "4")
    page = (tmp_path / "out/report.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page


@pytest.mark.slow
def test_doctor_prints_no_control_character_of_the_schedulers_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, programs = tmp_path / "state", tmp_path / "programs"
    programs.mkdir()
    state.mkdir(mode=0o700)
    (state / "bftrainer.toml").write_text(
        '[nodes]\nholder = "slurm"\n[slurm]\npartition = "idle"\n'
    )
    (tmp_path / "answer").write_text(
        f"SLURM_VERSION = {EVIL}\nClusterName = {EVIL}\nPartitionName={EVIL} State={EVIL}\n"
    )
    for name in ("scontrol", "squeue", "sbatch", "srun", "scancel", "sdiag", "sacctmgr", "sinfo"):
        (programs / name).write_text(
            f"#!/bin/sh\ncat {tmp_path}/answer; cat {tmp_path}/answer >&2; exit ${{#1}}\n"
        )
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    ended = bftrainer("doctor", "--state", state)
    assert ended.status == 1, ended
    assert UNPRINTABLE.findall(ended.out + ended.err) == []
    assert "\\x1b[2J" in ended.out, "it is shown"
    assert "Traceback" not in ended.err


@pytest.mark.root
@pytest.mark.parametrize(
    "use",
    [
        lambda state: product.submit(
            name="a", command=["true"], max_nodes=1, samples_per_s=1.0, state=state
        ),
        lambda state: product.trainers(state=state),
        lambda state: product.trainer("a", state=state),
        lambda state: product.results("*", state=state),
    ],
    ids=["submit", "trainers", "trainer", "results"],
)
def test_the_python_api_does_not_use_another_users_state_directory(
    tmp_path: Path, use: Callable[[Path], object]
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "spool").mkdir(mode=0o777)
    os.chown(state, NOBODY, NOBODY)
    with pytest.raises(StateDirError, match=f"belongs to uid {NOBODY}"):
        use(state)
    assert [path.name for path in state.rglob("*")] == ["spool"]
