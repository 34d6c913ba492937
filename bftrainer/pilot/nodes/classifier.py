"""Node classes of a site: the class of each node and fragment, and how many nodes of each class
trainers could use.

A class is a table of the configuration, ``[classes.NAME]``. A node belongs to the first class that
it matches. A node that matches none belongs to the class of all nodes with the same hardware, such
as ``4 a100`` or ``32 cpus``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bftrainer.cluster.classes import class_of
from bftrainer.cluster.model import Observation
from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import NodeClassConfig
from bftrainer.decide.domain.state import Classes, Nodes, State
from bftrainer.fragment_names import node_of


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """How many nodes trainers could use.

    ``trainer_limits``: (``max_nodes``, node class; None: any) of each trainer.
    ``move_costs``: the fragments of each trainer, and the node-seconds that the trainer loses if it
    leaves some of them and joins others.
    """

    trainer_limits: tuple[tuple[int, str | None], ...] = ()
    rescale_s: float = 0.0
    """The seconds in which the quickest trainer grows onto a node."""
    min_size: int = 1
    """The smallest size of any trainer."""
    move_costs: tuple[tuple[Nodes, float], ...] = ()

    @property
    def total(self) -> int:
        return sum(n for n, _ in self.trainer_limits)

    def of(self, node_class: str) -> int:
        """Return the largest number of nodes of one class that trainers could use."""
        return sum(n for n, own_class in self.trainer_limits if own_class in (None, node_class))


@dataclass(frozen=True, slots=True)
class _ClassedNode:
    """A node's class and GPUs, and the traits of the node that they follow from."""

    traits: tuple[object, ...]
    node_class: str
    gpus: int


class NodeClassifier:
    """Tells the classes of nodes and fragments. A fragment keeps the class that its node had at
    first, whatever is configured later.
    """

    def __init__(self, config: ConfigCell, last_state: State) -> None:
        """Start with the fragments of ``last_state``, which a previous pilot left, and with the
        classes that they have there.
        """
        self._config = config
        self._configured = config.now.classes
        self._nodes: dict[str, _ClassedNode] = {}
        classes = {name: node_class for node_class, nodes in last_state.classes for name in nodes}
        self._fragments: dict[str, str] = {name: classes.get(name, "") for name in last_state.pool}
        self._is_observed = False

    def observe(self, observation: Observation) -> None:
        """Classify nodes that are new or have changed; all nodes if the tables of the configuration
        have changed.
        """
        if self._config.now.classes != self._configured:
            self._configured = self._config.now.classes
            # No node has empty traits, so each gets its class again when it is observed.
            self._nodes = {
                name: replace(classed, traits=()) for name, classed in self._nodes.items()
            }
        for node in observation.nodes:
            traits = (node.partitions, node.devices, node.cpus)
            classed = self._nodes.get(node.name)
            if classed is None or classed.traits != traits:
                node_class = class_of(node, self._configured, self._config.now.nodes.unit)
                self._nodes[node.name] = _ClassedNode(traits, node_class, node.gpu_count)
        self._is_observed = True

    def configured(self, node_class: str | None) -> NodeClassConfig | None:
        """The configuration of a class, if it has a table."""
        return None if node_class is None else self._config.now.classes.get(node_class)

    def of_node(self, node: str) -> str | None:
        """Return the node's class: empty for a node that no observation has shown; None before the
        first observation.
        """
        classed = self._nodes.get(node)
        if classed is not None:
            return classed.node_class
        return "" if self._is_observed else None

    def gpus(self, node: str) -> int:
        """Return the number of a node's GPUs, used or not; 0 for a node that was not observed."""
        classed = self._nodes.get(node)
        return 0 if classed is None else classed.gpus

    def of(self, fragment: str) -> str | None:
        """Return the fragment's class, which stays the same from then on; None before the first
        observation.
        """
        if fragment not in self._fragments:
            node_class = self.of_node(node_of(fragment))
            if node_class is None:
                return None
            self._fragments[fragment] = node_class
        return self._fragments[fragment]

    def forget(self, fragment: str) -> None:
        self._fragments.pop(fragment, None)

    def by_class(self, fragments: Iterable[str]) -> Classes:
        """Return these fragments by class, sorted by the name of the class."""
        names_by_class: dict[str, set[str]] = {}
        for name in fragments:
            names_by_class.setdefault(self.of(name) or "", set()).add(name)
        return tuple(
            (node_class, Nodes(names)) for node_class, names in sorted(names_by_class.items())
        )
