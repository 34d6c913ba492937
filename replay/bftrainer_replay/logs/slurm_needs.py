"""Slurm's words for the needs of a job: TRES, time limits, reasons.

They are the same in all outputs of Slurm 20.11 to 26.05.
"""

from __future__ import annotations

import math
import re

from bftrainer_replay.logs.fields import name_of
from bftrainer_replay.logs.job_needs import Block, JobNeeds, JobUse
from bftrainer_replay.logs.jobs import BadLineError

_PAIR = re.compile(r"(?:cpu|gres/([\w.+-]+(?::[\w.+-]+)?))=(\d{1,9})(?:,|$)")
_ELAPSED = re.compile(r"(?:(\d{1,5})-)?(?:(\d{1,6}):)?(\d{1,8}):(\d\d)(?:\.\d{1,6})?")
# Words of sacct for an unknown reason, and the reasons that only say that other jobs come first.
_NO_BLOCK = frozenset({"", "none", "unknown", "(null)", "priority", "resources"})
_BLOCK_OF_REASON = {
    "dependency": Block.DEPENDENCY,
    "dependencyneversatisfied": Block.DEPENDENCY,
    "begintime": Block.BEGIN_TIME,
    "deadline": Block.BEGIN_TIME,
    "jobarraytasklimit": Block.LIMIT,
    "partitionnodelimit": Block.LIMIT,
    "partitiontimelimit": Block.LIMIT,
    "accountnotallowed": Block.LIMIT,
    "qosnotallowed": Block.LIMIT,
}
_LIMITS = ("assoc", "qos", "max")


def block_of(reason: str) -> Block:
    """Return why a job cannot start on any node, from the reason that sacct gives for its wait.

    "QOSMaxJobsPerUserLimit" is LIMIT. Reasons that only say that nodes are taken, such as Priority,
    are none. sacct keeps a job's last reason other than Priority and Resources.
    """
    word = reason.strip().lower()
    if word in _NO_BLOCK:
        return Block.NONE
    if word in _BLOCK_OF_REASON:
        return _BLOCK_OF_REASON[word]
    if word.startswith(("jobheld", "jobhold", "held")) or "requeued_held" in word:
        return Block.HELD
    # AssocGrpCpuLimit, AssocMaxJobsLimit, QOSMaxJobsPerUserLimit, MaxCpuPerAccount, ...
    return Block.LIMIT if word.startswith(_LIMITS) else Block.OTHER


def limit_s(text: str) -> float:
    """Return a time limit in seconds; infinite without a limit, NaN if not recorded.

    The text is in minutes (TimelimitRaw) or like ``10-13:27:06`` (Timelimit).
    """
    word = text.strip()
    if word.isdecimal() and len(word) <= 9:
        return 60.0 * int(word)
    if word.upper() in ("UNLIMITED", "INFINITE"):
        return math.inf
    return elapsed_s(word)


def elapsed_s(text: str) -> float:
    """Return ``[days-][hours:]minutes:seconds`` in seconds; NaN for any other text.

    Other texts are, for example, ``Partition_Limit`` and an empty one.
    """
    match = _ELAPSED.fullmatch(text)
    if not match:
        return math.nan
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def needs_of(
    partition: str,
    constraint: str,
    reason: str,
    tres: str,
    nodes: int,
    account: str = "",
    qos: str = "",
) -> JobNeeds:
    """Return what a job asks of each of its ``nodes`` nodes, and why it waits.

    ``tres`` is ReqTRES, such as ``billing=8,cpu=8,gres/gpu=2,node=1``. Raises :class:`BadLineError`
    for a partition or a constraint that cannot be a name.
    """
    if (
        not partition.isascii()
        or not constraint.isascii()
        or len(partition) + len(constraint) > 4096
    ):
        raise BadLineError(
            f"partition {partition[:40]!r} or constraint {constraint[:40]!r} is not a name"
        )
    constraint = "" if constraint.strip() in ("", "(null)", "None") else constraint.strip()
    cores, devices = _each_node(tres, nodes)
    return JobNeeds(
        partition=partition.strip(),
        constraint=constraint,
        block=block_of(reason),
        cores=cores,
        devices=devices,
        account=name_of(account),
        qos=name_of(qos),
    )


def use_of(tres: str, nodes: int) -> JobUse:
    """Return what a job of ``nodes`` nodes uses of each; ``tres`` is AllocTRES."""
    return JobUse(*_each_node(tres, nodes))


def _each_node(tres: str, nodes: int) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Return the cores and the (device, count) pairs of each of ``nodes`` nodes, from a text of
    TRES.

    TRES are the totals of a job over all its nodes.
    """
    cores, devices = 0.0, {}
    for device, count in _PAIR.findall(tres[:4096]):
        per_node = int(count) / max(nodes, 1)
        if device:
            devices[device] = per_node
        else:
            cores = per_node
    return cores, tuple(sorted(devices.items())[:8])
