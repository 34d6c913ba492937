"""The job script of a pilot with the options of a site: the installed script, whose directives
(``#SBATCH``, ``#BSUB``, ``#PBS``) are replaced.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from bftrainer.cluster.pilot_submission import PilotJobWishes, PilotScript
from bftrainer.errors import UserError
from bftrainer.system.installed import Installed, installed_file

LIMIT_S = 86_400.0
"""The time limit of a pilot's job where the site allows that much; a successor follows."""
_WRITTEN = "# Written by `bftrainer pilot --submit`, which replaces this file at the next call."
_WORD = re.compile(r"[A-Za-z0-9_.,:@+/=-]+")
_START = "set -uo pipefail"
_MAX_BYTES = 1 << 18


def script_of(
    name: str,
    directive: str,
    options: Mapping[str, str],
    state_dir: Path,
    wishes: PilotJobWishes,
    reasons: tuple[str, ...] = (),
) -> PilotScript:
    """Return the pilot's job script, the file ``name``, with its options set.

    Args:
        name: The file name of the installed script, and of the result in the state directory.
        directive: How a line of options begins, such as ``#SBATCH``.
        options: The text of each option by its flag, such as ``--time`` and ``--time=1:00:00``.
        state_dir: The state directory; the user's own script there is returned as it is.
        wishes: What the user asked for. A script of their own has its own options.
        reasons: Why the options have their values.

    Raises ``UserError`` for a text that is no option of one line, and for ``wishes`` beside a
    script of the user's own.
    """
    own = state_dir / name
    if own.exists() and _WRITTEN not in (text := _read(own)):
        if wishes != PilotJobWishes():
            raise UserError(
                f"{own} is a script of your own; set the options there, or remove the file"
            )
        return PilotScript(name, text, (f"{own} is your own script, and is used as it is",))
    for option in options.values():
        if not all(_WORD.fullmatch(word) for word in option.split(" ")):
            raise UserError(f"{option!r} cannot stand in a job script; expected letters and digits")
    text = installed_file(Installed.JOBSCRIPT, name).read_text(encoding="utf-8")
    head, start, rest = text.partition(f"\n{_START}")
    kept = [line for line in head.split("\n") if not _sets(line, directive, options)]
    kept.insert(1, _WRITTEN)
    kept += [f"{directive} {option}" for option in options.values()]
    exports = [f"export BFTRAINER_STATE={shlex.quote(str(state_dir))}"]
    if (Path(sys.prefix) / "bin" / "bftrainer").is_file() and os.access(sys.prefix, os.X_OK):
        exports.append(f"export BFTRAINER_VENV={shlex.quote(sys.prefix)}")
    return PilotScript(name, "\n".join([*kept, "", *exports]) + start + rest, reasons)


def _read(script: Path) -> str:
    """Return the text of a script of the user. Raises ``UserError`` for what is no short text."""
    try:
        with script.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{script} cannot be read ({error}); expected a job script") from None
    if len(data) > _MAX_BYTES:
        raise UserError(f"{script} is larger than {_MAX_BYTES} bytes; expected a job script")
    return text


def _sets(line: str, directive: str, options: Mapping[str, str]) -> bool:
    """Return whether a line, or a comment of it, sets one of the options."""
    words = line.removeprefix("#" if line.startswith("##") else "")
    return any(
        re.match(rf"{directive} {re.escape(flag)}(?:[ =]|$)", words) is not None for flag in options
    )


def hours_minutes(seconds: float) -> str:
    """Return a time limit as ``HH:MM``, as LSF reads it."""
    hours, minutes = divmod(int(seconds // 60), 60)
    return f"{hours}:{minutes:02}"
