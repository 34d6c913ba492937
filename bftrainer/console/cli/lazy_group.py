"""A click group whose commands are imported when they are called: ``bftrainer --help`` stays
fast.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from itertools import takewhile
from typing import Any

import click
from click.shell_completion import CompletionItem

from bftrainer.console.cli.command_table import CommandEntry, CommandTable, joined_tables
from bftrainer.console.cli.output import say
from bftrainer.console.cli.synonyms import SYNONYMS
from bftrainer.errors import UserError

SECTIONS = ("Pilot", "Trainings", "Replay", "Tools")
"""The order of the headings in ``bftrainer --help``; those of other packages follow by name."""
_SIMILAR = 0.75
"""The least similarity of a suggestion, 0 to 1: two letters of four may be exchanged (`lsit`), but
`scale` is no `scancel`."""


class Commands:
    """Finds a command by its path, among bftrainer's ``own`` and those of other packages.

    Other packages are only searched for a path that is not in ``own``, since that takes time.
    """

    def __init__(self, own: CommandTable) -> None:
        self._own = own
        self._all: CommandTable | None = None

    def all_entries(self) -> CommandTable:
        """Return own and contributed entries; a table that cannot be read is a warning on stderr,
        once.
        """
        if self._all is None:
            self._all = joined_tables(
                self._own, lambda text: say(f"bftrainer: warning: {text}", err=True)
            )
        return self._all

    def find(self, path: str) -> CommandEntry | None:
        """Return the entry of a path; None if there is none."""
        for entry in self._own:
            if entry.path == path:
                return entry
        return next((entry for entry in self.all_entries() if entry.path == path), None)

    def entries_of_group(self, parent: str) -> list[CommandEntry]:
        """Return the entries of a group, in the order of the tables; ``parent`` is its path, empty
        at the top level.
        """
        return [entry for entry in self.all_entries() if entry.parent == parent]


class LazyGroup(click.Group):
    """The click group at ``path`` of ``commands``; it imports a command when it is called."""

    def __init__(self, *args: Any, commands: Commands, path: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = commands
        self._path = path

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order of the tables."""
        return [entry.name for entry in self._table.entries_of_group(self._path)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command of this group and return it; None if there is none of this name."""
        entry = self._table.find(f"{self._path} {name}".strip())
        if entry is None:
            return None
        if entry.target is None:  # a group
            return LazyGroup(name, help=entry.help, commands=self._table, path=entry.path)
        return _imported_command(entry, entry.target)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the named command; for an unknown name, the error suggests the nearest command of
        any group.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = self._similar_command(args[0]) or f"See `{ctx.command_path} --help`."
            # click 8.2 and later suggest from this group only.
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx) from error

    def _similar_command(self, word: str) -> str | None:
        """Return a suggestion for a word that is no command; None if no name is similar.

        It names a command of that name in any group, one that other systems call so, or one with a
        similar name.
        """
        # Of several commands of one name, the last one remains: one of this group, else one of the
        # top level, else one of another group.
        entries = sorted(
            self._table.all_entries(),
            key=lambda entry: (entry.parent == self._path, not entry.parent),
        )
        paths = {entry.name: entry.path for entry in entries}
        # A command of a package that is not installed is not suggested.
        installed_paths = {"", *(entry.path for entry in entries)}
        synonyms = {
            synonym: paths.get(target, target)
            for synonym, target in SYNONYMS.items()
            if _command_of(target) in installed_paths
        }
        name = _similar_name(word.lower(), paths, synonyms)
        if name is None:
            return None
        # Both may have the name: other systems say `run` for `submit`, and `replay run` exists.
        suggestions = [table[name] for table in (synonyms, paths) if name in table]
        return f"Did you mean {' or '.join(f'`bftrainer {path}`' for path in suggestions)}?"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them, by section at the top level."""
        entries = self._table.entries_of_group(self._path)
        width = max((len(entry.name) for entry in entries), default=0)
        for title, section in self._sections_of_help(entries):
            with formatter.section(title):
                formatter.write_dl([(entry.name.ljust(width), entry.help) for entry in section])

    def _sections_of_help(
        self, entries: list[CommandEntry]
    ) -> Iterable[tuple[str, list[CommandEntry]]]:
        """Return the entries by section, with its title; only the top level has several."""
        if self._path:
            return [("Commands", entries)]
        by_section: dict[str, list[CommandEntry]] = {section: [] for section in SECTIONS}
        for entry in sorted(entries, key=lambda entry: entry.section):
            by_section.setdefault(entry.section, []).append(entry)
        return [(title, section) for title, section in by_section.items() if section]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a name from the tables, so that the shell does not wait for imports."""
        names = [
            CompletionItem(entry.name, help=entry.help)
            for entry in self._table.entries_of_group(self._path)
            if entry.name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def _similar_name(word: str, paths: Iterable[str], synonyms: Iterable[str]) -> str | None:
    """Return the name of a command, or the synonym, that is like a word; None if none is.

    The word itself comes first, then similar names of commands, then similar synonyms.
    """
    if word in {*paths, *synonyms}:
        return word
    for names in (paths, synonyms):
        matches = difflib.get_close_matches(word, list(names), 1, _SIMILAR)
        if matches:
            return matches[0]
    return None


def _command_of(target: str) -> str:
    """Return the command in a suggestion, without its options; empty for options of ``bftrainer``
    itself.
    """
    words = takewhile(lambda word: not word.startswith("-"), target.split())
    return " ".join(words)


def _imported_command(entry: CommandEntry, target: str) -> click.Command:
    """Import a command. Raises ``UserError`` if its module or the command in it is broken."""
    module, _, attribute = target.partition(":")
    try:
        command = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"command {entry.path!r} cannot be loaded from {target}: {error}"
        ) from error
    if not isinstance(command, click.Command):
        raise UserError(
            f"command {entry.path!r}: {target} is {type(command).__name__}, expected a click "
            "command"
        )
    return command
