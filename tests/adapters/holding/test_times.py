"""Time-outs of commands that could let leases lapse are refused, on every site and with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.config.pilot import read_config
from bftrainer.errors import InputFileError
from bftrainer.live.site import build_site, find_site
from bftrainer.system.clock import SystemClock

TABLES = {"slurm": 'partition = "scavenge"', "lsf": 'queue = "idle"\nslots_per_node = 4'}


def built(tmp_path: Path, site: str, timeout_s: float | None, lease_s: float) -> None:
    path = tmp_path / "bftrainer.toml"
    timeout = "" if timeout_s is None else f"timeout_s = {timeout_s}"
    path.write_text(
        f'[nodes]\nholder = "{site}"\n[times]\nlease_s = {lease_s}\n[{site}]\n{TABLES[site]}\n{timeout}\n',
        encoding="utf-8",
    )
    build_site(read_config(path), tmp_path, SystemClock())


@pytest.mark.parametrize("site", TABLES)
def test_a_lease_holds_four_commands_without_an_answer(tmp_path: Path, site: str) -> None:
    built(tmp_path, site, None, 60.0)
    built(tmp_path, site, 20.0, 80.0)
    with pytest.raises(InputFileError) as refused:
        built(tmp_path, site, 20.0, 60.0)
    assert str(refused.value) == (
        f"configuration: {site}.timeout_s: is 20 s, but times.lease_s is only 60 s: a few commands without an answer would let "
        f"every holder end; set {site}.timeout_s to 15 or less, or times.lease_s to 80 or more"
    )
    assert find_site(site).table
