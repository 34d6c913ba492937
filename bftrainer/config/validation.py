"""TOML into typed, frozen models. An error is one line: the file, the key, what was found.

pydantic validates; its errors are reworded. The error for an unknown key lists the valid keys and the nearest one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bftrainer.errors import InputFileError, UnknownNameError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_FILE_BYTES = 1 << 20


class ConfigTable(BaseModel):
    """A TOML table: unknown keys are errors, values are not converted from text, the result is frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


_Model = TypeVar("_Model", bound=ConfigTable)


def read_toml(path: Path, model: type[_Model]) -> _Model:
    """Read and validate a file. Raises :class:`InputFileError` with the file and the line or key."""
    return check_table(load_toml(path), model, str(path))


def load_toml(path: Path) -> dict[str, Any]:
    """A TOML file, not yet validated. Raises :class:`InputFileError` with the file and line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    if len(data) > _MAX_FILE_BYTES:
        raise InputFileError(str(path), f"has {len(data):,} bytes, expected at most {_MAX_FILE_BYTES:,}")
    try:
        return parse_toml(data.decode(), str(path))
    except UnicodeDecodeError as error:
        raise InputFileError(str(path), f"is not text in UTF-8 ({error.reason} at byte {error.start})") from error


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """TOML text, not yet validated. Raises :class:`InputFileError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputFileError(where, f"is not TOML: {error}") from error


def check_table(table: dict[str, Any], model: type[_Model], where: str) -> _Model:
    """Validate a table that came from ``where`` (a file or the command line). TOML lists become tuples."""
    try:
        return model.model_validate_json(_as_json(table))
    except ValidationError as error:
        raise _input_error(error, model, where) from error


def _as_json(table: dict[str, Any]) -> bytes:
    """Strict pydantic accepts a list for a tuple or a string for an enum only from JSON. Only dates are lost."""
    return json.dumps(table, default=str).encode()


def _input_error(error: ValidationError, model: type[BaseModel], where: str) -> InputFileError:
    # A misspelt key is also a missing one; the misspelling says more.
    found = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    first = found[0]
    keys = [str(part) for part in first["loc"]]
    at = f"{where}: {'.'.join(keys)}" if keys else where
    cause = first.get("ctx", {}).get("error")
    if first["type"] == "extra_forbidden":
        table = _model_at(model, keys[:-1])
        at = f"{where}: {'.'.join(keys[:-1])}" if keys[:-1] else where
        text = str(UnknownNameError("key", keys[-1], [] if table is None else table.model_fields))
    elif first["type"] == "missing":
        text = "is missing"
    elif isinstance(cause, ValueError):
        text = str(cause)
    else:
        message = first["msg"]
        text = f"{message[0].lower()}{message[1:]}, got {first['input']!r:.60}"
    if len(found) > 1:
        text += f" (and {len(found) - 1} more)"
    return InputFileError(at, text)


def _model_at(model: type[BaseModel], keys: list[str]) -> type[BaseModel] | None:
    """The table at a path of keys, or None if something else is there."""
    for key in keys:
        field = model.model_fields.get(key)
        if field is None:
            continue  # an index, or a union's name
        inner = [t for t in (field.annotation, *getattr(field.annotation, "__args__", ())) if _is_model(t)]
        if not inner:
            return None
        model = inner[0]
    return model


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
