"""The facts that a log may have on a job besides its times and size: what a waiting job needs to
start, and what a running job uses.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class JobFact(enum.Enum):
    """What a log may record of each job; the value names it in text
    (:class:`~bftrainer_replay.logs.dialect.Dialect`).
    """

    TIME_LIMIT = "time limits"
    PARTITION = "partitions"
    REASON = "reasons for waiting"
    RESOURCES = "requested cores and devices"
    CONSTRAINT = "constraints"
    USE = "allocated cores and devices"


class Block(enum.IntEnum):
    """Why a job cannot start on any node. The causes of idle nodes are distinguished in this
    order.
    """

    NONE = 0
    DEPENDENCY = 1
    BEGIN_TIME = 2
    HELD = 3
    LIMIT = 4
    OTHER = 5


BEFORE_ELIGIBLE = frozenset({Block.DEPENDENCY, Block.BEGIN_TIME, Block.HELD})
"""Reasons that end when a job becomes eligible. Slurm keeps such a reason also for a job that then
waits for nodes.
"""


@dataclass(frozen=True, slots=True)
class JobNeeds:
    """What a job asks of each of its nodes, as recorded in the log. Empty texts and 0 stand for
    nothing, or for what was not recorded.

    ``partition`` may list several, separated by commas: the job starts in any one of them.
    ``devices`` are pairs of a name (``gpu``, ``gpu:a100``) and a number, sorted by name.
    ``account`` and ``qos`` are those of the job; the nodes that it may use do not depend on them.
    """

    partition: str = ""
    constraint: str = ""
    block: Block = Block.NONE
    cores: float = 0.0
    devices: tuple[tuple[str, float], ...] = ()
    account: str = ""
    qos: str = ""


@dataclass(frozen=True, slots=True)
class JobUse:
    """Cores and devices of one job on each of its nodes, if they are spread evenly."""

    cores: float = 0.0
    devices: tuple[tuple[str, float], ...] = ()


NO_NEEDS, NO_USE = JobNeeds(), JobUse()
