"""Blocks of the torus of Mira (Blue Gene/Q), as Cobalt names them.

A block ``MIR-abcde-fghij[-bits]-size`` is a box between two corners, with a hex digit per
dimension, in a torus of 8 x 12 x 16 x 16 x 2 nodes. In a dimension where the second corner is the
lower one, the box wraps around. A block that is wired past midplanes, such as
``MIR-00000-7BFF1-0100-32768``, has a bit for each of the first four dimensions: where it is 1, the
block has the midplanes at both corners, and of the midplanes between them only the wires.
"""

from __future__ import annotations

import functools
import itertools
import math
import re

from bftrainer_replay.logs.jobs import BadLineError

MIRA_SHAPE = (8, 12, 16, 16, 2)
_BLOCK = re.compile(r"MIR-([0-9A-F]{5})-([0-9A-F]{5})(?:-([0-9A-F]{1,5}))?-(\d{1,5})")
_MIDPLANE = 4
"""Nodes of a midplane in each of the first four dimensions."""
_WIRES = re.compile(r"[01]{4}")


def is_block(text: str) -> bool:
    """Return whether ``text`` names a block of Mira."""
    return text.startswith("MIR-")


def nodes_of_block(text: str) -> list[str]:
    """Return the names of the nodes of a block of Mira, such as MIR-48840-7BB71-512.

    A block is a box between two corners of the torus; a node is named by its coordinates. Raises
    :class:`BadLineError` if the box does not have the number of nodes at the end of the name.
    """
    match = _BLOCK.fullmatch(text)
    if not match:
        raise BadLineError(
            f"{text[:60]!r} is not a block of Mira, expected one like MIR-48840-7BB71-512"
        )
    axes = []  # the coordinates of the box in each dimension
    for low, high, size in zip(match[1], match[2], MIRA_SHAPE, strict=True):
        first, last = int(low, 16), int(high, 16)
        if first >= size or last >= size:
            raise BadLineError(
                f"{text[:60]!r} is outside the torus {'x'.join(map(str, MIRA_SHAPE))}"
            )
        axes.append(
            ["0123456789ABCDEF"[(first + step) % size] for step in range((last - first) % size + 1)]
        )
    n_nodes, wires = int(match[4]), match[3] or ""
    if math.prod(map(len, axes)) != n_nodes and _WIRES.fullmatch(wires):
        # The fifth dimension has no bit: a midplane has both of its nodes.
        axes = [
            _at_corners(axis) if bit == "1" else axis
            for axis, bit in zip(axes, f"{wires}0", strict=True)
        ]
    if math.prod(map(len, axes)) != n_nodes:
        raise BadLineError(
            f"block {text[:60]} is a box of {math.prod(map(len, axes))} nodes, not {n_nodes}"
        )
    return ["MIR-" + "".join(digits) for digits in itertools.product(*axes)]


def _at_corners(axis: list[str]) -> list[str]:
    """Return the coordinates in the first and the last midplane of a dimension."""
    return axis if len(axis) <= 2 * _MIDPLANE else [*axis[:_MIDPLANE], *axis[-_MIDPLANE:]]


@functools.cache
def all_nodes() -> tuple[str, ...]:
    """Return the names of all nodes of Mira."""
    corner = "".join("0123456789ABCDEF"[size - 1] for size in MIRA_SHAPE)
    return tuple(nodes_of_block(f"MIR-00000-{corner}-49152"))
