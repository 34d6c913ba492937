"""A command as the command line knows it before the import.

A package contributes commands by an entry point of the group ``bftrainer.commands`` that names a
tuple of :class:`CommandEntry`::

    [project.entry-points."bftrainer.commands"]
    my-package = "my_package.commands:TABLE"

``bftrainer --help`` imports the module of the table but not the commands, so the module should
import nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMAND_GROUP = "bftrainer.commands"
_PATH = re.compile(r"[a-z][a-z0-9-]*( [a-z][a-z0-9-]*)*")


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command, or one group of commands, in the table from which ``bftrainer`` finds them.

    ``path`` is the words after ``bftrainer`` ("replay run"), ``target`` the ``module:attribute`` of
    the click command; a group has none. ``help`` is the line in the list of commands, ``section``
    its heading there (commands of the top level only).
    """

    path: str
    target: str | None
    help: str
    section: str = "Tools"

    @property
    def parent(self) -> str:
        """The path of its group; empty at the top level."""
        return self.path.rpartition(" ")[0]

    @property
    def name(self) -> str:
        """The last word of its path."""
        return self.path.rpartition(" ")[2]


CommandTable = tuple[CommandEntry, ...]


def joined_tables(own: CommandTable, warn: Callable[[str], None]) -> CommandTable:
    """Return ``own`` joined with the tables of all installed packages.

    A broken table or entry is left out: ``warn`` is called with the reason.
    """
    # The import takes 20 ms, which a command of bftrainer itself does not spend.
    from importlib.metadata import entry_points

    commands = {entry.path: entry for entry in own}
    points = sorted(entry_points(group=COMMAND_GROUP), key=lambda point: (point.name, point.value))
    tables = [(point.name, _load_table(point, warn)) for point in points]
    candidates = [(name, entry) for name, table in tables for entry in table]
    # A package may add to the group of another, in whatever order their tables are read: entries
    # whose group is missing are tried again as long as commands are added.
    previous_count = 0
    while previous_count < len(commands):
        previous_count = len(commands)
        without_group = []
        for name, entry in candidates:
            if entry.parent and entry.parent not in commands:
                without_group.append((name, entry))
            elif entry.path in commands:
                warn(f"command {entry.path!r} of {name!r} is skipped: the name is taken")
            elif entry.parent and commands[entry.parent].target is not None:
                warn(
                    f"command {entry.path!r} of {name!r} is skipped: {entry.parent!r} is not a "
                    "group"
                )
            else:
                commands[entry.path] = entry
        candidates = without_group
    for name, entry in candidates:
        warn(f"command {entry.path!r} of {name!r} is skipped: there is no group {entry.parent!r}")
    return tuple(commands.values())


def _load_table(point: EntryPoint, warn: Callable[[str], None]) -> CommandTable:
    """Load the table of another package. A table that cannot be loaded counts as empty: ``warn`` is
    called with the reason.
    """
    try:
        return _valid_table(point.load())
    except Exception as error:
        # It is another package's module: whatever it raises, all other commands work.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        warn(
            f"the commands of {point.name!r} are not available: cannot load {point.value} "
            f"({reason})"
        )
        return ()


def _valid_table(table: object) -> CommandTable:
    """Return a table of another package, if it is one. Raises ``TypeError`` or ``ValueError``."""
    if not isinstance(table, tuple) or not all(isinstance(entry, CommandEntry) for entry in table):
        raise TypeError(f"expected a tuple of CommandEntry, got {table!r:.60}")
    for entry in table:
        if not _PATH.fullmatch(entry.path):
            raise ValueError(
                f"{entry.path!r} is not a command, expected lowercase words like 'replay run'"
            )
        if entry.target is not None and not all(entry.target.partition(":")):
            raise ValueError(
                f"{entry.path!r}: invalid target {entry.target!r}, expected 'module:attribute'"
            )
    return table
