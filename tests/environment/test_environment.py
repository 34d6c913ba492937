"""A smoke test of each script in .ci, without a network.

environment.sh makes a real environment of a small project whose build backend lies in its own
folder, so pip needs no index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.ran import ran

ROOT = Path(__file__).parents[2]

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "sample"
version = "1"
dependencies = [{dependencies}]

[project.optional-dependencies]
dev = []

[tool.ruff]
line-length = {line_length}
"""

BACKEND = '''\
"""The smallest build backend: a wheel with one module."""
import zipfile

META = "Metadata-Version: 2.1\\nName: sample\\nVersion: 1\\nProvides-Extra: dev\\n"


def build_editable(directory, config_settings=None, metadata_directory=None):
    name = "sample-1-py3-none-any.whl"
    text = open("pyproject.toml").read()
    requires = "Requires-Dist: absent-package>=7\\n" if "absent-package" in text else ""
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("sample.py", "WHERE = 1\\n")
        wheel.writestr("sample-1.dist-info/METADATA", META + requires)
        wheel.writestr("sample-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("sample-1.dist-info/RECORD", "")
    return name
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in a folder with blanks, with our scripts."""
    folder = tmp_path / "a b" / "pro ject"
    (folder / ".ci").mkdir(parents=True)
    for script in [*(ROOT / ".ci").glob("*.sh"), ROOT / ".ci" / "horovod-toolchain.cmake"]:
        shutil.copy(script, folder / ".ci")
    shutil.copy(ROOT / ".ci" / "system-packages.txt", folder / ".ci")
    write_pyproject(folder)
    (folder / "backend.py").write_text(BACKEND)
    return folder


def write_pyproject(folder: Path, dependencies: str = "", line_length: int = 120) -> None:
    text = PYPROJECT.format(dependencies=dependencies, line_length=line_length)
    (folder / "pyproject.toml").write_text(text)


def fake(folder: Path, name: str, body: str) -> None:
    """An executable shell script of this name."""
    path = folder / name
    path.unlink(missing_ok=True)  # never write through a link into the system
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def run(
    project: Path, *argv: str, script: str = "environment.sh", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of ``.ci`` with this test's python as the default and no package index."""
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PIP_", "PYTHON")) and k not in ("CI", "WITHOUT_HOROVOD")
    }
    offline = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PYTHON": sys.executable,
        "no_proxy": "127.0.0.1",
    }
    environment = {**clean, **offline, **environment}
    return ran("/bin/sh", project / ".ci" / script, *argv, limit_s=120, env=environment, cwd="/")


def has_sample(project: Path) -> bool:
    python = project / ".venv" / "bin" / "python"
    return ran(python, "-c", "import sample", cwd="/").returncode == 0


def test_from_nothing_to_current_in_a_folder_with_blanks(project: Path) -> None:
    # What would lead python and pip astray is set: it must not.
    astray = {
        "PIP_USER": "1",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_TARGET": "/nowhere",
        "PYTHONPATH": "/nowhere",
    }
    first = run(project, "dev", **astray)
    assert (first.returncode, first.stderr) == (0, "")
    assert len(first.stdout.splitlines()) == 3  # pip's own output is in the log
    assert has_sample(project)
    # A linter's setting is nothing to pip; a changed dependency is.
    write_pyproject(project, line_length=100)
    assert "up to date" in run(project, "runtime", PYTHONHOME="/nowhere").stdout
    write_pyproject(project, dependencies='"absent-package>=7"')
    failed = run(project, "dev")
    assert (failed.returncode, len(failed.stderr.splitlines())) == (1, 1), failed
    assert "could not fetch absent-package>=7" in failed.stderr
    # The failed run left it incomplete, so it is recreated.
    write_pyproject(project)
    assert "incomplete" in run(project, "dev").stdout
    assert has_sample(project)


def test_constraints_are_installed_where_a_variable_names_them(project: Path) -> None:
    """Neither a file that is there nor CI turns them on: an index may lack a version."""
    (project / "versions.txt").write_text("absent-package==1\n")
    assert run(project, "dev", CI="true").returncode == 0
    assert "up to date" in run(project, "dev").stdout
    # Other constraints make another environment.
    again = run(project, "dev", CONSTRAINTS="versions.txt")
    assert (again.returncode, "up to date" in again.stdout) == (0, False), again
    assert "up to date" in run(project, "dev", CONSTRAINTS="versions.txt").stdout
    (project / "versions.txt").write_text("sample==2\n")
    refused = run(project, "dev", CONSTRAINTS="versions.txt")
    assert refused.returncode == 1, refused
    absent = run(project, "dev", CONSTRAINTS="absent.txt")
    assert (absent.returncode, len(absent.stderr.splitlines())) == (1, 1), absent
    assert "cannot read absent.txt" in absent.stderr


def packages(project: Path, action: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run system-packages.sh with a list of one package that is there and one that is not."""
    listed = "# comment\nhere-pkg | true | nothing\ngone-pkg | false || test -e gone | a test\n"
    (project / ".ci" / "system-packages.txt").write_text(listed)
    return run(
        project,
        action,
        script="system-packages.sh",
        PATH=f"{project}:{os.environ['PATH']}",
        **environment,
    )


def test_system_packages_that_cannot_be_installed_are_named_and_in_ci_that_is_an_error(
    project: Path,
) -> None:
    fake(project, "id", "echo 0")
    fake(project, "apt-get", "exit 100")
    assert "apt installs gone-pkg (a test)\n" in packages(project, "plan").stdout
    assert packages(project, "install").returncode == 0
    assert "were skipped: gone-pkg" in packages(project, "left-out").stdout
    assert "are an error in CI: gone-pkg" in packages(project, "install", CI="true").stderr
    fake(project, "apt-get", f'[ "$1" = update ] || : >"{project}/gone"')
    assert packages(project, "install", CI="true").returncode == 0
    assert packages(project, "left-out").stdout == ""


def test_versions_of_slurm_that_cannot_be_fetched_are_skipped_and_in_ci_that_is_an_error(
    project: Path,
) -> None:
    for name, body in (("apt-get", "exit 100"), ("dpkg", ""), ("patchelf", "")):
        fake(project, name, body)
    here = {"PATH": f"{project}:{os.environ['PATH']}", "BFTRAINER_CACHE": str(project / ".cache")}
    assert "Debian trixie" in run(project, "plan", script="slurm-versions.sh", **here).stdout
    done = run(project, "install", script="slurm-versions.sh", **here)
    assert (done.returncode, "will be skipped" in done.stderr) == (0, True), done.stderr
    done = run(project, "install", script="slurm-versions.sh", CI="true", **here)
    assert (done.returncode, "error in CI" in done.stderr) == (1, True), done.stderr


def test_horovod_that_cannot_be_installed_is_left_out_and_named_and_in_ci_that_is_an_error(
    project: Path,
) -> None:
    (project / ".venv" / "bin").mkdir(parents=True)
    fake(
        project / ".venv" / "bin",
        "python",
        'case "$1" in -) printf "horovod, " ;; *) exit 1 ;; esac',
    )
    here = {"script": "horovod.sh", "BFTRAINER_CACHE": str(project / ".cache")}
    assert "minutes" in run(project, "plan", **here).stdout
    assert run(project, "install", **here).returncode == 0
    assert "were skipped: horovod" in run(project, "left-out", **here).stdout
    done = run(project, "install", CI="true", **here)
    assert (done.returncode, "an error in CI" in done.stderr) == (1, True)
    assert "WITHOUT_HOROVOD is set" in run(project, "install", WITHOUT_HOROVOD="1", **here).stdout
