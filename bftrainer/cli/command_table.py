"""What the command line knows of a command before it imports it.

A package contributes commands by an entry point of the group ``bftrainer.commands`` that names a tuple of
:class:`CommandEntry`::

    [project.entry-points."bftrainer.commands"]
    my-package = "my_package.commands:TABLE"

``bftrainer --help`` imports the module of that table, and nothing that the table only names: keep it light.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

COMMAND_GROUP = "bftrainer.commands"
_PATH = re.compile(r"[a-z][a-z0-9-]*( [a-z][a-z0-9-]*)*")


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command, or one group of commands.

    ``path`` is what follows ``bftrainer`` ("replay run"), ``target`` the ``module:attribute`` of the click command; a group
    has none. ``help`` is the line in the list of commands, ``section`` its heading there (commands of the top level only).
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


def contributed(own: CommandTable, warn: Callable[[str], None]) -> CommandTable:
    """``own`` and the tables of all installed packages; what is wrong with a table costs its commands and a warning."""
    found = {entry.path: entry for entry in own}
    points = sorted(entry_points(group=COMMAND_GROUP), key=lambda point: (point.name, point.value))
    tables = [(point.name, _load(point, warn)) for point in points]
    for name, entry in _groups_first((name, entry) for name, table in tables for entry in table):
        parent = found.get(entry.parent)
        if entry.path in found:
            warn(f"command {entry.path!r} of {name!r} is skipped: another package has that name")
        elif entry.parent and (parent is None or parent.target is not None):
            warn(f"command {entry.path!r} of {name!r} is skipped: there is no group {entry.parent!r}")
        else:
            found[entry.path] = entry
    return tuple(found.values())


def _load(point: EntryPoint, warn: Callable[[str], None]) -> CommandTable:
    try:
        return _checked(point.load())
    except Exception as error:  # another package's module: whatever it raises, all other commands work
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        warn(f"the commands of {point.name!r} are not available: cannot load {point.value} ({reason})")
        return ()


def _checked(table: object) -> CommandTable:
    if not isinstance(table, tuple) or not all(isinstance(entry, CommandEntry) for entry in table):
        raise TypeError(f"expected a tuple of CommandEntry, got {table!r:.60}")
    for entry in table:
        if not _PATH.fullmatch(entry.path):
            raise ValueError(f"{entry.path!r} is not a command, expected lower-case words like 'replay run'")
        if entry.target is not None and not all(entry.target.partition(":")):
            raise ValueError(f"{entry.path!r}: target {entry.target!r}, expected 'module:attribute'")
    return table


def _groups_first(entries: Iterable[tuple[str, CommandEntry]]) -> list[tuple[str, CommandEntry]]:
    """A package may add to the group of another, in whatever order their tables are read."""
    return sorted(entries, key=lambda each: (each[1].target is not None, each[1].path.count(" ")))
