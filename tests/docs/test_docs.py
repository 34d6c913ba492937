"""The documentation is tested: its commands run as written, its links lead somewhere, every command
is in it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from support.ran import python, ran

from bftrainer.console.cli.main import bftrainer as group

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    """The shell blocks of a page."""
    return [
        body
        for language, body in FENCE.findall(page.read_text())
        if language in ("", "sh") and "bftrainer " in body
    ]


@pytest.mark.slow
def test_the_quickstart_runs_as_written(tmp_path: Path) -> None:
    script = "\n".join(blocks(ROOT / "docs" / "quickstart.md"))
    assert script.count("bftrainer replay run") >= 3
    # What `make demo` does before: the environment is the one that runs this test.
    script = script.replace("make demo\n", "").replace("export PATH=$PWD/.venv/bin:$PATH\n", "")
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    }
    ended = ran(
        "bash", "-euo", "pipefail", "-c", script, limit_s=300, cwd=tmp_path, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    for name in (
        "idle/fragments.png",
        "bftrainer/timeline.png",
        "root/summary.json",
    ):
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get: lower case, words joined by dashes, other signs
    dropped.
    """
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_pages_meet_a_heading(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
        if not target.startswith("http") and (target.endswith(".md") or not target):
            assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)", page.read_text())
    }
    for page in PAGES:
        assert page.resolve() in linked or page.name == "README.md", page


def test_every_command_is_in_the_documentation() -> None:
    text = "\n".join(page.read_text() for page in PAGES)

    def check(command: click.Group, path: str) -> None:
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if isinstance(found, click.Group):
                check(found, f"{path} {name}")
            else:
                assert f"{path} {name}" in text, f"{path} {name}"

    check(group, "bftrainer")


def commands_of(text: str) -> list[str]:
    """Return what follows ``bftrainer`` in the shell blocks and the inline code of a page."""
    lines = [
        line.strip().removeprefix("$ ")
        for _, body in FENCE.findall(text)
        for line in body.replace("\\\n", " ").splitlines()
    ]
    codes = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    starts = (
        re.match(r"(?:mpiexec .*|\S+=\S+ )?bftrainer ([a-z].*)", code) for code in lines + codes
    )
    return [start[1] for start in starts if start]


def unknown_word(words: list[str]) -> str | None:
    """Return the first word that is no command or no option of its command; None if there is
    none.
    """
    command: click.Command = group
    while isinstance(command, click.Group) and words:
        subcommand = command.get_command(click.Context(command), words[0])
        if subcommand is None:
            return words[0]
        command, words = subcommand, words[1:]
    options = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
    for word in words:
        if word in ("|", "&&", ">", "#", "--"):
            return None
        option = word.partition("=")[0].rstrip(".,;:)'")
        if re.match("--[a-z]", option) and option not in options | {"--help", "--version"}:
            return option
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    if page.name == "CHANGELOG.md":  # it names options of the past
        return
    unknown = {code: unknown_word(code.split()) for code in commands_of(page.read_text())}
    assert {code: word for code, word in unknown.items() if word is not None} == {}


def test_the_named_parts_name_files_that_exist() -> None:
    """A test without a folder is beside the one before it."""
    page = (ROOT / "docs" / "named-parts.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    names = [re.findall(r"`([^`]+)`", row[-1]) for row in rows]
    for row in names:
        folder = ROOT
        for name in row:
            path = ROOT / name if "/" in name else folder / name
            assert path.exists(), name
            folder = path.parent
    assert sum(map(len, names)) >= 20


# --- The benchmarks of the docs still run: nobody else runs them between two measurements

BENCHES = [
    *sorted(Path("tests/bench").glob("[!_]*.py")),
    *(
        Path("tests/slurm") / f"{name}.py"
        for name in ("latency", "many_nodes", "race", "zero_impact")
    ),
]


def test_no_page_names_a_command_of_the_past() -> None:
    """A figure without a script in the tree cannot be measured again."""
    assert [page.name for page in PAGES if "git show" in page.read_text()] == []


def test_every_bench_can_be_imported_and_tells_its_use() -> None:
    began = {
        path.name: subprocess.Popen(
            [sys.executable, path, "--help"],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for path in BENCHES
    }
    told = {name: process.communicate(timeout=300)[0] for name, process in began.items()}
    assert {name: told[name] for name, process in began.items() if process.returncode} == {}
    assert [name for name, text in told.items() if not text.startswith("usage: ")] == []


def test_the_pilots_bench_runs_on_a_small_cluster() -> None:
    """It has the most stand-ins for our own ports."""
    size = ["--trainers", "3", "--nodes", "60", "--idle", "0.1", "--warm", "0", "--seconds", "2"]
    ended = python("tests/bench/pilot.py", *size, limit_s=100)
    assert "% of a core" in ended.stdout, ended.stderr
    assert ended.stderr == ""
