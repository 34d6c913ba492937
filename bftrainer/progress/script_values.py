"""Values of a script's own variables in a form that a checkpoint may have.

``torch.load(weights_only=True)`` reads numbers, strings, tensors, lists and dicts only. The other
types that training loops keep their state in are written as dicts with the key ``_KIND``.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from bftrainer.errors import InvalidValueError

_KIND = "bftrainer_kind"
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_DEPTH = 20
"""Levels of containers in containers; what refers to itself has no end."""


class KeptAttributes:
    """Attributes of a script's own object, for ``keep``; an object that is None has none.

    Args:
        owner: The object.
        names: The attributes that a checkpoint has.

    Raises:
        InvalidValueError: An attribute has a value of a type that a checkpoint cannot keep.
    """

    def __init__(self, owner: Any, *names: str) -> None:
        self._owner = owner
        self._names = names if owner is not None else ()
        self.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Return the present values of the attributes."""
        owner = type(self._owner).__name__
        return {
            name: encoded(f"{owner}.{name}", getattr(self._owner, name)) for name in self._names
        }

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Set the attributes; those that the checkpoint has not stay as they are."""
        for name in self._names:
            if name in state:
                value = decoded(state[name], getattr(self._owner, name))
                setattr(self._owner, name, value)


def encoded(name: str, value: Any, depth: int = 0) -> Any:
    """Return a value as plain containers, numbers, strings and tensors.

    Args:
        name: What the script calls the value, for the error.
        value: A number, string, path, tensor, array, an object with ``state_dict``, or a list,
            tuple, set, deque or dict of such values.
        depth: The number of containers around it.

    Raises:
        InvalidValueError: The value has a type that a checkpoint cannot keep.
    """
    if type(value) in _PLAIN:
        return value
    if depth > _DEPTH:
        raise InvalidValueError(f"{name} has more than {_DEPTH} levels of containers")
    if isinstance(value, PurePath):
        return {_KIND: "path", "value": str(value)}
    if _is_tensor(value):
        return value.detach().clone()
    if (array := _encoded_array(value)) is not None:
        return array
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return {_KIND: "state", "value": value.state_dict()}
    if isinstance(value, Mapping) and type(value) in (dict, OrderedDict, Counter, defaultdict):
        pairs = [
            (encoded(name, k, depth + 1), encoded(name, v, depth + 1)) for k, v in value.items()
        ]
        return {_KIND: type(value).__name__, "value": pairs}
    if type(value) in (list, tuple, set, frozenset, deque):
        items = [encoded(name, item, depth + 1) for item in value]
        limit = value.maxlen if isinstance(value, deque) else None
        return {_KIND: type(value).__name__, "value": items, "limit": limit}
    raise InvalidValueError(
        f"{name} is of type {type(value).__name__}, which a checkpoint cannot keep: expected "
        "numbers, strings, tensors, containers of them, or an object with state_dict"
    )


def decoded(saved: Any, present: Any) -> Any:
    """Return the value that :func:`encoded` wrote.

    ``present`` is the script's present value: an object with a state and a tensor of equal shape
    are loaded in place, and a defaultdict keeps its factory.
    """
    if _is_tensor(saved):
        return _decoded_tensor(saved, present)
    if not isinstance(saved, dict) or _KIND not in saved:
        return saved
    kind, value = saved[_KIND], saved["value"]
    if kind == "path":
        return type(present)(value) if isinstance(present, PurePath) else PurePath(value)
    if kind in ("array", "scalar"):
        array = value.numpy()
        return array.copy() if kind == "array" else array.reshape(-1)[0]
    if kind == "state":
        present.load_state_dict(value)
        return present
    if kind == "deque":
        return deque([decoded(item, None) for item in value], saved["limit"])
    if kind in ("list", "tuple", "set", "frozenset"):
        kinds: Any = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
        is_alike = isinstance(present, (list, tuple)) and len(present) == len(value)
        own = list(present) if is_alike else [None] * len(value)
        return kinds[kind]([decoded(item, part) for item, part in zip(value, own)])
    return _decoded_mapping(kind, value, present)


def _decoded_tensor(saved: Any, present: Any) -> Any:
    """Return a saved tensor; copied into the present one if that is alike, so that all who have it
    see the value.
    """
    if not _is_tensor(present):
        return saved
    if (present.shape, present.dtype) != (saved.shape, saved.dtype):
        return saved.to(present.device)
    present.data.copy_(saved)
    return present


def _decoded_mapping(kind: str, pairs: list[Any], present: Any) -> Any:
    """Return a mapping of the type ``kind``; objects in it are those of the present mapping."""
    own = present if isinstance(present, Mapping) else {}
    items: list[tuple[Any, Any]] = []
    for saved_key, saved_value in pairs:
        key = decoded(saved_key, None)
        items.append((key, decoded(saved_value, own.get(key))))
    if kind == "defaultdict":
        return defaultdict(getattr(present, "default_factory", None), items)
    if kind == "Counter":
        return Counter(dict(items))
    return OrderedDict(items) if kind == "OrderedDict" else dict(items)


def _is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _encoded_array(value: Any) -> Any:
    """Return an array or a number of NumPy as a tensor; None for another value."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    import torch

    if isinstance(value, numpy.generic):
        return {_KIND: "scalar", "value": torch.from_numpy(numpy.asarray([value]))}
    return {_KIND: "array", "value": torch.from_numpy(numpy.array(value))}
