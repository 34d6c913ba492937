"""What a reader is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import BFTrainerError, UserError

RECORDED = Path(__file__).resolve().parents[2] / "recorded"
Read = Callable[[bytes, Path], object]


@dataclass(frozen=True)
class Reader:
    """``clean`` is what it may raise; ``is_json`` lets the mutations change values in a parsed
    sample, too.
    """

    name: str
    read: Read
    samples: tuple[bytes, ...]
    clean: type[BFTrainerError] = UserError
    is_json: bool = False


def of_file(function: Callable[[Path], object], name: str = "file") -> Read:
    """A reader of a file with this name."""

    def read(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return function(path)

    return read
