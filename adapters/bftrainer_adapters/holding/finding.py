"""One thing of a site, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SEE = "see docs/site-setup.md"


class Weight(Enum):
    """What a finding means for a pilot."""

    FINE = "fine"
    WARNING = "warning"
    """It works; the main queue may notice more than it has to."""
    ERROR = "error"
    """A pilot would not work, or would hold nodes that others want."""


@dataclass(frozen=True, slots=True)
class SiteFinding:
    """One thing of a site: what was found, and in one line what to do about it."""

    name: str
    weight: Weight
    detail: str
    remedy: str = ""
