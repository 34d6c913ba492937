"""The holder jobs of a pilot: those that move, which are watched closely, and those at rest, whose marks are read in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice

from bftrainer.domain.cluster import Fragment, FragmentPhase
from bftrainer_adapters.holding.held import HolderJobState, JobPhase, ListedJob


class HeldJobs:
    """``moving`` are those that are not at rest, and some that have just come to rest."""

    def __init__(self) -> None:
        self.by_name: dict[str, HolderJobState] = {}
        self.by_job: dict[str, list[HolderJobState]] = {}  # the same
        self.moving: dict[str, HolderJobState] = {}
        self._resting: deque[HolderJobState] = deque()  # the others, and some that have changed since the last list
        self._fragments: dict[str, Fragment] = {}
        self._shown: tuple[Fragment, ...] = ()
        self._is_shown = False  # whether they are all of them

    def add(self, name: str, now_s: float) -> HolderJobState:
        held = HolderJobState(name, now_s)
        self.by_name[name] = self.moving[name] = held
        self.by_job.setdefault(held.job, []).append(held)
        return held

    def beside(self, held: HolderJobState) -> list[HolderJobState]:
        """The fragments on the other nodes of its job, but those that are gone."""
        others = self.by_job.get(held.job, ())
        return [other for other in others if other is not held and other.phase is not FragmentPhase.GONE]

    def move(self, held: HolderJobState) -> None:
        """Watch it closely, unless it has been forgotten."""
        if self.by_name.get(held.name) is held:
            self.moving[held.name] = held

    def at_rest(self, most: int) -> Iterator[HolderJobState]:
        """Some of those at rest; the ones that were taken from this are last next time."""
        looked = 0
        try:
            for held in islice(self._resting, most):
                looked += 1
                yield held
        finally:
            self._resting.rotate(-looked)

    def rests_on(self, nodes: frozenset[str]) -> bool:
        """Whether one at rest is on one of these nodes."""
        return any(held.node in nodes for held in self._resting)

    def disturb(self, listed: Mapping[str, ListedJob], now_s: float) -> None:
        """Watch the holders at rest whose listed state or end has changed."""
        for held in self.by_name.values():
            job, ends_s = listed.get(held.job), held.ends_s
            if job is not None and job.phase is JobPhase.RUNS and held.is_at_rest and held.name in job.fragments:
                if held.unlisted or job.ends_s != ends_s:
                    held.compare(job, now_s)  # the end may differ by rounding only
                if held.ends_s == ends_s:
                    continue
            self.moving[held.name] = held
        self._resting = deque(
            held for held in self._resting if held.name in self.by_name and held.name not in self.moving
        )

    def show(self) -> tuple[tuple[Fragment, ...], list[str]]:
        """Every fragment, and the names of those that are gone: these are forgotten."""
        for name, held in self.moving.items():
            if self._fragments.get(name) != (fragment := held.fragment):
                self._fragments[name], self._is_shown = fragment, False
        if not self._is_shown:
            self._shown, self._is_shown = tuple(map(self._fragments.__getitem__, sorted(self._fragments))), True
        gone = [name for name, held in self.moving.items() if held.phase is FragmentPhase.GONE]
        for name in gone:
            held = self.moving.pop(name)
            del self.by_name[name], self._fragments[name]
            self.by_job[held.job].remove(held)
            if not self.by_job[held.job]:
                del self.by_job[held.job]
            self._is_shown = False
        for name in [name for name, held in self.moving.items() if held.is_at_rest]:
            self._resting.append(self.moving.pop(name))
        return self._shown, gone
