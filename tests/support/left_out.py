"""The last lines of a test run: what it skipped, summed by reason, and what it ran twice, by name.

A skip where data or a program is missing must not look like a pass, and a rerun is a defect whose
cause is to be found (decision 6). Both would be lost among thousands of dots.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_MOST = 120
"""Characters of an error in a line."""


@dataclass
class LeftOut:
    """``skips`` counts tests by reason; ``reruns`` has an entry for each first run that failed,
    with its error.
    """

    skips: Counter[str] = field(default_factory=Counter)
    reruns: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, skipped: Iterable[pytest.TestReport], rerun: Iterable[pytest.TestReport]
    ) -> LeftOut:
        """Of the reports of a run."""
        return cls(
            Counter(map(reason_of, skipped)),
            [f"{report.nodeid}: {error_of(report)}" for report in rerun],
        )

    @classmethod
    def read(cls, path: Path) -> LeftOut:
        """What :meth:`write` has written; nothing where the run did not come that far."""
        if not path.exists():
            return cls()
        table = json.loads(path.read_text())
        return cls(Counter(table["skips"]), table["reruns"])

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"skips": self.skips, "reruns": self.reruns}))

    def add(self, other: LeftOut) -> None:
        self.skips.update(other.skips)
        self.reruns += other.reruns

    def lines(self) -> list[str]:
        """None for a run that left nothing out."""
        skipped = [f"  {count:5,}  {reason}" for reason, count in self.skips.most_common()]
        rerun = [f"  {name}" for name in sorted(self.reruns)]
        return [
            *(["skipped, by reason:"] * bool(skipped) + skipped),
            *(["rerun, each a defect whose cause is to be found:"] * bool(rerun) + rerun),
        ]


def reason_of(report: pytest.TestReport) -> str:
    """The reason of a skip, as far as tests share it: without what follows a colon, such as the
    name of a file.
    """
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ").partition(": ")[0]


def error_of(report: pytest.TestReport) -> str:
    """The first line of what pytest says of the error."""
    lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return (lines[0] if lines else report.longreprtext.strip().rpartition("\n")[2])[:_MOST]


_of_run = pytest.StashKey[LeftOut]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Keeps the reports of the run, which pytest forgets before its last line."""
    stats = terminalreporter.stats
    terminalreporter.config.stash[_of_run] = LeftOut.of(
        stats.get("skipped", ()), stats.get("rerun", ())
    )


def of_run(config: pytest.Config) -> LeftOut:
    """What the run of this process left out: nothing in a process that does not print (of
    pytest-xdist).
    """
    return config.stash.get(_of_run, LeftOut())


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Prints below pytest's own last line."""
    for line in of_run(config).lines():
        print(line)
