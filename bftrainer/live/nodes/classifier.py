"""Node classes of the site: which class a node is of, how many nodes of each class trainers could use.

A class is a table of the configuration, ``[classes.NAME]``, the first whose conditions a node meets; a node that meets none is
of a class with all nodes of the same hardware, such as ``4 a100`` or ``32 cpus``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bftrainer.config.pilot import NodeClassConfig
from bftrainer.domain.cluster import NodeView, Observation
from bftrainer.domain.fragments import node_of
from bftrainer.domain.state import Classes, Nodes, State
from bftrainer.live.nodes.fragments import matches


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """What the trainers could use: (``max_nodes``, its class; None: it may still go to any) for each."""

    wants: tuple[tuple[int, str | None], ...] = ()

    @property
    def total(self) -> int:
        """Nodes in all."""
        return sum(n for n, _ in self.wants)

    def of(self, name: str) -> int:
        """Nodes of one class, at most."""
        return sum(n for n, own in self.wants if own in (None, name))


def class_of(node: NodeView, classes: Mapping[str, NodeClassConfig]) -> str:
    """The first class whose conditions hold, else what the hardware is."""
    return next((name for name, it in classes.items() if _meets(node, it)), node.node_class)


def _meets(node: NodeView, it: NodeClassConfig) -> bool:
    if it.partitions and set(it.partitions).isdisjoint(node.partitions):
        return False
    if it.hosts and not matches(node.name, it.hosts):
        return False
    return it.gpu is None or it.gpu in {device.kind for device in node.devices}


@dataclass(slots=True)
class NodeClassifier:
    """What is known of nodes and fragments. A fragment keeps the class that its node had when it joined the pool."""

    _nodes: dict[str, tuple[str, int]] = field(default_factory=dict)
    _traits: dict[str, tuple[object, ...]] = field(default_factory=dict)  # what _nodes was worked out from
    _classes: dict[str, NodeClassConfig] = field(default_factory=dict)
    _fragments: dict[str, str] = field(default_factory=dict)
    _has_seen: bool = False

    def remember(self, told: State) -> None:
        """What the core was told before."""
        known = {name: kind for kind, nodes in told.classes for name in nodes}
        self._fragments.update({name: known.get(name, "") for name in told.pool})

    def look(self, seen: Observation, classes: Mapping[str, NodeClassConfig]) -> None:
        """One more observation."""
        if dict(classes) != self._classes:
            self._classes, self._traits = dict(classes), {}
        for n in seen.nodes:
            traits = (n.partitions, n.devices, n.cpus)
            if self._traits.get(n.name) != traits:
                self._traits[n.name] = traits
                self._nodes[n.name] = (class_of(n, classes), n.gpu_count)
        self._has_seen = True

    def of_node(self, node: str) -> str | None:
        """The node's class; None before it can be known."""
        found = self._nodes.get(node)
        return found[0] if found is not None else "" if self._has_seen else None

    def gpus(self, node: str) -> int:
        """How many it has, all of them."""
        return self._nodes.get(node, ("", 0))[1]

    def of(self, fragment: str) -> str | None:
        """The fragment's class; None before it can be known."""
        if fragment not in self._fragments:
            found = self.of_node(node_of(fragment))
            if found is None:
                return None
            self._fragments[fragment] = found
        return self._fragments[fragment]

    def forget(self, fragment: str) -> None:
        """It is over."""
        self._fragments.pop(fragment, None)

    def by_class(self, fragments: Iterable[str]) -> Classes:
        """These fragments, put into their classes."""
        found: dict[str, set[str]] = {}
        for name in fragments:
            found.setdefault(self.of(name) or "", set()).add(name)
        return tuple((kind, Nodes(names)) for kind, names in sorted(found.items()))
