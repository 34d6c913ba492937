"""A log file line by line, with limits that no damaged or hostile file exceeds."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer_replay.limited_file import DAMAGE
from bftrainer_replay.text_files import open_bytes

LONGEST_LINE = 32 * 1024 * 1024
"""Characters. A job on all cores of the largest machine, with each core named, needs less."""


class Lines:
    """Iterates over (line number, text without its line end).

    Only the fields that an importer uses must be clean: job names in Latin-1 are common, so bytes that are not UTF-8 become
    surrogates, which no time, number or node name may contain. After the last line, ``cut`` tells whether its line end is
    missing. ``most`` is the limit of the content in bytes. The files ``more`` follow; ``path`` is the one
    that is read.
    """

    def __init__(self, path: Path, most: int | None = None, more: Sequence[Path] = ()) -> None:
        self.path = path
        self._paths = (path, *more)
        self._most = most
        self.cut = False

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for path in self._paths:
            self.path = path
            yield from self._lines()

    def _lines(self) -> Iterator[tuple[int, str]]:
        number = 0
        with open_bytes(self.path, self._most) as raw:
            file = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="\n")
            while True:
                try:
                    line = file.readline(LONGEST_LINE + 1)
                except (*DAMAGE, OSError) as error:
                    problem = f"is damaged or truncated after this line ({error}); expected a complete file"
                    raise InputFileError(f"{self.path}:{number}", problem) from error
                if not line:
                    return
                number += 1
                if len(line) > LONGEST_LINE:
                    raise InputFileError(f"{self.path}:{number}", f"is longer than {LONGEST_LINE:,} characters")
                self.cut = not line.endswith("\n")
                yield number, line.rstrip("\r\n")
