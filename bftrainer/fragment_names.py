"""Names of fragments: ``node#id``, where ``id`` is the holder job's. Only here are they put
together and taken apart.

A node that returns is held by another job and so is another fragment. A holder job of several nodes
has a fragment for each, ``node#job.node``: ids stay unique, and drivers know fragments by them. One
GPU of a fragment has the name ``node#job.gI`` with its index I in the job's CUDA_VISIBLE_DEVICES
(:mod:`bftrainer.slots`). The payloads in ``on_node/`` run without bftrainer and write these forms
themselves.
"""

from __future__ import annotations

_SEPARATOR = "#"
_OF_SEVERAL = "."


def fragment_name(node: str, id: str) -> str:
    """``node#id``."""
    return f"{node}{_SEPARATOR}{id}"


def id_in_job(job: str, node: str) -> str:
    """The id of a node's fragment in a holder job of several nodes."""
    return f"{job}{_OF_SEVERAL}{node}"


def slot_id(job: str, gpu: int) -> str:
    """The id of one GPU of a holder."""
    return f"{job}{_OF_SEVERAL}g{gpu}"


def gpu_of(slot_id: str) -> int:
    """The index in the id of one GPU of a holder."""
    return int(slot_id.rpartition(f"{_OF_SEVERAL}g")[2])


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
