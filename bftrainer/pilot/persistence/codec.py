"""Frozen values as JSON and back, exactly: the journal keeps what the loop had.

Numbers, text, None and booleans are themselves; a tuple is a list; a frozenset is ``{"$set":
[...]}``, sorted; a frozen dataclass is an object with its class under ``$``; an enum member
``{"$enum": class, "name": ...}``; a mapping ``{"$map": [[key, value], ...]}``. The memory of a
policy may be made of all of these.

``CLASSES`` lists the classes that can be written or read, each under its own name; a new name of a
class or of a field is a new format (database_checks.py). No module is ever imported because a row
names it. Memories of policies in other packages have the name ``module:class``, and :func:`allow`
admits them once the policy has been built from the pilot's settings.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
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
from bftrainer.slots import Grain
from bftrainer.system.printable import printable

CLASSES: tuple[type, ...] = (
    # What happened.
    events.Event,
    events.PoolChanged,
    events.TrainerSubmitted,
    events.TrainerFinished,
    events.TimerDue,
    events.ParallelChanged,
    events.RateSeen,
    events.StallSeen,
    events.WorkLost,
    events.LengthSeen,
    # What the state is made of.
    state.State,
    state.Active,
    state.Losses,
    state.ClassMemories,
    Grain,
    model.Trainer,
    model.Curve,
    rescaling.Rescaling,
    model.Learning,
    measurements.Measurements,
    measurements.RatePoint,
    # What was decided.
    state.Plan,
    state.Decision,
    problem.Answer,
    problem.Status,
    problem.Fallback,
    Reason,
    # Memories of policies.
    guard.StarvationClock,
    gather.GatheringArrivals,
    cohort.Cohorts,
)
"""The classes that a journal may contain. No two have the same name."""

_PLAIN = frozenset({str, float, int, bool, type(None)})  # themselves
_CORE = "bftrainer"
_OWN_PREFIX = "bftrainer_"
"""The names of the other packages of a release begin so."""
_allowed: set[str] = set()
"""Packages, and modules of our own packages, whose classes a memory may contain."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a class is written: its name, and the fields of a dataclass. ``is_own``: the class is
    ours, and the types of its fields can be checked.
    """

    name: str
    kind: type
    fields: tuple[str, ...]
    is_own: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """A value of a class that is neither in :data:`CLASSES` nor allowed, as its JSON text. It is
    written again as it was read.
    """

    text: str


def allow(module: str) -> None:
    """Let a journal contain the memories of the policy in ``module``. Called when the policy has
    been built.

    Memories are dataclasses and enums. What is admitted depends on the package of ``module``:

    - A user's package, such as ``mine`` for ``mine.policies``: the classes of all its loaded
      modules.
    - Another package of the release (``bftrainer_...``): the classes of ``module`` only.
    - ``bftrainer`` itself: nothing more. The memories of its policies are in :data:`CLASSES`.
    """
    package = module.partition(".")[0]
    if package.startswith(_OWN_PREFIX):
        _allowed.add(module)
    elif package != _CORE:
        _allowed.add(package)


def dumps(value: object) -> str:
    """Return the value as one line of JSON. Raises :class:`InvalidValueError` for one that is not
    frozen, or whose class is neither in :data:`CLASSES` nor allowed.
    """
    trainers: list[str] = []
    # The JSON has a mark for each trainer, in the order of their texts, which are put in here.
    # Trainers are the bulk of a state: their texts are made once, and only put together here.
    pieces = _json(_encoded_value(value, trainers)).split(f'"{_MARK}"')
    return "".join(chain.from_iterable(zip_longest(pieces, trainers, fillvalue="")))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_MARK = secrets.token_hex(16)
"""Stands for a trainer in the JSON of :func:`dumps` until the trainer's text replaces it. The mark
is random, so that no user's text contains it.
"""
_MAX_TEXTS = 10_000
_trainer_texts: dict[int, tuple[model.Trainer, str]] = {}
"""By ``id`` of a trainer. The trainer is kept beside its text, so that no other gets this id."""


def _trainer_text(trainer: model.Trainer) -> str:
    """Return a trainer's JSON. The text is made once for each object: the same trainers are in the
    state after every decision.
    """
    cached = _trainer_texts.get(id(trainer))
    if cached is None:
        if len(_trainer_texts) >= _MAX_TEXTS:
            _trainer_texts.clear()
        fields = _encoded_fields(trainer, _BY_NAME[model.Trainer.__name__], [])
        cached = _trainer_texts[id(trainer)] = trainer, _json(fields)
    return cached[1]


def loads(text: str, *, strict: bool = True, kind: type = object) -> Any:
    """Return the value that :func:`dumps` wrote.

    Raises :class:`InvalidValueError` for a damaged row, for a value that is no ``kind``, and for a
    class that is neither in :data:`CLASSES` nor allowed (:func:`allow`). Besides:

    - ``strict=True``: also refuses such a class within a policy's memory, and a field of another
      type than declared in our classes.
    - ``strict=False``, for the pilot's own rows and where policy memories do not matter: a value of
      such a class within a policy's memory comes as :class:`Unread`; types of fields are not
      checked.
    """
    try:
        value = _decoded_value(json.loads(text), strict)
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


def _encoded_value(value: object, trainers: list[str]) -> object:
    """Return a value as what :mod:`json` can write: tuples as lists, and sets, mappings, enums and
    dataclasses as objects with a key that begins with ``$``.

    A trainer becomes a mark, and its text is appended to ``trainers``. Raises
    :class:`InvalidValueError` for a value that is not frozen.
    """
    if type(value) is model.Trainer:
        trainers.append(_trainer_text(value))
        return _MARK
    match value:
        case Unread():
            return json.loads(value.text)
        case Enum():
            return {"$enum": _shape_of(type(value)).name, "name": value.name}
        case None | bool() | str():
            return value
        case int() | float():
            # A numpy scalar may inherit from float: the last class before object is the plain one,
            # which json writes.
            return value if type(value) in (int, float) else type(value).__mro__[-2](value)
        case tuple():
            return _encode_items(value, trainers)
        case frozenset():
            items = sorted(value)
            return {"$set": items if _is_all_text(items) else _encode_items(items, trainers)}
        case Mapping():
            return {
                "$map": [
                    [_encoded_value(k, trainers), _encoded_value(v, trainers)]
                    for k, v in value.items()
                ]
            }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encoded_fields(value, _shape_of(type(value)), trainers)
    item = getattr(value, "item", None)  # numpy scalars that inherit from nothing
    if callable(item) and getattr(value, "shape", None) == ():
        return _encoded_value(item(), trainers)
    raise InvalidValueError(
        f"a {type(value).__name__} cannot be journaled, expected a frozen value"
    )


def _encode_items(items: Iterable[object], trainers: list[str]) -> list[object]:
    return [item if type(item) in _PLAIN else _encoded_value(item, trainers) for item in items]


def _encoded_fields(value: object, shape: _Shape, trainers: list[str]) -> dict[str, object]:
    """Return a dataclass as a JSON object: the name of its class under ``$``, and its fields.
    ``shape`` says which these are; texts of trainers are appended to ``trainers``.
    """
    fields: dict[str, object] = {"$": shape.name}
    for name in shape.fields:
        item = getattr(value, name)
        fields[name] = item if type(item) in _PLAIN else _encoded_value(item, trainers)
    return fields


def _decoded_value(value: Any, strict: bool, in_memory: bool = False) -> Any:
    """Return the value that :func:`_encoded_value` has turned into JSON.

    ``strict``: check types, and refuse classes that are not allowed. ``in_memory``: the value
    belongs to a policy's memory, in which other classes become :class:`Unread` unless ``strict``.
    """
    if isinstance(value, list):
        return tuple(
            [
                item if type(item) in _PLAIN else _decoded_value(item, strict, in_memory)
                for item in value
            ]
        )
    if not isinstance(value, dict):
        return value
    if "$set" in value:
        items = value["$set"]
        if not _is_all_text(items):
            items = [_decoded_value(item, strict, in_memory) for item in items]
            sorted(items)  # raises for what could not be written again
        return frozenset(items)
    if "$map" in value:
        return {
            _decoded_value(key, strict, in_memory): _decoded_value(item, strict, in_memory)
            for key, item in value["$map"]
        }
    # Every other object is an enum member or a dataclass.
    name = value["$enum"] if "$enum" in value else value["$"]
    shape = _shape_by_name(name)
    if shape is None:
        if in_memory and not strict:
            return Unread(_json(value))
        raise InvalidValueError(
            f"the journal names a class {name!r:.120}, which is not an allowed class"
        )
    if "$enum" in value:
        return shape.kind[value["name"]]  # type: ignore[index]  # an Enum's class is subscriptable
    return _decode_fields(value, shape, strict, in_memory)


def _decode_fields(value: dict[str, Any], shape: _Shape, strict: bool, in_memory: bool) -> Any:
    """Return the dataclass that a JSON object stands for. With ``strict``, the fields of our own
    classes must have the declared types.

    ``shape`` is how its class is written. ``in_memory``: the object belongs to a policy's memory,
    as all does below the field ``memory`` of a state or a plan.
    """
    # Both have a field "memory", which belongs to the policy.
    has_memory = shape.kind in (state.State, state.Plan)
    fields = {}
    for name, item in value.items():
        if name == "$":
            continue
        if type(item) not in _PLAIN:
            item = _decoded_value(item, strict, in_memory or (has_memory and name == "memory"))
        fields[name] = item
    if strict and shape.is_own:
        for name, is_valid in _field_checks(shape.kind):
            if name in fields and not is_valid((fields[name],)):
                raise TypeError(f"{shape.name}.{name} is {fields[name]!r:.80}")
    return shape.kind(**fields)


@lru_cache(maxsize=256)
def _field_checks(kind: type) -> tuple[tuple[str, Callable[[tuple[Any]], bool]], ...]:
    """Return the checks for the fields of a class of ours, as (field, function that tells whether a
    1-tuple contains a value of the field's type).

    A row is data: it may contain anything.
    """
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    return tuple((name, _type_check(hints[name])) for name in names)


@lru_cache(maxsize=256)
def _type_check(hint: Any) -> Callable[[tuple[Any]], bool]:
    """Return a function that tells whether a 1-tuple contains a value of this type."""
    wrapped: Any = tuple[_shallow_type(hint)]  # type: ignore[misc]  # made at run time; pydantic takes no bare dataclass
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    return TypeAdapter(wrapped, config=config).validator.isinstance_python


def _shallow_type(hint: Any) -> Any:
    """Return the type ``hint`` with every dataclass in it replaced by "an instance of this class":
    the fields of the dataclass were checked when it was decoded itself.
    """
    origin, inner = get_origin(hint), tuple(map(_shallow_type, get_args(hint)))
    if origin in (Union, UnionType):
        return reduce(or_, inner)
    if origin is not None:
        return origin[inner]
    instance_of: Any = InstanceOf
    return instance_of[hint] if dataclasses.is_dataclass(hint) else hint


def _is_all_text(items: list[Any]) -> bool:
    """Whether there are items, and all of them are text. Sets of names are long: they are written
    and read as they are, not one by one.
    """
    return bool(items) and set(map(type, items)) == {str}


def _class_shape(name: str, kind: type) -> _Shape:
    """Return how the class ``kind`` is written under ``name``; an enum has no fields."""
    package = kind.__module__.partition(".")[0]
    fields: tuple[str, ...] = ()
    if dataclasses.is_dataclass(kind):
        fields = tuple(field.name for field in dataclasses.fields(kind) if field.init)
    return _Shape(name, kind, fields, package == _CORE or package.startswith(_OWN_PREFIX))


_BY_NAME = {kind.__name__: _class_shape(kind.__name__, kind) for kind in CLASSES}
_BY_CLASS = {shape.kind: shape for shape in _BY_NAME.values()}


def _shape_of(kind: type) -> _Shape:
    """Return how a class is written to a journal. Raises :class:`InvalidValueError` for one that is
    neither in :data:`CLASSES` nor allowed (:func:`allow`).
    """
    shape = _BY_CLASS.get(kind) or _shape_by_name(f"{kind.__module__}:{kind.__qualname__}")
    if shape is None or shape.kind is not kind:
        raise InvalidValueError(
            f"a {kind.__module__}:{kind.__qualname__} cannot be journaled: "
            "a memory is made of plain values and of frozen dataclasses and enums of the "
            "policy's own package"
        )
    return shape


def _shape_by_name(name: str) -> _Shape | None:
    """Return how the class is written that a name in a row stands for; None for a name that is not
    allowed.

    Allowed are the names of :data:`CLASSES`, and ``module:class`` for a dataclass or enum of a
    loaded module that is allowed or whose package is (:func:`allow`). Raises ``TypeError`` for a
    name that is no text.
    """
    if not isinstance(name, str):
        raise TypeError("the name of a class is not text")
    if (shape := _BY_NAME.get(name)) is not None:
        return shape
    module, _, qualname = name.partition(":")
    if module not in _allowed and module.partition(".")[0] not in _allowed:
        return None
    kind: Any = sys.modules.get(module)
    for part in qualname.split("."):
        kind = getattr(kind, part, None)
    # A name can lead to anything in the module, also to what it has imported.
    if not isinstance(kind, type) or (kind.__module__, kind.__qualname__) != (module, qualname):
        return None
    if not (dataclasses.is_dataclass(kind) or issubclass(kind, Enum)):
        return None
    return _class_shape(name, kind)
