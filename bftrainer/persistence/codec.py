"""Frozen values as JSON and back, exactly: what the journal keeps is what the loop had.

Numbers, text, None and booleans are themselves; a tuple is a list; a frozenset is ``{"$set": [...]}``, sorted; a frozen
dataclass is an object with its class under ``$``; an enum's member ``{"$enum": class, "name": ...}``; a mapping ``{"$map":
[[key, value], ...]}``. A policy's memory may be made of all of these. Classes of this package go by their short names in
the core's modules, others by ``module:name``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from typing import Any

from bftrainer import errors
from bftrainer.domain import events, model, problem, state
from bftrainer.domain import measurements as lessons
from bftrainer.errors import InvalidValueError

_PLAIN = frozenset({str, float, int, bool, type(None)})  # themselves
_SHORT: dict[str, type] = {
    name: value
    for module in (errors, events, lessons, model, problem, state)
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__ == module.__name__
}


def dumps(value: object) -> str:
    """The value as one line of JSON; raises :class:`InvalidValueError` for what is not frozen."""
    return json.dumps(_encode(value), separators=(",", ":"), ensure_ascii=False)


def loads(text: str) -> Any:
    """The value that :func:`dumps` wrote."""
    return _decode(json.loads(text))


def _encode(value: object) -> object:
    match value:
        case Enum():
            return {"$enum": _name_of(type(value)), "name": value.name}
        case None | bool() | str():
            return value
        case int() | float():
            # numpy's scalars are floats and ints by inheritance at most; json wants the plain ones.
            return value if type(value) in (int, float) else type(value).__mro__[-2](value)
        case tuple():
            return [item if type(item) in _PLAIN else _encode(item) for item in value]
        case frozenset():
            items = sorted(value)
            return {"$set": items if _is_of_text(items) else [_encode(item) for item in items]}
        case Mapping():
            return {"$map": [[_encode(k), _encode(v)] for k, v in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init)
        fields = {name: item if type(item) in _PLAIN else _encode(item) for name, item in named}
        return {"$": _name_of(type(value)), **fields}
    item = getattr(value, "item", None)  # numpy scalars that inherit from nothing
    if callable(item) and getattr(value, "shape", None) == ():
        return _encode(item())
    raise InvalidValueError(f"a {type(value).__name__} cannot be journalled, expected a frozen value")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([item if type(item) in _PLAIN else _decode(item) for item in value])
    if not isinstance(value, dict):
        return value
    if "$set" in value:
        items = value["$set"]
        return frozenset(items) if _is_of_text(items) else frozenset(_decode(item) for item in items)
    if "$map" in value:
        return {_decode(k): _decode(v) for k, v in value["$map"]}
    if "$enum" in value:
        return _class_of(value["$enum"])[value["name"]]  # type: ignore[index]  # an Enum's class is subscriptable
    fields = {k: v if type(v) in _PLAIN else _decode(v) for k, v in value.items() if k != "$"}
    return _class_of(value["$"])(**fields)


def _is_of_text(items: list[Any]) -> bool:
    """Sets of names are long, and need no second look: what is sorted beside text is text."""
    return bool(items) and type(items[0]) is str


def _name_of(kind: type) -> str:
    return kind.__name__ if _SHORT.get(kind.__name__) is kind else f"{kind.__module__}:{kind.__qualname__}"


def _class_of(name: str) -> type:
    """A class by its name; only enums and dataclasses, whatever else a damaged row may name."""
    module, _, qualname = name.partition(":")
    found: Any = _SHORT.get(name)
    if found is None and qualname:
        found = import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    if not (isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, Enum))):
        raise InvalidValueError(f"the journal names a class {name!r} that is not here")
    return found
