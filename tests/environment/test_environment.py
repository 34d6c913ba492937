"""A smoke test of each script in .ci, without a network.

environment.sh makes a real environment of a small project whose build backend lies in its own folder, so pip needs no index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

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
    offline = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PYTHON": sys.executable, "no_proxy": "127.0.0.1"}
    return subprocess.run(
        ["/bin/sh", str(project / ".ci" / script), *argv],
        env={**clean, **offline, **environment},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,  # it makes an environment and installs into it
        check=False,
    )


def assert_one_line(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """It failed with one line on stderr that holds all of ``parts``."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for part in parts:
        assert part in done.stderr
    assert "Traceback" not in done.stdout


def has_sample(project: Path) -> bool:
    python = project / ".venv" / "bin" / "python"
    return subprocess.run([python, "-c", "import sample"], check=False, capture_output=True, cwd="/").returncode == 0


def test_from_nothing_to_current_in_a_folder_with_blanks(project: Path) -> None:
    # What would lead python and pip astray is set: it must not.
    astray = {"PIP_USER": "1", "PIP_REQUIRE_VIRTUALENV": "1", "PIP_TARGET": "/nowhere", "PYTHONPATH": "/nowhere"}
    first = run(project, "runtime", **astray)
    assert first.returncode == 0, first.stderr
    assert "ready in" in first.stdout
    assert first.stderr == ""
    assert len(first.stdout.splitlines()) == 3  # pip's own output is in the log
    assert has_sample(project)

    again = run(project, "runtime", PYTHONHOME="/nowhere")
    assert "up to date" in again.stdout

    # The tests' tools come on top; afterwards both kinds are current.
    dev = run(project, "dev")
    assert dev.returncode == 0, dev.stderr
    assert "creating" not in dev.stdout
    assert "up to date" in run(project, "runtime").stdout
    assert "up to date" in run(project, "dev").stdout

    # A linter's setting is nothing to pip; a changed dependency is.
    write_pyproject(project, line_length=100)
    assert "up to date" in run(project, "dev").stdout
    write_pyproject(project, dependencies='"absent-package>=7"')
    assert_one_line(run(project, "dev"), "could not fetch absent-package>=7", "PIP_INDEX_URL", "setup.log")

    # The failed run left it incomplete, so it is recreated.
    write_pyproject(project)
    healed = run(project, "dev")
    assert "incomplete" in healed.stdout
    assert has_sample(project)


def packages(project: Path, action: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run system-packages.sh with a list of one package that is there and one that is not."""
    listed = "# comment\nhere-pkg | true | nothing\ngone-pkg | false || test -e gone | a test\n"
    (project / ".ci" / "system-packages.txt").write_text(listed)
    return run(project, action, script="system-packages.sh", PATH=f"{project}:{os.environ['PATH']}", **environment)


def test_system_packages_that_cannot_be_installed_are_named_and_in_ci_that_is_an_error(project: Path) -> None:
    fake(project, "id", "echo 0")
    fake(project, "apt-get", "exit 100")
    assert "apt installs gone-pkg (a test)\n" in packages(project, "plan").stdout
    assert packages(project, "install").returncode == 0
    assert "were skipped: gone-pkg" in packages(project, "left-out").stdout
    assert "are an error in CI: gone-pkg" in packages(project, "install", CI="true").stderr
    fake(project, "apt-get", f'[ "$1" = update ] || : >"{project}/gone"')
    assert packages(project, "install", CI="true").returncode == 0
    assert packages(project, "left-out").stdout == ""


def test_versions_of_slurm_that_cannot_be_fetched_are_skipped_and_in_ci_that_is_an_error(project: Path) -> None:
    for name, body in (("apt-get", "exit 100"), ("dpkg", ""), ("patchelf", "")):
        fake(project, name, body)
    here = {"PATH": f"{project}:{os.environ['PATH']}", "BFTRAINER_CACHE": str(project / ".cache")}
    assert "Debian trixie" in run(project, "plan", script="slurm-versions.sh", **here).stdout
    done = run(project, "install", script="slurm-versions.sh", **here)
    assert (done.returncode, "will be skipped" in done.stderr) == (0, True), done.stderr
    done = run(project, "install", script="slurm-versions.sh", CI="true", **here)
    assert (done.returncode, "error in CI" in done.stderr) == (1, True), done.stderr


# As `python -m pip ...` it notes the packages that it installs, makes a wheel when asked to build one, and fails when its words
# hold $FAIL. As `python - "NAME VERSION" ...` it says which of them are missing.
PIP = """\
case "$*" in
    "- "*) cat >/dev/null; shift
        for each; do grep -q "^${each% *}[=-]" .venv/said || printf '%s, ' "$each"; done; exit ;;
    *platform*) echo cp311-test; exit ;;
    *"$FAIL"*) echo "no such thing"; exit 1 ;;
esac
case "$*" in
    *" wheel --"*) echo "$CMAKE_TOOLCHAIN_FILE" >.venv/toolchain; for last; do :; done; touch "$last/horovod-1.whl" ;;
    *" uninstall "*) sed -i /^horovod/d .venv/said ;;
    *" install "*) for each; do echo "${each##*/}" >>.venv/said; done ;;
esac"""


@pytest.mark.parametrize(
    ("failing", "missing"),
    [
        ("nothing fails", set()),
        (" wheel --", {"horovod"}),
        ("hvd.init", {"horovod"}),
        ("torchft==", {"torchft"}),
        ("transformers==", {"transformers", "accelerate"}),
        ("install torch==2", {"horovod", "torch", "lightning", "torchft", "transformers", "accelerate"}),
    ],
)
def test_what_horovod_sh_cannot_install_takes_nothing_else_along(
    project: Path, failing: str, missing: set[str]
) -> None:
    """Without Horovod's build torchft, Lightning and transformers were missing as well."""
    (project / ".venv" / "bin").mkdir(parents=True)
    fake(project / ".venv" / "bin", "python", PIP)
    here = {"script": "horovod.sh", "FAIL": failing, "BFTRAINER_CACHE": str(project / ".cache")}
    assert "minutes" in run(project, "plan", **here).stdout
    done = run(project, "install", **here)
    assert done.returncode == 0, done.stderr
    left_out = run(project, "left-out", **here).stdout
    named = left_out.partition("were skipped: ")[2].partition(";")[0]
    assert {each.split()[0] for each in named.split(", ") if each} == missing
    assert len(left_out.splitlines()) == bool(missing)
    assert not list((project / ".cache").glob("*building*")), "half a build is cleared away"
    if missing:
        done = run(project, "install", CI="true", **here)
        assert (done.returncode, "an error in CI" in done.stderr) == (1, True)
    else:
        assert (project / ".venv" / "toolchain").read_text() == f"{project}/.ci/horovod-toolchain.cmake\n"
    assert "WITHOUT_HOROVOD is set" in run(project, "install", WITHOUT_HOROVOD="1", **here).stdout
