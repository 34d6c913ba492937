"""Frozen values as JSON and back, exactly: the journal keeps what the loop had.

Numbers, text, None and booleans are themselves; a tuple is a list; a frozenset is ``{"$set":
[...]}``, sorted; a frozen dataclass is an object with its class under ``$``; an enum member
``{"$enum": class, "name": ...}``; a mapping ``{"$map": [[key, value], ...]}``. The memory of a
policy may be made of all of these.

``WIRE`` lists the classes that can be written or read. A name on the wire is independent of where
the class lives and what it is called today, so journals of earlier versions stay readable, and
earlier versions can read ours. No module is ever imported because a row names it. A policy of our
other packages has a ``WIRE`` of its own; policies of third parties keep their memories under
``module:class``. :func:`allow` admits both once the policy has been built from the pilot's
settings.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, reduce
from itertools import chain, zip_longest
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, InstanceOf, TypeAdapter

from bftrainer.decide.domain import events, measurements, model, problem, rescaling, state
from bftrainer.decide.policies import cohort, gather, guard
from bftrainer.errors import InvalidValueError, Reason
from bftrainer.system.printable import printable

WIRE: Mapping[str, type] = {
    # What happened.
    "Event": events.Event,
    "PoolChanged": events.PoolChanged,
    "TrainerSubmitted": events.TrainerSubmitted,
    "TrainerFinished": events.TrainerFinished,
    "TimerDue": events.TimerDue,
    "ParallelChanged": events.ParallelChanged,
    "RateSeen": events.RateSeen,
    "StallSeen": events.StallSeen,
    "WorkLost": events.WorkLost,
    "LengthSeen": events.LengthSeen,
    # What the state is made of.
    "State": state.State,
    "Active": state.Active,
    "Losses": state.Losses,
    "ClassMemories": state.ClassMemories,
    "Trainer": model.Trainer,
    "Curve": model.Curve,
    "Rescaling": rescaling.Rescaling,
    "Learning": model.Learning,
    "Lesson": measurements.Measurements,
    "Point": measurements.RatePoint,
    # What was decided.
    "Plan": state.Plan,
    "Decision": state.Decision,
    "Answer": problem.Answer,
    "Status": problem.Status,
    "Fallback": problem.Fallback,
    "Reason": Reason,
    # Memories of policies.
    "bftrainer.policies.guard:Patience": guard.StarvationClock,
    "GatheringArrivals": gather.GatheringArrivals,
    "bftrainer.policies.cohort:Cohorts": cohort.Cohorts,
}
"""Name on the wire -> class. A name never changes and is never used for another class."""

RENAMED: Mapping[type, Mapping[str, str]] = {
    state.State: {"measurements": "lessons"},
    Reason: {"NO_LICENSE": "NO_LICENCE"},
}
"""Class -> {field or enum member: its name on the wire}, where the two differ."""

ADDED: Mapping[type, frozenset[str]] = {
    events.Event: frozenset({"all_joined"}),
    state.Decision: frozenset({"kept", "blamed", "nodes"}),
    state.State: frozenset({"kept", "blamed"}),
    state.Active: frozenset({"rescaling"}),
    model.Trainer: frozenset({"start_s", "from_zero_s", "fill"}),
    events.StallSeen: frozenset({"start_s", "from_zero"}),
    measurements.Measurements: frozenset({"starts", "from_zero"}),
}
"""Class -> fields that earlier versions did not have. Written only where they are not empty: other
rows stay as they were, and earlier versions can read them.
"""

_PLAIN = frozenset({str, float, int, bool, type(None)})  # themselves
_allowed: set[str] = set()


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a class is written: ``fields`` are (attribute, name on the wire) of a dataclass, members
    of an enum.
    """

    name: str
    kind: type
    fields: tuple[tuple[str, str], ...]
    attributes: Mapping[str, str]
    """Name on the wire -> attribute, where they differ."""
    added: frozenset[str] = frozenset()
    """Attributes of ADDED."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A value of a class that is not on the list, as its JSON. It is written as it was read."""

    text: str


def allow(module: str) -> None:
    """Admit the memories of the policy in ``module``. Called when the policy has been built.

    In our own packages, these are the classes in the module's ``WIRE``, under its names. In another
    package, they are all frozen dataclasses and enums: a policy in ``mine.policies`` may keep
    classes of any loaded module of ``mine``.
    """
    package = module.partition(".")[0]
    if package not in _OURS:
        _allowed.add(package)
        return
    for name, kind in getattr(sys.modules[module], "WIRE", {}).items():
        _BY_CLASS[kind] = _BY_NAME.setdefault(name, _shape(name, kind))


_OURS = ("bftrainer", "bftrainer_clusters", "bftrainer_papers", "bftrainer_replay")


def dumps(value: object) -> str:
    """The value as one line of JSON. Raises :class:`InvalidValueError` for one that is not frozen,
    or not on the list.
    """
    trainers: list[str] = []
    pieces = _json(_encode(value, trainers)).split(f'"{_MARK}"')
    return "".join(chain.from_iterable(zip_longest(pieces, trainers, fillvalue="")))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_MARK = secrets.token_hex(16)
"""Stands for a trainer until the rest is text: no user's text holds it."""
_MOST_TEXTS = 10_000
_texts: dict[int, tuple[model.Trainer, str]] = {}


def _text_of(trainer: model.Trainer) -> str:
    """A trainer's JSON, which is made once: the same trainers are in the state after every
    decision.
    """
    known = _texts.get(id(trainer))
    if known is None:
        if len(_texts) >= _MOST_TEXTS:
            _texts.clear()
        known = _texts[id(trainer)] = trainer, _json(_fields(trainer, _BY_CLASS[model.Trainer], []))
    return known[1]


def loads(text: str, *, strict: bool = True, kind: type = object) -> Any:
    """The value that :func:`dumps` wrote.

    A class that is not on the list is refused, and so are a value that is no ``kind`` and a field
    of another type than in our classes. Where policy memories do not matter, or the row is the
    pilot's own, ``strict=False`` makes values of classes that are not on the list :class:`Unread`
    instead. Raises :class:`InvalidValueError` for a refused or damaged row.
    """
    try:
        value = _decode(json.loads(text), strict)
        if not isinstance(value, kind):
            raise TypeError(f"it holds a {type(value).__name__}, expected a {kind.__name__}")
        return value
    except InvalidValueError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise InvalidValueError(
            f"the journal has a row that cannot be read: {printable(repr(error)):.300}"
        ) from error


def _encode(value: object, trainers: list[str]) -> object:
    """As JSON's values; each trainer is a mark, and its text the next of ``trainers``."""
    if type(value) is model.Trainer:
        trainers.append(_text_of(value))
        return _MARK
    match value:
        case Unread():
            return json.loads(value.text)
        case Enum():
            shape = _shape_of(type(value))
            return {"$enum": shape.name, "name": dict(shape.fields)[value.name]}
        case None | bool() | str():
            return value
        case int() | float():
            # numpy's scalars are floats and ints by inheritance at most; json wants the plain ones.
            return value if type(value) in (int, float) else type(value).__mro__[-2](value)
        case tuple():
            return [item if type(item) in _PLAIN else _encode(item, trainers) for item in value]
        case frozenset():
            items = sorted(value)
            return {
                "$set": items if _is_of_text(items) else [_encode(item, trainers) for item in items]
            }
        case Mapping():
            return {
                "$map": [[_encode(k, trainers), _encode(v, trainers)] for k, v in value.items()]
            }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value, _shape_of(type(value)), trainers)
    item = getattr(value, "item", None)  # numpy scalars that inherit from nothing
    if callable(item) and getattr(value, "shape", None) == ():
        return _encode(item(), trainers)
    raise InvalidValueError(
        f"a {type(value).__name__} cannot be journaled, expected a frozen value"
    )


def _fields(value: object, shape: _Shape, trainers: list[str]) -> dict[str, object]:
    fields: dict[str, object] = {"$": shape.name}
    for attribute, name in shape.fields:
        item = getattr(value, attribute)
        if attribute in shape.added and (item is None or item is False or item == "" or item == ()):
            continue
        fields[name] = item if type(item) in _PLAIN else _encode(item, trainers)
    return fields


def _decode(value: Any, strict: bool) -> Any:
    if isinstance(value, list):
        return tuple([item if type(item) in _PLAIN else _decode(item, strict) for item in value])
    if not isinstance(value, dict):
        return value
    if "$set" in value:
        items = value["$set"]
        if not _is_of_text(items):
            items = [_decode(item, strict) for item in items]
            sorted(items)  # raises for what could not be written again
        return frozenset(items)
    if "$map" in value:
        return {_decode(k, strict): _decode(v, strict) for k, v in value["$map"]}
    name = value["$enum"] if "$enum" in value else value["$"]
    shape = _named(name)
    if shape is None:
        if not strict:
            return Unread(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
        raise InvalidValueError(
            f"the journal names a class {name!r:.120}, which is not an allowed class"
        )
    if "$enum" in value:
        member = value["name"]
        return shape.kind[shape.attributes.get(member, member)]  # type: ignore[index]  # an Enum's class is subscriptable
    fields = {
        k: v if type(v) in _PLAIN else _decode(v, strict) for k, v in value.items() if k != "$"
    }
    for wire, attribute in shape.attributes.items():
        if wire in fields:
            fields[attribute] = fields.pop(wire)
    if strict:
        for attribute, is_right in _checks(shape.kind) if shape.name in _BY_NAME else ():
            if attribute in fields and not is_right((fields[attribute],)):
                raise TypeError(f"{shape.name}.{attribute} is {fields[attribute]!r:.80}")
    return shape.kind(**fields)


@lru_cache(maxsize=len(WIRE))
def _checks(kind: type) -> tuple[tuple[str, Callable[[tuple[Any]], bool]], ...]:
    """(attribute, whether a 1-tuple holds a value of its type) of a class of ours. A row is data:
    it may hold anything.
    """
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    return tuple((name, _check(hints[name])) for name in names)


@lru_cache(maxsize=256)
def _check(hint: Any) -> Callable[[tuple[Any]], bool]:
    one: Any = tuple[_of_instances(hint)]  # type: ignore[misc]  # made at run time; pydantic takes no bare dataclass
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    return TypeAdapter(one, config=config).validator.isinstance_python


def _of_instances(hint: Any) -> Any:
    """The type, of whose dataclasses only the class matters: their own fields were checked when
    they were read.
    """
    origin, inner = get_origin(hint), tuple(map(_of_instances, get_args(hint)))
    if origin in (Union, UnionType):
        return reduce(or_, inner)
    if origin is not None:
        return origin[inner]
    instance_of: Any = InstanceOf
    return instance_of[hint] if dataclasses.is_dataclass(hint) else hint


def _is_of_text(items: list[Any]) -> bool:
    """Sets of names are long, and are not decoded one by one."""
    return bool(items) and set(map(type, items)) == {str}


def _shape(name: str, kind: Any) -> _Shape:
    renamed = RENAMED.get(kind, {})
    if issubclass(kind, Enum):
        own = tuple(kind.__members__)
    else:
        own = tuple(field.name for field in dataclasses.fields(kind) if field.init)
    fields = tuple((attribute, renamed.get(attribute, attribute)) for attribute in own)
    attributes = {wire: attribute for attribute, wire in renamed.items()}
    return _Shape(name, kind, fields, attributes, ADDED.get(kind, frozenset()))


_BY_NAME = {name: _shape(name, kind) for name, kind in WIRE.items()}
_BY_CLASS = {shape.kind: shape for shape in _BY_NAME.values()}


def _shape_of(kind: type) -> _Shape:
    shape = _BY_CLASS.get(kind) or _named(f"{kind.__module__}:{kind.__qualname__}")
    if shape is None or shape.kind is not kind:
        raise InvalidValueError(
            f"a {kind.__module__}:{kind.__qualname__} cannot be journaled: "
            "a memory is made of plain values and of frozen dataclasses and enums of the "
            "policy's own package"
        )
    return shape


def _named(name: str) -> _Shape | None:
    """The class of a name on the wire: one of the list, or one of a loaded module of an allowed
    package.
    """
    if not isinstance(name, str):
        raise TypeError("the name of a class is not text")
    if (shape := _BY_NAME.get(name)) is not None:
        return shape
    module, _, qualname = name.partition(":")
    if module.partition(".")[0] not in _allowed:
        return None
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not (
        isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, Enum))
    ):
        return None
    return _shape(name, found)
