"""TOML into typed, frozen models. An error is one line: the file, the key, what was found.

pydantic validates; its errors are reworded. The error for an unknown key lists the valid keys and
the nearest one.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path, PurePath
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from bftrainer.errors import InputFileError, InvalidValueError, UnknownNameError

MOST_BYTES = 1 << 18
MOST_DEPTH = 16
"""Brackets within brackets. Our files need three."""
MOST_NAMES = 8
"""Names of one dotted key or table. Our files need three; the TOML reader keeps every prefix of
every one.
"""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LARGEST = 1 << 63
_MARK = re.compile(r'"""|\'\'\'|["\'#\[\]{}.\n=,]')
_ENDS = {
    "#": re.compile(r"\n"),
    '"': re.compile(r'\\.|["\n]'),
    "'": re.compile(r"['\n]"),
    '"""': re.compile(r'\\.|"""', re.DOTALL),
    "'''": re.compile(r"'''"),
}
"""What ends a comment or string that begins so, or is to be skipped in it."""


class ConfigTable(BaseModel):
    """A TOML table: unknown keys are errors, values are not converted from text, the result is
    frozen.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )

    @model_validator(mode="after")
    def _without_nul(self) -> ConfigTable:
        """Reject text and paths with a NUL character: no program, path or variable can have one,
        and what would be started with it fails much later.
        """
        for key, value in self.__dict__.items():
            if _has_nul(value):
                raise InvalidValueError(f"{key}: has a NUL character, expected text")
        return self


def _has_nul(value: object) -> bool:
    """Whether a text, a path or any of them within a collection has a NUL character."""
    if isinstance(value, (str, PurePath)):
        return "\0" in str(value)
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    return isinstance(value, (tuple, list)) and any(map(_has_nul, value))


_Model = TypeVar("_Model", bound=ConfigTable)


def read_toml(path: Path, model: type[_Model]) -> _Model:
    """Read and validate a TOML file. Raises :class:`InputFileError` with the file and the line or
    key.
    """
    return check_table(load_toml(path), model, str(path))


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file without validating its keys. Raises :class:`InputFileError` with the file
    and line.
    """
    return parse_toml(read_text(path, MOST_BYTES), str(path))


def _is_of_shell(path: Path) -> bool:
    """Whether a path is a pipe of the shell's ``<(...)``, or standard input: somebody writes to
    it.
    """
    return path.parent in (Path("/dev/fd"), Path("/proc/self/fd")) or path == Path("/dev/stdin")


def refuse_pipe(path: Path) -> None:
    """Refuse a named pipe, whose reader might wait forever. Raises :class:`InputFileError`."""
    if path.is_fifo() and not _is_of_shell(path):
        raise InputFileError(str(path), "is a named pipe, expected a file")


def read_text(path: Path, most_bytes: int) -> str:
    """Return the text of a UTF-8 file of ``most_bytes`` at most. Raises :class:`InputFileError` for
    a larger file, and for one that cannot be read.
    """
    try:
        refuse_pipe(path)
        with path.open("rb") as file:  # a bounded part, also of a file that has no end
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    if len(data) > most_bytes:
        raise InputFileError(
            str(path), f"has more than {most_bytes:,} bytes, expected a smaller file"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputFileError(
            str(path), f"is not text in UTF-8 ({error.reason} at byte {error.start})"
        ) from error


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML text without validating its keys. Raises :class:`InputFileError`, which names
    ``where``.

    The only way in for TOML: what would exhaust the parser's stack, memory or time is refused
    before it is parsed.
    """
    if len(text) > MOST_BYTES:
        raise InputFileError(where, f"has more than {MOST_BYTES:,} characters, expected fewer")
    _check_nesting(text, where)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputFileError(where, f"is not TOML: {_without_middle(str(error))}") from error
    except (
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        # tomllib passes on what int() and datetime() raise.
        raise InputFileError(where, f"is not TOML: {_without_middle(str(error))}") from error
    _check_numbers(table, where)
    return table


def _check_nesting(text: str, where: str) -> None:
    """Raise :class:`InputFileError` for too many brackets within brackets or names in a dotted key,
    outside of comments and strings. One pass over the text.
    """
    position = 0
    depth = 0
    name_count = 1
    while match := _MARK.search(text, position):
        mark = match[0]
        position = match.end()
        if (end_pattern := _ENDS.get(mark)) is not None:  # skip the comment or string
            end = end_pattern.search(text, position)
            while end is not None and end[0][0] == "\\":  # an escaped character
                position = end.end()
                end = end_pattern.search(text, position)
            if end is None or (end[0] != mark and mark != "#"):
                return  # the parser does not come further either
            # The line break after a comment is a mark of its own.
            position = end.end() if end[0] == mark else end.start()
            continue
        if mark in "[{":
            depth += 1
        elif mark in "]}" and depth > 0:
            depth -= 1
        name_count = name_count + 1 if mark == "." else 1
        limit = ""
        if depth > MOST_DEPTH:
            limit = f"{MOST_DEPTH} levels of brackets"
        elif name_count > MOST_NAMES:
            limit = f"{MOST_NAMES} names in a dotted key"
        if limit:
            line = text.count("\n", 0, position) + 1
            raise InputFileError(
                f"{where}:{line}", f"is nested too deeply, expected at most {limit}"
            )


def _check_numbers(table: dict[str, Any], where: str) -> None:
    """Raise :class:`InputFileError` for an integer of more than 64 bits, which TOML does not allow;
    one of thousands of digits cannot even be printed.
    """
    rest: list[tuple[str, Any]] = [("", table)]
    while rest:
        key, value = rest.pop()
        if isinstance(value, dict):
            prefix = f"{key}." if key else ""
            rest += [(f"{prefix}{name:.60}", item) for name, item in value.items()]
        elif isinstance(value, list):
            rest += [(key, item) for item in value]
        elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
            raise InputFileError(f"{where}: {key}", "is not a 64-bit integer")


def _without_middle(text: str) -> str:
    """Return the text, without its middle if it is long: messages quote what was found, whatever it
    is.
    """
    return text if len(text) <= 200 else f"{text[:120]} ... {text[-60:]}"


def check_table(table: dict[str, Any], model: type[_Model], where: str) -> _Model:
    """Validate a table that came from ``where`` (a file or the command line). TOML lists become
    tuples. Raises :class:`InputFileError` with ``where`` and the key.
    """
    try:
        data = _as_json(table)
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputFileError(
            where, f"has a value that is too large or nested too deeply ({error})"
        ) from error
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise _input_error(error, model, where) from error


def _as_json(table: dict[str, Any]) -> bytes:
    """Return a table as JSON, since only from JSON does strict pydantic accept a list for a tuple
    or a string for an enum. Only dates are lost.
    """
    return json.dumps(table, default=str).encode()


def _input_error(error: ValidationError, model: type[BaseModel], where: str) -> InputFileError:
    """Reword the first problem of a table in one line, and count the others."""
    # A misspelt key is also a missing one; the misspelling says more.
    problems = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    first = problems[0]
    keys = [_without_middle(str(part)) for part in first["loc"]]
    location = f"{where}: {'.'.join(keys)}" if keys else where
    cause = first.get("ctx", {}).get("error")
    if first["type"] == "extra_forbidden":
        table = _model_at(model, keys[:-1])
        location = f"{where}: {'.'.join(keys[:-1])}" if keys[:-1] else where
        text = str(UnknownNameError("key", keys[-1], [] if table is None else table.model_fields))
    elif first["type"] == "missing":
        text = "is missing"
    elif isinstance(cause, ValueError):
        text = str(cause)
    else:
        message = first["msg"]
        # A limit between 0 and 1 stands for the smallest number that is not absurd.
        if first["type"] == "greater_than_equal" and 0 < first["ctx"]["ge"] < 1:
            message = f"input should be greater than 0 (at least {first['ctx']['ge']:g})"
        text = f"{message[0].lower()}{message[1:]}, got {first['input']!r:.60}"
    if len(problems) > 1:
        text += f" (and {len(problems) - 1} more)"
    return InputFileError(location, text)


def _model_at(model: type[BaseModel], keys: list[str]) -> type[BaseModel] | None:
    """Return the model of the table at a path of keys; None if something else is there."""
    for key in keys:
        field = model.model_fields.get(key)
        if field is None:
            continue  # an index, or a union's name
        annotations = (field.annotation, *getattr(field.annotation, "__args__", ()))
        models = [annotation for annotation in annotations if _is_model(annotation)]
        if not models:
            return None
        model = models[0]
    return model


def _is_model(annotation: object) -> bool:
    """Whether an annotation is a table of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def as_toml(value: object) -> str:
    """Return a value as it is written in TOML."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case tuple() | list():
            return f"[{', '.join(as_toml(item) for item in value)}]"
        case _:
            text = str(value).replace("\\", "\\\\").replace('"', '\\"')
            return f'"{_CONTROL.sub(_escaped, text)}"'


def _escaped(control: re.Match[str]) -> str:
    """Return a control character as TOML has it in a text."""
    return f"\\u{ord(control[0]):04x}"
