"""Which scripts are expected to report."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer_drivers.common.silence import mentions_reports


@pytest.mark.parametrize(
    ("text", "reports"),
    [
        ("from bftrainer import progress\n", True),
        ("import torch\n", False),
        ("x" * (1 << 20) + "bftrainer", False),
    ],
)
def test_a_script_that_mentions_bftrainer_reports(tmp_path: Path, text: str, reports: bool) -> None:
    (tmp_path / "train.py").write_text(text)
    assert mentions_reports(["python", "-u", "train.py", "--lr=0.1"], tmp_path) is reports


def test_words_that_are_no_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert not mentions_reports(["python", "-m", "train", "folder", "\0", "gone"], tmp_path)
