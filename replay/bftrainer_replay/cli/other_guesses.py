"""How the headline of a report changes if the importer had guessed differently: the log is imported again, once per guess."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bftrainer.errors import UserError
from bftrainer_replay.cli.log_options import LogChoice, window_of

if TYPE_CHECKING:
    from bftrainer_replay.logs.model import LogWindow

_WARM_UP_H = 24.0
_DEBOUNCE_S = 60.0


def other_guesses(choice: LogChoice, window: LogWindow) -> dict[str, str]:
    """By option of the importer: the idle share with another value. Empty for event logs, in which nothing is guessed."""
    given = choice.importing
    if not any("a warm-up of" in remark for remark in window.remarks):
        return {}
    found = {}
    if window.outages and given.outages == ("auto",):
        found["--outage"] = _idle("--outage none", choice, outages=("none",))
    if given.warm_up_h is None:
        other_h = _WARM_UP_H if any("less a warm-up of 0.0 h" in remark for remark in window.remarks) else 0.0
        found["--warm-up-h"] = _idle(f"--warm-up-h {other_h:g}", choice, warm_up_h=other_h)
    if window.debounce_s and window.debounce_s != _DEBOUNCE_S:
        found["--debounce-s"] = _idle(f"--debounce-s {_DEBOUNCE_S:g}", choice, debounce_s=_DEBOUNCE_S)
    return {option: text for option, text in found.items() if text}


def _idle(words: str, choice: LogChoice, **changed: Any) -> str:
    """The idle share of the log imported with other options; empty if nothing is left of it."""
    from bftrainer_replay.analysis.fragments import pool_sizes_of

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the notes are those of the report's own import
            window = window_of(replace(choice, importing=replace(choice.importing, **changed)))
    except UserError:
        return ""
    return f"{words}: {pool_sizes_of(window).node_hours() / window.service_node_h:.1%} idle"
