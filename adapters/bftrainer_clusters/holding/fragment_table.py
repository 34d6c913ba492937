"""The fragments of a pilot: those that move, which are watched closely, and those at rest, whose
marks are read in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from bftrainer.cluster.model import Fragment
from bftrainer.fragment_names import is_one_of_several
from bftrainer_clusters.holding.holder_fragment import HolderFragment


class FragmentTable:
    """The fragments of a pilot by name. ``moving`` are those that are not at rest, and some that
    have just come to rest. ``put`` is the only writer.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, HolderFragment] = {}
        self.moving: dict[str, None] = {}
        self._resting: dict[str, None] = {}  # in the order in which their marks are read
        self._jobs: dict[str, set[str]] = {}  # names by job, of jobs for several nodes
        self._shown: tuple[Fragment, ...] = ()
        self._is_shown = True

    def put(self, changed: Mapping[str, HolderFragment]) -> None:
        """Add or replace fragments; they are watched closely until they come to rest."""
        for name, held in changed.items():
            before = self.by_name.get(name)
            if before is None and is_one_of_several(name):
                self._jobs.setdefault(held.job, set()).add(name)
            self._is_shown = (
                self._is_shown and before is not None and before.fragment == held.fragment
            )
            self.by_name[name], self.moving[name] = held, None
            self._resting.pop(name, None)

    def whole_jobs(self, names: Iterable[str]) -> dict[str, HolderFragment]:
        """Return these fragments with all others of their jobs. Unknown names are left out."""
        fragments = [held for name in names if (held := self.by_name.get(name)) is not None]
        whole = {held.name: held for held in fragments}
        for job in {held.job for held in fragments if is_one_of_several(held.name)}:
            whole |= {name: self.by_name[name] for name in self._jobs[job]}
        return whole

    def in_turn(self, limit: int) -> Iterator[str]:
        """Yield the names of some fragments at rest; those that were yielded come last
        next time.
        """
        for name in list(islice(self._resting, limit)):
            del self._resting[name]
            self._resting[name] = None
            yield name

    def rests_on(self, nodes: frozenset[str]) -> bool:
        """Return whether a fragment at rest is on one of these nodes."""
        return any(self.by_name[name].node in nodes for name in self._resting)

    def show(self) -> tuple[tuple[Fragment, ...], list[str]]:
        """Return every fragment, and the names of those that are gone, which the table
        forgets now.
        """
        if not self._is_shown:
            self._shown, self._is_shown = (
                tuple(self.by_name[name].fragment for name in sorted(self.by_name)),
                True,
            )
        departed = [name for name in self.moving if self.by_name[name].is_gone]
        for name in departed:
            held = self.by_name.pop(name)
            del self.moving[name]
            if (names := self._jobs.get(held.job)) is not None:
                names.discard(name)
                if not names:
                    del self._jobs[held.job]
            self._is_shown = False
        for name in [name for name in self.moving if self.by_name[name].is_at_rest]:
            del self.moving[name]
            self._resting[name] = None
        return self._shown, departed
