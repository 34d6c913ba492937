"""The page on LSF names tests for what it claims: they are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "lsf.md").read_text()
    table = page.partition("## Tests by claim")[2].partition("\n## ")[0]
    named = re.findall(r"\b(test_\w+)(\.\.\.|\.py)?", table)
    files = {
        path.stem: path.read_text()
        for folder in ("horovod", "lsf", "record")
        for path in (ROOT / "tests" / folder).glob("*.py")
    }
    defined = {name for text in files.values() for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    assert len(named) > 20
    for name, more in named:
        known = files.keys() if more == ".py" else defined
        assert any(each.startswith(name) if more == "..." else each == name for each in known), name
