"""Parsers of what LSF's bhosts and bjobs print; pure.

Tried with recordings only (tests/lsf/samples names their sources); no LSF was available. Every
function raises :class:`~bftrainer.errors.SchedulerError` with the text that it does not understand:
truncated or missing output is not an empty cluster. :func:`says_nothing` recognizes LSF's way to
say "none".
"""

from __future__ import annotations

import json
import re
from typing import Any

from bftrainer.cluster.model import Availability, Device, NodeView, PendingJob
from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer.system.command import Output
from bftrainer.system.printable import printable

HOST_FIELDS = "host_name status max njobs run ssusp ususp rsv"
# Without the names of jobs: a decision rests on nothing that other users write.
PENDING_FIELDS = "jobid stat user queue nreq_slot"
_HOST_KEYS = ("HOST_NAME", "STATUS", "MAX", "NJOBS", "RSV")
_NONE_STATUSES = (254, 255)
"""Exit statuses of commands that found nothing; see :func:`answer_of`."""

# bhosts' words, with and without -w (bhosts reference of LSF 10.1). A host that is "closed" for any
# reason takes no job.
_STATES = {
    "ok": Availability.FREE,
    **dict.fromkeys(("closed_Excl", "closed_Full"), Availability.BUSY),
    **dict.fromkeys(
        ("unavail", "unreach", "unlicensed", "closed", "closed_Adm", "closed_Busy"),
        Availability.UNUSABLE,
    ),
    **dict.fromkeys(
        ("closed_cu_Excl", "closed_EGO", "closed_LIM", "closed_Lock"), Availability.UNUSABLE
    ),
    **dict.fromkeys(("closed_RC", "closed_Wind"), Availability.UNUSABLE),
}
_CLOSED = (
    "closed_adm"  # by badmin hclose: jobs there run on, and the administrator waits for their end
)
_BY_LOWER = {word.lower(): availability for word, availability in _STATES.items()}
# "Please wait": mbatchd restarts and the command retries by itself; LSF 10.1 prints this before the
# output.
_WAITING = re.compile(
    r"\s*(?:Cannot connect to LSF|LSF is down|batch system daemon not responding).*", re.IGNORECASE
)
_NOTHING = re.compile(
    r"^\s*(?:No (?:unfinished|pending|running|matching|suspended) job found|No job found|Job "
    r"<\S+> is not found|"
    r"No reservation found|No backfill window|No matching job found)",
    re.IGNORECASE | re.MULTILINE,
)
_UNKNOWN = re.compile(r"^\s*Job <([0-9]+)>(?: is not found|: No matching job found)", re.MULTILINE)


def says_nothing(text: str) -> bool:
    """Return whether LSF says in a line of its own that there is nothing to list. A JSON document
    never says so in a line: it has no records then.
    """
    return not is_document(text) and _NOTHING.search(text) is not None


def is_document(text: str) -> bool:
    """Return whether an output begins as ``-json`` output does, which may quote users' words."""
    return text.lstrip().startswith("{")


def answer_of(output: Output) -> str | None:
    """Return LSF's answer, from stdout or stderr; None if the command failed.

    "None found" is on stderr, with status 255, with 254 (the descendant Volclava 2.2) or with 0
    (LSB_BJOBS_CONSISTENT_EXIT_CODE=N, IBM's default). A JSON document with status 255 is an answer
    as well: it has no records (Volclava 2.2), or those of unknown jobs.
    """
    out = without_waiting(output.out)
    if output.status not in (0, *_NONE_STATUSES):
        return None
    if is_document(out):
        return out
    # With status 0, a text on stdout is the answer, whatever it or stderr says.
    if output.status or not out.strip():
        for message in (out, without_waiting(output.err)):
            if says_nothing(message):
                return message
    return None if output.status else out


def unknown_jobs(text: str) -> frozenset[str]:
    """Return the ids of the jobs that LSF says it does not have. An id that LSF says nothing about
    is not one of them.
    """
    text = without_waiting(text)
    if not is_document(text):
        return frozenset(_UNKNOWN.findall(text))
    messages = (item.get("ERROR") for item in _json_records(text, "jobs"))
    matches = (_UNKNOWN.match(message) for message in messages if isinstance(message, str))
    return frozenset(match[1] for match in matches if match is not None)


def without_waiting(text: str) -> str:
    """Return the output without the lines that say that the command waits for mbatchd."""
    return "".join(
        line for line in re.split(r"(?<=\n)", text) if not _WAITING.fullmatch(line.rstrip("\n"))
    )


def records(text: str, what: str) -> list[dict[str, Any]]:
    """Parse all records of a ``-json`` output. Raises ``SchedulerError`` if there are more or fewer
    than its head announces, or if one is an error. ``what`` names the records in errors.
    """
    items = _json_records(text, what)
    for item in items:
        if "ERROR" in item:
            raise SchedulerError(
                f"LSF reports an error about {what}: {printable(str(item['ERROR'])[:200])}"
            )
    return items


def _json_records(text: str, what: str) -> list[dict[str, Any]]:
    """Parse the records of a ``-json`` output, errors about single jobs included. Raises
    ``SchedulerError`` if there are more or fewer than its head announces.
    """
    body = without_waiting(text)
    if not body.strip():
        raise SchedulerError(f"LSF printed nothing about {what}: {text[:60]!r}")
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise SchedulerError(
            f"LSF's output about {what} is not JSON ({error}): {body[:60]!r}"
        ) from error
    items = answer.get("RECORDS") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SchedulerError(f"no RECORDS of {what} in {body[:60]!r}")
    announced = next((answer[key] for key in ("HOSTS", "JOBS", "QUEUES") if key in answer), None)
    if str(announced) != str(len(items)):
        raise SchedulerError(
            f"LSF announces {announced} {what} and lists {len(items)}: {body[:60]!r}"
        )
    return items


def parse_version(text: str) -> str:
    """Return the version in the first line of ``lsid``: ``IBM Spectrum LSF Standard 10.1.0.13, Apr
    10 2022``.
    """
    first = text.lstrip().partition("\n")[0].strip()
    # `[0-9]+` would look at each of a million digits a million times.
    if not re.search(r"[0-9]\.[0-9]", first):
        raise SchedulerError(f"lsid shows no version: {first[:80]!r}")
    return printable(first[:80])


def parse_hosts(text: str, gpus: int = 0) -> tuple[NodeView, ...]:
    """Parse ``bhosts -o HOST_FIELDS -json``; ``gpus`` per node come from the configuration, since
    bhosts does not show them.
    """
    nodes = []
    for item in records(text, "hosts"):
        name, status, slots, jobs, reserved = (value_of(item, key) for key in _HOST_KEYS)
        nodes.append(_node_view(name, status, slots, jobs=jobs, reserved=reserved, gpus=gpus))
    return _unique_nodes(nodes)


def parse_pending(text: str, slots_per_node: int) -> tuple[PendingJob, ...]:
    """Parse ``bjobs -u all -p -o PENDING_FIELDS -json``. LSF shows no planned start with hosts;
    windows come from bslots.
    """
    jobs = []
    for item in records(text, "pending jobs"):
        slots = value_of(item, "NREQ_SLOT")
        if slots not in ("", "-") and not slots.isdecimal():
            raise SchedulerError(f"job {item.get('JOBID')}: {slots!r} is not a number of slots")
        # Rounded up to whole nodes; a job that shows no number of slots counts as one node.
        n_nodes = -(-int(slots) // slots_per_node) if slots.isdecimal() else 1
        jobs.append(
            PendingJob(
                id=value_of(item, "JOBID"),
                user=value_of(item, "USER"),
                partitions=(value_of(item, "QUEUE"),),
                size=n_nodes,
                starts_s=None,
                nodes=frozenset(),
                is_eligible=item.get("STAT") != "PSUSP",  # held by the user or an administrator
            )
        )
    return tuple(jobs)


def value_of(item: dict[str, Any], key: str) -> str:
    """Return a field of a record, which may be empty. Raises ``SchedulerError`` if it is
    missing.
    """
    value = item.get(key)
    if not isinstance(value, str):
        raise SchedulerError(f"no {key} in {str(item)[:80]!r}")
    return value


def _node_view(name: str, status: str, slots: str, jobs: str, reserved: str, gpus: int) -> NodeView:
    """Build the view of a host from its texts in bhosts: ``slots`` is MAX, ``jobs`` is NJOBS, which
    includes reserved slots, and ``reserved`` is RSV.

    An open host is free only if none of its slots is used or reserved; if all of these are
    reserved, it is unusable. Raises ``UnknownStateError`` for an unknown status, and
    ``SchedulerError`` for texts that are no numbers.
    """
    availability = _BY_LOWER.get(status.lower())
    if availability is None:
        raise UnknownStateError("node", status)
    if not name:
        raise SchedulerError("bhosts lists a host without a name")
    n_slots, n_taken, n_reserved = (_number_of_slots(text) for text in (slots, jobs, reserved))
    if min(n_slots, n_taken, n_reserved) < 0 or jobs == "-":
        raise SchedulerError(
            f"host {name}: {slots!r}, {jobs!r}, {reserved!r} are not numbers of slots"
        )
    # NJOBS includes suspended jobs, which keep memory and GPUs. RSV: slots reserved for a job that
    # needs more of them.
    if availability is Availability.FREE and n_taken > n_reserved:
        availability = Availability.BUSY
    elif availability is Availability.FREE and (n_taken or n_reserved):
        availability = Availability.UNUSABLE
    devices = (Device("", gpus),) if gpus else ()
    return NodeView(
        name,
        availability,
        devices=devices,
        cpus=n_slots,
        state=status,
        is_withdrawn=status.lower() == _CLOSED,
    )


def _number_of_slots(text: str) -> int:
    """Parse a number of slots: 0 for ``-``, and -1 for anything else that is no number."""
    if text == "-":
        return 0
    return int(text) if text.isdecimal() else -1


def _unique_nodes(nodes: list[NodeView]) -> tuple[NodeView, ...]:
    """Return the nodes. Raises ``SchedulerError`` if one is listed twice."""
    names = [node.name for node in nodes]
    if len(set(names)) != len(names):
        raise SchedulerError(f"host {next(n for n in names if names.count(n) > 1)} is listed twice")
    return tuple(nodes)
