"""Scenarios that the engine replays, as the arrays that it reads.

The engine may refuse anything: then the Python core runs. It serves the policies ``bftrainer``
(with the exact solver, and objectives whose value curves stay as they are, or are divided by the
rate of an equal share), ``equal-share`` and ``plain``, under stall costs, for trainers with known
curves.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bftrainer.decide.allocation.chain import Chain
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import (
    OBJECTIVES,
    Objective,
    envelope,
    equal_share_rate,
    rate_of_one,
)
from bftrainer.decide.allocation.placement import in_name_order
from bftrainer.decide.domain.model import Curve, Trainer, rates
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.decide.policies.plain import Plain
from bftrainer.errors import BFTrainerError
from bftrainer.fragment_names import is_fragment_name
from bftrainer_replay.logs.model import GroupedEvents, LogWindow, times_of
from bftrainer_replay.simulation.engine.library import TRAINER_IN, ReplayIn, ShapeIn
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival, DecideOn, ReplayWorld

_PRIORITY, _OPTIMUM, _EQUAL_SHARE, _PLAIN = range(4)
_CHANGING = frozenset({"progress"})
"""Objectives whose value curves follow the remaining samples."""
_SUM_IS_COMPENSATED = sys.version_info >= (3, 12)


@dataclass(frozen=True, slots=True)
class PolicyCode:
    """A policy as the engine knows it. ``objective`` is None for those that solve nothing."""

    code: int
    objective: Objective | None = None
    forward_s: float = 0.0
    plain_nodes: int = 0


def code_of(policy: Policy) -> PolicyCode | None:
    """Return the policy as the engine knows it; None if it does not, so that Python replays it."""
    # Not isinstance(): a class derived from it may decide otherwise.
    if type(policy) is EqualShare:
        return PolicyCode(_EQUAL_SHARE)
    if type(policy) is Plain:
        return PolicyCode(_PLAIN, plain_nodes=policy.nodes)
    if type(policy) is not BFTrainer or not _is_exact(policy.allocator):
        return None
    objective = policy.objective
    is_known = OBJECTIVES.get(objective.name) is objective and objective.name not in _CHANGING
    if not is_known or objective.weight is not None:
        return None
    if objective.share_rate not in (None, equal_share_rate):
        return None
    code = _OPTIMUM if objective.kappa is None else _PRIORITY
    return PolicyCode(code, objective, policy.forward_s)


def _is_exact(allocator: object) -> bool:
    """Whether the exact solver answers every problem."""
    if type(allocator) is Chain:
        return type(allocator.solvers[0]) is Exact
    return type(allocator) is Exact


def is_served(world: ReplayWorld, arrivals: Sequence[Arrival]) -> bool:
    """Return whether the engine knows the costs and all trainers of a world."""
    if world.cost_model is not CostModel.STALL or world.checkpoint_s is not None:
        return False
    if len({arrival.trainer.id for arrival in arrivals}) < len(arrivals):
        return False
    return all(map(_is_plain, arrivals))


def _is_plain(arrival: Arrival) -> bool:
    """Return whether a trainer has nothing that the engine does not know.

    It does not know values that are hidden from the policy, an end other than that of the work,
    pools, curves to be learned, lists of sizes, or classes of nodes.
    """
    trainer = arrival.trainer
    has_secrets = arrival.actual is not None or arrival.actual_samples is not None
    has_an_end = arrival.stops_after_s < math.inf or arrival.losses is not None
    if has_secrets or has_an_end or trainer.fill or trainer.learning is not None:
        return False
    return trainer.sizes is None and trainer.node_class is None


@dataclass(frozen=True, slots=True, eq=False)
class PackedWindow:
    """The nodes of a window in name order, and the changes of its pool as indices of nodes: those
    of event k end at index k + 1 of the cuts.
    """

    names: tuple[str, ...]
    initial: NDArray[np.int32]
    event_s: NDArray[np.float64]
    joined_cuts: NDArray[np.int64]
    joined: NDArray[np.int32]
    left_cuts: NDArray[np.int64]
    left: NDArray[np.int32]


_MOST_KEPT = 4
_packed: list[tuple[LogWindow, PackedWindow | None]] = []
"""The last windows: many replays have the same one."""


def packed_window(window: LogWindow) -> PackedWindow | None:
    """Return the window as arrays; None for one of GPUs, of node classes, or out of order."""
    for kept, packed in _packed:
        if kept is window:
            return packed
    packed = _pack(window)
    _packed.append((window, packed))
    del _packed[:-_MOST_KEPT]
    return packed


def _pack(window: LogWindow) -> PackedWindow | None:
    """Return the window as arrays for the engine; None for one that it does not serve."""
    events = window.events
    event_s = np.ascontiguousarray(times_of(events))
    if not (np.diff(event_s, prepend=window.start_s) > 0).all():  # not a number: the same
        return None
    if isinstance(events, GroupedEvents):
        names, joined, left = _of_groups(events)
    else:
        if any(event.change.classes for event in events):
            return None
        every = window.initial.union(*(event.change.joined for event in events))
        names = tuple(in_name_order(every))
        rank = {name: index for index, name in enumerate(names)}
        try:
            joined = _flat_lists([[rank[node] for node in event.change.joined] for event in events])
            left = _flat_lists(
                [sorted(rank[node] for node in event.change.left) for event in events]
            )
        except KeyError:  # a node that never joined: the core says so
            return None
    # Such a name is of a part of a node, of which the engine knows nothing.
    if any(map(is_fragment_name, names)):
        return None
    initial = [index for index, name in enumerate(names) if name in window.initial]
    return PackedWindow(names, np.array(initial, dtype=np.int32), event_s, *joined, *left)


_Flat = tuple[NDArray[np.int64], NDArray[np.int32]]


def _flat_lists(lists: Sequence[Sequence[int]]) -> _Flat:
    """Return lists as their ends and one array."""
    cuts = np.concatenate(([0], np.cumsum([len(entries) for entries in lists], dtype=np.int64)))
    flat = np.fromiter((entry for entries in lists for entry in entries), np.int32, int(cuts[-1]))
    return cuts, flat


def _of_groups(events: GroupedEvents) -> tuple[tuple[str, ...], _Flat, _Flat]:
    """Return the nodes in name order, and what joins and what leaves, of events of node groups.

    Both are pairs (cuts, nodes): the nodes of event k, as indices of names, are those from cut k to
    cut k + 1.
    """
    groups = events.groups
    names = tuple(in_name_order(groups.names))
    rank_of = {name: index for index, name in enumerate(names)}
    rank = np.array([rank_of[name] for name in groups.names], dtype=np.int32)
    by_group = rank[np.argsort(groups.of_node, kind="stable")]
    first = np.cumsum(groups.weights) - groups.weights

    def nodes(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> _Flat:
        """Return the nodes of the changes between these indices, by event, in order."""
        lengths = ends - begins
        event = np.repeat(np.arange(len(begins)), lengths)
        k = np.arange(len(event)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        changed = events.changed[begins[event] + k]
        counts = groups.weights[changed]
        k = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        key = by_group[np.repeat(first[changed], counts) + k].astype(np.int64)
        # One sort for all events: the event comes first, then the node.
        key += np.repeat(event, counts) * len(names)
        key.sort()
        per_event = np.bincount(event, counts, minlength=len(begins)).astype(np.int64)
        cuts = np.concatenate(([0], np.cumsum(per_event)))
        return cuts, (key % max(len(names), 1)).astype(np.int32)

    return names, nodes(events.cuts[:-1], events.middles), nodes(events.middles, events.cuts[1:])


@dataclass(slots=True, eq=False)
class _Shapes:
    """The different shapes of trainers, and the arrays that the engine reads of them."""

    objective: Objective | None
    structures: list[ShapeIn] = field(default_factory=list)
    arrays: list[NDArray[Any]] = field(default_factory=list)
    _index: dict[tuple[Curve, Curve, int, int], int] = field(default_factory=dict)

    def index_of(self, trainer: Trainer) -> int:
        """Return the index of the trainer's shape; a new shape is added.

        A shape is what the engine reads of a trainer's curve and sizes; many trainers have the
        same.
        """
        value = trainer.curve
        if self.objective is not None:
            value = self.objective.value(trainer, trainer.samples_total)
        key = (trainer.curve, value, trainer.min_nodes, trainer.max_nodes)
        if key not in self._index:
            self._index[key] = len(self.structures)
            self.structures.append(self._shape_in(trainer, value))
        return self._index[key]

    def _shape_in(self, trainer: Trainer, value: Curve) -> ShapeIn:
        """Return the structure of one shape.

        Its tables are those of the Python core, from numpy and :meth:`Curve.at`, so that both
        compute with the same numbers.
        """
        sizes = np.arange(value.nodes[-1] + 1)
        corners, corner_rates = envelope(trainer)
        one_node_rate = rate_of_one(trainer)
        return ShapeIn(
            trainer.min_nodes,
            trainer.max_nodes,
            len(value.nodes),
            self._kept_address(value.nodes, np.int64),
            self._kept_address(value.per_s, np.float64),
            self._kept_address(rates(trainer), np.float64),
            self._kept_address(
                np.interp(sizes, (0, *value.nodes), (0.0, *value.per_s)), np.float64
            ),
            self._kept_address([value.at(n) for n in sizes.tolist()], np.float64),
            len(corners),
            self._kept_address(corners, np.int64),
            self._kept_address(corner_rates, np.float64),
            one_node_rate,
            int(trainer.min_nodes == 1 and trainer.curve.at(1) >= one_node_rate),
        )

    def _kept_address(self, values: Any, dtype: type) -> int:
        """Return the address of an array of the values, which lives as long as this object."""
        self.arrays.append(np.array(values, dtype=dtype))
        return int(self.arrays[-1].ctypes.data)


@dataclass(frozen=True, slots=True, eq=False)
class PackedScenario:
    """A scenario in the engine's structures, with the objects whose memory they share."""

    structure: ReplayIn
    window: PackedWindow
    arrivals: tuple[Arrival, ...]
    owners: tuple[object, ...]


def pack(
    world: ReplayWorld,
    arrivals: Sequence[Arrival],
    max_parallel: int | None,
    policy: PolicyCode,
    *,
    keep_rows: bool,
) -> PackedScenario | None:
    """Return a scenario in the engine's structures; None if the engine does not serve it after all.

    That is so if its window is not served, or if a trainer has no value curve (it may never be
    submitted). Call it only if :func:`is_served`.
    """
    window = packed_window(world.window)
    if window is None:
        return None
    ordered = tuple(sorted(arrivals, key=lambda arrival: arrival.at_s))
    shapes = _Shapes(policy.objective)
    try:
        rows = list(_trainers(ordered, world.cost_model, shapes))
    except BFTrainerError:
        return None
    trainers = np.array(rows, dtype=TRAINER_IN)
    shape_array = (ShapeIn * len(shapes.structures))(*shapes.structures)
    objective = policy.objective
    structure = ReplayIn(
        len(window.names),
        len(window.event_s),
        len(ordered),
        len(shape_array),
        # -1: no limit.
        -1 if max_parallel is None else max_parallel,
        policy.code,
        int(objective is not None and objective.share_rate is not None),
        int(world.rigid),
        int(world.decide_on is DecideOn.POOL),
        int(world.until_done),
        int(_SUM_IS_COMPENSATED),
        int(keep_rows),
        policy.plain_nodes,
        world.window.start_s,
        world.window.end_s,
        policy.forward_s,
        (objective.kappa if objective is not None else None) or 0.0,
        float(world.places),
        window.initial.ctypes.data,
        len(window.initial),
        window.event_s.ctypes.data,
        window.joined_cuts.ctypes.data,
        window.joined.ctypes.data,
        window.left_cuts.ctypes.data,
        window.left.ctypes.data,
        ctypes.addressof(shape_array),
        trainers.ctypes.data,
        None,  # set when it runs
    )
    return PackedScenario(structure, window, ordered, (shapes, shape_array, trainers))


def _trainers(
    arrivals: Sequence[Arrival], cost_model: CostModel, shapes: _Shapes
) -> Iterator[tuple[int, int, float, float, float, float]]:
    """Yield each trainer as a row of the engine's table, in order of submission.

    Trainers of one kind have the same shape and the same rescale costs.
    """
    kinds: dict[tuple[int, float, float], int] = {}
    for arrival in arrivals:
        trainer = cost_model.costs_of(arrival.trainer)
        shape = shapes.index_of(trainer)
        kind = kinds.setdefault((shape, trainer.scale_up_s, trainer.scale_down_s), len(kinds))
        total = math.inf if trainer.samples_total is None else trainer.samples_total
        yield shape, kind, arrival.at_s, trainer.scale_up_s, trainer.scale_down_s, total
