"""The race of ``make race`` with two trials: each way ends, and its figures are those of its trials."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE


@pytest.mark.slow
def test_a_short_race(tmp_path: Path) -> None:
    runs = tmp_path / "runs.json"
    options = ["--runs", "1", "--trials", "2", "--min-nodes", "2", "--by", "pilot", "resubmit", "--json", str(runs)]
    ended = subprocess.run(
        [sys.executable, "tests/slurm/race.py", *options],
        text=True,
        capture_output=True,
        timeout=120 * PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found = {row["by"]: row for row in json.loads(runs.read_text())}
    assert sorted(found) == ["pilot", "resubmit"]
    for row in found.values():
        assert len(row["done_s"]) == 2
        assert row["starts"] >= 2
        assert row["waits_s"]
    assert "| 2 nodes | trainers of a pilot | 1 |" in ended.stdout
