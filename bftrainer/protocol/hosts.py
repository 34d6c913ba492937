"""``hosts``: the nodes that a trainer is to use, one line ``host:slots:fragment`` each. Format and parser."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer.system.regular import read_regular

MAX_BYTES = 16 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, order=True)
class HostSlots:
    """``slots`` workers on a node, inside the fragment with the id ``fragment``."""

    node: str
    slots: int
    fragment: str


def format_hosts(hosts: Iterable[HostSlots]) -> str:
    """The content of ``hosts``; empty: leave all nodes."""
    return "".join(f"{it.node}:{it.slots}:{it.fragment}\n" for it in hosts)


def parse_hosts(text: str, where: str) -> tuple[HostSlots, ...]:
    """The lines in their order; blank ones are skipped. Raises :class:`InputFileError` (``where:line``)."""
    found: dict[str, HostSlots] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        host, slots, fragment = line.strip().split(":") if line.count(":") == 2 else ("", "", "")
        if not (
            _NAME.fullmatch(host)
            and _NAME.fullmatch(fragment)
            and slots.isdecimal()
            and len(slots) <= 7
            and int(slots) > 0
        ):
            raise InputFileError(f"{where}:{number}", f"expected host:slots:fragment, found {line!r:.200}")
        if host in found:
            raise InputFileError(f"{where}:{number}", f"host {host} is listed twice")
        found[host] = HostSlots(host, int(slots), fragment)
    return tuple(found.values())


def read_hosts(path: Path) -> tuple[HostSlots, ...]:
    """A file of this form. Raises :class:`InputFileError`."""
    try:
        return parse_hosts(read_regular(path, MAX_BYTES).decode(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(str(path), str(error)) from error


def write_hosts(path: Path, hosts: Iterable[HostSlots]) -> None:
    """Replace a file of this form by atomic rename."""
    from bftrainer.system.files import write_atomically  # as in write_json

    write_atomically(path, format_hosts(hosts).encode())
