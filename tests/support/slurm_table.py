"""A table of live tests by version of Slurm, from pytest's reports: ``tests/support/slurm_table.py
build/slurm-versions/*/*.xml``.

The folder of a report is named after its version (slurm_versions.py). ``make slurm-versions`` ends
with this table.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.slurm_versions import VERSIONS

_VERSION = re.compile(rf"\b(?:{'|'.join(VERSIONS)})(?:-|\b)")


def stories(report: Path) -> dict[tuple[str, str], str]:
    """What came of each test, by its words and its site or case."""
    found: dict[tuple[str, str], str] = {}
    for case in ET.parse(report).iter("testcase"):
        name, _, case_of = case.get("name", "").partition("[")
        story = name.removeprefix("test_").replace("_", " ")
        site = _VERSION.sub("", case_of.removesuffix("]")).strip("-").replace("|", "\\|")
        kinds = {child.tag for child in case}
        outcome = (
            "failed" if kinds & {"failure", "error"} else "not run" if "skipped" in kinds else "yes"
        )
        if found.get((story, site)) != "failed":
            found[story, site] = outcome
    return found


def table(reports: Iterable[Path]) -> str:
    columns: dict[str, dict[tuple[str, str], str]] = {}
    for path in reports:
        columns.setdefault(path.parent.name, {}).update(stories(path))
    names = sorted(columns, key=[*VERSIONS].index)
    heads = [VERSIONS[name].number or name for name in names]
    lines = [f"| story | site or case | {' | '.join(heads)} |", "|" + "---|" * (2 + len(names))]
    before = ""
    for story, site in dict.fromkeys(key for name in names for key in columns[name]):
        cells = " | ".join(columns[name].get((story, site), "") for name in names)
        lines.append(f"| {'' if story == before else story} | {site} | {cells} |")
        before = story
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(map(Path, sys.argv[1:])))
