"""JSON objects from and to frozen dataclasses: the fields' types say what is accepted, their
defaults what may be missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from bftrainer.errors import InputFileError
from bftrainer.system.regular import read_regular
from bftrainer.wires import VERSION
from bftrainer.wires.bounds import RefusedValueError, bounded_integer, number, value_text

T = TypeVar("T")
_Check = Callable[[Any, str], Any]
_NONE_TYPE = type(None)
_PLAIN: dict[object, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
}

_fields_by_kind: dict[type[Any], tuple[tuple[str, _Check, bool], ...]] = {}
"""Results of :func:`_fields_of`, by dataclass."""


class OtherVersionError(InputFileError):
    """The file was written by a bftrainer that uses another version of the trainer directory."""


def read_json(kind: type[T], path: Path) -> T:
    """Read the message of type ``kind`` in ``path``. Raises :class:`InputFileError` with file and
    key, and :class:`OtherVersionError`, before the keys are checked, if another version of
    bftrainer wrote it.
    """
    content = read_object(path)
    version = content.get("version")
    if version is None:
        raise InputFileError(f"{path}: version", "missing")
    if version != VERSION:
        raise OtherVersionError(
            f"{path}: version",
            f"expected {VERSION}, found {value_text(version)}; "
            "another version of bftrainer wrote this "
            "file: install the same one for the pilot and for the script",
        )
    return from_fields(kind, content, str(path))


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in ``path``, whatever version of bftrainer wrote it. Never waits, and
    reads a bounded part. Raises :class:`InputFileError`.
    """
    try:
        content = json.loads(read_regular(path))
    except OSError as error:
        raise InputFileError(str(path), error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise InputFileError(str(path), str(error)) from error
    except ValueError as error:
        raise InputFileError(str(path), f"not JSON: {error}") from error
    except RecursionError as error:
        raise InputFileError(str(path), "not JSON: nested too deeply") from error
    if not isinstance(content, dict):
        raise InputFileError(str(path), f"expected an object, found {value_text(content)}")
    return content


def write_json(path: Path, message: Any, mode: int = 0o666) -> None:
    """Write a message to ``path`` by atomic rename, with the version of the trainer directory."""
    # Training scripts write no messages and need no tempfile.
    from bftrainer.system.files import (
        write_atomically,
    )

    value = {"version": VERSION, **to_fields(message)}
    write_atomically(path, json.dumps(value, default=_json_value).encode(), mode)


def from_fields(kind: type[T], content: Mapping[str, Any], where: str) -> T:
    """Build a dataclass from an object's keys; unknown keys are ignored. Raises
    :class:`InputFileError` (``where: key``) for a missing key or a wrong value.
    """
    values: dict[str, Any] = {}
    for name, check, is_required in _fields_of(kind):
        value = content.get(name)
        if value is not None:
            values[name] = check(value, f"{where}: {name}")
        elif is_required:
            raise InputFileError(f"{where}: {name}", "missing")
    return kind(**values)


def to_fields(message: Any) -> dict[str, Any]:
    """Return the fields of a message by name."""
    return {name: getattr(message, name) for name, _, _ in _fields_of(type(message))}


def _json_value(value: Any) -> object:
    """Convert a value that JSON has no type for, an enum or a path."""
    return value.value if isinstance(value, Enum) else str(value)


def _fields_of(kind: type[Any]) -> tuple[tuple[str, _Check, bool], ...]:
    """Return, for each field of a dataclass, its name, the check of its values, and whether it must
    be given.
    """
    if kind not in _fields_by_kind:
        hints = get_type_hints(kind)
        _fields_by_kind[kind] = tuple(
            (
                item.name,
                _check_of(hints[item.name]),
                item.default is MISSING and item.default_factory is MISSING,
            )
            for item in fields(kind)
        )
    return _fields_by_kind[kind]


def _check_of(hint: Any) -> _Check:
    """Return the function that checks a field's values and converts them to the field's type,
    ``hint``. Raises ``TypeError`` for a type that messages do not have.

    Of an optional field, only values that are not None are checked.
    """
    if _NONE_TYPE in get_args(hint):
        (hint,) = [part for part in get_args(hint) if part is not _NONE_TYPE]
    if hint in _PLAIN:
        return lambda value, where: _of_type(value, *_PLAIN[hint], where)
    if hint is Path:
        return lambda value, where: Path(_of_type(value, *_PLAIN[str], where))
    if get_origin(hint) is tuple:
        return _integer_list if get_args(hint)[0] is int else _string_list
    if get_origin(hint) is Mapping:
        return _string_object
    if issubclass(hint, Enum):
        return lambda value, where: _enum_member(hint, value, where)
    raise TypeError(f"no JSON form of {hint}")


def _of_type(value: Any, types: tuple[type, ...], expected: str, where: str) -> Any:
    """Return ``value`` if it has one of the types, and a number if it is within bounds
    (:mod:`bftrainer.wires.bounds`). Raises :class:`InputFileError`.
    """
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise InputFileError(where, f"expected {expected}, found {value_text(value)}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return bounded_integer(value) if float not in types else number(value)
        except RefusedValueError as error:
            raise InputFileError(where, str(error)) from error
    return value


def _string_list(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise InputFileError(where, f"expected a list of strings, found {value_text(value)}")
    return tuple(value)


def _integer_list(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        raise InputFileError(where, f"expected a list of integers, found {value_text(value)}")
    return tuple(_of_type(item, *_PLAIN[int], where) for item in value)


def _string_object(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise InputFileError(where, f"expected an object of strings, found {value_text(value)}")
    return value


def _enum_member(kind: type[Enum], value: Any, where: str) -> Enum:
    try:
        return kind(value)
    except (ValueError, TypeError):
        words = " or ".join(repr(member.value) for member in kind)
        raise InputFileError(where, f"expected {words}, found {value_text(value)}") from None


def parameter_value(text: str) -> str | int | float | bool:
    """Convert the text of a parameter to the value that a tracker gets: ``3``, ``0.1`` and ``true``
    become a number or a truth value, all else stays text.
    """
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        return value if math.isfinite(value) else text
    return text
