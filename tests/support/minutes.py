"""Where the minutes of a test run go: real time and CPU time of its tests, by folder, and of the
ten slowest.

CPU time is that of the test process and of its ended children; daemons of a cluster that outlive a
test are not in it. A test with much more real than CPU time waits; with `-n` the others use the
time meanwhile.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass

import pytest

LEAST_S = 300.0
"""A shorter run prints nothing."""
SLOWEST = 10
CPU_S = "cpu_s"


def cpu_s() -> float:
    """Seconds of this process and of its ended children."""
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


_last = cpu_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the CPU time since the last report to each one: it travels with the report to xdist's
    controller.
    """
    global _last
    report = yield
    now = cpu_s()
    report.user_properties.append((CPU_S, now - _last))
    _last = now
    return report


@dataclass
class Spent:
    """Seconds."""

    real_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, other: Spent) -> None:
        self.real_s += other.real_s
        self.cpu_s += other.cpu_s


def _of(report: pytest.TestReport) -> float:
    return sum(
        value
        for name, value in report.user_properties
        if name == CPU_S and isinstance(value, float)
    )


def table(reports: list[pytest.TestReport]) -> list[str]:
    """The lines; none for a short run."""
    tests: dict[str, Spent] = defaultdict(Spent)
    for report in reports:
        tests[report.nodeid].add(Spent(report.duration, _of(report)))
    folders: dict[str, Spent] = defaultdict(Spent)
    counts: dict[str, int] = defaultdict(int)
    for name, spent in tests.items():
        folder = name.partition("::")[0].rpartition("/")[0]
        folders[folder].add(spent)
        counts[folder] += 1
    total = Spent()
    for spent in folders.values():
        total.add(spent)
    if total.real_s < LEAST_S:
        return []
    lines = [f"{'real min':>9} {'CPU min':>8} {'tests':>6}"]
    lines += [
        f"{spent.real_s / 60:9.1f} {spent.cpu_s / 60:8.1f} {count:6,}  {name}"
        for name, spent, count in [
            ("all, over all processes", total, len(tests)),
            *(
                (name, folders[name], counts[name])
                for name in sorted(folders, key=lambda it: -folders[it].real_s)
            ),
        ]
    ]
    lines += ["", f"{'real s':>9} {'CPU s':>8}"]
    slowest = sorted(tests, key=lambda it: -tests[it].real_s)[:SLOWEST]
    return lines + [
        f"{tests[name].real_s:9.1f} {tests[name].cpu_s:8.1f}         {name}" for name in slowest
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints them at the end of a long run."""
    every = [
        each
        for found in terminalreporter.stats.values()
        for each in found
        if isinstance(each, pytest.TestReport)
    ]
    if lines := table(every):
        terminalreporter.section("where the minutes go")
        terminalreporter.write("".join(f"{line}\n" for line in lines))
