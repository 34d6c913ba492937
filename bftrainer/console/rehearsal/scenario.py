"""The acts of a rehearsal. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bftrainer.config.trainer_file import TrainerSpec


class ActKind(Enum):
    """What an act does to the trainer."""

    START = "start"
    """A driver is started; training resumes from the checkpoint, if there is one."""
    STOP = "stop request"
    """Checkpoint and leave, as after `bftrainer pause`."""
    GROW = "grow"
    SHRINK = "shrink"
    MOVE = "move"
    """All of its nodes are replaced."""
    KILL = "kill -9"
    """A node is lost without notice: its workers get SIGKILL."""
    KILL_ALL = "kill -9 of all"
    """All nodes are lost without notice: only files are left."""
    EMPTY = "no nodes"
    """The trainer gets no nodes: checkpoint and leave."""


ENDING_ACTS = frozenset({ActKind.STOP, ActKind.EMPTY})
"""Acts after which no process of the trainer runs."""


@dataclass(frozen=True, slots=True)
class Act:
    """One change in a rehearsal; ``nodes`` is the number of nodes after it."""

    kind: ActKind
    nodes: int

    def __str__(self) -> str:
        """Return the act in words, as in "grow to 2 nodes"."""
        nodes: str = f"{self.nodes} node{'s' * (self.nodes != 1)}"
        match self.kind:
            case ActKind.START:
                return f"start on {nodes}"
            case ActKind.GROW | ActKind.SHRINK:
                return f"{self.kind.value} to {nodes}"
            case ActKind.MOVE:
                return f"move to {nodes} with new names"
            case ActKind.KILL:
                return "kill -9 of a worker"
            case ActKind.KILL_ALL:
                return "kill -9 of all workers"
            case _:
                return str(self.kind.value)


def sizes_of(spec: TrainerSpec) -> tuple[int, int | None]:
    """Return the smallest legal size and the next one; None for the latter if there is only one
    size.
    """
    candidates = spec.sizes
    if candidates is None:  # any number of nodes: the smallest two are enough
        candidates = (spec.min_nodes, spec.min_nodes + 1)
    sizes = sorted(n for n in candidates if spec.min_nodes <= n <= spec.max_nodes and n > 0)
    return sizes[0], sizes[1] if len(sizes) > 1 else None


def scenario(small: int, large: int | None, quick: bool = False) -> tuple[Act, ...]:
    """Return the acts of a rehearsal on the sizes ``small`` and ``large``, in order; ``large`` is
    None for a trainer of one size.

    The first two starts have one size, so that they can be compared with a run without a stop.
    """
    begin = [Act(ActKind.START, small), Act(ActKind.STOP, 0), Act(ActKind.START, small)]
    grow = [] if large is None else [Act(ActKind.GROW, large)]
    # With one node at most, the loss of a node is the loss of all.
    kill_one = [] if large is None and small == 1 else [*grow, Act(ActKind.KILL, small)]
    kill = [*kill_one, Act(ActKind.KILL_ALL, small)]
    if quick:
        return (*begin, *kill, Act(ActKind.STOP, 0))
    shrink = [] if large is None else [*grow, Act(ActKind.SHRINK, small)]
    end = [Act(ActKind.EMPTY, 0), Act(ActKind.START, small), Act(ActKind.STOP, 0)]
    return (*begin, *shrink, Act(ActKind.MOVE, small), *kill, *end)
