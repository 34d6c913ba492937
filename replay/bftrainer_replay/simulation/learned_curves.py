"""Trainers whose curves the policy does not know and measures during the replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bftrainer.decide.domain.model import Curve, Learning
from bftrainer_replay.simulation.replay_world import Arrival

BLANK_UP_S, BLANK_DOWN_S = 20.0, 10.0  # the trainer file's defaults


def without_curves(
    arrivals: Sequence[Arrival], *, by_model: bool = True, learning: Learning | None = None
) -> tuple[Arrival, ...]:
    """Return the trainers as users describe them who do not know how fast their trainers are.

    They have blank curves, which the policy has to learn, and default costs. The true trainers stay
    in ``actual``. ``by_model``: trainers of one model share their measurements; otherwise each
    trainer has its own. ``learning`` has the other settings.
    """
    described = []
    for arrival in arrivals:
        true = arrival.actual or arrival.trainer
        # A blank curve is a straight line.
        nodes = (1, true.max_nodes) if true.max_nodes > 1 else (1,)
        blank = replace(
            true,
            curve=Curve(nodes, tuple(map(float, nodes))),
            scale_up_s=BLANK_UP_S,
            scale_down_s=BLANK_DOWN_S,
            start_s=None,
            learning=replace(
                learning or Learning(), key=true.model if by_model else "", blank=True
            ),
        )
        described.append(replace(arrival, trainer=blank, actual=true))
    return tuple(described)
