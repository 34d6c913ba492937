"""What squeue shows of the users who share idle nodes, and the files that an administrator copies
for them.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest
from adapters.slurm.test_broker import CONFIG, HEADER, line
from adapters.slurm.test_calls import programs
from support.command_line import bftrainer, complaint
from support.ran import ran
from support.recorded_slurm import recorded

from bftrainer.config.pilot import read_config
from bftrainer.config.validation import check_table
from bftrainer.system.files import write_atomically
from bftrainer.system.users import own_name
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.published import JOBS, Head, packed, packed_weights

SITE = Path(__file__).parents[3] / "docs/examples/site"


def held(job: int, user: str) -> str:
    return line(
        job,
        user,
        "RUNNING",
        "bftrainer-holder",
        f"bftrainer: idle node held by pilot p of {user}; released",
    )


def pilot(job: int, user: str, words: str) -> str:
    return line(job, user, "RUNNING", "bftrainer-pilot", f"bftrainer: pilot p of {user}{words}")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """7 nodes are held and 1 is idle."""
    rows = [
        pilot(1, "ann", "; wants 8"),
        *(held(n, "ann") for n in range(10, 16)),
        pilot(2, "bea", "; wants 50 short"),
    ]
    (tmp_path / "jobs").write_text(
        "".join(f"{it}|MARK\n" for it in (HEADER, *rows, held(20, "cal")))
    )
    (tmp_path / "config").write_text(CONFIG.format("none"))
    (tmp_path / "nodes").write_text(recorded("planned.nodes.txt"))
    cases = '*reservation) echo "No reservations in the system" ;; *config)'
    env = programs(
        tmp_path,
        squeue=f'sed "s/MARK$/${{SQUEUE_FORMAT##*|}}/" {tmp_path}/jobs',
        scontrol=f'case "$*" in {cases} cat {tmp_path}/config ;; *) cat {tmp_path}/nodes ;; esac',
        sacctmgr="echo 'ann||1\nbea||2'",
        sdiag='echo "sdiag output at Wed Nov 25 12:00:00 2026 (1795608000)"',
    )
    monkeypatch.setenv("PATH", env["PATH"])
    return tmp_path


def configure(state: Path) -> None:
    """The site's configuration, with a broker of this user."""
    (state / "published").mkdir()
    text = re.sub(
        "broker_user = .*", f'broker_user = "{own_name()}"', (SITE / "site.toml").read_text()
    )
    (state / "bftrainer.toml").write_text(
        re.sub("broker = .*", f'broker = "{state}/published"', text)
    )
    (state / "nodes").write_text(
        recorded("planned.nodes.txt").replace("Partitions=", "Partitions=scavenger,")
    )


@pytest.mark.parametrize("with_config", [False, True])
def test_users_and_the_reasons_for_their_nodes(state: Path, with_config: bool) -> None:
    if with_config:
        configure(state)
    rows = [
        json.loads(it) for it in bftrainer("users", "--state", state, "--json").out.splitlines()
    ]
    keys = ("user", "pilots", "wants", "holds", "part", "lacks", "nodes", "idle")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("ann", 1, 8, 6, 4, 0, 8, 1),
        ("bea", 1, 8, 0, 3, 3, 8, 1),
        ("cal", 1, None, 1, 1, 0, 8, 1),
    ]
    assert "8 nodes, 1 idle" in bftrainer("users", "--state", state).out
    said = [
        bftrainer("explain", "--user", user, "--state", state).out for user in ("ann", "bea", "cal")
    ]
    assert "equal part is 4: 3 users share them" in said[0]
    assert "Others lack nodes: bea (3)" in said[0]
    assert "It lacks 3, and 1 are idle" in said[1]
    assert "shows no demand" in said[2]
    assert "no pilot of this user" in complaint(
        bftrainer("explain", "--user", "eve", "--state", state)
    )
    accounting = "SLURM_VERSION = 1\nClusterName = lab\nAccountingStorageType = x/slurmdbd\n"
    (state / "config").write_text(accounting + CONFIG.format("none"))
    assert ("weight" in bftrainer("users", "--state", state).out) is with_config, (
        "it names the account"
    )
    said = bftrainer("explain", "--user", "bea", "--state", state).out
    assert ("Its part, by weight 2 of 4, is 4" if with_config else "Its equal part is 3") in said
    (state / "config").write_text(CONFIG.format("jobs"))
    assert "hides other users' jobs (PrivateData)" in complaint(
        bftrainer("users", "--state", state)
    )


def test_weights_come_from_the_broker(state: Path) -> None:
    """Where Slurm hides them, users see those that their pilots go by."""
    configure(state)
    body = (state / "jobs").read_bytes()
    weights = packed_weights({"ann": 1, "bea": 3})
    head = Head(time.time(), 12.0, len(body), "MARK", weights_size=len(weights))
    write_atomically(state / "published" / JOBS, packed(head, weights + body), 0o644)
    rows = [
        json.loads(it) for it in bftrainer("users", "--state", state, "--json").out.splitlines()
    ]
    assert [(row["user"], row["weight"], row["part"]) for row in rows] == [
        ("ann", 1, 2),
        ("bea", 3, 5),
        ("cal", 1, 1),
    ]


def test_what_an_administrator_copies_is_valid() -> None:
    """A lab runs accounts.sh (:func:`slurm_accounting.preemptible_qos`)."""
    config = read_config(SITE / "site.toml")
    settings = check_table(config.site_table("slurm"), SlurmSettings, "site.toml")
    unit = SITE / "bftrainer-broker.service"
    words = (
        f"bftrainer broker {settings.broker} --partition {settings.partition} --weights "
        f"{settings.account}\n"
    )
    assert words in unit.read_text()
    assert f"\nUser={settings.broker_user}\n" in unit.read_text()
    if verify := shutil.which("systemd-analyze"):
        assert ran(verify, "verify", unit, check=True).stderr == ""
