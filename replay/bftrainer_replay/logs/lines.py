"""A log file line by line, with limits that no damaged or hostile file exceeds."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer_replay.limited_file import DAMAGE, OnBytes
from bftrainer_replay.text_files import open_bytes

LONGEST_LINE = 32 * 1024 * 1024
"""Limit in characters. A job on all cores of the largest machine takes less, even with a name for
each core.
"""


class Lines:
    """Reads text files, one after another, and yields (line number, text without its line end).

    Only the fields that an importer uses must be clean: job names in Latin-1 are common, so bytes
    that are not UTF-8 become surrogates, which no time, number or node name may contain. After the
    last line, ``cut`` tells whether its line end is missing. ``max_bytes`` is the limit of the
    content. ``more`` are files that are read after ``path``; the attribute ``path`` is the file
    that is being read. ``on_bytes`` is called with the numbers of bytes read from all files.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int | None = None,
        more: Sequence[Path] = (),
        on_bytes: OnBytes | None = None,
    ) -> None:
        """Prepare to read ``path`` and then the files ``more``; nothing is opened yet."""
        self.path = path
        self._paths = (path, *more)
        self._max_bytes = max_bytes
        self._on_bytes = on_bytes
        self.cut = False

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, line in self.pieces(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise InputFileError(
                    f"{self.path}:{number}", f"is longer than {LONGEST_LINE:,} characters"
                )
            yield number, line.rstrip("\r\n")

    def pieces(self, longest: int) -> Iterator[tuple[int, str]]:
        """Yield (line number, text) of lines with their ends, cut into pieces of at most
        ``longest`` characters.
        """
        for path in self._paths:
            self.path = path
            yield from self._line_pieces(longest)

    def _line_pieces(self, longest: int) -> Iterator[tuple[int, str]]:
        """Yield (line number, text) of one file, cut into pieces of at most ``longest``
        characters.
        """
        number, is_new_line = 0, True
        with open_bytes(self.path, self._max_bytes, self._on_bytes) as raw:
            file = io.TextIOWrapper(
                raw, encoding="utf-8-sig", errors="surrogateescape", newline="\n"
            )
            while True:
                try:
                    line = file.readline(longest)
                except (*DAMAGE, OSError) as error:
                    problem = (
                        f"is damaged or truncated after this line ({error}); expected a "
                        "complete file"
                    )
                    raise InputFileError(f"{self.path}:{number}", problem) from error
                if not line:
                    return
                # A long line comes in several pieces, of which the first one counts.
                number += is_new_line
                is_new_line = line.endswith("\n")
                self.cut = not is_new_line
                yield number, line
