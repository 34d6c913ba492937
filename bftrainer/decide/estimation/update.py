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


def with_costs(submitted: Trainer, current: Trainer, measured: Measurements) -> Trainer:
    """Return the trainer ``current`` with the measured rescaling costs: the middle of the latest
    stalls and starts in ``measured``.

    The costs that were ``submitted`` hold where nothing was measured. The same object is returned
    if none changed by more than ``TOLERANCE``.
    """
    up_s = middle(measured.ups) if measured.ups else submitted.scale_up_s
    down_s = middle(measured.downs) if measured.downs else submitted.scale_down_s
    up_s = _new_if_changed(current.scale_up_s, up_s)
    down_s = _new_if_changed(current.scale_down_s, down_s)
    start_s = _start_s(submitted, current, measured)
    from_zero_s = None if start_s is None else _from_zero_s(submitted, current, measured)
    if (up_s, down_s, start_s, from_zero_s) == (
        current.scale_up_s,
        current.scale_down_s,
        current.start_s,
        current.from_zero_s,
    ):
        return current
    return replace(
        current, scale_up_s=up_s, scale_down_s=down_s, start_s=start_s, from_zero_s=from_zero_s
    )


def _new_if_changed(current: float, new: float) -> float:
    """Return the ``new`` value, or the ``current`` one if they differ by no more than
    ``TOLERANCE``.
    """
    return new if abs(new - current) > TOLERANCE * max(current, 1e-9) else current


def _start_s(submitted: Trainer, current: Trainer, measured: Measurements) -> float | None:
    """Return S_j: how long a start takes in which the old nodes train on; None if all nodes stall
    in a start.

    The latter is assumed until a start was measured to take ``TRAINS_ON_S`` or longer: only then
    has the trainer shown that old nodes do train on.
    """
    if not measured.starts:
        return submitted.start_s
    start_s = middle(measured.starts)
    if current.start_s is None:
        return start_s if start_s >= TRAINS_ON_S else None
    return _new_if_changed(current.start_s, start_s)


def _from_zero_s(submitted: Trainer, current: Trainer, measured: Measurements) -> float | None:
    """Return the time from a decision until a trainer without nodes trains; None if it is not
    known.

    It is used only beside S_j: a trainer without S_j has such starts among the measurements of
    R_j^up.
    """
    if not measured.from_zero:
        return submitted.from_zero_s
    new_s = middle(measured.from_zero)
    return new_s if current.from_zero_s is None else _new_if_changed(current.from_zero_s, new_s)


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
    """Return the key of a trainer's measurements: its model's, so that all trainers of the model
    learn together, or its own. It must have learning settings.
    """
    assert trainer.learning is not None
    return trainer.learning.key or f"trainer {trainer.id}"


def add_measurements(state: State, measured: tuple[Measured, ...]) -> tuple[ByKey, frozenset[str]]:
    """Return all measurements by key, with the new ones of admitted trainers, and the keys whose
    estimates the new ones may change.

    A key stands for a model, or for one trainer (:func:`key_of`); ``measured`` are the reports of
    the event. Trainers without learning are skipped, and so are lost work and lengths, which are no
    measurements of speed or cost.
    """
    if not measured:
        return state.measurements, frozenset()
    trainers = {
        admitted.trainer.id: admitted.trainer
        for admitted in state.active
        if admitted.trainer.learning is not None
    }
    by_key = dict(state.measurements)
    changed_keys = set()
    for report in measured:
        trainer = trainers.get(report.trainer_id)
        if trainer is None or isinstance(report, WorkLost | LengthSeen):
            continue
        key = key_of(trainer)
        of_key = by_key.pop(key, Measurements())  # and added again as the most recent
        match report:
            case RateSeen():
                of_key = of_key.with_rate(report.nodes, report.samples_per_s, report.seconds)
                is_change = _may_change_curve(trainer, of_key, report.nodes)
            case StallSeen():
                of_key = of_key.with_stall(
                    report.grew, report.seconds, report.start_s, report.from_zero
                )
                is_change = True
        by_key[key] = of_key
        if is_change:
            changed_keys.add(key)
    return tuple(by_key.items())[-MAX_KEPT:], frozenset(changed_keys)


def with_lengths(state: State, measured: tuple[Measured, ...]) -> State:
    """Return the state with the trainings' lengths (in samples) that scripts have reported in
    ``measured``.

    The pilot and the replay report a length only for a trainer that was submitted without one.
    """
    totals = {
        report.trainer_id: report.samples_total
        for report in measured
        if isinstance(report, LengthSeen)
    }
    if not totals:
        return state
    active = tuple(
        _with_length(admitted, totals.get(admitted.trainer.id)) for admitted in state.active
    )
    queue = []
    for trainer in state.queue:
        if trainer.id in totals:
            trainer = replace(trainer, samples_total=totals[trainer.id])
        queue.append(trainer)
    return replace(state, active=active, queue=tuple(queue))


def _with_length(admitted: Active, samples_total: float | None) -> Active:
    """Return the trainer with the length ``samples_total``, in the submitted values too; unchanged
    for None, where none was reported.
    """
    if samples_total is None:
        return admitted
    submitted = admitted.submitted
    if submitted is not None:
        submitted = replace(submitted, samples_total=samples_total)
    return replace(
        admitted,
        trainer=replace(admitted.trainer, samples_total=samples_total),
        submitted=submitted,
    )


def _may_change_curve(trainer: Trainer, measured: Measurements, nodes: int) -> bool:
    """Whether the measured point at ``nodes`` nodes, which must exist, may change the trainer's
    estimated curve.

    It may if it is new, differs from the estimate by more than the tolerance and its standard
    error, or is beyond the trainer's curve.
    """
    point = measured.at(nodes)
    assert point is not None
    # A single window: the point is new.
    if len(point.windows) == 1 or nodes > trainer.max_nodes:
        return True
    estimated = trainer.curve.at(nodes)
    error = abs(point.rate - estimated)
    if error <= TOLERANCE * estimated:
        return False
    return error > estimated * measured.noise() / math.sqrt(len(point.windows))


def with_estimates(state: State, learned: frozenset[str]) -> State:
    """Return the state with new estimates of curves and costs for the trainers that need them.

    Those are trainers that are new; whose key (model) is in ``learned``, the keys with new
    measurements; whose curve is guessed from the other trainers; or that are measured, or may be
    measured, on another size to learn how they scale.
    """
    measurements = dict(state.measurements)
    per_node = best_per_node(state.active, measurements)
    curves: dict[tuple[str, Curve], Curve] = {}
    active = []
    for admitted in state.active:
        settings = admitted.trainer.learning
        if settings is None:
            active.append(admitted)
            continue
        key = key_of(admitted.trainer)
        measured = measurements.get(key, Measurements())
        is_guessed = settings.blank and not measured.points
        if (
            admitted.submitted is None
            or key in learned
            or is_guessed
            or _is_exploring(admitted)
            or _may_explore(admitted, measured, state.at_s)
        ):
            submitted = admitted.submitted or admitted.trainer
            prior = _prior_curve(
                submitted, measured, per_node, len(state.pool), is_alone=len(state.active) == 1
            )
            if (key, prior) not in curves:  # trainers of one model have one curve
                curves[key, prior] = estimate(prior, measured)
            admitted = _with_estimate(
                admitted, submitted, curves[key, prior], measured, len(state.pool), state.at_s
            )
        active.append(admitted)
    return replace(state, active=tuple(active))


def wake_s(state: State) -> float | None:
    """Return the time at which estimates must be computed again even if no event comes; None if
    there is no reason.

    It is the earliest such time of all trainers that have nodes and learning settings.
    """
    earliest_s = None
    measurements: dict[str, Measurements] | None = None
    for admitted in state.active:
        if admitted.trainer.learning is None or not admitted.nodes:
            continue
        measurements = dict(state.measurements) if measurements is None else measurements
        due_s = _due_s(admitted, measurements.get(key_of(admitted.trainer)), state.at_s)
        if due_s is not None and (earliest_s is None or due_s < earliest_s):
            earliest_s = due_s
    return earliest_s


def _due_s(admitted: Active, measured: Measurements | None, now_s: float) -> float | None:
    """Return the time after ``now_s`` at which a trainer with nodes may get another estimate; None
    if only an event can change that.

    That is when a window on a size that has not been measured will be complete, or when a trainer
    may be tried on another size. For a trainer that does not report, the wait doubles each time, up
    to ``PATIENCE_S``. ``measured`` is what its model has shown so far.
    """
    settings = admitted.trainer.learning
    assert settings is not None
    if measured is not None and measured.has_point_near(len(admitted.nodes)):
        trial_s = admitted.sized_s + _trial_after_s(admitted)
        return trial_s if trial_s > now_s and not _spans_factor_two(measured) else None
    wait_s = 1.25 * (
        settings.window_s + max(admitted.trainer.growth_s, admitted.trainer.scale_down_s)
    )
    while admitted.sized_s + wait_s <= now_s:
        wait_s *= 2
    return admitted.sized_s + wait_s if wait_s <= PATIENCE_S else None


def best_per_node(active: tuple[Active, ...], measurements: dict[str, Measurements]) -> float:
    """Return the most samples per second and node of any trainer that has a curve: the guess for
    trainers about which nothing is known.

    If the curves of all are guessed, it is that of the best measurement of any trainer so far,
    ended ones included; without one, 1.
    """
    best = 0.0
    for admitted in active:
        trainer = admitted.trainer
        if not _is_guessed(trainer, measurements):
            best = max(best, trainer.curve.at(trainer.min_nodes) / trainer.min_nodes)
    if best == 0.0:
        best = max(
            (
                point.rate / point.nodes
                for measured in measurements.values()
                for point in measured.points
            ),
            default=0.0,
        )
    return best or 1.0


_NOTHING = Measurements()


def _is_guessed(trainer: Trainer, measurements: Mapping[str, Measurements]) -> bool:
    """Whether a trainer's curve is a mere guess: it was submitted without one, and nothing was
    measured for it or for others of its model.
    """
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
        admitted.trainer.id: admitted.trainer.curve.at(len(admitted.nodes))
        for admitted in state.active
        if admitted.nodes and not _is_guessed(admitted.trainer, measurements)
    }


def _prior_curve(
    submitted: Trainer, measured: Measurements, per_node: float, pool: int, *, is_alone: bool
) -> Curve:
    """Return the curve that is assumed where nothing has been measured, for
    :func:`~bftrainer.decide.estimation.estimates.estimate` to scale.

    It is the submitted curve; without one, the usual scaling once something was measured, else a
    guess from ``per_node``, the samples per second and node of the best other trainer. The guess
    credits a trainer with up to its share of the ``pool`` nodes, or with all of them if the trainer
    is alone, since it then takes nodes from no other.
    """
    settings = submitted.learning
    assert settings is not None
    if not settings.blank:
        return submitted.curve
    if measured.points:
        return _assumed_curve(submitted.min_nodes, submitted.max_nodes)
    share_nodes = pool if is_alone else int(settings.share * pool)
    return _guessed_curve(submitted, per_node, share_nodes)


def _with_estimate(
    admitted: Active,
    submitted: Trainer,
    curve: Curve,
    measured: Measurements,
    pool: int,
    at_s: float,
) -> Active:
    """Return the trainer with this curve and the measured costs, and restricted to the sizes of a
    trial, if it is on one at ``at_s``.

    A trial measures a trainer on another size than it has. ``pool`` is the number of nodes. The
    same object is returned if nothing changed by more than the tolerance. A trainer is new here
    until it has ``submitted`` values of its own.
    """
    sizes = _trial_sizes(admitted, submitted, measured, pool, at_s) or submitted.sizes
    # A trial on more nodes begins at a measured size, and must look worth it to the policy.
    if sizes != submitted.sizes and sizes is not None and measured.at(sizes[0]) is not None:
        curve = _linear_beyond(curve, sizes[0], submitted.max_nodes)
    is_new = admitted.submitted is None
    current = submitted if is_new else admitted.trainer
    costs = with_costs(submitted, current, measured)
    if not is_new and not _curves_differ(current.curve, curve):
        curve = current.curve
    if curve is current.curve and costs is current and sizes == current.sizes:
        return replace(admitted, submitted=submitted) if is_new else admitted
    requested = submitted.requested_nodes
    if requested is not None and sizes is not None and requested not in sizes:
        # The requested size must be legal also during a trial: the nearest one below, or above.
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
    return replace(admitted, trainer=estimated, submitted=submitted)


def _linear_beyond(curve: Curve, size: int, max_nodes: int) -> Curve:
    """Return a ``curve`` to try out more nodes: as estimated up to ``size`` nodes, and from there
    to ``max_nodes`` linear, as if twice the nodes were twice as fast, so that the policy finds more
    nodes worth it.
    """
    nodes = (*(n for n in curve.nodes if n < size), *sorted({size, max_nodes}))
    per_s = []
    for n in nodes:
        if n <= size:
            per_s.append(curve.at(n))
        else:
            per_s.append(curve.at(size) * n / size)
    return Curve(nodes, tuple(per_s))


def _guessed_curve(trainer: Trainer, per_node: float, share_nodes: int) -> Curve:
    """Return the curve of a trainer about which nothing is known.

    It has ``per_node`` samples per second and node, as the best of the others, up to
    ``share_nodes`` nodes (or its smallest size), and is constant beyond. ``share_nodes`` is its
    share of the pool: without this limit, the guess would take the nodes of trainers that are
    measured.
    """
    linear_until = min(max(share_nodes, trainer.min_nodes), trainer.max_nodes)
    nodes = sorted({trainer.min_nodes, linear_until, trainer.max_nodes})
    return Curve(tuple(nodes), tuple(per_node * min(n, linear_until) for n in nodes))


@lru_cache(maxsize=1024)
def _assumed_curve(min_nodes: int, max_nodes: int) -> Curve:
    """Return the curve n^``SCALES_AS``: the assumed scaling of a trainer that was submitted without
    a curve.
    """
    nodes = sorted({1, min_nodes, max_nodes, *(2**k for k in range(max_nodes.bit_length()))})
    return Curve(tuple(nodes), tuple(n**SCALES_AS for n in nodes))


def _is_exploring(admitted: Active) -> bool:
    """Whether the trainer is on trial: measured on another size to learn how it scales.

    During a trial its legal sizes are not those that were submitted.
    """
    return admitted.submitted is not None and admitted.trainer.sizes != admitted.submitted.sizes


def measurement_texts(state: State) -> frozenset[str]:
    """Return texts that say what was measured so far, and which trainers are on trial (measured on
    another size).

    When a new text appears, trainers may use nodes that they did not use before.
    """
    sizes = {
        f"{key}, {counted(len(measured.points), 'size')}" for key, measured in state.measurements
    }
    trials = {
        f"{admitted.trainer.id} on trial" for admitted in state.active if _is_exploring(admitted)
    }
    return frozenset(sizes | trials)


def _spans_factor_two(measured: Measurements) -> bool:
    """Whether the measured sizes span a factor of two, enough to know how a trainer scales."""
    return bool(measured.points) and measured.points[-1].nodes >= 2 * measured.points[0].nodes


def _may_explore(admitted: Active, measured: Measurements, at_s: float) -> bool:
    """Whether a trainer may be put on another size at ``at_s``, to measure how it scales.

    It must have kept its size for ``explore_after_s`` (ten times as long to shrink), must have been
    measured on it or on others, and these sizes must not yet span a factor of two.
    """
    settings = admitted.trainer.learning
    assert settings is not None
    if (
        # 0: the trainer is never tried on another size.
        not settings.explore_after_s
        or len(admitted.nodes) < admitted.trainer.min_nodes
        or not measured.points
        or _spans_factor_two(measured)
    ):
        return False
    return at_s - admitted.sized_s >= _trial_after_s(admitted)


def _trial_after_s(admitted: Active) -> float:
    """Return how long a trainer keeps its size before it may be measured on another one: ten times
    longer where the trial shrinks it, which loses throughput.
    """
    settings = admitted.trainer.learning
    assert settings is not None
    # From a size so near its smallest one it can only grow.
    is_small = len(admitted.nodes) < 2 * admitted.trainer.min_nodes
    return settings.explore_after_s * (1 if is_small else DOWN_WAITS)


def _trial_sizes(
    admitted: Active, submitted: Trainer, measured: Measurements, pool: int, at_s: float
) -> tuple[int, ...] | None:
    """Return the sizes to which a trainer is restricted while it is measured on another size (on
    trial); None if it is not.

    They are smaller sizes; where there are none, its own and larger ones, and the policy decides
    whether more is worth it. A trial ends when the trainer's scaling is known, or when no window
    has been reported in time. ``pool`` is the number of nodes, ``submitted`` has the sizes that the
    user allows.
    """
    settings = submitted.learning
    assert settings is not None
    if _is_exploring(admitted):
        # Until then a window on the new size should have been reported.
        patience_s = STEP * (
            settings.window_s + max(admitted.trainer.growth_s, admitted.trainer.scale_down_s)
        )
        is_late = at_s - admitted.sized_s > patience_s and not measured.has_point_near(
            len(admitted.nodes)
        )
        return None if _spans_factor_two(measured) or is_late else admitted.trainer.sizes
    if not _may_explore(admitted, measured, at_s):
        return None
    present = len(admitted.nodes)
    legal_sizes = sizes_of(submitted)
    # Around a quarter (STEP) of the present size, in ratios from 1/8 to 1/2: far enough to show how
    # it scales.
    smaller = tuple(n for n in legal_sizes if present / STEP**1.5 <= n <= present / 2)
    if smaller:
        return smaller
    # At least twice its size, and else what its share of the pool adds.
    largest_trial = present + max(int(settings.share * pool), present)
    larger = tuple(n for n in legal_sizes if 2 * present <= n <= largest_trial)
    return (present, *larger) if larger else None


def _curves_differ(old: Curve, new: Curve) -> bool:
    """Whether the curves differ by more than the tolerance at any breakpoint that both cover, or
    end at different node counts.
    """
    end = min(old.nodes[-1], new.nodes[-1])
    breakpoints = {n for n in (*old.nodes, *new.nodes) if n <= end}
    return (
        any(abs(old.at(n) - new.at(n)) > TOLERANCE * old.at(n) for n in breakpoints)
        or old.nodes[-1] != new.nodes[-1]
    )
