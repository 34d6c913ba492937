"""Files for contributors: hooks that run what make runs, templates that a code host can read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def test_hooks_run_what_make_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repository,) = config["repos"]
    hooks = {hook["id"]: hook["entry"] for hook in repository["hooks"]}
    assert repository["repo"] == "local"
    assert list(hooks) == ["lint", "format", "types", "imports"]
    for target, entry in hooks.items():
        recipe = re.search(rf"^{target}: environment-dev\n\t(.*)\n\n", makefile, re.MULTILINE)
        assert recipe is not None
        assert entry == recipe[1].replace("$(RUN)", ".venv/bin/python")


@pytest.mark.parametrize(
    "template", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()), ids=lambda path: path.name
)
def test_issue_template_has_a_name_and_a_description(template: Path) -> None:
    _, front, body = template.read_text().split("---\n", 2)
    assert {"name", "about", "labels"} == yaml.safe_load(front).keys()
    assert "**" in body
