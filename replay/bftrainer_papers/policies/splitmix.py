"""Random numbers without a generator object: SplitMix64 (Steele, Lea, Flood 2014).

Its whole state is one integer, so a policy can keep it in its memory, which is frozen and
journaled.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1


def draw(state: int, sides: int) -> tuple[int, int]:
    """Return a random number in 0 .. ``sides`` - 1, and the next state."""
    state = (state + 0x9E3779B97F4A7C15) & _MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) % sides, state
