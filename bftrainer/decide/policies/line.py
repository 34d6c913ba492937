"""The line of all unfinished trainers, and the weight of each in Eqn 16: how many wait for it.

No trainer is refused: which trainers of the queue train, and with how many nodes, is one
optimization.

    m      unfinished trainers; M: the most since there was last none
    line   by submission plus remaining time on one node, the least first
    i_j    trainers at or behind j in the line: m for the first, 1 for the last
    w_j    (i_j + kappa M) / (m + kappa M)

The sum of completion times falls by one second for each trainer at or behind j when j is a second
nearer to its end, so the work of j is worth i_j (for concave curves that is close to heSRPT: Berg,
Vesilo, Harchol-Balter 2020). ``kappa`` M is the weight of the last completion in trainers: 0
minimizes the mean, more and more the last.

A trainer of unknown length counts as one of a day of work on one node; what it trains beyond a day
moves it back. A new one is behind each running trainer of known length that was started, or last
changed its size, before the submission and less than T_fwd ago: the decision that started that one
assumed T_fwd of training (Eqn 16), and has not paid off before.

No starvation: the first of the line whose smallest size fits the pool always trains. A trainer
submitted later than a time T_j is never before j, with T_j the submission of j plus its time on one
node. So j waits at 0 nodes no longer than the trainers submitted before T_j take, one after another
on their smallest sizes, plus the time in which the pool is too small for them, plus T_fwd for an
unknown length.

A waiting trainer that cannot be chosen is left out of the problem: trainers before it in the line
could fill the pool, of its kind at their smallest sizes, or of any kind with one node each where no
size is better per node. (In an optimum with it, as many of them have nothing as it has nodes, and
they are worth no less with these.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bftrainer.decide.allocation.objectives import rate_of_one
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.sizes import sizes_of
from bftrainer.decide.domain.state import Active

UNKNOWN_S = 86_400.0
"""The work of a trainer of unknown length, in seconds on one node."""
_CACHE_SIZE = 16_384


@dataclass(frozen=True, slots=True)
class PriorityOrder:
    """The trainers that can be chosen, as indices into ``State.active``, and their weights in Eqn
    16.

    ``guaranteed`` is the index of the one that must train, the first of the line that fits the pool
    (None: none does).
    ``until_s`` is the time at which a trainer of unknown length is no longer behind a start that
    has not paid off (None: none is).
    """

    members: tuple[int, ...]
    weights: tuple[float, ...]
    guaranteed: int | None
    until_s: float | None = None


def priority_order(
    active: Sequence[Active],
    queued: int,
    pool_size: int,
    kappa: float,
    peak: int,
    cache: RankCache | None = None,
    at_s: float = 0.0,
    forward_s: float = 0.0,
) -> PriorityOrder:
    """Return the trainers that can be chosen and their weights in Eqn 16, in the order of
    ``active``.

    ``queued`` more trainers are behind all of these. ``kappa`` and ``peak``, M, are those of the
    module's text. With a ``cache``, the next call is faster. ``at_s`` is the time of the event and
    ``forward_s`` T_fwd; with 0, every start has paid off at once.
    """
    cache = cache or RankCache()
    ranks = cache.ranked(active)
    behind = behind_starts(active, at_s, forward_s)
    if behind:
        ranks = _moved_behind(ranks, behind)
    total = len(active) + queued + kappa * peak  # m + kappa M
    # The nodes that the trainers so far may leave: if each that takes any single node has one, and,
    # by kind, if each of the kind has its smallest size.
    free = pool_size
    free_by_kind: dict[int, int] = {}
    guaranteed: int | None = None
    chosen: list[tuple[int, float]] = []
    for i, (_, j) in enumerate(ranks):
        if free <= 0:  # of all that follow, only those with nodes can be chosen
            rest = enumerate(ranks[i:], i)
            chosen += [(j, (total - i) / total) for i, (_, j) in rest if active[j].nodes]
            break
        kind, smallest, takes_one = cache.kind(active[j].trainer)
        if guaranteed is None and smallest <= pool_size:
            guaranteed = j
        # Trainers of one kind differ only in name and length, so the earlier one of a kind is
        # chosen first: a later one only if the earlier ones leave it room.
        kind_left = free_by_kind[kind] = free_by_kind.get(kind, pool_size) - smallest
        # A trainer with nodes is always in the problem: taking its nodes away is a choice too.
        if kind_left >= 0 or active[j].nodes:
            chosen.append((j, (total - i) / total))
        free -= takes_one
    chosen.sort()
    until_s = min((start.until_s for start in behind.values()), default=None)
    members = tuple([j for j, _ in chosen])
    weights = tuple([weight for _, weight in chosen])
    return PriorityOrder(members, weights, guaranteed, until_s)


def _moved_behind(
    places: Sequence[tuple[float, int]], behind: Mapping[int, RecentStart]
) -> list[tuple[float, int]]:
    """Return the (key, index) of every trainer in priority order, each trainer of ``behind`` moved
    behind the running one whose start must pay off first.

    ``places`` are the pairs before; a key is in seconds, the smallest first.
    """
    keys = {j: key for key, j in places}
    for j, start in behind.items():
        keys[j] = max(keys[j], start.key_s)
    return sorted((key, j) for j, key in keys.items())


@dataclass(frozen=True, slots=True)
class RecentStart:
    """A running trainer of known length whose start, or last change of size, pays off at
    ``until_s``. ``key_s`` is its key in the priority order.
    """

    trainer_id: str
    key_s: float
    until_s: float


def behind_starts(
    active: Sequence[Active], at_s: float, forward_s: float
) -> dict[int, RecentStart]:
    """Return the waiting trainers of unknown length, by index, that must not displace a running
    trainer yet, each with the recent start (or change of size) that they have to let pay off.

    They were submitted after that start, which was less than ``forward_s`` (T_fwd) ago: so none
    waits longer than T_fwd for this reason. Of several starts it is the one of the trainer that is
    last in the priority order. Cost: O(J log J) for J trainers.
    """
    waiting = [
        j
        for j, a in enumerate(active)
        if not a.nodes and not a.samples_done and a.trainer.samples_total is None
    ]
    if not waiting:  # most decisions: the starts and their keys need not be known
        return {}
    recent_starts = sorted(
        (admitted.sized_s, key_s(admitted), j)
        for j, admitted in enumerate(active)
        if admitted.nodes
        and admitted.remaining_samples is not None
        and admitted.sized_s + forward_s > at_s
    )
    if not recent_starts:
        return {}
    # At position i: of the i + 1 earliest starts, the one whose trainer is last in the priority
    # order.
    start_times_s, last_in_order = [start_s for start_s, _, _ in recent_starts], [recent_starts[0]]
    for start in recent_starts[1:]:
        last_in_order.append(max(last_in_order[-1], start, key=lambda entry: entry[1]))
    behind = {}
    for j in waiting:
        place = bisect_left(start_times_s, active[j].admitted_s)
        if place:
            start_s, key, runner = last_in_order[place - 1]
            behind[j] = RecentStart(active[runner].trainer.id, key, start_s + forward_s)
    return behind


def key_s(active: Active) -> float:
    """Return the trainer's key in the priority order, in seconds; the smallest key is first.

    It is the time of admission, plus the remaining work on one node. Where that is unknown, the
    work done so far stands for it, and at least ``UNKNOWN_S``, a day.
    """
    left_s = one_node_s(active)
    if left_s is None:
        done_s = active.samples_done / rate_of_one(active.trainer)
        return active.admitted_s + max(done_s, UNKNOWN_S)
    return active.admitted_s + left_s


def one_node_s(active: Active) -> float | None:
    """Return the remaining work of a trainer in seconds on one node; None for an unknown length."""
    left = active.remaining_samples
    return None if left is None else left / rate_of_one(active.trainer)


class RankCache:
    """Keeps the last key and kind of every trainer: those of a trainer that waits do not change.

    The priority order depends on its arguments only: a kind keeps its number until the cache is
    cleared, which happens between two orders.
    """

    def __init__(self) -> None:
        self._keys: dict[str, tuple[Active, float]] = {}
        self._kinds: dict[str, tuple[Trainer, tuple[int, int, int]]] = {}
        self._numbers: dict[tuple[object, ...], int] = {}  # the number of each kind

    def ranked(self, active: Sequence[Active]) -> list[tuple[float, int]]:
        """Return the (key, index) of every trainer in ``active``, in priority order: the smallest
        key (:func:`key_s`) first.
        """
        if max(len(self._keys), len(self._kinds), len(self._numbers)) > _CACHE_SIZE:
            self._keys, self._kinds, self._numbers = {}, {}, {}
        keys, ranks = self._keys, []
        for j, admitted in enumerate(active):
            entry = keys.get(admitted.trainer.id)
            if entry is None or entry[0] is not admitted:  # a trainer that changes is a new object
                entry = keys[admitted.trainer.id] = admitted, key_s(admitted)
            ranks.append((entry[1], j))
        ranks.sort()
        return ranks

    def kind(self, trainer: Trainer) -> tuple[int, int, int]:
        """Return the number of a trainer's kind, its smallest size, and whether it takes any single
        node (1 or 0).

        Trainers that differ only in name and length are of one kind, so that any of them makes the
        same use of nodes. The third number is 1 if the smallest size is one node, and no other size
        is better per node.
        """
        cached = self._kinds.get(trainer.id)
        if cached is not None and cached[0] is trainer:
            return cached[1]
        alike = (
            trainer.curve,
            trainer.min_nodes,
            trainer.max_nodes,
            trainer.scale_up_s,
            trainer.scale_down_s,
            trainer.sizes,
            trainer.start_s,
            trainer.from_zero_s,
        )
        smallest = sizes_of(trainer)[0]
        takes_one = smallest == 1 and trainer.curve.at(1) >= rate_of_one(trainer)
        number = self._numbers.setdefault(alike, len(self._numbers))
        kind = number, smallest, int(takes_one)
        self._kinds[trainer.id] = trainer, kind
        return kind
