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


_LINE = "host:slots:fragment, or host:slots:job:GPUS with as many different GPUs as slots"


@dataclass(frozen=True, slots=True, order=True)
class HostSlots:
    """``slots`` workers on a node, inside the fragment with the id ``fragment``. ``is_gpu``: the
    fragment is one GPU of a holder, and ``slots`` is 1.
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
        """The key that all GPUs of one holder share; a host that is not a GPU has a key of its
        own.
        """
        return self.node, job_of(self.fragment) if self.is_gpu else self.fragment


def parts_of(hosts: Iterable[HostSlots]) -> dict[tuple[str, str], list[HostSlots]]:
    """Group hosts by their :attr:`HostSlots.part`: the GPUs of one holder come together. The order
    stays.
    """
    parts: dict[tuple[str, str], list[HostSlots]] = {}
    for host in hosts:
        parts.setdefault(host.part, []).append(host)
    return parts


def format_hosts(hosts: Iterable[HostSlots]) -> str:
    """Format the content of ``hosts``, a line per holder; an empty file tells the driver to leave
    all nodes.
    """
    lines = []
    for (node, fragment), part in parts_of(hosts).items():
        gpus = f":{_gpu_list(part)}" if part[0].is_gpu else ""
        lines.append(f"{node}:{sum(host.slots for host in part)}:{fragment}{gpus}\n")
    return "".join(lines)


def _gpu_list(part: Iterable[HostSlots]) -> str:
    return ",".join(str(host.gpu) for host in part)


def parse_hosts(text: str, where: str) -> tuple[HostSlots, ...]:
    """Parse the content of ``hosts`` into hosts, in the order of the lines; a line that lists GPUs
    becomes one host per GPU. Raises :class:`InputFileError` (``where:line``).
    """
    hosts_by_key: dict[tuple[str, str], list[HostSlots]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        hosts = _parsed_line(line.strip())
        if not hosts:
            raise InputFileError(f"{where}:{number}", f"expected {_LINE}; found {line!r:.200}")
        node, part = hosts[0].part
        # A node may have several holders of GPUs, but only one line of whole nodes.
        key = node, part if hosts[0].is_gpu else ""
        if key in hosts_by_key:
            raise InputFileError(f"{where}:{number}", f"host {node} is listed twice")
        hosts_by_key[key] = hosts
    return tuple(host for hosts in hosts_by_key.values() for host in hosts)


def _parsed_line(line: str) -> list[HostSlots]:
    """Parse one line: ``n1:4:9`` -> one host of 4 slots, ``n1:2:9:0,3`` -> a host of one slot for
    GPU 0 and one for GPU 3. Empty for a line of another form.
    """
    parts = line.split(":")
    if len(parts) not in (3, 4):
        return []
    node, slots, fragment = parts[:3]
    if not (is_host_name(node) and _NAME.fullmatch(fragment) and is_slot_count(slots)):
        return []
    if len(parts) == 3:
        return [HostSlots(node, int(slots), fragment)]
    gpus = parts[3]
    # The id of a GPU is that of the job with a suffix after a dot: the job's own has no dot.
    if "." in fragment or not _GPUS.fullmatch(gpus):
        return []
    indices = [int(index) for index in gpus.split(",")]
    if len(set(indices)) < len(indices) or len(indices) != int(slots):
        return []
    return [
        HostSlots(node, slots=1, fragment=slot_id(fragment, index), is_gpu=True)
        for index in indices
    ]


def is_host_name(text: str) -> bool:
    """Return whether a text can be the name of a node: letters, digits, dots, dashes and
    underscores, so that no shell and no option parser misreads the name.
    """
    return _NAME.fullmatch(text) is not None


def is_slot_count(text: str) -> bool:
    """Return whether a text is a number of slots: 1 or more, in at most 7 digits."""
    return text.isdecimal() and len(text) <= 7 and int(text) > 0


def read_hosts(path: Path) -> tuple[HostSlots, ...]:
    """Read a file ``hosts``. Raises :class:`InputFileError`."""
    try:
        return parse_hosts(read_regular(path, MAX_BYTES).decode(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(str(path), str(error)) from error


def write_hosts(path: Path, hosts: Iterable[HostSlots]) -> None:
    """Write a file ``hosts`` by atomic rename."""
    from bftrainer.system.files import write_atomically  # as in write_json

    write_atomically(path, format_hosts(hosts).encode())
