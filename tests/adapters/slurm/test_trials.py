"""The table of versions that were tried is the only one: docs, recordings and the suite's versions
agree with it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.recorded_slurm import VERSIONS
from support.slurm_versions import INSTALLED

from bftrainer_clusters.slurm.checks import TRIALS, trial_of

PAGE = (Path(__file__).parents[3] / "docs" / "slurm.md").read_text()


def test_every_version_that_was_tried_is_recorded_and_no_other() -> None:
    assert tuple(trial.version for trial in TRIALS) == VERSIONS


def test_the_page_says_when_each_version_was_tried() -> None:
    (section,) = re.findall(r"^## Slurm versions\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (\d[\d.]+) \| (\S+) \| .+ \|$", section, re.MULTILINE)
    assert rows == [(trial.version, trial.date) for trial in TRIALS]


def test_the_installed_version_is_one_of_them() -> None:
    """Those of .ci/slurm-versions.sh may move on; Debian 12's does not."""
    if not INSTALLED.number:
        pytest.skip("Slurm is not installed")
    assert trial_of(INSTALLED.release) is not None


def test_a_patch_is_its_release_and_another_release_was_not_tried() -> None:
    assert trial_of((24, 11)) == TRIALS[1]
    assert trial_of((23, 11)) is None
