"""The class of a node, by the tables of the configuration or by its hardware."""

from __future__ import annotations

from collections.abc import Mapping

from bftrainer.cluster.model import NodeView
from bftrainer.config.host_lists import matches
from bftrainer.config.pilot import NodeClassConfig
from bftrainer.slots import Grain


def class_of(
    node: NodeView, classes: Mapping[str, NodeClassConfig], grain: Grain = Grain.NODE
) -> str:
    """Return the class of a node: the first class of the configuration that it matches, else its
    hardware, such as ``4 a100``.
    """
    for name, node_class in classes.items():
        if _is_in_class(node, node_class):
            return name
    return node.hardware_class(grain)


def _is_in_class(node: NodeView, node_class: NodeClassConfig) -> bool:
    """Whether a node has the partition, the name and the GPU type that a class asks for."""
    if node_class.partitions and set(node_class.partitions).isdisjoint(node.partitions):
        return False
    if node_class.hosts and not matches(node.name, node_class.hosts):
        return False
    return node_class.gpu is None or node_class.gpu in {device.kind for device in node.devices}
