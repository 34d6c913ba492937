"""Names of fragments: ``node#id``, where ``id`` is the holder job's. Only here are they put together and taken apart.

A node that returns is held by another job and so is another fragment. The payloads in ``on_node/`` run without bftrainer
and write this form themselves.
"""

from __future__ import annotations

_SEPARATOR = "#"


def fragment_name(node: str, id: str) -> str:
    """``node#id``."""
    return f"{node}{_SEPARATOR}{id}"


def node_of(fragment: str) -> str:
    """The node in a fragment's name; empty where the text is no such name."""
    return fragment.rpartition(_SEPARATOR)[0]


def id_of(fragment: str) -> str:
    """The holder's job id in a fragment's name; the whole text where it is no such name."""
    return fragment.rpartition(_SEPARATOR)[2]


def is_fragment_name(text: str) -> bool:
    """Whether ``text`` has the form ``node#id``. No name of a node has it."""
    return _SEPARATOR in text
