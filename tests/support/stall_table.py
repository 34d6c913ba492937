"""Stalls of several kinds of trainers in groups of several sizes, as one table.

A group begins with all its nodes. For each size, largest first, one node leaves, a new one joins,
and one worker is killed, so one trainer gives the figures of all sizes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from support.horovod_trainer import Trainer

CASES = ("grow", "shrink", "kill")
Found = dict[tuple[str, str], list[float]]
"""Seconds by group (``4 x 1``: 4 nodes with one worker each) and case."""


class Cluster(Protocol):
    """A trainer whose nodes come and go. Each method returns the stall in seconds."""

    def begin(self, nodes: int) -> None:
        """Start on this many nodes, and train."""

    def grow(self) -> float:
        """A node joins."""

    def shrink(self) -> float:
        """A node leaves with notice."""

    def kill(self) -> float:
        """A node is lost: one of its workers is killed."""


Kind = Callable[[Path, int], AbstractContextManager[Cluster]]
"""Makes the cluster of one kind, in a folder, with slots per node."""


class Hosts:
    """Nodes of a trainer directory: every worker is a local process. ``stall_s``: after a time, to
    a world size.
    """

    def __init__(
        self, trainer: Trainer, slots: int, stall_s: Callable[[Trainer, int, float], float]
    ) -> None:
        self.trainer = trainer
        self.slots = slots
        self.stall_s = stall_s
        self.fragments: list[int] = []
        self.last = 0

    def begin(self, nodes: int) -> None:
        self.fragments, self.last = list(range(1, nodes + 1)), nodes
        self.trainer.start(self._listed())
        self.trainer.steps(nodes * self.slots, timeout_s=180)

    def grow(self) -> float:
        self.last += 1
        self.fragments.append(self.last)
        return self._measured(self.trainer.hosts(self._listed()))

    def shrink(self) -> float:
        self.fragments.pop(0)
        return self._measured(self.trainer.hosts(self._listed()))

    def kill(self) -> float:
        lost = self.fragments.pop(len(self.fragments) // 2)
        killed_s = self.trainer.kill(str(lost))
        found = self._measured(killed_s)
        self.trainer.hosts(self._listed())
        return found

    def _measured(self, asked_s: float) -> float:
        size = len(self.fragments) * self.slots
        self.trainer.event("running", asked_s, timeout_s=180, world_size=size)
        self.trainer.steps(size, timeout_s=180)
        return self.stall_s(self.trainer, size, asked_s)

    def _listed(self) -> str:
        return " ".join(f"n{fragment}:{self.slots}:{fragment}" for fragment in self.fragments)


def measure(
    cluster: Cluster, slots: int, sizes: Sequence[int]
) -> Iterator[tuple[tuple[str, str], float]]:
    """Groups of these numbers of nodes, which fall."""
    cluster.begin(sizes[0])
    nodes = sizes[0]
    for size in sizes:
        while nodes > size:
            cluster.shrink()
            nodes -= 1
        group = f"{size} x {slots}"
        yield (group, "shrink"), cluster.shrink()
        yield (group, "grow"), cluster.grow()
        yield (group, "kill"), cluster.kill()
        nodes = size - 1


def print_stalls(description: str | None, kinds: Mapping[str, Kind], once: Sequence[str]) -> None:
    """The command line of a script that measures. The kinds in ``once`` are measured once, the
    others ``--repeat`` times.
    """
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--repeat", type=int, default=3, help="trainers of our own kinds (default 3)"
    )
    options.add_argument(
        "--kinds",
        nargs="*",
        choices=list(kinds),
        default=list(kinds),
        help="default all",
        metavar="KIND",
    )
    options.add_argument(
        "--nodes",
        nargs="*",
        type=int,
        default=[8, 4, 3, 2],
        help="with one worker each (default 8 4 3 2)",
    )
    options.add_argument(
        "--pairs",
        nargs="*",
        type=int,
        default=[4, 2],
        help="nodes with two workers each (default 4 2)",
    )
    chosen = options.parse_args()
    chosen.kinds = chosen.kinds or [kind for kind in kinds if "cold" not in kind]
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory(prefix="bftrainer-stalls-") as folder:
        for kind in chosen.kinds:
            for turn in range(1 if kind in once else chosen.repeat):
                for slots, sizes in ((1, chosen.nodes), (2, chosen.pairs)):
                    if not sizes:
                        continue
                    print(
                        f"{kind}, {slots} workers per node, turn {turn + 1} ...",
                        file=sys.stderr,
                        flush=True,
                    )
                    with kinds[kind](
                        Path(folder) / f"{kind}-{slots}-{turn}".replace(" ", "-"), slots
                    ) as cluster:
                        for key, seconds in measure(cluster, slots, sorted(sizes, reverse=True)):
                            found.setdefault(kind, {}).setdefault(key, []).append(seconds)
                            print(
                                f"  {key[0]} {key[1]}: {seconds:.2f} s", file=sys.stderr, flush=True
                            )
    groups = [
        *(f"{n} x 1" for n in sorted(chosen.nodes)),
        *(f"{n} x 2" for n in sorted(chosen.pairs)),
    ]
    print_table(found, groups)


def print_table(found: Mapping[str, Found], groups: Sequence[str]) -> None:
    """As the documentation has it: seconds, median (smallest to largest) where there are
    several.
    """
    print("| nodes x workers | launcher | " + " | ".join(CASES) + " |\n|---|---|---|---|---|")
    for group in groups:
        for kind, seconds in found.items():
            print(
                f"| {group} | {kind} | "
                + " | ".join(cell(seconds[group, case]) for case in CASES)
                + " |"
            )


def cell(seconds: Sequence[float]) -> str:
    """One figure of the table."""
    spread = f" ({min(seconds):.2f} to {max(seconds):.2f})" if len(seconds) > 1 else ""
    return f"{statistics.median(seconds):.2f} s{spread}"


@contextmanager
def hosts_of(
    trainer: Trainer, slots: int, stall_s: Callable[[Trainer, int, float], float]
) -> Iterator[Hosts]:
    """A trainer directory's cluster, ended afterwards."""
    with trainer:
        yield Hosts(trainer, slots, stall_s)
