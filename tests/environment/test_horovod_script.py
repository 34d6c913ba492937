""".ci/horovod.sh without a network and without a compiler: a fake python in .venv stands for pip and for what it installs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from patience import PATIENCE

ROOT = Path(__file__).parents[2]

# As `python -m pip ...` it notes its words and what the build is told, makes a wheel when asked to build one, and fails when
# its words hold $FAIL. As `python - VERSIONS` it says whether Horovod is installed.
PYTHON = """\
#!/bin/sh
case "$*" in
    "- 0.28.1 2.13.0 2.6.6 0.2.0 5.23.0 1.15.0") cat >/dev/null; [ -e .venv/installed ]; exit ;;
    *platform*) echo cp311-test; exit ;;
esac
echo "$*" >>.venv/said
echo "$CMAKE_TOOLCHAIN_FILE $HOROVOD_WITH_GLOO $HOROVOD_WITHOUT_MPI" >>.venv/told
case "$*" in *"$FAIL"*) echo "no such thing"; exit 1 ;; esac
case "$*" in
    *"check wheel "*) for last; do :; done; touch "$last/horovod-0.28.1-test.whl" ;;
    *hvd.init*) touch .venv/installed ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "pro ject"
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".ci").mkdir()
    for name in ("horovod.sh", "horovod-toolchain.cmake"):
        shutil.copy(ROOT / ".ci" / name, folder / ".ci")
    python = folder / ".venv" / "bin" / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return folder


def horovod(project: Path, action: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("CI", "WITHOUT_HOROVOD", "BFTRAINER_CACHE")
    }
    return subprocess.run(
        ["sh", ".ci/horovod.sh", action],
        cwd=project, env={**kept, "FAIL": "nothing fails", **environment}, capture_output=True, text=True,
        timeout=60 * PATIENCE,
    )  # fmt: skip


def said(project: Path) -> list[str]:
    return (project / ".venv" / "said").read_text().splitlines()


def test_it_says_beforehand_what_it_does_and_how_long_it_takes(project: Path) -> None:
    first = horovod(project, "plan").stdout
    assert "torch 2.13.0" in first
    assert "minutes" in first
    assert horovod(project, "install").returncode == 0
    assert "are installed" in horovod(project, "plan").stdout
    (project / ".venv" / "installed").unlink()
    assert "cached Horovod" in horovod(project, "plan").stdout


def test_it_builds_once_with_our_toolchain_and_without_a_cache_that_knows_no_torch(project: Path) -> None:
    done = horovod(project, "install")
    assert done.returncode == 0, done.stderr
    (build,) = [line for line in said(project) if "check wheel " in line]
    assert "--no-cache-dir" in build
    assert "--no-build-isolation" in build
    told = (project / ".venv" / "told").read_text()
    assert f"{project}/.ci/horovod-toolchain.cmake 1 1" in told
    torch = next(index for index, line in enumerate(said(project)) if "torch==2.13.0" in line)
    assert torch < said(project).index(build), "torch first"
    (project / ".venv" / "installed").unlink()
    assert horovod(project, "install").returncode == 0
    assert len([line for line in said(project) if "check wheel " in line]) == 1
    with (project / ".ci" / "horovod-toolchain.cmake").open("a") as file:
        file.write("# changed\n")
    (project / ".venv" / "installed").unlink()
    horovod(project, "install")
    assert len([line for line in said(project) if "check wheel " in line]) == 2


def test_what_is_installed_is_left_alone(project: Path) -> None:
    (project / ".venv" / "installed").touch()
    assert horovod(project, "install").returncode == 0
    assert not (project / ".venv" / "said").exists()


@pytest.mark.parametrize("word", ["torch==", "check wheel ", "force-reinstall", "hvd.init"])
def test_a_failure_is_a_skip_here_and_a_failure_in_ci(project: Path, word: str) -> None:
    here = horovod(project, "install", FAIL=word)
    assert here.returncode == 0
    assert "will be skipped" in here.stderr
    there = horovod(project, "install", FAIL=word, CI="true")
    assert there.returncode == 1
    assert "an error in CI" in there.stderr
    assert not list(project.glob(".cache/*building*")), "half a build is cleared away"


def test_it_can_be_left_out(project: Path) -> None:
    for action in ("plan", "install"):
        assert "WITHOUT_HOROVOD is set" in horovod(project, action, WITHOUT_HOROVOD="1").stdout
    assert not (project / ".venv" / "said").exists()


def test_an_unknown_action_is_an_error(project: Path) -> None:
    assert horovod(project, "instal").returncode == 2
