"""Slots: what trainers get of a held node, which is all of it or one of its GPUs.

The core, the journal and the files of other processes contain the names of slots. Code that has
to know more of one asks :func:`slot_of`; the name is taken apart only there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from bftrainer.fragment_names import fragment_name, id_of, is_fragment_name, node_of, slot_id

_GPU_NAME = re.compile(r"(?P<fragment>(?P<node>.+)#[^#]+)\.(?!(?P=node)$)g(?P<gpu>\d+)")


@dataclass(frozen=True, slots=True)
class Slot:
    """A node as one holder has it, or one of its GPUs.

    ``holder_id`` identifies the holder on its node; empty: the node of a log, which nobody holds.
    ``gpu`` is the index in the holder's CUDA_VISIBLE_DEVICES; None: the slot is the whole node.
    """

    node: str
    holder_id: str = ""
    gpu: int | None = None
    fragment: str = field(init=False, compare=False)
    """The name of what the holder has of the node: the slots of one fragment are a *part*."""

    def __post_init__(self) -> None:
        name = fragment_name(self.node, self.holder_id) if self.holder_id else self.node
        object.__setattr__(self, "fragment", name)

    @property
    def id(self) -> str:
        """The id by which drivers know the slot on its node."""
        return self.holder_id if self.gpu is None else slot_id(self.holder_id, self.gpu)

    @property
    def name(self) -> str:
        """``node``, ``node#id`` or ``node#id.gI``."""
        return self.fragment if self.gpu is None else fragment_name(self.node, self.id)


@lru_cache(maxsize=65536)
def slot_of(name: str) -> Slot:
    """Return the slot of a name; equal names give the same object.

    ``node#id.gI`` is a GPU, except if ``gI`` is the node's own name: ``g1#7.g1`` is the whole node
    g1 of the holder job 7, which has several nodes and therefore fragments ``node#job.node``.
    """
    match = _GPU_NAME.fullmatch(name)
    if match is not None:
        fragment = match["fragment"]
        return Slot(node_of(fragment), id_of(fragment), int(match["gpu"]))
    return Slot(node_of(name), id_of(name)) if "#" in name else Slot(name)


class Grain(StrEnum):
    """What trainers count, and get of a node: the setting ``nodes.unit``."""

    NODE = "node"
    GPU = "gpu"

    @classmethod
    def of(cls, names: Iterable[str]) -> Grain:
        """The grain of these slots: GPU if any of them is a GPU."""
        # The node of a log has no holder, and is no GPU: a log has millions of joins.
        held = [name for name in names if is_fragment_name(name)]
        return cls.GPU if any(slot_of(name).gpu is not None for name in held) else cls.NODE

    @property
    def divides_nodes(self) -> bool:
        """Whether trainers get the GPUs of a node one by one, and parts of shared nodes."""
        return self is Grain.GPU

    @property
    def noun(self) -> str:
        """The noun of a count."""
        return "GPU" if self is Grain.GPU else "node"

    @property
    def size_key(self) -> str:
        """The key of a trainer's largest size in its file."""
        return f"max_{self.value}s"

    def finer(self, other: Grain) -> Grain:
        """The grain of a pool with slots of both."""
        return Grain.GPU if Grain.GPU in (self, other) else Grain.NODE
