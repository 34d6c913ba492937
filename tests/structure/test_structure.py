"""The structure that docs/architecture.md promises: what it draws is there, names are unique,
imports have no cycle.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from mypy import api

from bftrainer.plugins import LAUNCHER_GROUP, SITE_GROUP, installed_names

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "bftrainer": ROOT / "bftrainer",
    "bftrainer_clusters": ROOT / "adapters" / "bftrainer_clusters",
    "bftrainer_drivers": ROOT / "adapters" / "bftrainer_drivers",
    "bftrainer_replay": ROOT / "replay" / "bftrainer_replay",
    "bftrainer_papers": ROOT / "replay" / "bftrainer_papers",
}


def drawn(package: str) -> dict[str, str]:
    """What the page draws of a package: the children that it names, each with its sentence."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = re.search(rf"^{package}/ [^\n]*\n((?:  [^\n]*\n)+)", page, re.MULTILINE)
    assert found, f"docs/architecture.md draws no {package}/"
    lines = re.findall(r"^  (\w[\w./, ]*?)  +(\S.*)$", found[1], re.MULTILINE)
    return {name.removesuffix("/"): text for names, text in lines for name in names.split(", ")}


def children(folder: Path) -> set[str]:
    """Subpackages, and modules that are not private."""
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return packages | {path.name for path in folder.glob("*.py") if not path.name.startswith("_")}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_draws_what_is_there(package: str) -> None:
    assert set(drawn(package)) == children(PACKAGES[package])


def test_the_page_draws_the_layers_in_their_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers = next(c["layers"] for c in contracts if c.get("containers") == ["bftrainer"])
    order = [
        name.strip()
        for layer in layers
        for name in re.split(r"[|:]", layer)
        if name.strip() != "__main__"
    ]
    assert [name.removesuffix(".py") for name in drawn("bftrainer")] == order


def test_no_two_public_classes_share_a_name() -> None:
    owners = defaultdict(list)
    for folder in PACKAGES.values():
        for path in sorted(folder.rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    owners[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in owners.items() if len(paths) > 1} == {}


def test_only_one_module_says_how_a_python_program_is_started() -> None:
    """``sys.executable -m`` and ``-c`` search the working directory first, where other users may
    write.
    """
    readers = {
        str(path.relative_to(ROOT))
        for folder in PACKAGES.values()
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "executable"
            and ast.unparse(node.value) == "sys"
        )
        or (isinstance(node, ast.ImportFrom) and node.module == "sys")
    }
    assert readers == {
        "adapters/bftrainer_drivers/common/behind_relay.py",  # in the user's Python, with -I -S
        "bftrainer/system/own_programs.py",
    }


def test_no_checkpoint_is_loaded_that_could_run_code() -> None:
    """``torch.load`` unpickles, and before torch 2.6 it did so by default: examples and prose are
    copied.
    """
    texts = [path for folder in PACKAGES.values() for path in folder.rglob("*.py")]
    texts += [path for kind in ("*.py", "*.md", "*.ipynb") for path in (ROOT / "docs").rglob(kind)]
    calls = {
        f"{path.relative_to(ROOT)}: {call}"
        for path in [*texts, ROOT / "README.md"]
        for call in re.findall(r"torch\.load\(.*", path.read_text(encoding="utf-8"))
    }
    assert len(calls) > 5
    assert {call for call in calls if "weights_only=True" not in call} == set()


# --- Tidying up ends no program that runs for days: files and folders go by
# bftrainer/system/files.py, which raises nothing

NOT_TIDYING = {
    "bftrainer/system/files.py": "the functions themselves",
    "bftrainer/system/network.py": "a socket cannot be bound where another file lies",
    "bftrainer/pilot/persistence/store.py": "a database is made in a file that must be empty",
    "bftrainer/pilot/trainers/launcher.py": "a driver must not be taken for the one before it",
    "adapters/bftrainer_drivers/pool/main.py": "workers would leave at once",
    "bftrainer/progress/lightning.py": "a checkpoint must not be written through a link",
}
"""Files that delete what must not be there: an error is an error of what comes next."""


def bare_removals(path: Path) -> list[int]:
    """The lines where an error of a removal would come out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    suppressed = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and "suppress(OSError)" in ast.unparse(block.items[0])
        for node in ast.walk(block)
    }
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    lines = []
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        quiet = id(call) in suppressed or any(word.arg == "ignore_errors" for word in call.keywords)
        if call.func.attr in {"rmtree", "unlink", "rmdir", "remove"} and not quiet:
            is_of_a_list = call.func.attr == "remove" and ast.unparse(call.func.value) != "os"
            lines += [] if is_of_a_list else [call.lineno]
    return lines


def test_tidying_up_raises_nothing() -> None:
    folders = [
        "bftrainer/pilot",
        "bftrainer/pilot/persistence",
        "bftrainer/progress",
        "bftrainer/system",
        "adapters",
    ]
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    paths += sorted((ROOT / "replay/bftrainer_replay/playback").glob("*.py"))
    bare = {str(path.relative_to(ROOT)): bare_removals(path) for path in paths}
    assert {name for name, lines in bare.items() if lines} == {
        *NOT_TIDYING,
        "bftrainer/pilot/persistence/spool.py",
    }
    assert len(bare["bftrainer/pilot/persistence/spool.py"]) == 1, (
        "_remove_file, which says so instead of raising"
    )


# --- One spelling: what users read says "canceled", as Slurm's manual does

OTHER_SPELLING = re.compile(r"cancelled|cancelling|canceller", re.IGNORECASE)
SPELT_OTHERWISE = {
    "adapters/bftrainer_clusters/slurm/jobs.py": "Slurm's state",
    "adapters/bftrainer_clusters/slurm/pilot_job.py": "Slurm's state",
    "adapters/bftrainer_clusters/holding/holder_fragment.py": "Slurm's state",
    "replay/bftrainer_replay/logs/slurm_state.py": "Slurm's state",
    "docs/decisions": "Slurm's state",
}


def test_canceled_has_one_spelling() -> None:
    texts = {}
    for folder in PACKAGES.values():
        for path in sorted(folder.rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            texts[path] = "\n".join(string for string in strings if isinstance(string, str))
    pages = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "packaging").rglob("*.1"),
    ]
    texts |= {path: path.read_text(encoding="utf-8") for path in pages}
    names = {
        path.relative_to(ROOT).as_posix()
        for path, text in texts.items()
        if OTHER_SPELLING.search(text)
    }
    assert not [name for name in names if not name.startswith(tuple(SPELT_OTHERWISE))]


# --- The type checker refuses a time of one clock where a time of another is expected

SNIPPET = """
from bftrainer.times import ElapsedS, HostS, PilotS
from bftrainer.pilot.facts import FragmentEvent, NoteAdded
from bftrainer.pilot.heartbeat import Heartbeat
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock

def mixes(clock: SteadyClock, recorder: Recorder) -> None:
    {line}
"""
RIGHT = (
    'recorder.write_fragment_event("n1#1", FragmentEvent.TAKEN, clock.now_s())',
    'NoteAdded(clock.to_host(clock.now_s()), "kind", "", "")',
)
MIXED = (
    'recorder.write_fragment_event("n1#1", FragmentEvent.TAKEN, clock.host_s())',
    'recorder.write_fragment_event("n1#1", FragmentEvent.TAKEN, clock.elapsed_s())',
    'recorder.write_fragment_event("n1#1", FragmentEvent.TAKEN, clock.now_s() + 5.0)',
    'NoteAdded(clock.now_s(), "kind", "", "")',
    "clock.to_host(clock.host_s())",
    "Heartbeat(lambda: None, clock, 60.0)",
)


@pytest.mark.slow
def test_mypy_finds_every_mix(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    files = {}
    for i, line in enumerate((*RIGHT, *MIXED)):
        files[tmp_path / f"mix_{i}.py"] = line
        (tmp_path / f"mix_{i}.py").write_text(SNIPPET.format(line=line))
    options = [
        "--config-file",
        str(root / "pyproject.toml"),
        "--cache-dir",
        str(root / ".mypy_cache"),
    ]
    found, _, _ = api.run([*options, *map(str, files)])
    refused = {line for path, line in files.items() if f"{path.name}:9: error" in found}
    assert refused == set(MIXED), found


PLUGINS = {*installed_names(SITE_GROUP), *installed_names(LAUNCHER_GROUP), "pbs", "oar"}
OTHER_PACKAGES = re.compile(r"\bbftrainer_(clusters|drivers|papers|replay)\b")
FRAMEWORKS = (ROOT / "bftrainer" / "progress", ROOT / "bftrainer" / "console" / "client" / "adapt")
"""They serve the frameworks that training scripts import, two of which have the name of a launcher."""
WORDS_OF_ROOMS = {
    ("explanation.py", "allocation"): "the division of nodes among trainers",
    ("explanation.py", "pool"): "a key of the output: the pool of nodes",
    ("pilot_log.py", "pool"): "the same",
    ("problem_file.py", "pool"): "a key of a problem: the pool of nodes",
    ("commands.py", "bftrainer_clusters.slurm.broker:broker"): "a command of bftrainer itself",
}


def plugin_names(path: Path) -> list[str]:
    """Texts of a module, apart from docstrings, that name a plug-in or another package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
    ]
    return [text for text in texts if text.lower() in PLUGINS or OTHER_PACKAGES.search(text)]


def test_no_room_knows_a_scheduler_a_launcher_or_another_package_by_name() -> None:
    """What depends on one is an attribute of its plug-in (bftrainer/plugin_traits.py)."""
    names = {
        (path.name, text)
        for path in sorted((ROOT / "bftrainer").rglob("*.py"))
        if not any(path.is_relative_to(folder) for folder in FRAMEWORKS)
        for text in plugin_names(path)
    }
    assert names == WORDS_OF_ROOMS.keys()


def test_the_check_for_names_sees_one(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Slurm."""\nholder = "Slurm"\nother = f"bftrainer_replay.{holder}"\nx = "y"\n'
    )
    assert plugin_names(path) == ["Slurm", "bftrainer_replay."]
