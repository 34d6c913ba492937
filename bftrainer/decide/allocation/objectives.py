"""The objective metric O_j(n) (paper 3.1, 5.2; the f_j of Eqn 16), as a :class:`Curve` per trainer.

An objective turns a trainer and its remaining work into its value per second on n nodes. Values
between breakpoints are interpolated, as for throughput.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.sizes import sizes_of
from bftrainer.decide.domain.state import Active, State
from bftrainer.errors import InvalidValueError

# How fast a trainer would be with an equal share of the pool: the yardstick of the objective
# ``relative-speed``.


def equal_share(trainers: Sequence[Trainer], pool_size: int) -> float:
    """Return the equal share of a pool of ``pool_size`` nodes, in nodes per trainer (a fraction).

    The nodes that a trainer cannot use because of its largest size are shared by the others. If
    every trainer can have its largest size, it is the whole pool.
    """
    nodes_left = float(pool_size)
    trainers_left = len(trainers)
    for largest in sorted(trainer.max_nodes for trainer in trainers):
        # From the smallest maximum on: once a trainer can use an equal share of what is left, all
        # that follow can.
        if largest * trainers_left >= nodes_left:
            return nodes_left / trainers_left
        nodes_left -= largest  # it has all that it can use, which is less than the share
        trainers_left -= 1
    return float(pool_size)  # every trainer has its largest size (or there is none)


def equal_share_rate(trainer: Trainer, share: float) -> float:
    """Return the samples per second of a trainer that has ``share`` nodes on average (a fraction).

    That is the upper concave envelope of its rates O_j, from (0, 0): a share between two sizes, or
    below the smallest, is reached in turns of larger and smaller sizes. Therefore a single bad
    point of a curve, such as one node that thrashes, does not make the other points look fast: n
    nodes are never worth more than max(1, n / share) times the share.
    """
    nodes, per_s = envelope(trainer)
    i = bisect_right(nodes, share)
    # Beyond the last corner more nodes bring nothing.
    if i == len(nodes):
        return per_s[-1]
    return per_s[i - 1] + (per_s[i] - per_s[i - 1]) * (share - nodes[i - 1]) / (
        nodes[i] - nodes[i - 1]
    )


def _envelope_sizes(trainer: Trainer) -> tuple[int, ...]:
    """Return the sizes that can be corners of the envelope, rising: the listed sizes or, without a
    list, the smallest and the largest size and the curve's breakpoints between them.
    """
    if trainer.sizes is not None:
        return sizes_of(trainer)
    low, high = trainer.min_nodes, trainer.max_nodes
    return tuple(sorted({low, high, *(n for n in trainer.curve.nodes if low < n < high)}))


@lru_cache(maxsize=8192)
def envelope(trainer: Trainer) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the corners of the upper concave envelope of a trainer's rates: the node counts, and
    the samples per second at each, both rising from 0.

    The envelope is the lowest concave curve from (0, 0) that no rate exceeds.
    """
    nodes, per_s = [0], [0.0]
    for n in _envelope_sizes(trainer):
        rate = trainer.curve.at(n)
        # No faster than a smaller size: the trainer would use the smaller one.
        if rate <= per_s[-1]:
            continue
        # A corner that the line to the new one passes above is none.
        while len(nodes) > 1 and _is_on_or_below(
            nodes[-2], per_s[-2], nodes[-1], per_s[-1], n, rate
        ):
            nodes.pop()
            per_s.pop()
        nodes.append(n)
        per_s.append(rate)
    return tuple(nodes), tuple(per_s)


def _is_on_or_below(n0: int, rate0: float, n1: int, rate1: float, n2: int, rate2: float) -> bool:
    """Whether the middle point (``n1``, ``rate1``) is on or below the line between the other two,
    which are at fewer (``n0``) and more (``n2``) nodes.
    """
    return (rate1 - rate0) * (n2 - n0) <= (rate2 - rate0) * (n1 - n0)


DEFAULT_OBJECTIVE = "relative-speed"


@dataclass(frozen=True, slots=True)
class Objective:
    """A named objective: ``value(trainer, remaining_samples)`` gives the trainer's value curve.

    ``share_rate(trainer, n)``, if present, is a trainer's rate with an equal share of n nodes, by
    which its curve is divided, relative to the largest one: if all trainers are alike, their curves
    stay as they are, to the last bit. ``weight(active, now_s)``, if present, multiplies the curve
    by a factor from the reports or the history of the trainer. ``unit`` is the unit of O_j(n) times
    seconds, for messages. ``needs`` are facts that a trainer must have for it.

    With ``kappa``, no trainer is refused, and a trainer counts as much as trainers wait for it
    (:mod:`bftrainer.decide.policies.line`). ``forward_s`` is the T_fwd that suits it.
    """

    name: str
    value: Callable[[Trainer, float | None], Curve]
    weight: Callable[[Active, float], float] | None = None
    unit: str = "of the objective"
    needs: frozenset[Need] = frozenset()
    share_rate: Callable[[Trainer, float], float] | None = None
    kappa: float | None = None
    forward_s: float = 120.0

    def of(self, state: State) -> tuple[Curve, ...]:
        """Return the value curve of every admitted trainer, in the order of ``State.active``: its
        ``value``, divided by its rate on an equal share and multiplied by its ``weight`` where the
        objective has these.
        """
        trainers = [active.trainer for active in state.active]
        curves = [self.value(active.trainer, active.remaining_samples) for active in state.active]
        relative = self.among(trainers, curves, len(state.pool))
        if self.weight is None:
            return tuple(relative)
        factors = (self.weight(active, state.at_s) for active in state.active)
        return tuple(
            _divided_curve(curve, 1.0 / factor)
            for curve, factor in zip(relative, factors, strict=True)
        )

    def among(
        self, trainers: Sequence[Trainer], curves: Sequence[Curve], pool_size: int
    ) -> Sequence[Curve]:
        """Return the value curves of trainers that share a pool of ``pool_size`` nodes, in their
        order.

        ``curves`` are their ``value`` alone, without regard to each other. With ``share_rate`` each
        is divided by the trainer's rate on an equal share of the pool; without, they are returned
        unchanged.
        """
        if self.share_rate is None or not trainers:
            return curves
        return _relative_curves(self.share_rate, tuple(trainers), tuple(curves), pool_size)


def throughput(trainer: Trainer, remaining: float | None) -> Curve:
    """Value a trainer by its samples per second, O_j(n). The total is best, but models with cheap
    samples are favored (paper 5.2.1).
    """
    return trainer.curve


def scaling_efficiency(trainer: Trainer, remaining: float | None) -> Curve:
    """Value a trainer by its speedup over one node, O_j(n) / O_j(1): fair between models (paper
    5.2.1).
    """
    return _divided_curve(trainer.curve, one_node_rate(trainer))


def speed_of_one(trainer: Trainer, remaining: float | None) -> Curve:
    """Value a trainer by O_j(n) over the best rate of one node on average. This is a speedup also
    for a model whose single node thrashes.
    """
    return _divided_curve(trainer.curve, rate_of_one(trainer))


def priority(trainer: Trainer, remaining: float | None) -> Curve:
    """Value a trainer by priority_j * O_j(n). Since the objective also divides by the rate on an
    equal share (``share_rate``), this is the weighted relative speed, which means the same for
    every model.

    Raises :class:`InvalidValueError` for a priority of 0, which would make the trainer worth
    nothing.
    """
    if trainer.priority == 0:
        raise InvalidValueError(
            f"trainer {trainer.id}: the 'priority' objective requires a priority above 0"
        )
    return _divided_curve(trainer.curve, 1.0 / trainer.priority)


def progress(trainer: Trainer, remaining: float | None) -> Curve:
    """Value a trainer by O_j(n) over its ``remaining`` samples, which favors one that is nearly
    done.

    The remaining samples count as at least a minute at full size. Otherwise a trainer one sample
    from its end would outweigh all others together. Raises :class:`InvalidValueError` for a trainer
    of unknown length (None).
    """
    if remaining is None:
        raise InvalidValueError(
            f"trainer {trainer.id}: the 'progress' objective requires samples_total "
            "(remaining_samples)"
        )
    least = 60.0 * trainer.curve.at(trainer.max_nodes)
    # 1 for a trainer that is done and makes no progress: nothing is divided by 0.
    return _divided_curve(trainer.curve, max(remaining, least) or 1.0)


def growth_weight(active: Active, now_s: float) -> float:
    """Return by how much the evaluation function E (the loss) of a trainer changes per sample,
    relative to its first value.

    Times O_j(n), this is the change of the evaluation function per second on n nodes. The optimum
    then puts nodes where E falls most per node-second, the growth efficiency of [FlowCon Eqns 4.1,
    4.2]. Before its second report a trainer counts as if a fifth of its samples brought the whole
    reduction [FlowCon 3.1]. A trainer whose E does not change keeps a thousandth of that, so that a
    later change is still seen. ``now_s`` is not used: all weights have these parameters.
    """
    total = active.trainer.samples_total
    if total is None:
        raise InvalidValueError(
            f"trainer {active.trainer.id}: the 'growth' objective requires samples_total"
        )
    # The whole reduction within a fifth of the samples: 1 / (total / 5) per sample.
    early = 5.0 / total
    losses = active.losses
    if losses is None or losses.per_sample is None or losses.first == 0:
        return early
    # At least a thousandth of the early value, so that it is never 0.
    return max(losses.per_sample / abs(losses.first), early / 1000)


def aging_weight(active: Active, now_s: float) -> float:
    """Return 1 + the hours without nodes since admission, at ``now_s``: a trainer that others
    always outbid gets nodes in time (paper 5.3).
    """
    waited_s = max(now_s - active.admitted_s - active.run_s, 0.0)
    return 1.0 + waited_s / 3600


OBJECTIVES = {
    objective.name: objective
    for objective in (
        Objective(
            DEFAULT_OBJECTIVE, throughput, unit="weighted samples", share_rate=equal_share_rate
        ),
        Objective("throughput", throughput, unit="samples"),
        Objective("scaling-efficiency", scaling_efficiency, unit="one-node seconds"),
        # Weights multiply the relative speed, not the speedup over one node, in which a model whose
        # single node thrashes, or is measured too slow, outweighs every priority.
        Objective(
            "priority",
            priority,
            unit="weighted samples",
            needs=frozenset({Need.PRIORITY}),
            share_rate=equal_share_rate,
        ),
        Objective(
            "progress",
            progress,
            unit="shares of the remaining work",
            needs=frozenset({Need.LENGTH}),
        ),
        Objective(
            "growth",
            throughput,
            weight=growth_weight,
            unit="shares of the first loss",
            needs=frozenset({Need.LENGTH}),
        ),
        # Kappa and T_fwd were chosen on a week of Summit (docs/policies.md, "How many trainers at
        # once").
        Objective("fair", speed_of_one, unit="one-node seconds", kappa=0.75, forward_s=240.0),
        Objective("soon", speed_of_one, unit="one-node seconds", kappa=0.0),
        Objective("most", speed_of_one, unit="one-node seconds", kappa=3.0, forward_s=240.0),
        Objective(
            "ageing",
            throughput,
            weight=aging_weight,
            unit="aged weighted samples",
            share_rate=equal_share_rate,
        ),
    )
}


def usual_objective(max_parallel: int | None) -> str:
    """Return the name of the default objective. Without a P_jmax (None), the objective decides how
    many trainers train.
    """
    return "fair" if max_parallel is None else DEFAULT_OBJECTIVE


def from_function(name: str, function: Callable[[Trainer, int], float]) -> Objective:
    """Return a user-defined objective called ``name``. ``function(trainer, n)`` is the value per
    second on n nodes, called once per n and trainer.
    """

    @lru_cache(maxsize=8192)
    def value(trainer: Trainer) -> Curve:
        """Return the user's function as a curve with a point at every size. Raises
        :class:`InvalidValueError` for a value that is no finite number of at least 0.
        """
        legal = range(trainer.min_nodes, trainer.max_nodes + 1)
        values = []
        for n in legal:
            answer = float(function(trainer, n))
            if not math.isfinite(answer) or answer < 0:
                raise InvalidValueError(
                    f"objective {name} gave {answer} for trainer {trainer.id} on {n} nodes, "
                    "expected a finite number of at least 0"
                )
            values.append(answer)
        return Curve(tuple(legal), tuple(values))

    return Objective(name, lambda trainer, _remaining: value(trainer))


def one_node_rate(trainer: Trainer) -> float:
    """Return O_j(1), or O_j(N_min) / N_min where one node is too few; 1 for a trainer that makes no
    progress.
    """
    return trainer.curve.at(trainer.min_nodes) / trainer.min_nodes or 1.0


@lru_cache(maxsize=8192)
def rate_of_one(trainer: Trainer) -> float:
    """Return the best rate on one node on average, which is the concave envelope of O_j at 1; 1 for
    a trainer that makes no progress.
    """
    return equal_share_rate(trainer, 1.0) or 1.0


@lru_cache(maxsize=64)
def _relative_curves(
    share_rate: Callable[[Trainer, float], float],
    trainers: tuple[Trainer, ...],
    curves: tuple[Curve, ...],
    pool_size: int,
) -> tuple[Curve, ...]:
    """Return the ``curves`` of the ``trainers``, each divided by the trainer's rate with an equal
    share of the pool.

    The rates are taken relative to the largest one, so that the curves of trainers that are alike
    stay as they are. The result is kept until the size of the pool, the trainers or their curves
    change.
    """
    share = equal_share(trainers, pool_size)
    rates = [share_rate(trainer, share) for trainer in trainers]
    largest = max(rates)
    relative = []
    for curve, rate in zip(curves, rates, strict=True):
        # A trainer without progress on its share keeps its curve: there is nothing to divide by.
        relative.append(_divided_curve(curve, rate / largest) if rate else curve)
    return tuple(relative)


@lru_cache(maxsize=8192)
def _divided_curve(curve: Curve, unit: float) -> Curve:
    """Return the curve with its values divided by ``unit``, which is not 0."""
    return Curve(curve.nodes, tuple(value / unit for value in curve.per_s))
