"""Parsers of PBS's output: records of ``-F dsv``, nodes of ``pbsnodes -F json``, reservations of
``pbs_rstat -F``, attributes of ``qmgr``. Pure. Checked with recordings of OpenPBS 23.06.06
(tests/recorded/openpbs-23.06.06).

Jobs are read as DSV, one line each, whose values have ``|`` and line breaks escaped. Plain
``qstat -f`` can be forged by a line break in a variable, and JSON with several ids shows the first
job only. Nodes have no text of ordinary users, so JSON is safe there.

Times are in the time zone of the command, so every command runs with :data:`ENVIRONMENT`.
"""

from __future__ import annotations

import calendar
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bftrainer.cluster.model import Availability, Device, NodeView, Reservation
from bftrainer.errors import SchedulerError, UnknownStateError

ENVIRONMENT = {"TZ": "UTC"}

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_TIME = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4,12})", re.ASCII
)
_LENGTH = re.compile(r"(\d{1,8}):(\d\d):(\d\d)", re.ASCII)
_BAR = re.compile(r"(?<!\\)\|")
_VNODE = re.compile(r"\[\d+\]$")
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_ATTRIBUTE = re.compile(r"\s*([A-Za-z_][\w.]*) = (.*)", re.ASCII)

# The words of a node's state. A node has several of them, joined by commas.
_WORDS = {
    "free": Availability.FREE,
    **dict.fromkeys(("job-busy", "job-exclusive", "job-sharing", "busy"), Availability.BUSY),
    **dict.fromkeys(
        (
            "down",
            "initializing",
            "maintenance",
            "offline",
            "offline_by_mom",
            "provisioning",
            "resv-exclusive",
            "sleep",
            "Stale",
            "stale",
            "state-unknown",
            "unresolvable",
            "wait-provisioning",
        ),
        Availability.UNUSABLE,
    ),
}
_WITHDRAWN = frozenset({"offline", "offline_by_mom", "maintenance"})
_WORSE = (Availability.FREE, Availability.BUSY, Availability.UNUSABLE)
_ENDED_RESERVATIONS = ("FINISHED", "DELETED", "DELETING", "UNCONFIRMED", "WAIT", "NONE")


@dataclass(frozen=True, slots=True)
class PbsRecord:
    """A record of ``-F dsv``: its id or name, and its attributes, whose values are still escaped.

    ``is_whole`` is False where an attribute that every such record has is missing: a value of the
    user's must have hidden it.
    """

    id: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    is_whole: bool = True

    def get(self, key: str) -> str:
        return self.attributes.get(key, "")


def records_of(text: str, title: str, needed: Iterable[str]) -> tuple[PbsRecord, ...]:
    """Parse records, each in a line that begins with ``title`` (``Job Id``) and a colon. A first
    occurrence of an attribute counts. Raises ``SchedulerError`` for any other line, and for one
    that is cut off.
    """
    if text and not text.endswith("\n"):
        raise SchedulerError(f"output truncated: ...{text[-60:]!r}")
    records = []
    prefix = f"{title}: "
    for line in text.split("\n"):
        if not line.strip():
            continue
        if not line.startswith(prefix):
            raise SchedulerError(f"unrecognized line {line[:60]!r}, expected {prefix!r}")
        id_, *pieces = _BAR.split(line.removeprefix(prefix))
        if not re.fullmatch(r"[\w.\[\]-]+", id_, re.ASCII):
            raise SchedulerError(f"{id_[:60]!r} is no name of a record")
        attributes: dict[str, str] = {}
        for piece in pieces:
            key, _, value = piece.partition("=")
            attributes.setdefault(key, value)
        is_whole = all(key in attributes for key in needed)
        records.append(PbsRecord(id_, attributes, is_whole))
    return tuple(records)


def parse_time(text: str) -> float:
    """Parse ``Sat Nov 28 16:26:57 2026``, in UTC, into seconds since 1970. A time after the year
    9999 is infinity: a user may reserve a node for ten thousand years.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None or match[1] not in _MONTHS:
        raise SchedulerError(f"{text[:60]!r} is not a time")
    day, hour, minute, second, year = (int(match[index]) for index in range(2, 7))
    if year > 9999:
        return math.inf
    return float(calendar.timegm((year, _MONTHS[match[1]], day, hour, minute, second)))


def parse_length(text: str) -> float:
    """Parse a length of time, ``HH:MM:SS`` or a number of seconds, in seconds."""
    if _NUMBER.fullmatch(text):
        return float(text)
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise SchedulerError(f"{text[:60]!r} is not a length of time")
    return 3600.0 * int(match[1]) + 60.0 * int(match[2]) + int(match[3])


def vnodes_of(place: str) -> tuple[str, ...]:
    """Return the vnodes in ``(n4[0]:ncpus=4+n4[1]:ncpus=4)+(n4)``, each once."""
    chunks = re.sub(r"[()]", "", place).split("+")
    return tuple(dict.fromkeys(name for chunk in chunks if (name := chunk.partition(":")[0])))


def natural_vnode(vnode: str) -> str:
    """Return the vnode that has the name of the host: ``n4`` of ``n4[1]``."""
    return _VNODE.sub("", vnode)


@dataclass(frozen=True, slots=True)
class PbsNodes:
    """All hosts, the host of each vnode, and the jobs that PBS shows on the hosts. ``at_s`` is by
    the clock of this host: pbsnodes does not ask the server for the time.
    """

    at_s: float
    views: tuple[NodeView, ...]
    host_of: Mapping[str, str]
    jobs: frozenset[str]

    def hosts(self, place: str) -> frozenset[str]:
        """Return the hosts of an exec_vnode. A vnode that is not listed is named after its host."""
        return frozenset(
            self.host_of.get(vnode, natural_vnode(vnode)) for vnode in vnodes_of(place)
        )

    def occupied(self, places: Iterable[str], planned: Iterable[str]) -> tuple[NodeView, ...]:
        """Return the nodes with those in ``places`` as busy, whatever PBS shows of them: a
        suspended job is on no node by pbsnodes. Idle ones in ``planned`` are kept for a job.
        """
        busy = frozenset().union(*map(self.hosts, places))
        kept = frozenset().union(*map(self.hosts, planned))
        return tuple(_with_jobs(view, busy, kept) for view in self.views)


def _with_jobs(view: NodeView, busy: frozenset[str], kept: frozenset[str]) -> NodeView:
    if view.availability is not Availability.FREE:
        return view
    if view.name in busy:
        return replace(view, availability=Availability.BUSY)
    if view.name in kept:
        return replace(view, availability=Availability.PLANNED)
    return view


def parse_nodes(text: str, gpu_resource: str = "ngpus") -> PbsNodes:
    """Parse ``pbsnodes -av -F json``. The vnodes of a host are one node, which is as free as the
    least free of them. Raises ``SchedulerError`` and ``UnknownStateError``.
    """
    document = json.loads(text, strict=False)
    nodes = document.get("nodes")
    if not isinstance(nodes, dict) or not nodes:
        raise SchedulerError("pbsnodes lists no node")
    by_host: dict[str, list[dict[str, Any]]] = {}
    host_of: dict[str, str] = {}
    jobs: set[str] = set()
    for vnode, facts in nodes.items():
        host = str(facts.get("resources_available", {}).get("host") or facts.get("Mom") or vnode)
        by_host.setdefault(host, []).append(facts)
        host_of[vnode] = host
        jobs.update(map(str, facts.get("jobs") or ()))
    views = tuple(_host(host, parts, gpu_resource) for host, parts in sorted(by_host.items()))
    at_s = float(document["timestamp"])
    if not math.isfinite(at_s):
        raise SchedulerError(f"pbsnodes shows the time {at_s}")
    return PbsNodes(at_s, views, host_of, frozenset(jobs))


def _host(host: str, parts: Sequence[Mapping[str, Any]], gpu_resource: str) -> NodeView:
    """Build the view of a host from its vnodes. ``free`` does not mean idle: a node with 6 of 8
    cores in use is free by its state.
    """
    words = [word.strip() for facts in parts for word in str(facts["state"]).split(",")]
    for word in words:
        if word not in _WORDS:
            raise UnknownStateError("node", word)
    availability = max((_WORDS[word] for word in words), key=_WORSE.index)
    if availability is Availability.FREE and any(map(_is_used, parts)):
        availability = Availability.BUSY
    gpus = sum(_amount(facts, gpu_resource) for facts in parts)
    return NodeView(
        host,
        availability,
        devices=(Device("", gpus),) if gpus else (),
        cpus=sum(_amount(facts, "ncpus") for facts in parts),
        state=",".join(dict.fromkeys(words)),
        is_withdrawn=not _WITHDRAWN.isdisjoint(words),
    )


def _is_used(facts: Mapping[str, Any]) -> bool:
    assigned = facts.get("resources_assigned") or {}
    return bool(facts.get("jobs")) or any(
        not re.fullmatch(r"0+[a-z]*", str(amount)) for amount in assigned.values()
    )


def _amount(facts: Mapping[str, Any], resource: str) -> int:
    value = str((facts.get("resources_available") or {}).get(resource, 0))
    return int(value) if _NUMBER.fullmatch(value) else 0


def attributes_of(text: str, title: str) -> list[tuple[str, dict[str, str]]]:
    """Parse blocks of ``key = value`` lines, each after a line of ``title`` and a name, such as
    ``Resv ID: R1.head`` or ``Sched default``. A line that begins with a tab continues the one
    before. The first occurrence of a key in a block counts. Blocks of one name stay apart: a line
    break in a value of a user's may forge one, which must not hide the other.
    """
    if text and not text.endswith("\n"):
        raise SchedulerError(f"output truncated: ...{text[-60:]!r}")
    blocks: list[tuple[str, dict[str, str]]] = []
    block: dict[str, str] | None = None
    for line in text.replace("\n\t", "").split("\n"):
        if line.startswith(title):
            block = {}
            blocks.append((line.removeprefix(title).strip(), block))
        elif block is not None and (match := _ATTRIBUTE.fullmatch(line)) is not None:
            block.setdefault(match[1], match[2].strip())
    if text.strip() and not blocks:
        raise SchedulerError(f"unrecognized output {text.strip()[:60]!r}, expected {title!r}")
    return blocks


def parse_reservations(text: str) -> tuple[tuple[Reservation, str], ...]:
    """Parse ``pbs_rstat -F``: each reservation that has nodes, with its ``resv_nodes``; its set of
    nodes is empty. A standing one shows its next occurrence.
    """
    reservations = []
    for id_, block in attributes_of(text, "Resv ID:"):
        state = block["reserve_state"].removeprefix("RESV_")
        place = block.get("resv_nodes", "")
        if not place or state.startswith(_ENDED_RESERVATIONS):
            continue
        starts_s, ends_s = (parse_time(block[key]) for key in ("reserve_start", "reserve_end"))
        reservations.append((Reservation(id_, starts_s, ends_s, frozenset()), place))
    return tuple(reservations)


def short_id(job: str) -> str:
    """Return a job's id without the name of its server: ``445`` of ``445.head``. Commands take it
    for a job of the default server.
    """
    return job.partition(".")[0]


def unknown_jobs(errors: str) -> frozenset[str]:
    """Return the jobs that a command's standard error says are unknown or over, without the names
    of their servers.
    """
    unknown = re.findall(r"Unknown Job Id:? (\d+(?:\[\d*\])?)", errors, re.ASCII)
    over = re.findall(r"(\d+(?:\[\d*\])?)\S* Job has finished", errors, re.ASCII)
    after = re.findall(r"Job has finished (\d+(?:\[\d*\])?)", errors, re.ASCII)
    return frozenset((*unknown, *over, *after))
