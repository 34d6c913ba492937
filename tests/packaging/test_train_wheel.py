"""The wheel for training scripts, ``bftrainer-train``, and the wheel of bftrainer that leaves its
modules to it.

Both are built here without a network (hatchling is one of the dev packages).
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

import pytest
from support.needs import need_package
from support.ran import ran

import bftrainer

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "packaging" / "train" / "pyproject.toml"
SOURCES = "pyproject.toml README.md LICENSE .gitignore bftrainer adapters replay jobscripts"
SOURCES += " packaging docs/examples"
EXAMPLES = ROOT / "docs" / "examples"
FRAMEWORKS = {"lightning", "transformers"}
"""Modules of ``bftrainer.progress`` that import the framework that they are for."""


def listed() -> set[str]:
    """The table of the wheel's files and folders."""
    wheel = tomllib.loads(PROJECT.read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    table: dict[str, str] = wheel["force-include"]
    assert {f"../../{target}" for target in table.values()} == table.keys()
    return set(table.values())


def module_path(name: str) -> Path | None:
    """The file of a module of ours, relative to the checkout; None for any other name."""
    stem = Path(*name.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if (ROOT / path).is_file():
            return path
    return None


def imports(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, and what it imports from them, which may be modules
    as well.
    """
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def with_folders(path: Path) -> Iterator[Path]:
    """A module's file, and the ``__init__.py`` of every package that it is in."""
    yield path
    yield from (folder / "__init__.py" for folder in path.parents if folder.name)


def test_the_wheel_has_what_scripts_import_and_no_more() -> None:
    progress = (ROOT / "bftrainer" / "progress").glob("*.py")
    waiting = [path.relative_to(ROOT) for path in progress] + [Path("bftrainer/scaling.py")]
    needed: set[Path] = set()
    while waiting:
        for path in with_folders(waiting.pop()):
            if path not in needed:
                needed.add(path)
                waiting += filter(None, map(module_path, imports(path)))
    outside_progress = {str(path) for path in needed if path.parent.name != "progress"}
    no_modules = {"bftrainer/__init__.pyi", "bftrainer/py.typed", "bftrainer/progress"}
    assert listed() == outside_progress | no_modules


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy of what a build reads."""
    copy = tmp_path_factory.mktemp("train") / "source"
    for name in SOURCES.split():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, target, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, target)
    return copy


def built(folder: Path, to: Path, target: str = "wheel", release: bool = False) -> Path:
    """The wheel or sdist of a project, in a new folder ``to``."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    choices = {"BFTRAINER_RELEASE": "1" if release else "0", "BFTRAINER_WITH_ENGINE": "0"}
    environment = kept | choices
    command = (sys.executable, "-m", "hatchling", "build", "-t", target, "-d", to)
    done = ran(*command, limit_s=300, env=environment, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (artifact,) = to.iterdir()
    return artifact


@pytest.fixture(scope="module")
def train_wheel(source: Path) -> Path:
    return built(source / "packaging" / "train", source.parent / "train")


@pytest.fixture(scope="module")
def release_wheel(source: Path) -> Path:
    return built(source, source.parent / "release", release=True)


def contents(wheel: Path) -> dict[str, bytes]:
    """The installed files but for the metadata of the distribution."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        # Scripts and shared files are in a folder of the distribution's name and version.
        return {name.partition(".data/")[2] or name: archive.read(name) for name in names}


def metadata(wheel: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        message = message_from_string(archive.read(name).decode())
    return {key: message.get_all(key, []) for key in message.keys()}  # noqa: SIM118  # no dict


def test_the_two_wheels_of_a_release_share_no_file_and_are_all_of_a_checkout(
    source: Path, train_wheel: Path, release_wheel: Path
) -> None:
    whole = contents(built(source, source.parent / "whole"))
    train, rest = contents(train_wheel), contents(release_wheel)
    assert train.keys() & rest.keys() == set()
    assert train | rest == whole


def test_bftrainer_depends_on_the_wheel_for_scripts_of_its_version_in_a_release_only(
    source: Path, train_wheel: Path, release_wheel: Path
) -> None:
    version = bftrainer.__version__
    in_release = metadata(release_wheel)["Requires-Dist"]
    assert [text for text in in_release if "train" in text] == [f"bftrainer-train=={version}"]
    in_checkout = metadata(built(source, source.parent / "checkout"))["Requires-Dist"]
    assert set(in_release) - set(in_checkout) == {f"bftrainer-train=={version}"}
    train = metadata(train_wheel)
    assert train["Version"] == [version]
    assert train["Requires-Python"] == [">=3.9"]
    assert "Requires-Dist" not in train, "an environment with torch installs nothing else"


def test_two_builds_are_equal_byte_by_byte(
    source: Path, train_wheel: Path, release_wheel: Path
) -> None:
    again = built(source / "packaging" / "train", source.parent / "train-again")
    assert again.read_bytes() == train_wheel.read_bytes()
    again = built(source, source.parent / "release-again", release=True)
    assert again.read_bytes() == release_wheel.read_bytes()


def test_the_sdist_of_a_release_makes_the_wheel_of_that_release(
    source: Path, release_wheel: Path, tmp_path: Path
) -> None:
    sdist = built(source, tmp_path / "sdist", target="sdist", release=True)
    assert ran("tar", "-xf", sdist, cwd=tmp_path).returncode == 0
    (unpacked,) = tmp_path.glob("bftrainer-*")
    wheel = built(unpacked, tmp_path / "wheel")
    assert wheel.read_bytes() == release_wheel.read_bytes()


# --- An environment with this wheel and torch, and nothing else of ours


@pytest.fixture(scope="module")
def environment(train_wheel: Path) -> Path:
    """The Python of a fresh environment with the wheel; it sees this environment's packages, torch
    among them, by a path, which brings no editable installation.
    """
    folder = train_wheel.parents[1] / "venv"
    assert ran(sys.executable, "-m", "venv", folder).returncode == 0
    python = folder / "bin" / "python"
    command = (python, "-m", "pip", "install", "--no-index", "--no-deps", train_wheel)
    done = ran(*command, limit_s=300)
    assert done.returncode == 0, done.stderr
    packages = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    (here,) = folder.glob("lib/python*/site-packages")
    (here / "torch-of-the-tests.pth").write_text(f"{packages}\n")
    return python


def of_its_own() -> dict[str, str]:
    """Variables for a script that no launcher and no pilot started."""
    names = ("PYTHON", "BFTRAINER", "TORCHELASTIC")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(names)}
    return kept | {"PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1", "EPOCHS": "1"}


@pytest.mark.slow
def test_what_the_wheel_lacks_is_named_with_the_command_that_installs_it(environment: Path) -> None:
    script = "import bftrainer, bftrainer.progress; assert 'submit' not in dir(bftrainer); "
    for statement in ("bftrainer.submit('x.toml')", "from bftrainer import submit"):
        # -I: the checkout may be the working directory.
        done = ran(environment, "-I", "-c", script + statement)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == (
            "ImportError: bftrainer.submit is not part of bftrainer-train, which is for training "
            "scripts; install the pilot and its commands with: pip install bftrainer"
        )


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "package", "workers"),
    [
        ("torch_digits.py", "torch", 2),
        pytest.param("fsdp_text.py", "torch", 2, marks=pytest.mark.nightly),
        ("scripts/torch_idle.py", "torch", 2),
        pytest.param("scripts/accelerate_idle.py", "accelerate", 2, marks=pytest.mark.nightly),
        pytest.param("scripts/transformers_idle.py", "transformers", 1, marks=pytest.mark.nightly),
        pytest.param("scripts/lightning_idle.py", "lightning", 1, marks=pytest.mark.nightly),
        ("numpy_parallel.py", "numpy", 1),
    ],
)
def test_an_example_trains_with_this_wheel_alone(
    environment: Path, tmp_path: Path, example: str, package: str, workers: int
) -> None:
    need_package(package)
    shutil.copy(EXAMPLES / example, tmp_path / "train.py")
    launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}")
    arguments = [] if "/" in example else SHORT[example]
    command = (*(launcher if workers > 1 else ()), "train.py", *arguments)
    done = ran(environment, *command, limit_s=300, cwd=tmp_path, env=of_its_own())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bftrainer.console" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} - {"train.py", "__pycache__"}, "a checkpoint"


SHORT = {
    "torch_digits.py": ["--epochs", "1", "--samples", "256"],
    "fsdp_text.py": ["--epochs", "1", "--samples", "128"],
    "numpy_parallel.py": ["--steps", "50"],
}
"""Arguments that make an example short."""
