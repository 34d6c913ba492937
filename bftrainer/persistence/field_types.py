"""Whether the values of a dataclass are of the types of its fields: the part of a journal row that JSON cannot say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_Check = Callable[[Any], bool]


def field_checks(kind: type) -> dict[str, _Check]:
    """Attribute -> check. A field of a type that is not known here, such as a policy's memory (``object``), has none."""
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError, AttributeError):  # annotations of another package, imported for the type checker only
        return {}
    found = ((field.name, _check(hints[field.name])) for field in dataclasses.fields(kind) if field.init)
    return {name: check for name, check in found if check is not None}


def _check(hint: Any) -> _Check | None:
    """The check of a type; None accepts anything."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([_check(each) for each in inner])
    if origin is tuple:
        if len(inner) == 2 and inner[1] is ...:
            return _each(tuple, _check(inner[0]))
        return _fixed([_check(each) for each in inner])
    if origin is frozenset:
        return _each(frozenset, _check(inner[0]))
    if hint is None or hint is NoneType:
        return lambda value: value is None
    if hint is float:
        return lambda value: type(value) in (float, int)
    if hint in (int, str, bool):
        return lambda value: type(value) is hint
    if origin is None and isinstance(hint, type) and hint is not object and not getattr(hint, "_is_protocol", False):
        return lambda value: isinstance(value, hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return lambda value: isinstance(value, Mapping)
    return None


def _any_of(checks: list[_Check | None]) -> _Check | None:
    known = [check for check in checks if check is not None]
    if len(known) < len(checks):
        return None
    return lambda value: any(check(value) for check in known)


def _each(kind: type[Iterable[Any]], check: _Check | None) -> _Check:
    if check is None:
        return lambda value: isinstance(value, kind)

    def is_right(value: Any) -> bool:
        return isinstance(value, kind) and all(check(item) for item in iter(value))

    return is_right


def _fixed(checks: list[_Check | None]) -> _Check:
    def is_right(value: Any) -> bool:
        return (
            isinstance(value, tuple)
            and len(value) == len(checks)
            and all(check is None or check(item) for check, item in zip(checks, value, strict=True))
        )

    return is_right
