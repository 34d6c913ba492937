"""Messages of the driver of a torchft trainer and its replicas: JSON objects over a sealed
connection.

A replica's connection begins with :class:`Hello`. The first one of a replica asks for its steps
(:class:`NextStep`, answered by :class:`Turn`); a second one sets and gets the keys by which the
group's members find each other (:class:`Keys`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TypeVar

from bftrainer.errors import InputFileError
from bftrainer.system.sealed import SealError
from bftrainer.wires.typed_json import from_fields

REPLICA = "BFTRAINER_REPLICA"
"""The environment variable with the replica's name."""
MOST_BYTES = 64 << 10
"""The most bytes of a message."""
T = TypeVar("T")


@dataclass(frozen=True)
class Meeting:
    """Where the replicas of this incarnation meet. The file has mode 0600; ``key``: in hexadecimal
    digits.
    """

    host: str
    port: int
    key: str


@dataclass(frozen=True)
class Hello:
    """The first message of a replica's connection. ``port``: where the replica passes its weights
    on, at the address that it connects from; 0: a connection for keys.
    """

    replica: str
    port: int


@dataclass(frozen=True)
class NextStep:
    """A replica asks for its next step. ``step``: steps that the replica has committed;
    ``failures``: steps in succession that it could not commit.
    """

    step: int
    failures: int


@dataclass(frozen=True)
class Turn:
    """The group of the next step. ``number`` is new whenever connections have to be made again.

    ``source`` (``host:port``): where this replica copies the state after ``step`` steps; empty: it
    has it. ``copies``: how many others copy this replica's.
    """

    number: int
    rank: int
    size: int
    step: int
    source: str
    copies: int


@dataclass(frozen=True)
class Keys:
    """A replica's request about a key, and its answer. ``act`` says which: ``set`` the key to
    ``value`` (Latin-1), ``get`` it once it is there, or ask whether the store ``has`` it.
    """

    act: str
    key: str
    value: str = ""


def packed(message: Hello | NextStep | Turn | Keys) -> bytes:
    """Encode a message as the bytes of a JSON object."""
    return json.dumps(asdict(message)).encode()


def unpacked(kind: type[T], data: bytes | bytearray) -> T:
    """Decode a message of the given kind. Raises :class:`SealError` for anything else: a peer that
    knows the key speaks this language.
    """
    try:
        return from_fields(kind, json.loads(data), kind.__name__)
    except (ValueError, InputFileError, RecursionError) as error:
        raise SealError(f"not a message: {error}") from error
