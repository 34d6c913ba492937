"""The one builder of the tables that commands print.

Numbers, names and states never wrap, at any width. Where a table is wider than the terminal,
remarks go to lines of their own below their rows, text wraps at words, and the least important
columns are left out, with a note of their names. In a pipe nothing is left out or wrapped: a line
per row, unless COLUMNS is set.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate, chain, zip_longest

import click

from bftrainer.console.cli.output import say
from bftrainer.system.printable import printable

wide_option = click.option(
    "--wide", is_flag=True, help="Show all columns, also on a narrow terminal."
)
"""``--wide``, of commands whose tables may have more columns than a terminal is wide."""

_GAP = "  "
_LEAST_TEXT = 24
"""Text that wraps gets at least this width."""
_LEAST_WIDTH = 40
_LONGEST_NAME = 24
"""On a narrow terminal, a longer name at the beginning of a row has a line of its own."""
_REMARK_INDENT = " " * 4


class ColumnKind(Enum):
    """How the cells of a column are set."""

    NAME = "name"
    """To the left; never wraps."""
    NUMBER = "number"
    """To the right; never wraps."""
    TEXT = "text"
    """Wraps at words within its column. At most one column of a table, the last but for remarks."""
    REMARK = "remark"
    """Remarks: the last column if that fits, else on lines of their own below the row."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    ``rank``: on a narrow terminal the columns of the highest rank are left out first, those of rank
    0 never.
    """

    head: str
    kind: ColumnKind = ColumnKind.NAME
    rank: int = 0


def name_column(head: str, rank: int = 0) -> TableColumn:
    """A column of names, states or times."""
    return TableColumn(head, ColumnKind.NAME, rank)


def number_column(head: str, rank: int = 0) -> TableColumn:
    """A column of numbers."""
    return TableColumn(head, ColumnKind.NUMBER, rank)


def text_column(head: str) -> TableColumn:
    """The column of sentences."""
    return TableColumn(head, ColumnKind.TEXT)


def remark_column(head: str) -> TableColumn:
    """The column of remarks on the rows."""
    return TableColumn(head, ColumnKind.REMARK)


@dataclass(frozen=True, slots=True)
class TableText:
    """A table as lines of text.

    The first ``head_lines`` lines are its head. ``left_out`` has the heads of columns for which
    there was no room.
    """

    lines: tuple[str, ...]
    head_lines: int = 0
    left_out: tuple[str, ...] = ()
    row_ends: tuple[int, ...] = ()
    """For each row, the number of lines up to its end."""

    def row_of(self, line: int) -> int | None:
        """Return the index of the row that a line belongs to; None for a line of the head."""
        if self.head_lines and line <= self.head_lines:  # the rule is below the head
            return None
        return bisect_right(self.row_ends, line)


def show_table(
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[str]],
    *,
    wide: bool | None = None,
    colors: Sequence[str | None] = (),
) -> None:
    """Print a table at the width of the terminal.

    ``wide`` is the value of ``--wide``; None for a command that has no such option. ``colors``: the
    color of each row on a terminal, as click names it, or None; by default no row has one.
    """
    width = None if wide else output_width()
    table = table_text(columns, rows, width)
    for index, line in enumerate(table.lines):
        row = table.row_of(index)
        color = None if row is None or not colors else colors[row]
        is_head = index < table.head_lines
        say(line, bold=is_head, color=color, colored=len(line) * (is_head or color is not None))
    if table.left_out:
        remedy = "a wider terminal" if wide is None else "--wide"
        remark = (
            f"not shown at {width} columns: {', '.join(table.left_out)} "
            f"({remedy} shows all columns)"
        )
        say(hanging_indent("note: ", remark, width=width), err=True)


def show_facts(facts: Iterable[tuple[str, str]], title: str = "") -> None:
    """Print facts, a line each: a name and a text."""
    show_table((name_column(""), text_column(title)), list(facts))


def output_width() -> int | None:
    """Return the width of the terminal on stdout, or what COLUMNS says; None if the output is not a
    terminal.
    """
    has_columns = os.environ.get("COLUMNS", "").isdecimal() and os.environ["COLUMNS"].strip("0")
    if not has_columns and not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH)


def hanging_indent(
    first: str, rest: str, indent: int | None = None, width: int | None = None
) -> str:
    """Return ``first`` and the words of ``rest`` behind it, wrapped with a hanging indent.

    Further lines are indented by ``indent`` blanks, by default to the end of ``first``. The default
    of ``width`` is that of the output; in a pipe nothing is wrapped.
    """
    width = output_width() if width is None else width
    if width is None:
        return first + rest
    indent = len(first) if indent is None else indent
    return _wrapped_words(rest, max(width, indent + _LEAST_TEXT), first, " " * indent)


def say_paragraphs(text: str) -> None:
    """Print lines of prose, wrapped at the width of the output; a line that goes on is indented."""
    for line in text.splitlines():
        say(hanging_indent("", line, 2))


def table_text(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int | None
) -> TableText:
    """Return the table at a width; with None, as wide as it is.

    A table that is too wide is made narrower step by step. Control characters of cells are shown as
    escapes.
    """
    cells = tuple(tuple(map(printable, row)) for row in rows)
    grid = _Grid(tuple(columns), cells, width, frozenset())
    for narrower in (_remarks_below, _wrapped_heads, _long_names_alone):
        if grid.fits():
            break
        grid = narrower(grid)
    if not grid.fits():
        grid = _most_important(grid)
    head, body = list(grid.head()), [list(lines) for lines in grid.row_lines()]
    row_ends = accumulate(map(len, body), initial=len(head))
    lines = (*head, *chain.from_iterable(body))
    return TableText(lines, grid.head_lines(), grid.left_out, tuple(row_ends)[1:])


def _most_important(grid: _Grid) -> _Grid:
    """Hide the columns for which there is no room: those of rank 0 are kept in any case, then as
    many as fit, in the order of their ranks.
    """
    optional = [index for index, column in enumerate(grid.columns) if column.rank]
    hidden = set(optional)
    for index in sorted(optional, key=lambda index: grid.columns[index].rank):
        if grid.without(hidden - {index}).fits():
            hidden.remove(index)
    return grid.without(hidden)


@dataclass(frozen=True, slots=True)
class _Grid:
    """A table that is being made narrower; :func:`table_text` has the steps.

    A column is named by its index in ``columns``. The cells of the columns ``below`` stand on lines
    below their row; ``hidden`` columns are not shown. With ``wraps_heads``, a head has a line for
    each of its words. With ``longest_name``, a cell of column 0 that is longer stands on a line of
    its own.
    """

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    width: int | None
    below: frozenset[int]
    wraps_heads: bool = False
    longest_name: int | None = None
    hidden: frozenset[int] = frozenset()

    def without(self, indices: Set[int]) -> _Grid:
        """Return the table with these columns hidden, and no others."""
        return replace(self, hidden=frozenset(indices))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The heads of the columns that are not shown."""
        return tuple(self.columns[index].head for index in sorted(self.hidden))

    def inline_columns(self) -> list[int]:
        """Return the indices of the columns that stand beside each other."""
        return [
            index for index in range(len(self.columns)) if index not in self.below | self.hidden
        ]

    def natural_width(self, index: int) -> int:
        """Return the width that a column needs for its head and its cells, but for cells that stand
        on lines of their own.
        """
        column = [row[index] for row in self.rows]
        cells = [cell for cell in column if not self._is_alone(index, cell)]
        return max(
            [*map(_display_width, cells), *map(_display_width, self._head_lines(index))], default=0
        )

    def widths(self) -> dict[int, int]:
        """Return the width of each column in the line, by its index.

        On a terminal, the column of text gets what the others leave, but at least ``_LEAST_TEXT``.
        """
        widths = {index: self.natural_width(index) for index in self.inline_columns()}
        text_columns = [index for index in widths if self.columns[index].kind is ColumnKind.TEXT]
        if text_columns and self.width is not None:
            text = text_columns[0]
            others_width = sum(widths.values()) - widths[text] + len(_GAP) * (len(widths) - 1)
            widths[text] = min(widths[text], max(self.width - others_width, _LEAST_TEXT))
        return widths

    def fits(self) -> bool:
        """Whether no line is longer than the width."""
        if self.width is None:
            return True
        widths = self.widths()
        return sum(widths.values()) + len(_GAP) * (len(widths) - 1) <= self.width

    def head_lines(self) -> int:
        """The number of lines of the head, without the rule."""
        if not any(column.head for column in self.columns):
            return 0
        return max(len(self._head_lines(index)) for index in self.inline_columns())

    def head(self) -> Iterable[str]:
        """Yield the lines of the head, and the rule below it."""
        widths, head_count = self.widths(), self.head_lines()
        heads: dict[int, list[str]] = {}
        for index in widths:
            words = self._head_lines(index)
            # Short heads stand directly above the rule.
            heads[index] = [""] * (head_count - len(words)) + words
        for line_index in range(head_count):
            yield self._line({index: head[line_index] for index, head in heads.items()}, widths)
        if head_count:
            yield _GAP.join("-" * width for width in widths.values())

    def row_lines(self) -> Iterable[Iterable[str]]:
        """Yield the lines of each row."""
        widths = self.widths()
        for row in self.rows:
            yield self._row_lines(row, widths)

    def _row_lines(self, row: tuple[str, ...], widths: dict[int, int]) -> Iterable[str]:
        """Yield the lines of one row: a long name on a line of its own, the cells, of which text is
        wrapped, then the remarks.
        """
        cells = {index: row[index] for index in widths}
        if self._is_alone(0, row[0]):
            yield row[0]
            cells[0] = ""
        cell_lines = {
            index: self._cell_lines(index, cell, widths[index]) for index, cell in cells.items()
        }
        for texts in zip_longest(*cell_lines.values(), fillvalue=""):
            yield self._line(dict(zip(cell_lines, texts, strict=True)), widths)
        for index in sorted(self.below):
            if row[index]:
                yield from _wrapped_words(
                    row[index], self.width, _REMARK_INDENT, _REMARK_INDENT
                ).splitlines()

    def _cell_lines(self, index: int, cell: str, width: int) -> list[str]:
        """Return a cell as lines: several for a column of text, else one."""
        if self.columns[index].kind is not ColumnKind.TEXT or self.width is None:
            return [cell]
        return _wrapped_words(cell, width).splitlines() or [""]

    def _line(self, cells: dict[int, str], widths: dict[int, int]) -> str:
        return _GAP.join(
            self._aligned_cell(index, cell, widths[index]) for index, cell in cells.items()
        ).rstrip()

    def _aligned_cell(self, index: int, cell: str, width: int) -> str:
        blanks = " " * (width - _display_width(cell))
        return blanks + cell if self.columns[index].kind is ColumnKind.NUMBER else cell + blanks

    def _head_lines(self, index: int) -> list[str]:
        """Return the lines of a column's head."""
        head = self.columns[index].head
        return head.split() or [""] if self.wraps_heads else [head]

    def _is_alone(self, index: int, cell: str) -> bool:
        """Whether a cell is a name that stands on a line of its own."""
        return (
            index == 0
            and self.longest_name is not None
            and _display_width(cell) > self.longest_name
        )


def _remarks_below(grid: _Grid) -> _Grid:
    kinds = enumerate(column.kind for column in grid.columns)
    return replace(
        grid, below=frozenset(index for index, kind in kinds if kind is ColumnKind.REMARK)
    )


def _wrapped_heads(grid: _Grid) -> _Grid:
    return replace(grid, wraps_heads=True)


def _long_names_alone(grid: _Grid) -> _Grid:
    return (
        replace(grid, longest_name=_LONGEST_NAME)
        if grid.columns[0].kind is ColumnKind.NAME
        else grid
    )


def _wrapped_words(words: str, width: int | None, first: str = "", indent: str = "") -> str:
    """Wrap a text at words: a path or a name that is longer than the line stays whole, so that it
    can be copied.
    """
    return textwrap.fill(
        words,
        width or sys.maxsize,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _display_width(cell: str) -> int:
    """The columns of a terminal that a text takes."""
    from rich.cells import cell_len

    return cell_len(cell)
