"""``hosts``: the nodes that a trainer is to use. Format and parser.

A line is ``host:slots:fragment``. Under ``nodes.unit = "gpu"`` it is ``host:slots:job:1,2,5``, with
the indices of the GPUs that the trainer has of this holder; each of them is read as a host of one
slot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import InputFileError
from bftrainer.fragment_names import gpu_of, job_of, slot_id
from bftrainer.system.regular import read_regular

MAX_BYTES = 16 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_GPUS = re.compile(r"[0-9]{1,4}(,[0-9]{1,4})*", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class HostSlots:
    """``slots`` workers on a node, inside the fragment with the id ``fragment``. ``is_gpu``: that
    is one GPU of a part.
    """

    node: str
    slots: int
    fragment: str
    is_gpu: bool = False

    @property
    def gpu(self) -> int:
        """The index of its GPU in the holder's job."""
        return gpu_of(self.fragment)

    @property
    def part(self) -> tuple[str, str]:
        """What the GPUs of one holder have in common; of a host that is no GPU, its own."""
        return self.node, job_of(self.fragment) if self.is_gpu else self.fragment


def parts_of(hosts: Iterable[HostSlots]) -> dict[tuple[str, str], list[HostSlots]]:
    """The hosts by part, in their order."""
    found: dict[tuple[str, str], list[HostSlots]] = {}
    for host in hosts:
        found.setdefault(host.part, []).append(host)
    return found


def format_hosts(hosts: Iterable[HostSlots]) -> str:
    """The content of ``hosts``; empty: leave all nodes."""
    lines = []
    for (node, fragment), part in parts_of(hosts).items():
        gpus = ":" + ",".join(str(it.gpu) for it in part) if part[0].is_gpu else ""
        lines.append(f"{node}:{sum(it.slots for it in part)}:{fragment}{gpus}\n")
    return "".join(lines)


def parse_hosts(text: str, where: str) -> tuple[HostSlots, ...]:
    """The lines in their order; blank ones are skipped. Raises :class:`InputFileError`
    (``where:line``).
    """
    found: dict[tuple[str, str], list[HostSlots]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        host, slots, fragment, *more = (
            line.strip().split(":") if line.count(":") in (2, 3) else ("", "", "")
        )
        gpus = more[0].split(",") if more and _GPUS.fullmatch(more[0]) else []
        if not (
            _NAME.fullmatch(host)
            and _NAME.fullmatch(fragment)
            and slots.isdecimal()
            and len(slots) <= 7
            and int(slots) > 0
            and (
                not more
                or (
                    "." not in fragment
                    and int(slots) == len({int(gpu) for gpu in gpus}) == len(gpus)
                )
            )
        ):
            expected = (
                "host:slots:fragment, or host:slots:job:GPUS with as many different GPUs as slots"
            )
            raise InputFileError(f"{where}:{number}", f"expected {expected}; found {line!r:.200}")
        if (host, fragment if more else "") in found:
            raise InputFileError(f"{where}:{number}", f"host {host} is listed twice")
        found[host, fragment if more else ""] = (
            [HostSlots(host, 1, slot_id(fragment, int(gpu)), True) for gpu in gpus]
            if more
            else [HostSlots(host, int(slots), fragment)]
        )
    return tuple(host for part in found.values() for host in part)


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
