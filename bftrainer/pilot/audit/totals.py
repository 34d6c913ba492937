"""The audit's file: one line per comparison, each with the totals so far; and its reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bftrainer.system.json_tail import JsonTail
from bftrainer.wires.paths import older_part

AUDIT_LOG = "audit.jsonl"
"""The audit's file in a state directory. The audit's process writes it; the pilot and commands read
it.
"""
PROBLEMS = "audit"
"""The folder of a state directory with the problems on which a decision and the MILP differ."""
_LAST_BYTES = 1 << 16
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class AuditTotals:
    """How many answers of solvers were compared. ``skipped``: by the reason."""

    equal: int = 0
    differing: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """Answers with a proven optimum beside them."""
        return self.equal + self.differing

    def __str__(self) -> str:
        """``audited: 1,204 of 1,204 equal, 31 skipped: too large in 10 s``."""
        text = f"audited: {self.equal:,} of {self.compared:,} equal"
        for reason, count in sorted(self.skipped.items()):
            text += f", {count:,} skipped: {reason}"
        return text

    def plus_skipped(self, reason: str, count: int = 1) -> dict[str, int]:
        """Return the counts of skipped answers with ``count`` more for this ``reason``."""
        return {**self.skipped, reason: self.skipped.get(reason, 0) + count}

    def as_dict(self) -> dict[str, object]:
        """The totals as a JSON object, which :func:`totals_of` reads."""
        return {"equal": self.equal, "differing": self.differing, "skipped": dict(self.skipped)}


def totals_of(value: object) -> AuditTotals | None:
    """Return the totals in one line of the audit's file.

    ``value`` is what the line has as its totals; None is returned for anything else, as the file
    may be damaged.
    """
    if not isinstance(value, dict):
        return None
    equal, differing, skipped = (value.get(key) for key in ("equal", "differing", "skipped"))
    if not isinstance(skipped, dict) or len(skipped) > _MOST_REASONS:
        return None
    if not all(map(_is_count, (equal, differing, *skipped.values()))):
        return None
    # Cut, since the text comes from a file.
    by_reason = {str(reason)[:60]: count for reason, count in skipped.items()}
    return AuditTotals(int(equal or 0), int(differing or 0), by_reason)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def read_totals(state_dir: Path) -> AuditTotals | None:
    """Return the latest totals in the audit's file of a state directory; None where there has been
    no audit.

    The file may just have been rotated, so the older part is read as well.
    """
    path = state_dir / AUDIT_LOG
    for part in (path, older_part(path)):
        for line in reversed(_last_lines(part)):
            if (totals := totals_of(line.get("totals"))) is not None:
                return totals
    return None


def _last_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines in the last ``_LAST_BYTES`` of a file; none if it is missing."""
    tail = JsonTail(path)
    tail.skip(but_bytes=_LAST_BYTES)
    return tail.read()
