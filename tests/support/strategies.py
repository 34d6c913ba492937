"""Hypothesis strategies for curves, demands and problems; sizes are small so that brute force can
follow.
"""

from __future__ import annotations

from hypothesis import strategies as st

from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.problem import Problem, TrainerDemand

SECONDS = st.one_of(st.just(0.0), st.floats(0.5, 600.0))


@st.composite
def curves(draw: st.DrawFn, first: int = 1, last: int = 8) -> Curve:
    """Covers [first, last]: concave, convex, linear or irregular (which may fall and may be 0)."""
    inside = draw(st.sets(st.integers(first, last), max_size=4))
    nodes = sorted({first, last, *inside})
    unit = draw(st.floats(0.01, 1e5))
    shape = draw(st.sampled_from(("concave", "convex", "linear", "irregular")))
    if shape == "irregular":
        rates = draw(st.lists(st.floats(0, 100), min_size=len(nodes), max_size=len(nodes)))
        return Curve(tuple(nodes), tuple(unit * r for r in rates))
    power = {
        "concave": draw(st.floats(0.2, 0.99)),
        "convex": draw(st.floats(1.01, 2.5)),
        "linear": 1.0,
    }[shape]
    return Curve(tuple(nodes), tuple(unit * n**power for n in nodes))


@st.composite
def demands(draw: st.DrawFn, id: str = "t", largest: int = 8, free: int = 8) -> TrainerDemand:
    """With a dead zone where min_nodes > 1; ``current`` at most ``free``, possibly below the
    minimum, as after a loss.
    """
    high = draw(st.integers(1, largest))
    low = draw(st.integers(1, high))
    first, beyond = draw(st.integers(1, low)), draw(st.integers(0, 2))
    sizes = draw(st.none() | st.sets(st.just(0) | st.integers(low, high), min_size=1, max_size=4))
    return TrainerDemand(
        id,
        draw(curves(first, high + beyond)),
        low,
        high,
        draw(SECONDS),
        draw(SECONDS),
        draw(st.integers(0, min(high, free))),
        tuple(sorted(sizes)) if sizes is not None else None,
    )


@st.composite
def problems(draw: st.DrawFn, max_trainers: int = 4, max_pool: int = 12) -> Problem:
    """Current maps with and without room; with listed sizes that leave out 0 a problem may have no
    answer.
    """
    held: list[TrainerDemand] = []
    free = draw(st.integers(0, max_pool))
    for j in range(draw(st.integers(0, max_trainers))):
        held.append(draw(demands(id=f"t{j}", largest=8, free=free)))
        free -= held[-1].current
    room = draw(st.sampled_from((0, 1, free)) | st.integers(0, free))
    pool = sum(c.current for c in held) + min(room, free)
    return Problem(pool, draw(st.sampled_from((0.0, 1.0, 120.0)) | st.floats(0, 1e4)), tuple(held))
