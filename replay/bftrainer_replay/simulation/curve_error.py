"""Which curves the policy gets: the true ones, none, or wrong ones; and whether it corrects them by measurement.

``known``: the true curves. ``learn``: no curves; they are measured during the replay. ``wrong:KIND``: wrong curves, taken
for true. ``learn:KIND``: wrong curves, corrected by measurement. Kinds: ``factor`` (each trainer's curve times 0.5, 1 or 2,
at random), ``linear`` (the one-node rate times n), ``flat`` (the one-node rate on any number of nodes).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

from bftrainer.allocation.objectives import one_node_rate
from bftrainer.domain.model import Curve, Learning, Trainer
from bftrainer.errors import UnknownNameError
from bftrainer_replay.simulation.world import Arrival

CurveMode = Literal[
    "known", "learn", "wrong:factor", "wrong:linear", "wrong:flat", "learn:factor", "learn:linear", "learn:flat"
]
CURVE_MODES: tuple[str, ...] = get_args(CurveMode)
FACTORS = (0.5, 1.0, 2.0)
BLANK_UP_S, BLANK_DOWN_S = 20.0, 10.0  # the trainer file's defaults


def with_curve_error(
    arrivals: Sequence[Arrival], what: str, seed: int = 0, *, by_model: bool = True, learning: Learning | None = None
) -> tuple[Arrival, ...]:
    """The same trainers as their users would describe them; ``what`` is one of :data:`CURVE_MODES`.

    ``by_model``: trainers of one model share their measurements; otherwise each trainer has its own. ``learning`` has the
    other settings.
    """
    if what not in CURVE_MODES:
        raise UnknownNameError("--curves", what, CURVE_MODES)
    if what == "known":
        return tuple(arrivals)
    mode, _, kind = what.partition(":")
    rng = random.Random(seed)  # seeded: a replay must be reproducible
    found = []
    for arrival in arrivals:
        true = arrival.actual or arrival.trainer
        settings = replace(learning or Learning(), key=true.model if by_model else "", blank=not kind)
        said = replace(true, curve=_KINDS[kind](true, rng)) if kind else _blank(true)
        if mode == "learn":
            said = replace(said, learning=settings)
        found.append(replace(arrival, trainer=said, actual=true))
    return tuple(found)


def _blank(true: Trainer) -> Trainer:
    nodes = (1, true.max_nodes) if true.max_nodes > 1 else (1,)
    curve = Curve(nodes, tuple(map(float, nodes)))
    return replace(true, curve=curve, scale_up_s=BLANK_UP_S, scale_down_s=BLANK_DOWN_S, start_s=None)


def _factor(true: Trainer, rng: random.Random) -> Curve:
    factor = rng.choice(FACTORS)
    return Curve(true.curve.nodes, tuple(factor * value for value in true.curve.per_s))


def _linear(true: Trainer, rng: random.Random) -> Curve:
    return Curve(true.curve.nodes, tuple(one_node_rate(true) * n for n in true.curve.nodes))


def _flat(true: Trainer, rng: random.Random) -> Curve:
    return Curve(true.curve.nodes, tuple(one_node_rate(true) * true.min_nodes for _ in true.curve.nodes))


_KINDS: dict[str, Callable[[Trainer, random.Random], Curve]] = {"factor": _factor, "linear": _linear, "flat": _flat}
