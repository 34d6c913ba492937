"""What a user should know of a trainer that runs, in one line: the column ``remark`` of ``bftrainer list``. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bftrainer.protocol.reports import DriverView, Ending

REPORTS_WITHIN_S = 60.0
NEVER_REPORTED = "has run for a minute without reporting progress, so its speed is not measured (docs/quickstart.md)"
_ERROR = re.compile(r"\s*(?:\[?rank ?\d+\]?:? *)?[\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b.*")


def remark(view: DriverView, now_s: float) -> str:
    """The remark on a running trainer; empty if there is none. ``now_s`` is by the host's clock, as the driver's lines are."""
    if view.on and not view.heard_s and now_s - view.said_s >= REPORTS_WITHIN_S:
        return NEVER_REPORTED
    if view.ending is Ending.FAILED and view.alive:  # it is being killed, or cannot be
        return view.reason
    if view.ranks_disagree:
        return disagreement_text(view.ranks_disagree)
    for key, problem in view.refused:
        return refused_text(key, problem)
    return ""


def disagreement_text(what: str) -> str:
    """Ranks that train different models: the result is worth nothing, though no process fails."""
    return f"training is wrong, {what} (docs/training.md)"


def refused_text(key: str, problem: str) -> str:
    """A value of the trainer's lines that is not used."""
    return f"report not used: {key}: {problem}"


def repeat_text(samples: float, lost_nodes: int) -> str:
    """Work that was not in the checkpoint from which a trainer resumes."""
    cause = f"lost {lost_nodes} node{'s' * (lost_nodes != 1)}" if lost_nodes else "restarted"
    return f"{cause}: {samples:,.0f} samples since the last checkpoint are repeated"


def last_words(tail: Sequence[str]) -> str:
    """The line of a log's end that says most: the last one that names an error, else the last one; empty without any."""
    lines = [line.strip() for line in tail if line.strip()]
    return next((line for line in reversed(lines) if _ERROR.fullmatch(line)), lines[-1] if lines else "")
