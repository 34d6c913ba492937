"""Values of a ``state_dict`` as JSON and back, so that workers need no pickle to pass them on.

Plain values are None, booleans, numbers, text, bytes, lists, tuples, dictionaries, arrays of numpy
and tensors of torch. Reading them calls nothing that the text names.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from typing import Any

from bftrainer.errors import InvalidValueError

_DTYPES = frozenset(
    {
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8_e4m3fn",
        "float8_e5m2",
        "complex64",
        "complex128",
    }
)


def packed_values(value: object) -> bytes:
    """Return the JSON text of a plain value. Raises :class:`InvalidValueError` for one that is not
    plain.
    """
    return json.dumps(_tagged_value(value)).encode()


def unpacked_values(data: bytes) -> Any:
    """Return the value of a text of :func:`packed_values`. Raises :class:`InvalidValueError` for
    another text.
    """
    try:
        return _untagged_value(json.loads(data))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidValueError(f"not a worker's state: {error}") from None


def _tagged_value(value: Any) -> Any:
    """Return a value in a form that JSON keeps: numbers and text as they are, all else as a list
    that begins with its kind.

    (1, b"a") becomes ["tuple", [1, ["bytes", "YQ=="]]]. Raises :class:`InvalidValueError` for a
    value that is not plain.
    """
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, dict):
        return ["dict", [[_tagged_value(key), _tagged_value(item)] for key, item in value.items()]]
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return [kind, [_tagged_value(item) for item in value]]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", base64.b64encode(value).decode()]
    if torch is not None and isinstance(value, torch.Tensor):
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        dtype = str(value.dtype).removeprefix("torch.")
        return ["tensor", dtype, list(value.shape), base64.b64encode(data).decode()]
    if (
        numpy is not None
        and isinstance(value, (numpy.ndarray, numpy.generic))
        and value.dtype.name in _DTYPES
    ):
        kind = "array" if isinstance(value, numpy.ndarray) else "number"
        return [
            kind,
            value.dtype.name,
            list(value.shape),
            base64.b64encode(value.tobytes()).decode(),
        ]
    raise InvalidValueError(
        f"a state_dict has a {type(value).__name__}, which is not sent to other workers: "
        "expected numbers, text, lists, "
        "dictionaries, arrays or tensors"
    )


def _untagged_value(item: Any) -> Any:
    """Return the value of a form of :func:`_tagged_value`. Raises ``ValueError``, ``TypeError`` or
    ``LookupError`` for another form.
    """
    if not isinstance(item, list):
        return item
    kind, *parts = item
    if kind == "dict":
        return {_untagged_value(key): _untagged_value(value) for key, value in parts[0]}
    if kind in ("list", "tuple"):
        values = [_untagged_value(value) for value in parts[0]]
        return tuple(values) if kind == "tuple" else values
    if kind == "bytes":
        return base64.b64decode(parts[0])
    if kind in ("tensor", "array", "number"):
        return _tensor_of_text(kind, *parts)
    raise ValueError(f"unknown kind {kind!r}")


def _tensor_of_text(kind: str, dtype: str, shape: list[int], text: str) -> Any:
    """Return a tensor, an array or a number of numpy from its type, shape and base64 text."""
    if dtype not in _DTYPES:
        raise ValueError(f"unknown type {dtype!r}")
    data = bytearray(base64.b64decode(text))
    if kind == "tensor":
        import torch

        if not math.prod(shape):  # torch reads no empty buffer
            return torch.empty(shape, dtype=getattr(torch, dtype))
        return torch.frombuffer(data, dtype=torch.uint8).view(getattr(torch, dtype)).reshape(shape)
    import numpy

    array = numpy.frombuffer(data, dtype=dtype).reshape(shape)
    return array if kind == "array" else array[()]
