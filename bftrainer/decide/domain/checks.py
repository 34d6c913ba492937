"""A finding of ``bftrainer doctor`` about one part of an installation or a site."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckStatus(Enum):
    """How one part is."""

    OK = "OK"
    MISSING = "MISSING"
    BROKEN = "BROKEN"
    """It does not work, or a pilot would hold nodes that the main queue wants."""
    WARNING = "WARNING"
    """It works, but not as well as it could; never required."""


@dataclass(frozen=True, slots=True)
class Check:
    """One part: its state, the finding and, unless all is well, a remedy. ``required`` parts decide
    the exit status.
    """

    name: str
    state: CheckStatus
    detail: str
    remedy: str = ""
    required: bool = True

    @classmethod
    def ok(cls, name: str, detail: str, *, required: bool = True) -> Check:
        return cls(name, CheckStatus.OK, detail, required=required)

    @classmethod
    def warning(cls, name: str, detail: str, remedy: str) -> Check:
        return cls(name, CheckStatus.WARNING, detail, remedy)

    @classmethod
    def broken(cls, name: str, detail: str, remedy: str = "", *, required: bool = True) -> Check:
        return cls(name, CheckStatus.BROKEN, detail, remedy, required)

    @property
    def is_required(self) -> bool:
        return self.required and self.state is not CheckStatus.WARNING

    @property
    def label(self) -> str:
        """The state as it is printed; a part that is missing or broken but not required is
        optional.
        """
        if self.required or self.state in (CheckStatus.OK, CheckStatus.WARNING):
            return self.state.value
        return f"{self.state.value} (optional)"
