"""Learning: what an event's measurements teach, and what is believed of the admitted trainers afterwards. Pure.

The worlds measure and say so in their events; lessons are part of the state; the policy sees believed trainers only. So the
pilot and the replay learn by the same code, and a journal's events give the same decisions again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from bftrainer.domain.events import RateSeen, StallSeen
from bftrainer.domain.measurements import Measurements, middle
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.state import Active, State
from bftrainer.estimation.estimates import estimate
from bftrainer.policies.sizes import largest_of, sizes_of

TOLERANCE = 0.02
"""A believed curve or cost is replaced when it has moved by more than this, relative."""
MAX_LESSONS = 128
"""Lessons kept; the one that was added to longest ago goes first."""
SCALES_AS = 0.9
"""A trainer without a curve is taken to do n^0.9 times what it does on one node, until it was measured on several sizes."""
STEP = 4
"""A trainer that is to be measured on another size goes down by this factor; measured over as much, it is known."""
DOWN_WAITS = 10
"""Going down from a large size to be measured costs what it does there: it waits so many times longer than going up."""
PATIENCE_S = 900.0
"""A trainer that has not been measured on its size within this time does not report."""

Lessons = tuple[tuple[str, Measurements], ...]


def key_of(trainer: Trainer) -> str:
    """What a trainer's lesson is called."""
    assert trainer.learning is not None
    return trainer.learning.key or f"trainer {trainer.id}"


def updated(state: State, measured: tuple[RateSeen | StallSeen, ...]) -> tuple[Lessons, frozenset[str]]:
    """The lessons with what was measured of the admitted trainers, and the keys of those that it may change beliefs of."""
    if not measured:
        return state.measurements, frozenset()
    active = {a.trainer.id: a.trainer for a in state.active if a.trainer.learning is not None}
    lessons, changed = dict(state.measurements), set()
    for seen in measured:
        trainer = active.get(seen.trainer_id)
        if trainer is None:
            continue
        key = key_of(trainer)
        lesson = lessons.pop(key, Measurements())
        match seen:
            case RateSeen():
                lesson = lesson.with_rate(seen.nodes, seen.samples_per_s, seen.seconds)
                is_news = _is_news(trainer, lesson, seen.nodes)
            case StallSeen():
                lesson = lesson.with_stall(seen.grew, seen.seconds)
                is_news = True
        lessons[key] = lesson
        if is_news:
            changed.add(key)
    return tuple(lessons.items())[-MAX_LESSONS:], frozenset(changed)


def _is_news(trainer: Trainer, lesson: Measurements, nodes: int) -> bool:
    """Whether a point is new, or off what is believed by more than the tolerance and its standard error."""
    point = lesson.at(nodes)
    assert point is not None
    if len(point.windows) == 1 or nodes > trainer.max_nodes:
        return True
    believed = trainer.curve.at(nodes)
    off = abs(point.rate - believed)
    return off > TOLERANCE * believed and off > believed * lesson.noise() / math.sqrt(len(point.windows))


def with_estimates(state: State, learned: frozenset[str]) -> State:
    """Believed trainers for those that are new, whose lesson was added to, or that only compare themselves to others."""
    lessons = dict(state.measurements)
    per_node = best_per_node(state.active, lessons)
    curves: dict[tuple[str, Curve], Curve] = {}
    active = []
    for a in state.active:
        settings = a.trainer.learning
        if settings is None:
            active.append(a)
            continue
        key = key_of(a.trainer)
        lesson = lessons.get(key, Measurements())
        guesses = settings.blank and not lesson.points
        if a.submitted is None or key in learned or guesses or _is_exploring(a) or _may_explore(a, lesson, state.at_s):
            submitted = a.submitted or a.trainer
            prior = _prior(submitted, lesson, per_node, len(state.pool))
            if (key, prior) not in curves:  # trainers of one model have one curve
                curves[key, prior] = estimate(prior, lesson)
            a = _believing(a, submitted, curves[key, prior], lesson, len(state.pool), state.at_s)
        active.append(a)
    return replace(state, active=tuple(active))


def wake_s(state: State) -> float | None:
    """When the next window of a size that was not measured yet will be complete; None if there is none to wait for.

    A trainer that does not report is asked at twice the time, and again, until ``PATIENCE_S`` are over.
    """
    due = None
    lessons: dict[str, Measurements] | None = None
    for a in state.active:
        settings = a.trainer.learning
        if settings is None or not a.nodes:
            continue
        lessons = dict(state.measurements) if lessons is None else lessons
        lesson = lessons.get(key_of(a.trainer))
        if lesson is not None and lesson.knows(len(a.nodes)):
            explores_s = a.sized_s + _explores_after_s(a)
            if not _is_known(lesson) and explores_s > state.at_s:
                due = explores_s if due is None else min(explores_s, due)
            continue
        wait_s = 1.25 * (settings.window_s + max(a.trainer.scale_up_s, a.trainer.scale_down_s))
        while a.sized_s + wait_s <= state.at_s:
            wait_s *= 2
        if wait_s <= PATIENCE_S and (due is None or a.sized_s + wait_s < due):
            due = a.sized_s + wait_s
    return due


def best_per_node(active: tuple[Active, ...], lessons: dict[str, Measurements]) -> float:
    """The most samples per second and node that anybody here does: what a trainer is taken for that nobody knows yet."""
    best = 0.0
    for a in active:
        t = a.trainer
        if t.learning is None or not t.learning.blank or lessons.get(key_of(t), _NOTHING).points:
            best = max(best, t.curve.at(t.min_nodes) / t.min_nodes)
    if best == 0.0:
        best = max((p.rate / p.nodes for lesson in lessons.values() for p in lesson.points), default=0.0)
    return best or 1.0


_NOTHING = Measurements()


def _prior(submitted: Trainer, lesson: Measurements, per_node: float, pool: int) -> Curve:
    """What is taken for true where nothing was measured."""
    settings = submitted.learning
    assert settings is not None
    if not settings.blank:
        return submitted.curve
    if lesson.points:
        return _shape(submitted.min_nodes, submitted.max_nodes)
    return _guess(submitted, per_node, int(settings.share * pool))


def _believing(a: Active, submitted: Trainer, curve: Curve, lesson: Measurements, pool: int, at_s: float) -> Active:
    """The trainer with this curve and the measured costs; the same one where nothing moved beyond the tolerance."""
    sizes = _elsewhere(a, submitted, lesson, pool, at_s) or submitted.sizes
    if sizes != submitted.sizes and sizes is not None and lesson.at(sizes[0]) is not None:
        curve = _hopeful(curve, sizes[0], submitted.max_nodes)
    now = a.trainer if a.submitted is not None else submitted
    up = _settled(now.scale_up_s, middle(lesson.ups) if lesson.ups else submitted.scale_up_s)
    down = _settled(now.scale_down_s, middle(lesson.downs) if lesson.downs else submitted.scale_down_s)
    if a.submitted is not None and not _moved(now.curve, curve):
        curve = now.curve
    if curve is now.curve and (up, down, sizes) == (now.scale_up_s, now.scale_down_s, now.sizes):
        return a if a.submitted is not None else replace(a, submitted=submitted)
    asked = submitted.requested_nodes
    if asked is not None and sizes is not None and asked not in sizes:
        asked = largest_of(sizes, asked) or min(n for n in sizes if n)
    believed = replace(submitted, curve=curve, scale_up_s=up, scale_down_s=down, sizes=sizes, requested_nodes=asked)
    return replace(a, trainer=believed, submitted=submitted)


def _hopeful(curve: Curve, here: int, last: int) -> Curve:
    """As believed up to ``here`` nodes, and from there on as much per node: whether more is worth trying."""
    nodes = (*(n for n in curve.nodes if n < here), *sorted({here, last}))
    return Curve(nodes, tuple(curve.at(n) if n <= here else curve.at(here) * n / here for n in nodes))


def _guess(trainer: Trainer, per_node: float, cap: int) -> Curve:
    """Nothing is known: the best of the others up to ``cap`` nodes, and nothing from more."""
    cap = min(max(cap, trainer.min_nodes), trainer.max_nodes)
    nodes = sorted({trainer.min_nodes, cap, trainer.max_nodes})
    return Curve(tuple(nodes), tuple(per_node * min(n, cap) for n in nodes))


@lru_cache(maxsize=1024)
def _shape(min_nodes: int, max_nodes: int) -> Curve:
    """How a trainer is taken to scale of which no curve was submitted."""
    nodes = sorted({1, min_nodes, max_nodes, *(2**k for k in range(max_nodes.bit_length()))})
    return Curve(tuple(nodes), tuple(n**SCALES_AS for n in nodes))


def _is_exploring(a: Active) -> bool:
    return a.submitted is not None and a.trainer.sizes != a.submitted.sizes


def _is_known(lesson: Measurements) -> bool:
    """Whether it was measured over enough sizes to know how it scales."""
    return bool(lesson.points) and lesson.points[-1].nodes >= 2 * lesson.points[0].nodes


def _may_explore(a: Active, lesson: Measurements, at_s: float) -> bool:
    settings = a.trainer.learning
    assert settings is not None
    if not settings.explore_after_s or len(a.nodes) < a.trainer.min_nodes or not lesson.points or _is_known(lesson):
        return False
    return at_s - a.sized_s >= _explores_after_s(a)


def _explores_after_s(a: Active) -> float:
    settings = a.trainer.learning
    assert settings is not None
    is_small = len(a.nodes) < 2 * a.trainer.min_nodes
    return settings.explore_after_s * (1 if is_small else DOWN_WAITS)


def _elsewhere(a: Active, submitted: Trainer, lesson: Measurements, pool: int, at_s: float) -> tuple[int, ...] | None:
    """Legal sizes, if it is to be measured on another one than it has: smaller ones, or where there are none its own and
    larger ones; then the policy may still find that more is not worth it.
    """
    settings = submitted.learning
    assert settings is not None
    if _is_exploring(a):
        patience_s = STEP * (settings.window_s + max(a.trainer.scale_up_s, a.trainer.scale_down_s))
        is_over = at_s - a.sized_s > patience_s and not lesson.knows(len(a.nodes))
        return None if _is_known(lesson) or is_over else a.trainer.sizes
    if not _may_explore(a, lesson, at_s):
        return None
    here, legal = len(a.nodes), sizes_of(submitted)
    down = tuple(n for n in legal if here / STEP**1.5 <= n <= here / 2)
    up = tuple(n for n in legal if 2 * here <= n <= here + max(int(settings.share * pool), here))
    return down or ((here, *up) if up else None)


def _settled(now: float, new: float) -> float:
    return new if abs(new - now) > TOLERANCE * max(now, 1e-9) else now


def _moved(old: Curve, new: Curve) -> bool:
    """Whether they differ by more than the tolerance anywhere."""
    last = min(old.nodes[-1], new.nodes[-1])
    places = {n for n in (*old.nodes, *new.nodes) if n <= last}
    return any(abs(old.at(n) - new.at(n)) > TOLERANCE * old.at(n) for n in places) or old.nodes[-1] != new.nodes[-1]
