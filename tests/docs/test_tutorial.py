"""docs/site-replay.md, from sacct to a decision: its commands run as written, and its pictures are
what they make.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from support.ran import ran

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "site-replay.md"
PICTURES = "pictures/site-replay/"
FENCE = re.compile(r"^```(?:sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_THE_JOB_LOG = re.compile(r"`(bftrainer replay report sacct\.txt [^`]*) --out report`")

pytestmark = pytest.mark.slow


@dataclass
class Followed:
    """The folder that the commands leave behind, and what they said, command by command."""

    folder: Path
    said: dict[str, str]

    def of(self, start: str) -> str:
        """What the one command that begins like this has said."""
        (text,) = [text for command, text in self.said.items() if command.startswith(start)]
        return text


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """Every command of the page in its order, then that for the job log, with a sacct that stands
    for a site's.
    """
    folder = tmp_path_factory.mktemp("tutorial")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "sacct").write_text(
        f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent}/fake_sacct.py "$@"\n'
    )
    (programs / "sacct").chmod(0o755)
    commands = [
        line
        for block in FENCE.findall(PAGE.read_text())
        for line in block.splitlines()
        if line.strip()
    ]
    (of_the_job_log,) = OF_THE_JOB_LOG.findall(PAGE.read_text().replace("\n", " "))
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    said = {}
    for command in [*commands, f"{of_the_job_log} --out of-the-job-log"]:
        ended = ran(
            "bash",
            "-euo",
            "pipefail",
            "-c",
            command,
            limit_s=600,
            cwd=folder,
            env=os.environ | {"PATH": path},
        )
        assert ended.returncode == 0, f"{command}: {ended.stderr}"
        said[command] = ended.stdout + ended.stderr
    return Followed(folder, said)


def test_the_page_goes_from_sacct_to_a_decision(followed: Followed) -> None:
    assert [command.split(" -")[0].split(" log")[0] for command in followed.said] == [
        "sacct",
        "bftrainer replay characterize sacct.txt",
        "bftrainer replay generate",
        "bftrainer replay report",
        "bftrainer advise",
        "bftrainer replay report sacct.txt",
    ]
    assert "150 records read, 150 used" in followed.of("bftrainer replay characterize sacct.txt")
    for name in ("report/report.html", "of-the-job-log/report.html", "advice/bftrainer.toml"):
        assert (followed.folder / name).stat().st_size > 0


def test_the_report_says_its_replays_and_how_much_a_waiting_job_could_have_filled(
    followed: Followed,
) -> None:
    assert "14 replays" in followed.of("bftrainer replay report log")
    page = (followed.folder / "of-the-job-log" / "report.html").read_text()
    assert "waiting job" in page
    assert set((followed.folder / "advice").iterdir()) >= {
        followed.folder / "advice" / name for name in ("bftrainer.toml", "advice.json")
    }


@pytest.mark.parametrize("name", re.findall(rf"\]\(({PICTURES}[^)]+)\)", PAGE.read_text()))
def test_a_picture_of_the_page_is_the_one_that_its_commands_make(
    followed: Followed, name: str
) -> None:
    """Nearly: fonts and rasterisers differ between releases. To renew it, copy the file that the
    command has made.
    """
    shown, made = (
        np.asarray(matplotlib.image.imread(path))[..., :3].mean(axis=2)
        for path in (DOCS / name, followed.folder / name.removeprefix(PICTURES))
    )
    assert abs(shown.shape[0] - made.shape[0]) <= 40
    assert shown.shape[1] == made.shape[1]
    rows = min(shown.shape[0], made.shape[0])
    assert float(np.abs(shown[:rows] - made[:rows]).mean()) < 0.04, (
        f"{name} is not what the page's commands make"
    )
    assert float(made.std()) > 0.02  # not an empty sheet


def test_there_is_a_picture() -> None:
    assert f"]({PICTURES}" in PAGE.read_text()
