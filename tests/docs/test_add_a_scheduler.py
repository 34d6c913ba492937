"""The page that walks through an adapter shows the adapter that the contract suites test."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
FILE = DOCS / "examples" / "add_a_scheduler" / "memory_cluster.py"


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def test_the_blocks_of_the_page_are_the_file() -> None:
    page = (DOCS / "add-a-scheduler.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    code = FILE.read_text()
    assert [block for block in blocks if block not in code] == []
    assert sorted(line for block in blocks for line in lines(block)) == sorted(lines(code))
