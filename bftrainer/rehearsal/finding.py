"""One line of a rehearsal's verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckVerdict(Enum):
    """``CANNOT_TELL`` is no failure: it says what was not seen."""

    PASS = "pass"  # noqa: S105
    FAIL = "FAIL"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class RehearsalFinding:
    """What was checked, how it came out, what was seen, what to do."""

    check: str
    title: str
    verdict: CheckVerdict
    seen: str
    remedy: str = ""
