"""The job script of a pilot with the options of a site: the installed script, whose directives
(``#SBATCH``, ``#BSUB``, ``#PBS``) are replaced.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

from bftrainer.cluster.pilot_submission import PilotJobWishes, PilotScript
from bftrainer.errors import UserError
from bftrainer.system.installed import Installed, installed_file
from bftrainer.system.regular import read_regular

LIMIT_S = 86_400.0
"""The time limit of a pilot's job where the site allows that much; a successor follows."""
_WRITTEN = (
    "# Written by `bftrainer pilot --submit`, which replaces this file unless you change it: "
)
"""Before the checksum of all other lines."""
_WORD = re.compile(r"[A-Za-z0-9_.,:@+/=-]+")
_START = "set -uo pipefail"
_MAX_BYTES = 1 << 18


def own_script(name: str, state_dir: Path, wishes: PilotJobWishes) -> PilotScript | None:
    """Return the user's own script ``name`` in the state directory, also one that was written here
    and changed since; None if there is none.

    Raises ``UserError`` for a file that is no script, and for ``wishes``: the script has its own
    options.
    """
    own = state_dir / name
    try:
        text = read_regular(own, _MAX_BYTES, follow_links=True).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{own} cannot be read ({error}); expected a job script") from None
    if _is_as_written(text):
        return None
    if wishes != PilotJobWishes():
        raise UserError(f"{own} is a script of your own; set the options there, or remove the file")
    reason = f"{own} is your own script, and is used as it is"
    return PilotScript(name, text, (reason,), is_own=True)


def script_of(
    name: str,
    directive: str,
    options: Mapping[str, str],
    state_dir: Path,
    reasons: tuple[str, ...] = (),
) -> PilotScript:
    """Return the pilot's job script, the file ``name``, with its options set.

    Args:
        name: The file name of the installed script, and of the result in the state directory.
        directive: How a line of options begins, such as ``#SBATCH``.
        options: The text of each option by its flag, such as ``--time`` and ``--time=1:00:00``.
        state_dir: The state directory.
        reasons: Why the options have their values.

    Raises ``UserError`` for a value that is not one word.
    """
    for flag, option in options.items():
        if not _WORD.fullmatch(option.removeprefix(flag).lstrip(" =")):
            raise UserError(
                f"{option!r} cannot stand in a job script; expected a value of letters and digits"
            )
    text = installed_file(Installed.JOBSCRIPT, name).read_text(encoding="utf-8")
    head, start, rest = text.partition(f"\n{_START}")
    kept = [line for line in head.split("\n") if not _sets(line, directive, options)]
    kept += [f"{directive} {option}" for option in options.values()]
    exports = [f"export BFTRAINER_STATE={shlex.quote(str(state_dir))}"]
    if (Path(sys.prefix) / "bin" / "bftrainer").is_file() and os.access(sys.prefix, os.X_OK):
        exports.append(f"export BFTRAINER_VENV={shlex.quote(sys.prefix)}")
    kept += ["", *exports]
    shebang, body = kept[0], "\n".join(kept[1:]) + start + rest
    return PilotScript(name, f"{shebang}\n{_WRITTEN}{_checksum(body)}\n{body}", reasons)


def _is_as_written(text: str) -> bool:
    """Return whether a script is one that was written here, and not changed since."""
    lines = text.split("\n", 2)
    return len(lines) == 3 and lines[1] == f"{_WRITTEN}{_checksum(lines[2])}"


def _checksum(body: str) -> str:
    """Return the checksum of a script without its first two lines."""
    return f"{zlib.crc32(body.encode()):08x}"


def _sets(line: str, directive: str, options: Mapping[str, str]) -> bool:
    """Return whether a line, or a comment of it, sets one of the options."""
    words = line.removeprefix("#" if line.startswith("##") else "")
    return any(
        re.match(rf"{directive} {re.escape(flag)}(?:[ =]|$)", words) is not None for flag in options
    )


def chosen_account(wishes: PilotJobWishes, holders: str) -> tuple[str, str]:
    """Return the account of a pilot's job and why: the user's choice, else the ``holders``'
    account. It is empty if there is none.
    """
    return (wishes.account, "as --account says") if wishes.account else (holders, "the holders'")


def hours_minutes(seconds: float) -> str:
    """Return a time limit as ``HH:MM``, as LSF reads it."""
    hours, minutes = divmod(int(seconds // 60), 60)
    return f"{hours}:{minutes:02}"
