"""The script behind every make target, run for real: a small project, real pythons, venvs and pips, and no network.

The project's build backend lies in its own folder and it needs nothing, so pip installs it offline.
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
TOOLS = ("cat", "date", "dirname", "env", "grep", "id", "mkdir", "mktemp", "paste", "printf", "rm", "sed", "sh", "tail")

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
    for script in (ROOT / ".ci").glob("*.sh"):
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


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """All of PATH: the tools that the scripts call, and no python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        real = shutil.which(tool)
        assert real, f"{tool} is not on PATH"
        (folder / tool).symlink_to(real)
    return folder


def run(
    project: Path, *argv: str, script: str = "environment.sh", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of ``.ci`` with this test's python as the default and no package index."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON")) and k != "CI"}
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


def test_it_leaves_an_active_environment_alone(project: Path) -> None:
    assert run(project, "runtime").returncode == 0
    own = project / ".venv" / "bin"
    active = run(project, "dev", PYTHON="", PATH=f"{own}:{os.environ['PATH']}", VIRTUAL_ENV=str(own.parent))
    assert active.returncode == 0, active.stderr
    assert "creating" not in active.stdout


def test_an_incomplete_environment_is_recreated(project: Path) -> None:
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "python").symlink_to("/nowhere/python3")
    done = run(project, "runtime")
    assert done.returncode == 0, done.stderr
    assert "incomplete" in done.stdout
    assert has_sample(project)


def test_the_users_own_environment_is_added_to(project: Path) -> None:
    base = Path(getattr(sys, "_base_executable", sys.executable))
    subprocess.run([base, "-m", "venv", project / ".venv"], check=True)
    keep = project / ".venv" / "keep"
    keep.touch()
    done = run(project, "runtime")
    assert done.returncode == 0, done.stderr
    assert "created by you" in done.stdout
    assert keep.exists()
    assert has_sample(project)


def test_no_network(project: Path) -> None:
    write_pyproject(project, dependencies='"absent-package>=7"')
    index = {"PIP_NO_INDEX": "", "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    done = run(project, "runtime", **index)
    assert_one_line(done, "no network: could not fetch absent-package>=7", "a mirror", str(project / ".venv"))
    assert "127.0.0.1" in (project / ".venv" / "setup.log").read_text()


def test_no_python(project: Path, bin_folder: Path) -> None:
    done = run(project, "runtime", PATH=str(bin_folder), PYTHON="")
    assert_one_line(done, "python3 not found", "3.10", "apt install python3 python3-venv")
    assert not (project / ".venv").exists()


def test_an_old_python(project: Path, bin_folder: Path) -> None:
    fake(bin_folder, "python3", "echo 3.9.18")
    done = run(project, "runtime", PATH=str(bin_folder), PYTHON="")
    assert_one_line(done, "python3 is 3.9.18", "3.10 or newer", "make PYTHON=")


def test_an_old_python3_beside_a_newer_one(project: Path, bin_folder: Path) -> None:
    fake(bin_folder, "python3", "echo 3.9.18")
    fake(bin_folder, "python3.10", f'exec "{sys.executable}" "$@"')
    done = run(project, "runtime", PATH=str(bin_folder), PYTHON="")
    assert done.returncode == 0, done.stderr
    assert has_sample(project)


# Debian without python3-venv has a venv module whose ensurepip is missing.
WITHOUT_ENSUREPIP = """case "$*" in
*ensurepip*|*"-m venv"*|*virtualenv*) echo "No module named ensurepip" >&2; exit 1;;
*_base_executable*) exit 0;;
esac
exec "{python}" "$@"
"""


def test_python_without_venv(project: Path, bin_folder: Path) -> None:
    fake(bin_folder, "python3", WITHOUT_ENSUREPIP.format(python=sys.executable))
    done = run(project, "runtime", PATH=str(bin_folder), PYTHON="")
    assert_one_line(done, "apt install python3-venv")
    assert not (project / ".venv").exists()


def test_virtualenv_stands_in_for_venv(project: Path, bin_folder: Path) -> None:
    base = getattr(sys, "_base_executable", sys.executable)
    fake(bin_folder, "python3", WITHOUT_ENSUREPIP.format(python=base))
    fake(bin_folder, "virtualenv", f'exec "{base}" -m venv "$3"')
    done = run(project, "runtime", PATH=str(bin_folder), PYTHON="")
    assert done.returncode == 0, done.stderr
    assert has_sample(project)


def test_no_permission(project: Path, bin_folder: Path) -> None:
    fake(bin_folder, "mkdir", 'echo "mkdir: Permission denied" >&2; exit 1')
    done = run(project, "runtime", PATH=f"{bin_folder}:{os.environ['PATH']}")
    assert_one_line(done, "cannot write", str(project / ".venv"))


def packages(project: Path, bin_folder: Path, action: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run system-packages.sh with a list of one package that is there and one that is not."""
    listed = "# comment\nhere-pkg | true | nothing\ngone-pkg | false || test -e gone | a test\n"
    (project / ".ci" / "system-packages.txt").write_text(listed)
    return run(project, action, script="system-packages.sh", PATH=str(bin_folder), **environment)


def test_system_packages_as_root(project: Path, bin_folder: Path) -> None:
    fake(bin_folder, "id", "echo 0")
    fake(bin_folder, "apt-get", f'echo "$@" >>"{bin_folder}/calls"; [ "$1" = update ] || : >"{project}/gone"')
    assert "apt installs gone-pkg (a test)\n" in packages(project, bin_folder, "plan").stdout
    assert packages(project, bin_folder, "install", CI="true").returncode == 0
    assert (bin_folder / "calls").read_text() == "update\ninstall -y --no-install-recommends gone-pkg\n"
    assert packages(project, bin_folder, "left-out").stdout == ""
    assert "nothing to install" in packages(project, bin_folder, "plan").stdout


def test_system_packages_without_root_are_left_out_but_not_in_ci(project: Path, bin_folder: Path) -> None:
    fake(bin_folder, "id", "echo 1000")
    fake(bin_folder, "apt-get", "exit 100")
    fake(bin_folder, "sudo", "exit 1")
    assert "not root" in packages(project, bin_folder, "plan").stdout
    done = packages(project, bin_folder, "install")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "were skipped: gone-pkg" in packages(project, bin_folder, "left-out").stdout
    assert_one_line(packages(project, bin_folder, "install", CI="true"), "are an error in CI: gone-pkg")


def test_a_package_that_this_system_does_not_have_takes_no_other_along(project: Path, bin_folder: Path) -> None:
    """As on Ubuntu, whose apt knows no chromium and cannot install its snap in a container."""
    fake(bin_folder, "id", "echo 0")
    fake(bin_folder, "apt-cache", '[ "$2" != chromium ]')
    refuse = 'for word in "$@"; do case $word in chromium*) exit 100 ;; esac; done'
    fake(bin_folder, "apt-get", f'echo "$@" >>"{bin_folder}/calls"; {refuse}; [ "$1" = update ] || : >"{project}/gone"')
    listed = "chromium/chromium-browser | test -e never | a browser\ngone-pkg | test -e gone | a test\n"
    (project / ".ci" / "system-packages.txt").write_text(listed)

    def install(**environment: str) -> subprocess.CompletedProcess[str]:
        return run(project, "install", script="system-packages.sh", PATH=str(bin_folder), **environment)

    done = install()
    assert done.returncode == 0
    assert "could not install all packages" in done.stderr
    wanted = "install -y --no-install-recommends"
    assert (bin_folder / "calls").read_text().splitlines() == [
        "update", f"{wanted} chromium-browser gone-pkg", f"{wanted} chromium-browser", f"{wanted} gone-pkg",
    ]  # fmt: skip
    assert (project / "gone").exists()
    done = install(CI="true")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("are an error in CI: chromium/chromium-browser (a browser)")


def test_the_list_of_packages_names_each_once_with_its_test_and_its_purpose() -> None:
    lines = (ROOT / ".ci" / "system-packages.txt").read_text().splitlines()
    listed = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    assert {len(fields) for fields in listed} == {3}, "package | test | purpose"
    names = [fields[0] for fields in listed]
    assert len(names) == len(set(names))
    assert all(name.replace("/", "").replace("-", "").replace("+", "").isalnum() for name in names)
