"""The findings of a rehearsal, one per check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckVerdict(Enum):
    """The verdict of one check. ``CANNOT_TELL`` is not a failure: the rehearsal did not observe
    enough.
    """

    PASS = "pass"  # noqa: S105
    FAIL = "FAIL"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class RehearsalFinding:
    """The result of one check: its verdict, the observation (``seen``), and a remedy."""

    check: str
    title: str
    verdict: CheckVerdict
    seen: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class RehearsalCheck:
    """One check by its name in ``--json`` and its title in the table; its methods make its
    findings.
    """

    name: str
    title: str

    def passed(self, observation: str) -> RehearsalFinding:
        return RehearsalFinding(self.name, self.title, CheckVerdict.PASS, observation)

    def failed(self, observation: str, remedy: str) -> RehearsalFinding:
        return RehearsalFinding(self.name, self.title, CheckVerdict.FAIL, observation, remedy)

    def undecided(self, observation: str, remedy: str = "") -> RehearsalFinding:
        return RehearsalFinding(
            self.name, self.title, CheckVerdict.CANNOT_TELL, observation, remedy
        )
