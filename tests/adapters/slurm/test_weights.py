"""Weights of users by their shares in an account: when they are read, and who reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from adapters.slurm.test_calls import programs

from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.user_weights import EVERY_S, Weights, argv, parse

CONFIG = (
    "SLURM_VERSION = 22.05.8\nClusterName = lab\nAccountingStorageType = "
    "accounting_storage/slurmdbd\n"
)


def asks(folder: Path, user: str = "bea") -> Weights:
    """Of an account whose shares are in a file."""
    (folder / "accounting").write_text(f"{CONFIG}Slurmctld(primary) at host is UP\n")
    sacctmgr = f'echo "$*" >> {folder}/asked; cat {folder}/shares'
    env = programs(folder, scontrol=f"cat {folder}/accounting", sacctmgr=sacctmgr)
    return Weights(SlurmCalls(env, user=user), lambda: "pilots")


def test_shares_are_read_once_in_a_quarter_of_an_hour_and_kept_while_they_cannot_be(
    tmp_path: Path,
) -> None:
    weights, shares = asks(tmp_path), tmp_path / "shares"
    times = iter((10.0, 10.1, 11.0, 11.0, 12.0))
    weights.host_s = lambda: EVERY_S * next(times)
    shares.write_text("||1\nann|night|9\nann||3\nbea||parent\nroot||1\n")
    assert weights.current() == {"ann": 3}
    shares.write_text("bea||1\n")
    assert weights.current() == {"ann": 3}
    shares.unlink()
    assert weights.current() == weights.current() == {"ann": 3}, "slurmdbd is down"
    assert (tmp_path / "asked").read_text().splitlines() == 2 * [
        " ".join(argv("lab", "pilots")[1:])
    ]
    shares.write_text("||1\nbea||5\n")
    assert weights.current() == {}, "PrivateData shows one's own only"


def test_no_accounting_no_weights_and_a_garbled_answer_is_none(tmp_path: Path) -> None:
    weights = asks(tmp_path)
    (tmp_path / "accounting").write_text(
        (tmp_path / "accounting").read_text().replace("slurmdbd", "none")
    )
    assert weights.current() == {}
    assert not (tmp_path / "asked").exists()
    with pytest.raises(SchedulerError, match=r"truncated or garbled: 'ann\|\|'"):
        parse("ann||3\nann||", "bea")
