"""What identifies a data set: its length, the indices of its split, and a few of its samples.

Samples are compared by sums, not by digests: another processor may round a float otherwise, and
another version of a decoder a pixel.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bftrainer.wires.bounds import number_or_none, whole_or_none

SAMPLES = 3
"""Samples of a data set that are read: the first, the middle and the last."""
_TOLERANCE = 1e-3
_NO_SPLIT = -1
_Sums = tuple[float, float]


class DataSummary(NamedTuple):
    """``length`` in samples; ``split``, a digest of the indices that were chosen (48 bits); and of
    each sample the sum of its values' absolute values, and the sum of its values with fixed signs.

    ``split`` and ``samples`` are None where they are not known, and are not compared then.
    """

    length: int
    split: int | None = None
    samples: tuple[_Sums, ...] | None = None

    def difference(self, other: DataSummary) -> str | None:
        """Return how the other data set differs, in words; None where no difference is known."""
        if self.length != other.length:
            return f"{other.length} samples instead of {self.length}"
        both_split = self.split is not None and other.split is not None
        if both_split and self.split != other.split:
            return f"{self.length} samples, but others"
        if self.samples is None or other.samples is None:
            return None
        same = len(self.samples) == len(other.samples) and all(
            map(_are_equal, self.samples, other.samples)
        )
        return None if same else f"{self.length} samples, but others"

    def numbers(self) -> list[int]:
        """Return the summary as integers of 64 bits, always equally many."""
        split = _NO_SPLIT if self.split is None else self.split
        sums = [value for pair in self.samples or () for value in pair]
        padded = [*sums, *[math.nan] * (2 * SAMPLES - len(sums))][: 2 * SAMPLES]
        return [self.length, split, len(sums), *map(_bits, padded)]

    @classmethod
    def of_numbers(cls, numbers: Sequence[int]) -> DataSummary:
        """Return the summary that :meth:`numbers` has encoded."""
        length, split, count, *bits = numbers
        sums = [_float(number) for number in bits[:count]]
        samples = tuple(zip(sums[::2], sums[1::2])) if count else None
        return cls(length, None if split == _NO_SPLIT else split, samples)

    def as_dict(self) -> dict[str, object]:
        """Return the summary as plain values, for a checkpoint or a line of JSON."""
        summary: dict[str, object] = {"length": self.length, "split": self.split}
        if self.samples is not None:
            summary["samples"] = [list(pair) for pair in self.samples]
        return summary


def parse_summary(value: object) -> DataSummary | None:
    """Return the summary that plain values describe; None for others."""
    if not isinstance(value, Mapping):
        return None
    length = whole_or_none(value.get("length"))
    if length is None:
        return None
    return DataSummary(length, whole_or_none(value.get("split")), _samples(value.get("samples")))


def _samples(value: object) -> tuple[_Sums, ...] | None:
    """Check the sums of samples in a message; None for any other value."""
    if not isinstance(value, (list, tuple)) or len(value) > SAMPLES:
        return None
    samples = []
    for pair in value:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            return None
        absolute, signed = number_or_none(pair[0]), number_or_none(pair[1])
        if absolute is None or signed is None:
            return None
        samples.append((absolute, signed))
    return tuple(samples)


def _are_equal(first: _Sums, second: _Sums) -> bool:
    allowed = _TOLERANCE * max(first[0], second[0])
    return all(abs(a - b) <= allowed for a, b in zip(first, second))


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
