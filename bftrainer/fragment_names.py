"""Names of fragments: ``node#id``, where ``id`` is the holder job's. Only here are they put
together and taken apart.

A node that returns is held by another job and so is another fragment. A holder job of several nodes
has a fragment for each, ``node#job.node``: ids stay unique, and drivers know fragments by them. A
slot is a fragment of one GPU, ``node#job.gI`` with its index I in the job's CUDA_VISIBLE_DEVICES;
all slots of a holder are a part of the node. The payloads in ``on_node/`` run without bftrainer and
write these forms themselves.
"""

from __future__ import annotations

import re
from functools import lru_cache

_SLOT = re.compile(r"(?P<part>(?P<node>.+)#[^#]+)\.(?!(?P=node)$)g\d+")
_SEPARATOR = "#"
_OF_SEVERAL = "."


def fragment_name(node: str, id: str) -> str:
    """``node#id``."""
    return f"{node}{_SEPARATOR}{id}"


def id_in_job(job: str, node: str) -> str:
    """The id of a node's fragment in a holder job of several nodes."""
    return f"{job}{_OF_SEVERAL}{node}"


def slot_name(node: str, job: str, index: int) -> str:
    """``node#job.gI``."""
    return f"{node}{_SEPARATOR}{job}{_OF_SEVERAL}g{index}"


@lru_cache(maxsize=65536)
def part_of(fragment: str) -> str:
    """``node#job`` of a slot; any other fragment is a part of its own."""
    found = _SLOT.fullmatch(fragment)
    return found["part"] if found else fragment


@lru_cache(maxsize=65536)
def is_slot(fragment: str) -> bool:
    """Whether a fragment is one GPU of a node. ``g1#7.g1``, of a holder of several nodes, is
    not.
    """
    return part_of(fragment) != fragment


def slot_id(job: str, gpu: int) -> str:
    """The id of one GPU of a holder."""
    return f"{job}{_OF_SEVERAL}g{gpu}"


def gpu_of(slot: str) -> int:
    """The index in a slot's name or id."""
    return int(id_of(slot).rpartition(f"{_OF_SEVERAL}g")[2])


def holder_of(slot: str) -> str:
    """The holder of a slot; a holder of one node is its own."""
    return fragment_name(node_of(slot), job_of(slot))


def job_of(fragment: str) -> str:
    """The id of a batch system's holder job, from a fragment's name or id."""
    return id_of(fragment).partition(_OF_SEVERAL)[0]


def is_one_of_several(fragment: str) -> bool:
    """Whether a batch system's holder job has other nodes as well."""
    return _OF_SEVERAL in id_of(fragment)


def node_of(fragment: str) -> str:
    """The node in a fragment's name; empty where the text is no such name."""
    return fragment.rpartition(_SEPARATOR)[0]


def id_of(fragment: str) -> str:
    """The holder's job id in a fragment's name; the whole text where it is no such name."""
    return fragment.rpartition(_SEPARATOR)[2]


def is_fragment_name(text: str) -> bool:
    """Whether ``text`` has the form ``node#id``. No name of a node has it."""
    return _SEPARATOR in text
