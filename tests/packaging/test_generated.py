"""The man pages and completion files that are checked in are those of the commands as they are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.patience import PATIENCE

ROOT = Path(__file__).parents[2]
MAN = ROOT / "packaging" / "man"
COMPLETIONS = ROOT / "packaging" / "completions"
TYPED = "bftrainer replay c"


def ran(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60 * PATIENCE,
        check=False,
    )


def test_generated_files_are_current() -> None:
    """Else: make generated."""
    done = ran(sys.executable, ROOT / "packaging" / "generate.py", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted(MAN.iterdir()), ids=lambda page: page.name)
def test_man_page_is_complete(page: Path) -> None:
    text = page.read_text()
    assert "\b" not in text
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"):
        assert f"\n.SH {heading}\n" in text
    # Every line that roff takes for a request is one of ours.
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {'.\\"', ".TH", ".SH", ".PP", ".TP", ".nf", ".fi"}


def test_man_formats_every_page_without_a_warning() -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    for page in sorted(MAN.iterdir()):
        done = ran(
            "man",
            "--warnings",
            "-l",
            page,
            MANWIDTH="100",
            LC_ALL="C.UTF-8",
            MAN_KEEP_FORMATTING="",
        )
        assert (done.returncode, done.stderr) == (0, ""), page
        assert page.stem in done.stdout


@pytest.mark.parametrize(
    ("shell", "file"), [("bash", "bftrainer"), ("zsh", "_bftrainer"), ("fish", "bftrainer.fish")]
)
def test_shell_reads_its_completion_file(shell: str, file: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = ran(shell, "-n", COMPLETIONS / file)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("shell", "file", "script"),
    [
        (
            "bash",
            "bftrainer",
            f"COMP_WORDS=({TYPED}) COMP_CWORD=2; _bftrainer_completion bftrainer; echo "
            f"${{COMPREPLY[@]}}",
        ),
        ("fish", "bftrainer.fish", f"complete -C '{TYPED}'"),
    ],
)
def test_shell_completes_the_name_of_a_command(shell: str, file: str, script: str) -> None:
    """zsh completes at a terminal only: tried by hand."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = ran(shell, "-c", f"source {COMPLETIONS / file}; {script}", PATH=path)
    assert "characterize" in done.stdout.split(), done.stderr


# --- Files for contributors: hooks that run what make runs, templates that a code host can read


def test_hooks_run_what_make_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repository,) = config["repos"]
    hooks = {hook["id"]: hook["entry"] for hook in repository["hooks"]}
    assert repository["repo"] == "local"
    assert list(hooks) == ["lint", "format", "types", "imports"]
    for target, entry in hooks.items():
        recipe = re.search(rf"^{target}: environment-dev\n\t(.*)\n\n", makefile, re.MULTILINE)
        assert entry == recipe[1].replace("$(RUN)", ".venv/bin/python")


@pytest.mark.parametrize(
    "template", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()), ids=lambda path: path.name
)
def test_issue_template_has_a_name_and_a_description(template: Path) -> None:
    _, front, body = template.read_text().split("---\n", 2)
    assert {"name", "about", "labels"} == yaml.safe_load(front).keys()
    assert "**" in body
