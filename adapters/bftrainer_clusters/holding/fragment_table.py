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
    """The fragments of a pilot by name. :meth:`put` adds and replaces them, :meth:`show` removes
    those that are gone.

    ``moving`` has the names of the fragments that are not at rest, and of some that have just come
    to rest: :meth:`show` moves these to the resting ones.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, HolderFragment] = {}
        self.moving: dict[str, None] = {}
        self._resting: dict[str, None] = {}  # in the order in which their marks are read
        self._names_by_job: dict[str, set[str]] = {}  # of jobs for several nodes
        self._snapshot: tuple[Fragment, ...] = ()  # every fragment, as last shown
        self._is_snapshot_current = True

    def put(self, changed: Mapping[str, HolderFragment]) -> None:
        """Add or replace fragments; they are watched closely until they come to rest."""
        for name, fragment in changed.items():
            previous = self.by_name.get(name)
            if previous is None and is_one_of_several(name):
                self._names_by_job.setdefault(fragment.job, set()).add(name)
            if previous is None or previous.fragment != fragment.fragment:
                self._is_snapshot_current = False
            self.by_name[name] = fragment
            self.moving[name] = None
            self._resting.pop(name, None)

    def whole_jobs(self, names: Iterable[str]) -> dict[str, HolderFragment]:
        """Return these fragments with all others of their jobs. Unknown names are left out."""
        fragments = {name: self.by_name[name] for name in names if name in self.by_name}
        jobs = {fragment.job for name, fragment in fragments.items() if is_one_of_several(name)}
        for job in jobs:
            fragments |= {name: self.by_name[name] for name in self._names_by_job[job]}
        return fragments

    def in_turn(self, limit: int) -> Iterator[str]:
        """Yield the names of at most ``limit`` fragments at rest; those that were yielded come last
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
        """Return every fragment, by name, and the names of those that are gone.

        Without a change the fragments are the same object as before. The table forgets the gone
        fragments now, so they are shown once. Those at rest are no longer watched closely.
        """
        if not self._is_snapshot_current:
            self._snapshot = tuple(self.by_name[name].fragment for name in sorted(self.by_name))
            self._is_snapshot_current = True
        gone_names = [name for name in self.moving if self.by_name[name].is_gone]
        for name in gone_names:
            self._remove_fragment(name)
        for name in [name for name in self.moving if self.by_name[name].is_at_rest]:
            del self.moving[name]
            self._resting[name] = None
        return self._snapshot, gone_names

    def _remove_fragment(self, name: str) -> None:
        """Remove a moving fragment, and its job with the last of its fragments."""
        fragment = self.by_name.pop(name)
        del self.moving[name]
        self._is_snapshot_current = False
        names = self._names_by_job.get(fragment.job)
        if names is None:  # a job for one node
            return
        names.discard(name)
        if not names:
            del self._names_by_job[fragment.job]
