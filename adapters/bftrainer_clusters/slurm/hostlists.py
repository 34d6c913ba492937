"""The lists of nodes that Slurm prints (``node[01-08,10]``), bounded each and in sum. Pure.

A list of 30 characters can stand for 200,000 names, and one answer may contain a list for each of
thousands of jobs. The names of a list are counted before one is made
(:func:`bftrainer.config.host_lists.expand`), and an answer shares what it can: a name is kept once,
and equal lists are one set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bftrainer.config.host_lists import MOST_NODES, expand
from bftrainer.counted import counted
from bftrainer.errors import InvalidValueError, SchedulerError

NOTHING = ("", "(null)", "N/A", "None", "none", "n/a")
"""Slurm's words for no node, which otherwise read like host names."""
MOST_LISTED = 2_000_000
"""Nodes in the different lists of one answer, each list counted: 128 MB of sets. On 9,000 nodes,
200 jobs of full size, each with another node left out.
"""
LONGEST_LIST = 1_000_000
_HOST_LIST = re.compile(r"[A-Za-z0-9_.\[\],-]+")


@dataclass(slots=True)
class HostLists:
    """Reads the lists of one answer: with at most ``most_nodes`` different names, and at most
    ``most_listed`` names in the sum of all different lists.
    """

    most_listed: int = MOST_LISTED
    most_nodes: int = MOST_NODES
    _names: dict[str, str] = field(default_factory=dict, init=False)
    """Each name by itself: the one string that all sets share."""
    _names_by_text: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _listed_count: int = field(default=0, init=False)

    def read(self, text: str) -> frozenset[str]:
        """Return the names in a list: ``n[1-3]`` -> n1, n2, n3; none for Slurm's words for nothing.
        Equal lists are one set. Raises ``SchedulerError`` as :meth:`_expanded_nodes` does.
        """
        if text in NOTHING:
            return frozenset()
        names = self._names_by_text.get(text)
        if names is None:
            names = self._expanded_nodes(text)
            self._names_by_text[text] = names
        return names

    def _expanded_nodes(self, text: str) -> frozenset[str]:
        """Expand a list of nodes. Raises ``SchedulerError`` if it is none, or if the lists of this
        answer are too large for one cluster.
        """
        if len(text) > LONGEST_LIST or not _HOST_LIST.fullmatch(text):
            raise SchedulerError(f"not a list of nodes: {text[:80]!r}")
        try:
            names = expand(text, self.most_nodes)
        except InvalidValueError as error:
            raise SchedulerError(f"not a list of nodes: {text[:80]!r}: {error}") from error
        self._listed_count += len(names)
        if self._listed_count > self.most_listed:
            raise SchedulerError(
                f"Slurm's answer lists more than {counted(self.most_listed, 'node')} in sum, "
                f"at {text[:80]!r}: not one cluster"
            )
        shared = frozenset(self._names.setdefault(name, name) for name in names)
        if len(self._names) > self.most_nodes:
            raise SchedulerError(
                f"Slurm's answer names more than {counted(self.most_nodes, 'node')}, at "
                f"{text[:80]!r}: not one cluster"
            )
        return shared


def parse_hostlist(text: str) -> frozenset[str]:
    """Return the names in one list: ``n[1-3]`` -> n1, n2, n3."""
    return HostLists().read(text)
