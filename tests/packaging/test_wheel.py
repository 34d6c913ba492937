"""What users get: the wheel and the sdist, built here without a network (hatchling is one of the
dev packages).

The slow tests install the wheel with its dependencies into a fresh environment: those come from the
package index.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from support.needs import need
from support.ran import ran

ROOT = Path(__file__).parents[2]
# Top-level entries that a build may read. Copied, so that an untidy checkout cannot make the test
# pass or fail.
SOURCES = (
    "pyproject.toml README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md CITATION.cff "
    "Makefile mkdocs.yml .gitignore"
    " bftrainer adapters replay jobscripts packaging tests docs .ci"
)

CLUTTER = shutil.ignore_patterns("__pycache__", "libengine.so")

# Where each shell looks for the completions of a command, under a prefix's share/.
COMPLETIONS = (
    "bash-completion/completions/bftrainer",
    "zsh/site-functions/_bftrainer",
    "fish/vendor_completions.d/bftrainer.fish",
)


def run(*argv: str, cwd: Path, **env: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = ran(*argv, limit_s=300, env=kept | env, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied_sources(copy: Path) -> Path:
    """A clean copy of what a build reads."""
    copy.mkdir()
    for name in SOURCES.split():
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=CLUTTER)
        elif source.exists():
            shutil.copy(source, copy / name)
    return copy


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of a clean copy."""
    copy = copied_sources(tmp_path_factory.mktemp("wheel") / "source")
    run(sys.executable, "-m", "hatchling", "build", cwd=copy)
    return copy / "dist"


@pytest.fixture(scope="module")
def in_wheel(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def files(folder: str, package: str) -> set[str]:
    """The files of a package (modules, schemas, templates), as they should be called in the
    wheel.
    """
    top = ROOT / folder
    found = (
        path
        for path in (top / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    )
    return {path.relative_to(top).as_posix() for path in found}


@pytest.mark.parametrize(
    ("folder", "package"),
    [(".", "bftrainer"), ("adapters", "bftrainer_clusters"), ("replay", "bftrainer_replay")],
)
def test_wheel_has_every_file(in_wheel: set[str], folder: str, package: str) -> None:
    assert files(folder, package) <= in_wheel
    assert f"{package}/py.typed" in in_wheel


def test_wheel_installs_jobscripts_examples_man_pages_and_completions(in_wheel: set[str]) -> None:
    installed = {name.partition("/data/share/")[2] for name in in_wheel if "/data/" in name}
    jobscripts = {f"bftrainer/jobscripts/{path.name}" for path in (ROOT / "jobscripts").iterdir()}
    folder = ROOT / "docs" / "examples"
    examples = {
        f"bftrainer/examples/{path.relative_to(folder)}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    }
    man = {f"man/man1/{path.name}" for path in (ROOT / "packaging" / "man").iterdir()}
    assert "man/man1/bftrainer.1" in man
    assert installed == jobscripts | examples | man | set(COMPLETIONS)


def test_wheel_has_nothing_else(in_wheel: set[str]) -> None:
    tops = {name.split("/")[0] for name in in_wheel}
    assert tops >= {"bftrainer", "bftrainer_clusters", "bftrainer_replay"}
    assert all(top.startswith("bftrainer") for top in tops)
    assert not [name for name in in_wheel if "test" in name]


def test_wheel_installs_the_command_and_the_licence(built: Path, in_wheel: set[str]) -> None:
    (wheel,) = built.glob("*.whl")
    (points,) = (name for name in in_wheel if name.endswith(".dist-info/entry_points.txt"))
    with zipfile.ZipFile(wheel) as archive:
        assert "bftrainer = bftrainer.console.cli.main:main" in archive.read(points).decode()
    assert [name for name in in_wheel if name.endswith("licenses/LICENSE")]


def test_sdist_and_clean_copy_make_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    (wheel,) = built.glob("*.whl")
    run("tar", "-xf", str(sdist), cwd=tmp_path)
    (source,) = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", cwd=source)
    (from_sdist,) = (source / "dist").glob("*.whl")
    assert from_sdist.read_bytes() == wheel.read_bytes()


def engine_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith("libengine.so")]


def test_a_wheel_of_a_checkout_has_the_engine_of_this_platform(built: Path) -> None:
    need("" if shutil.which("c++") else "no c++, which builds the engine")
    (wheel,) = built.glob("*.whl")
    assert engine_in(wheel)
    assert "-py3-none-linux_" in wheel.name


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"CXX": "/bin/false"}, "replays will run in Python, since the engine was not compiled"),
        ({"CXX": "no-such-compiler"}, "the engine was not compiled: "),
        ({"BFTRAINER_WITH_ENGINE": "0"}, ""),
        ({"BFTRAINER_RELEASE": "1"}, ""),
    ],
)
def test_a_wheel_without_a_compiler_or_of_a_release_is_pure(
    tmp_path: Path, variables: dict[str, str], said: str
) -> None:
    copy = copied_sources(tmp_path / "source")
    output = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", cwd=copy, **variables)
    (wheel,) = (copy / "dist").glob("*.whl")
    assert not engine_in(wheel)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert said in output


def test_an_engine_that_is_demanded_and_cannot_be_compiled_ends_the_build(tmp_path: Path) -> None:
    copy = copied_sources(tmp_path / "source")
    demanded = {"CXX": "/bin/false", "BFTRAINER_WITH_ENGINE": "1"}
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel")
    done = ran(*command, limit_s=300, env=os.environ | demanded, cwd=copy)
    assert done.returncode != 0
    assert not list((copy / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def prefix(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, and with what it depends on from the package index."""
    pytest.importorskip("ensurepip")
    folder = tmp_path_factory.mktemp("prefix") / "venv"
    (wheel,) = built.glob("*.whl")
    run(sys.executable, "-m", "venv", str(folder), cwd=folder.parent)
    # --no-compile: most modules of the dependencies are never imported here.
    options = ("--no-input", "--no-compile", "--disable-pip-version-check")
    done = ran(folder / "bin" / "pip", "install", *options, wheel, limit_s=300)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"pip: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_wheel_alone_writes_the_report(prefix: Path, tmp_path: Path) -> None:
    environment = {"PATH": f"{prefix / 'bin'}{os.pathsep}{os.defpath}", "HOME": str(tmp_path)}
    script = (
        "bftrainer replay generate --nodes 64 --days 1 --out log.csv && bftrainer replay "
        "report log.csv --out page"
    )
    run("sh", "-c", script, cwd=tmp_path, **environment)
    assert (tmp_path / "page" / "report.html").stat().st_size > 0


@pytest.mark.slow
def test_wheel_puts_man_pages_and_completions_where_they_are_looked_for(prefix: Path) -> None:
    for name in (*COMPLETIONS, "man/man1/bftrainer.1", "man/man1/bftrainer-replay-run.1"):
        assert (prefix / "share" / name).stat().st_size > 0
    if shutil.which("man") is not None:
        environment = {
            "PATH": f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
        }
        found = ran("man", "-w", "bftrainer-replay-run", env=environment)
        assert (
            Path(found.stdout.strip()).resolve()
            == (prefix / "share/man/man1/bftrainer-replay-run.1").resolve()
        )


FIND_FILES = """
from bftrainer.system.installed import Installed, installed_file, installed_folder
from bftrainer_clusters.holding.holder_jobs import holder_script
print(holder_script(None, "holder.slurm"), holder_script(None, "pilot.lsf"), sep="\\n")
print(installed_folder(Installed.JOBSCRIPT) / "holder.slurm", installed_file(Installed.EXAMPLE, "numpy_parallel.py"), sep="\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["user", "plain"])
def test_job_scripts_and_examples_are_found_however_pip_installed_them(
    built: Path, tmp_path: Path, how: str
) -> None:
    (wheel,) = built.glob("*.whl")
    home, base = tmp_path / "venv", tmp_path / "base"
    # --user works only where the user's packages are visible, and that is what this option is for.
    run(sys.executable, "-m", "venv", "--system-site-packages", str(home), cwd=tmp_path)
    python, user = (
        str(home / "bin" / "python"),
        {"PYTHONUSERBASE": str(base)} if how == "user" else {},
    )
    options = ["--user"] if how == "user" else []
    run(
        python,
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        *options,
        str(wheel),
        cwd=tmp_path,
        **user,
    )
    found = run(python, "-c", FIND_FILES, cwd=tmp_path, **user).splitlines()
    place = (base if how == "user" else home) / "share" / "bftrainer"
    assert found == [
        str(place / "jobscripts" / "holder.slurm"),
        str(place / "jobscripts" / "pilot.lsf"),
        str(place / "jobscripts" / "holder.slurm"),
        str(place / "examples" / "numpy_parallel.py"),
    ]
    for name in (path.name for path in (ROOT / "jobscripts").iterdir()):
        assert (place / "jobscripts" / name).is_file()
