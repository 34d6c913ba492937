"""Learning: measurements of an event update the state, and the admitted trainers get new estimates.
Pure.

Worlds report measurements in their events; all measurements are part of the state; the policy sees
estimated trainers only. So the pilot and the replay learn by the same code, and the events of a
journal give the same decisions again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from bftrainer.counted import counted
from bftrainer.decide.domain.events import LengthSeen, Measured, RateSeen, StallSeen, WorkLost
from bftrainer.decide.domain.measurements import Measurements, middle
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.sizes import largest_of, sizes_of
from bftrainer.decide.domain.state import Active, State
from bftrainer.decide.estimation.estimates import estimate

# The costs of a rescale from the submitted ones and the measurements. Pure.

TOLERANCE = 0.02
"""An estimated curve or cost is replaced when it has changed by more than this, relative."""
TRAINS_ON_S = 1.0
"""A trainer that still reports progress this long after the decision trains on while new nodes
start.
"""


def with_costs(submitted: Trainer, now: Trainer, measured: Measurements) -> Trainer:
    """Return the trainer ``now`` with the measured rescaling costs.

    The costs that were ``submitted`` hold where nothing was measured. The same object is returned
    if none changed by more than ``TOLERANCE``.
    """
    up_s = _settled(now.scale_up_s, middle(measured.ups) if measured.ups else submitted.scale_up_s)
    down_s = _settled(
        now.scale_down_s, middle(measured.downs) if measured.downs else submitted.scale_down_s
    )
    start_s = _start_s(submitted, now, measured)
    from_zero_s = None if start_s is None else _from_zero_s(submitted, now, measured)
    if (up_s, down_s, start_s, from_zero_s) == (
        now.scale_up_s,
        now.scale_down_s,
        now.start_s,
        now.from_zero_s,
    ):
        return now
    return replace(
        now, scale_up_s=up_s, scale_down_s=down_s, start_s=start_s, from_zero_s=from_zero_s
    )


def _settled(now: float, new: float) -> float:
    """Return the ``new`` value, or that of ``now`` if they differ by no more than ``TOLERANCE``."""
    return new if abs(new - now) > TOLERANCE * max(now, 1e-9) else now


def _start_s(submitted: Trainer, now: Trainer, measured: Measurements) -> float | None:
    """Return the time of a start in which the old nodes train on, S_j; None if all nodes stall in a
    start.

    The latter is assumed until a start was measured to take ``TRAINS_ON_S`` or longer.
    """
    if not measured.starts:
        return submitted.start_s
    start_s = middle(measured.starts)
    if now.start_s is None:
        return start_s if start_s >= TRAINS_ON_S else None
    return _settled(now.start_s, start_s)


def _from_zero_s(submitted: Trainer, now: Trainer, measured: Measurements) -> float | None:
    """Return the time from a decision until a trainer without nodes trains.

    It is used only beside S_j: without that, such starts are measurements of R_j^up.
    """
    if not measured.from_zero:
        return submitted.from_zero_s
    new = middle(measured.from_zero)
    return new if now.from_zero_s is None else _settled(now.from_zero_s, new)


MAX_KEPT = 128
"""The number of keys whose measurements are kept; the one updated longest ago is dropped first."""
SCALES_AS = 0.9
"""A trainer without a curve is assumed to scale as n^0.9 until it has been measured on several
sizes.
"""
STEP = 4
"""To be measured on another size, a trainer shrinks by about this factor."""
DOWN_WAITS = 10
"""Shrinking to be measured loses throughput: it waits this many times longer than growing."""
PATIENCE_S = 900.0
"""A trainer that has not been measured on its size within this time does not report progress."""

ByKey = tuple[tuple[str, Measurements], ...]
"""(key of :func:`key_of`, its measurements), the most recently updated last."""


def key_of(trainer: Trainer) -> str:
    """The key of a trainer's measurements: its model's, or its own."""
    assert trainer.learning is not None
    return trainer.learning.key or f"trainer {trainer.id}"


def updated(state: State, measured: tuple[Measured, ...]) -> tuple[ByKey, frozenset[str]]:
    """Add the new measurements of admitted trainers to those of the state.

    Returns all measurements, and the keys whose estimates they may change.
    """
    if not measured:
        return state.measurements, frozenset()
    active = {a.trainer.id: a.trainer for a in state.active if a.trainer.learning is not None}
    measurements, changed = dict(state.measurements), set()
    for seen in measured:
        trainer = active.get(seen.trainer_id)
        if trainer is None or isinstance(seen, WorkLost | LengthSeen):
            continue
        key = key_of(trainer)
        own = measurements.pop(key, Measurements())
        match seen:
            case RateSeen():
                own = own.with_rate(seen.nodes, seen.samples_per_s, seen.seconds)
                is_news = _is_news(trainer, own, seen.nodes)
            case StallSeen():
                own = own.with_stall(seen.grew, seen.seconds, seen.start_s, seen.from_zero)
                is_news = True
        measurements[key] = own
        if is_news:
            changed.add(key)
    return tuple(measurements.items())[-MAX_KEPT:], frozenset(changed)


def with_lengths(state: State, measured: tuple[Measured, ...]) -> State:
    """Return the state with the trainings' lengths that scripts have reported.

    The worlds report a length only for a trainer that was submitted without one.
    """
    totals = {
        seen.trainer_id: seen.samples_total for seen in measured if isinstance(seen, LengthSeen)
    }
    if not totals:
        return state
    active = tuple(_with_length(a, totals.get(a.trainer.id)) for a in state.active)
    queue = []
    for trainer in state.queue:
        if trainer.id in totals:
            trainer = replace(trainer, samples_total=totals[trainer.id])
        queue.append(trainer)
    return replace(state, active=active, queue=tuple(queue))


def _with_length(a: Active, samples_total: float | None) -> Active:
    """The trainer with this length; unchanged for None."""
    if samples_total is None:
        return a
    submitted = a.submitted and replace(a.submitted, samples_total=samples_total)
    return replace(a, trainer=replace(a.trainer, samples_total=samples_total), submitted=submitted)


def _is_news(trainer: Trainer, measured: Measurements, nodes: int) -> bool:
    """Whether the measured point at ``nodes`` nodes may change the estimated curve.

    It does so if it is new, or differs from the estimate by more than the tolerance and its
    standard error.
    """
    point = measured.at(nodes)
    assert point is not None
    if len(point.windows) == 1 or nodes > trainer.max_nodes:
        return True
    estimated = trainer.curve.at(nodes)
    off = abs(point.rate - estimated)
    return off > TOLERANCE * estimated and off > estimated * measured.noise() / math.sqrt(
        len(point.windows)
    )


def with_estimates(state: State, learned: frozenset[str]) -> State:
    """Return the state with new estimates for the trainers that need them.

    Those are trainers that are new, whose key is in ``learned``, whose curve is guessed from the
    others, or that are measured, or may be measured, on another size.
    """
    measurements = dict(state.measurements)
    per_node = best_per_node(state.active, measurements)
    curves: dict[tuple[str, Curve], Curve] = {}
    active = []
    for a in state.active:
        settings = a.trainer.learning
        if settings is None:
            active.append(a)
            continue
        key = key_of(a.trainer)
        measured = measurements.get(key, Measurements())
        guesses = settings.blank and not measured.points
        if (
            a.submitted is None
            or key in learned
            or guesses
            or _is_exploring(a)
            or _may_explore(a, measured, state.at_s)
        ):
            submitted = a.submitted or a.trainer
            prior = _prior(
                submitted, measured, per_node, len(state.pool), is_alone=len(state.active) == 1
            )
            if (key, prior) not in curves:  # trainers of one model have one curve
                curves[key, prior] = estimate(prior, measured)
            a = _with_estimate(
                a, submitted, curves[key, prior], measured, len(state.pool), state.at_s
            )
        active.append(a)
    return replace(state, active=tuple(active))


def wake_s(state: State) -> float | None:
    """Return when the pilot must look at the measurements again, though no event may come; None if
    there is no reason.

    That is when a window on a size that has not been measured will be complete, or when a trainer
    may be tried on another size. For a trainer that does not report, the wait doubles each time, up
    to ``PATIENCE_S``.
    """
    due = None
    measurements: dict[str, Measurements] | None = None
    for a in state.active:
        settings = a.trainer.learning
        if settings is None or not a.nodes:
            continue
        measurements = dict(state.measurements) if measurements is None else measurements
        measured = measurements.get(key_of(a.trainer))
        if measured is not None and measured.has_point_near(len(a.nodes)):
            explores_s = a.sized_s + _explores_after_s(a)
            if not _is_known(measured) and explores_s > state.at_s:
                due = explores_s if due is None else min(explores_s, due)
            continue
        wait_s = 1.25 * (settings.window_s + max(a.trainer.growth_s, a.trainer.scale_down_s))
        while a.sized_s + wait_s <= state.at_s:
            wait_s *= 2
        if wait_s <= PATIENCE_S and (due is None or a.sized_s + wait_s < due):
            due = a.sized_s + wait_s
    return due


def best_per_node(active: tuple[Active, ...], measurements: dict[str, Measurements]) -> float:
    """Return the most samples per second and node of any trainer: the guess for trainers about
    which nothing is known.
    """
    best = 0.0
    for a in active:
        t = a.trainer
        if not _is_guessed(t, measurements):
            best = max(best, t.curve.at(t.min_nodes) / t.min_nodes)
    if best == 0.0:
        best = max(
            (p.rate / p.nodes for measured in measurements.values() for p in measured.points),
            default=0.0,
        )
    return best or 1.0


_NOTHING = Measurements()


def _is_guessed(trainer: Trainer, measurements: Mapping[str, Measurements]) -> bool:
    """Whether a trainer was submitted without a curve, and nothing was measured for its key."""
    settings = trainer.learning
    return (
        settings is not None
        and settings.blank
        and not measurements.get(key_of(trainer), _NOTHING).points
    )


def known_rates(state: State) -> dict[str, float]:
    """Return the samples per second of the trainers that have nodes, by id.

    Trainers whose curve is only guessed are left out.
    """
    measurements = dict(state.measurements)
    return {
        a.trainer.id: a.trainer.curve.at(len(a.nodes))
        for a in state.active
        if a.nodes and not _is_guessed(a.trainer, measurements)
    }


def _prior(
    submitted: Trainer, measured: Measurements, per_node: float, pool: int, *, is_alone: bool
) -> Curve:
    """Return the curve that is assumed where nothing has been measured.

    It is the submitted curve; without one, the usual scaling once something was measured, else a
    guess. The guess credits a trainer with up to its share of the pool, or with all of it if the
    trainer is alone, since it then takes nodes from no other.
    """
    settings = submitted.learning
    assert settings is not None
    if not settings.blank:
        return submitted.curve
    if measured.points:
        return _shape(submitted.min_nodes, submitted.max_nodes)
    return _guess(submitted, per_node, pool if is_alone else int(settings.share * pool))


def _with_estimate(
    a: Active, submitted: Trainer, curve: Curve, measured: Measurements, pool: int, at_s: float
) -> Active:
    """Return the trainer with this curve and the measured costs.

    The same object is returned if nothing changed by more than the tolerance.
    """
    sizes = _elsewhere(a, submitted, measured, pool, at_s) or submitted.sizes
    if sizes != submitted.sizes and sizes is not None and measured.at(sizes[0]) is not None:
        curve = _optimistic(curve, sizes[0], submitted.max_nodes)
    now = a.trainer if a.submitted is not None else submitted
    costs = with_costs(submitted, now, measured)
    if a.submitted is not None and not _moved(now.curve, curve):
        curve = now.curve
    if curve is now.curve and costs is now and sizes == now.sizes:
        return a if a.submitted is not None else replace(a, submitted=submitted)
    requested = submitted.requested_nodes
    if requested is not None and sizes is not None and requested not in sizes:
        requested = largest_of(sizes, requested) or min(n for n in sizes if n)
    estimated = replace(
        submitted,
        curve=curve,
        scale_up_s=costs.scale_up_s,
        scale_down_s=costs.scale_down_s,
        start_s=costs.start_s,
        from_zero_s=costs.from_zero_s,
        sizes=sizes,
        requested_nodes=requested,
    )
    return replace(a, trainer=estimated, submitted=submitted)


def _optimistic(curve: Curve, here: int, last: int) -> Curve:
    """Return a curve to try out more nodes: as estimated up to ``here`` nodes, linear beyond."""
    nodes = (*(n for n in curve.nodes if n < here), *sorted({here, last}))
    per_s = []
    for n in nodes:
        if n <= here:
            per_s.append(curve.at(n))
        else:
            per_s.append(curve.at(here) * n / here)
    return Curve(nodes, tuple(per_s))


def _guess(trainer: Trainer, per_node: float, cap: int) -> Curve:
    """Return the curve of a trainer about which nothing is known.

    It has as much per node as the best of the others, up to ``cap`` nodes, and is constant beyond.
    """
    cap = min(max(cap, trainer.min_nodes), trainer.max_nodes)
    nodes = sorted({trainer.min_nodes, cap, trainer.max_nodes})
    return Curve(tuple(nodes), tuple(per_node * min(n, cap) for n in nodes))


@lru_cache(maxsize=1024)
def _shape(min_nodes: int, max_nodes: int) -> Curve:
    """Return the curve n^``SCALES_AS``: the assumed scaling of a trainer that was submitted without
    a curve.
    """
    nodes = sorted({1, min_nodes, max_nodes, *(2**k for k in range(max_nodes.bit_length()))})
    return Curve(tuple(nodes), tuple(n**SCALES_AS for n in nodes))


def _is_exploring(a: Active) -> bool:
    """Whether the trainer is being measured on another size: its legal sizes are not those
    submitted.
    """
    return a.submitted is not None and a.trainer.sizes != a.submitted.sizes


def lessons(state: State) -> frozenset[str]:
    """Return texts that say what was measured so far.

    When a new one appears, trainers may use nodes that they did not use before.
    """
    sizes = (
        f"{key}, {counted(len(measured.points), 'size')}" for key, measured in state.measurements
    )
    return frozenset(
        (*sizes, *(f"{a.trainer.id} on trial" for a in state.active if _is_exploring(a)))
    )


def _is_known(measured: Measurements) -> bool:
    """Whether the measured sizes span a factor of two, enough to know how it scales."""
    return bool(measured.points) and measured.points[-1].nodes >= 2 * measured.points[0].nodes


def _may_explore(a: Active, measured: Measurements, at_s: float) -> bool:
    """Whether a trainer may be put on another size now, to measure how it scales.

    It must have kept its size for ``explore_after_s`` (ten times as long to shrink), and its
    measured sizes must not yet span a factor of two.
    """
    settings = a.trainer.learning
    assert settings is not None
    if (
        not settings.explore_after_s
        or len(a.nodes) < a.trainer.min_nodes
        or not measured.points
        or _is_known(measured)
    ):
        return False
    return at_s - a.sized_s >= _explores_after_s(a)


def _explores_after_s(a: Active) -> float:
    """Return how long a trainer keeps its size before it may be measured on another one."""
    settings = a.trainer.learning
    assert settings is not None
    is_small = len(a.nodes) < 2 * a.trainer.min_nodes
    return settings.explore_after_s * (1 if is_small else DOWN_WAITS)


def _elsewhere(
    a: Active, submitted: Trainer, measured: Measurements, pool: int, at_s: float
) -> tuple[int, ...] | None:
    """Return the sizes to which a trainer is restricted while it is measured on another size; None
    if it is not.

    They are smaller sizes; where there are none, its own and larger ones, and the policy decides
    whether more is worth it.
    """
    settings = submitted.learning
    assert settings is not None
    if _is_exploring(a):
        patience_s = STEP * (settings.window_s + max(a.trainer.growth_s, a.trainer.scale_down_s))
        is_over = at_s - a.sized_s > patience_s and not measured.has_point_near(len(a.nodes))
        return None if _is_known(measured) or is_over else a.trainer.sizes
    if not _may_explore(a, measured, at_s):
        return None
    here, legal = len(a.nodes), sizes_of(submitted)
    down = tuple(n for n in legal if here / STEP**1.5 <= n <= here / 2)
    up = tuple(n for n in legal if 2 * here <= n <= here + max(int(settings.share * pool), here))
    return down or ((here, *up) if up else None)


def _moved(old: Curve, new: Curve) -> bool:
    """Whether the curves differ by more than the tolerance anywhere."""
    last = min(old.nodes[-1], new.nodes[-1])
    places = {n for n in (*old.nodes, *new.nodes) if n <= last}
    return (
        any(abs(old.at(n) - new.at(n)) > TOLERANCE * old.at(n) for n in places)
        or old.nodes[-1] != new.nodes[-1]
    )
