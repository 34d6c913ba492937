"""Reads pickles of plain containers, strings, bytes and numbers, and nothing that could call a
function.

Horovod's workers register with ``base64(pickle((addresses, key)))``. Stock Horovod 0.28.1 passes
all that it receives to ``cloudpickle.loads``: anyone who reaches the port runs code in the driver.
"""

from __future__ import annotations

import base64
import io
import pickle
from typing import Any, NoReturn

from bftrainer.errors import InvalidValueError

MAX_BYTES = 65536
_DAMAGE = (
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    EOFError,
    MemoryError,
)
"""What reading something else than such a pickle raises; an error of base64 is a ValueError."""
Addresses = dict[str, list[tuple[str, int]]]


class _PlainUnpickler(pickle.Unpickler):
    """Refuses globals and persistent ids, which plain data does not need and code does."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain data")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("persistent ids are not plain data")


def worker_registration(body: bytes) -> tuple[Addresses, bytes]:
    """Read the registration of one worker: its addresses by interface, and its message key. Raises
    :class:`InvalidValueError` for anything else.
    """
    if len(body) > MAX_BYTES:
        raise InvalidValueError("a worker's registration is too long")
    try:
        registration = _PlainUnpickler(io.BytesIO(base64.b64decode(body, validate=True))).load()
        addresses, key = registration
        checked = {
            str(name): [(str(host), int(port)) for host, port in places]
            for name, places in addresses.items()
        }
    except _DAMAGE as error:
        raise InvalidValueError(f"not a worker's registration: {error}") from error
    if not isinstance(key, bytes) or len(key) < 16 or not any(checked.values()):
        raise InvalidValueError("not a worker's registration: no key, or no address")
    return checked, key
