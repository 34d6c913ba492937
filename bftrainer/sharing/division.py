"""The division of nodes among users by weight, and of a user's nodes among the user's pilots.

No user gets more than the user's pilots want (water-filling). Nodes that are left by rounding stay
with their holder; idle ones go to the user who is furthest below its part so far. Users whose part
is too small for any of their trainers get nodes by turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bftrainer.sharing.sharer import Key, Sharer

TURN_S = 900.0
"""How long a turn lasts, where a part is too small for any trainer."""
GOLDEN_STEP = (5**0.5 - 1) / 2
SQRT2_STEP = 2**0.5
"""Multiples of these, less whole numbers, are spread evenly.

The first one spreads the turns of users, the second one those of a user's pilots.
"""


def mean_parts(
    nodes: float, wants: Mapping[str, int], weights: Mapping[str, int] | None = None
) -> dict[str, float]:
    """Divide ``nodes`` among users by weight (None: evenly), no user above what it wants; return
    the part of each user.

    ``wants`` are the numbers of nodes that users want. Parts are averages over time, and so may be
    fractions. Users of weight 0 divide what the others leave. Cost: O(U log U) for U users.
    """
    if weights is None:
        weights = dict.fromkeys(wants, 1)
    weighted = [name for name in wants if weights[name]]
    parts = dict.fromkeys(wants, 0.0)
    remaining: float = max(nodes, 0)
    total_weight = sum(weights[name] for name in weighted)
    # Users who want least for their weight first: what they leave is divided among those that
    # follow.
    for name in sorted(weighted, key=lambda name: wants[name] / weights[name]):
        parts[name] = min(wants[name], remaining * weights[name] / total_weight)
        if parts[name] == wants[name]:
            remaining -= wants[name]
            total_weight -= weights[name]
    unweighted = {name: wanted for name, wanted in wants.items() if not weights[name]}
    if unweighted:
        # If a user with a weight still wants more, nothing is left.
        parts |= mean_parts(0 if total_weight else remaining, unweighted)
    return parts


def whole_parts(
    nodes: int,
    wants: Mapping[str, int],
    holds: Mapping[str, int] | None = None,
    owed: Mapping[str, float] | None = None,
    weights: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Divide ``nodes`` as :func:`mean_parts` does, but into whole nodes: each node that is left by
    rounding goes to one user. Returns the part of each user.

    ``wants`` are the nodes that users want, ``holds`` those that they have, and ``owed`` the
    node-seconds that they are below their mean parts so far; None for the last two: 0. Nodes left
    by rounding stay with users who hold more than the rounded part, then go to those who are owed
    most, then to the largest fraction, then by name. Pilots that know of different debts differ in
    idle nodes only. The sum is the smaller of ``nodes`` and all demand. Cost: O(U log U).
    """
    holds = holds or {}
    owed = owed or {}
    means = mean_parts(nodes, wants, weights)
    parts = {name: int(mean) for name, mean in means.items()}

    def precedence(name: str) -> tuple[bool, float, float, str]:
        """Return the sort key by which users get a node that is left; the smallest is first."""
        fraction = means[name] - parts[name]
        # This user has the node already: nothing has to be moved.
        if holds.get(name, 0) > parts[name]:
            return False, 0.0, -fraction, name
        return True, -owed.get(name, 0.0), -fraction, name

    order = sorted(parts, key=precedence)
    fractional = [name for name in order if parts[name] < means[name]]
    remaining = max(nodes, 0) - sum(parts.values())
    for name in fractional[: max(remaining, 0)]:
        parts[name] += 1
    return parts


def turns(
    room: int,
    means: Mapping[str, float],
    least: Mapping[str, int],
    wants: Mapping[str, int],
    now_s: float,
    step: float,
) -> dict[str, int]:
    """Return the nodes of users whose mean part is below the size of their smallest trainer: that
    size in their turn, and 0 in the turns of others.

    ``room`` is the number of nodes to give, ``means`` are the users' mean parts, ``least`` the
    sizes of their smallest trainers, and ``wants`` the nodes that they want. ``step`` is the
    fraction of a round by which the order moves from turn to turn. The result has only users who
    take turns.

    A part of 2 nodes and a size of 8 give 8 nodes in a quarter of all spans of ``TURN_S`` and none
    in the others, in an order that all pilots compute. With more nodes, no user loses a turn.
    """
    names = sorted(name for name, mean in means.items() if mean < least[name] <= wants[name])
    turn = now_s // TURN_S + 1
    positions = {}
    for index, name in enumerate(names):
        # Where the user is in the round, from 0 to 1; the users of one turn are spread evenly.
        phase = (turn * step + index / len(names)) % 1.0
        # Below 1 in means / least of all turns: then it is the turn of this user.
        positions[name] = phase * least[name] / max(means[name], 1e-9)
    parts = dict.fromkeys(names, 0)
    for name in sorted(names, key=positions.__getitem__):
        if positions[name] < 1 and least[name] <= room:
            parts[name] = least[name]
            room -= least[name]
    return parts


def parts_of(
    nodes: int,
    claims: Iterable[Sharer],
    fixed: Collection[Key] = (),
    now_s: float = 0.0,
    owed: Mapping[str, float] | None = None,
) -> dict[Key, int]:
    """Return how many of the ``nodes`` each pilot may have: they are divided by weight among users,
    and each user's part evenly among the user's pilots.

    ``claims`` are the pilots, with what they hold and want. Pilots in ``fixed`` have what they
    hold, as a part of their user's or beyond it; the others divide the rest. ``owed`` are the
    users' node-seconds below their mean parts so far.
    """
    by_user: dict[str, list[Sharer]] = defaultdict(list)
    for claim in claims:
        by_user[claim.user].append(claim)
    groups = {user: _Group.from_pilots(pilots, fixed) for user, pilots in by_user.items()}
    user_parts = _group_parts(nodes, groups, now_s, GOLDEN_STEP, owed)
    parts: dict[Key, int] = {}
    for user, pilots in by_user.items():
        pilot_parts = {pilots[0].pilot: user_parts[user]}
        if len(pilots) > 1:
            single_pilots = {claim.pilot: _Group.from_pilots([claim], fixed) for claim in pilots}
            pilot_parts = _group_parts(user_parts[user], single_pilots, now_s, SQRT2_STEP)
        parts |= {claim.key: pilot_parts[claim.pilot] for claim in pilots}
    return parts


@dataclass(frozen=True, slots=True)
class _Group:
    """What a user's pilots ask for together, or one pilot alone.

    ``fixed``: nodes of the pilots that keep what they hold.
    ``least``: the smallest number of nodes of use to the others; 0 if some pilot keeps what it
    holds, because such a group has no turns.
    """

    fixed: int
    demand: int
    held: int
    least: int
    weight: int

    @classmethod
    def from_pilots(cls, pilots: Sequence[Sharer], fixed: Collection[Key]) -> _Group:
        """Return the sum of what these pilots of one user hold and want; those in ``fixed`` keep
        what they hold.
        """
        fixed_pilots = [claim for claim in pilots if claim.key in fixed]
        dividing = [claim for claim in pilots if claim.key not in fixed]
        fixed_nodes = sum(claim.holds for claim in fixed_pilots)
        least = 0
        if not fixed_pilots:
            least = min((claim.least for claim in dividing if claim.demand), default=0)
        return cls(
            fixed=fixed_nodes,
            demand=fixed_nodes + sum(claim.demand for claim in dividing),
            held=sum(claim.holds for claim in pilots),
            least=least,
            weight=pilots[0].weight,
        )


def _group_parts(
    nodes: int,
    groups: Mapping[str, _Group],
    now_s: float,
    step: float,
    owed: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """Return the part of each group: of a user's pilots together, or of one pilot.

    First, groups whose pilots keep more than their part get these nodes; then groups whose part is
    too small for any trainer take :func:`turns`; the others divide the rest. ``step`` is that of
    the turns, and ``owed`` as in :func:`whole_parts`.
    """
    held = {name: group.held for name, group in groups.items()}
    least = {name: group.least for name, group in groups.items()}
    demand = {name: group.demand for name, group in groups.items()}
    weights = {name: group.weight for name, group in groups.items()}
    parts: dict[str, int] = {}
    open_demand = demand
    had_turns = False
    # Each round settles groups for good. The nodes that are left may make other parts smaller, so
    # the rest is divided once more, until no group has to be settled.
    while open_demand:
        candidate = whole_parts(nodes, open_demand, held, owed, weights)
        settled = {
            name: groups[name].fixed for name in open_demand if groups[name].fixed > candidate[name]
        }
        if not settled and not had_turns:
            had_turns = True
            # What is left when the pilots that keep their nodes have them.
            room = nodes - sum(groups[name].fixed for name in open_demand)
            means = mean_parts(nodes, open_demand, weights)
            settled = turns(room, means, least, demand, now_s, step)
        if not settled:
            return parts | candidate
        parts |= settled
        nodes -= sum(settled.values())
        open_demand = {name: n for name, n in open_demand.items() if name not in parts}
    return parts
