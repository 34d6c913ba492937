"""The split of idle nodes among users, which every pilot computes alike from what all show: no service, no set-up. Pure.

Each user gets the same number of nodes, or as many by weight, and no user more than the user's pilots want (water-filling). Odd
nodes stay where they are; idle ones go to the user who has had the least of its part so far. A pilot requests no more than its
part. It releases the nodes above its part while another pilot is well below its own and finds no idle node: soon if that one is
new or had none, else after a while, so that small differences move no node.

What others show is not always so. A pilot that leaves nodes idle below its part counts with what it holds, for longer each time
in a row. A pilot that keeps what is above its part is told, and the others divide the rest: so neither can stop the split.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

SOON_S, LATER_S = 1.0, 300.0
"""Patience before nodes are released: for a pilot that is new or had none, for another one."""
RESTLESS = 3.0
"""Nobody releases nodes for a user who came more often than this lately; :data:`LATER_S` is the half-life of the count."""
TOLERATED = 0.9
"""A pilot with so much of its part goes without the rest."""
IN_VAIN_S = 120.0
"""A pilot that lacks nodes and leaves some idle for so long cannot use them (and three polls, if those are longer)."""
ASKING = 4.0
"""So many times longer while it has a pending holder: of many pilots that request the same node, one gets it."""
TURN_S = 900.0
_OF_USERS, _OF_PILOTS = (5**0.5 - 1) / 2, 2**0.5
"""Their multiples, less whole numbers, are spread evenly, and so are turns of users, and of a user's pilots in the user's."""
FORGOTTEN_S, LONGEST_S = 300.0, 3600.0
"""At least so long it counts with what it holds; twice as long each time in a row, up to the longest."""
HALF_LIFE_S = 86400.0
"""After so long, half of what is owed is forgotten."""
ALONE, EQUAL_PART, PART = "no other user's pilot wants nodes", "an equal part of", "a part of"
TOLD_S = 120.0
"""A pilot that keeps nodes above its part for so long, longer than its patience, does not give them back."""
SETTLES_S = 12.0
"""A node on its way from one user to another belongs to no user for a moment: the most nodes within this time are divided.

By default, a fall counts once two polls have shown it. Until then, a user who lost all nodes to a main job waits."""

Key = tuple[str, str]
_GONE = "\0"
"""In place of a pilot's name: those of a user that are gone. No pilot can have this name."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pilot shows the others: how many nodes its trainers could use, and that it lacks some and finds none idle."""

    wants: int
    is_short: bool = False
    least: int = 1


@dataclass(frozen=True, slots=True)
class Sharer:
    """A pilot in the split. ``wants``: nodes that its trainers could use, None if it does not say (an older one has what it
    holds); ``holds``: those it has; ``is_short``: it finds none idle. ``nodes``: those of ours that its host list allows (None:
    any). ``least``: the smallest number that they can use. ``weight``: of the user, 0 or more.
    """

    user: str
    pilot: str
    wants: int | None
    holds: int = 0
    is_short: bool = False
    nodes: frozenset[str] | None = None
    asks: bool = False
    least: int = 1
    weight: int = 1

    @property
    def key(self) -> Key:
        return self.user, self.pilot

    def finds(self, idle: Collection[str]) -> int:
        """How many of the idle nodes it could take."""
        return 0 if self.is_short else len(idle) if self.nodes is None else len(self.nodes.intersection(idle))


@dataclass(frozen=True, slots=True)
class Passive:
    """A pilot that left nodes idle while it held ``holds``: it counts with these until then."""

    holds: int
    until_s: float
    for_s: float


@dataclass(frozen=True, slots=True)
class ShareMemory:
    """The most nodes lately, and those seen since with the time of each; since when this pilot holds what others lack; of other
    pilots, since when they leave nodes idle (and what they held), which are passive, since when they keep what others lack,
    which do for too long, which are new or had none and lack some, and when each was first seen. Of users, the node-seconds
    below the part so far (``owed``) and the nodes below it (``lacks``) at ``seen_s``, negative above it; how often they
    ``came`` lately, without nodes or new, and who of these is ``there``.
    ``among``: how many users the last words counted, and their weights.
    """

    nodes: int = 0
    recent: tuple[tuple[float, int], ...] = ()
    above_s: float = math.inf
    idle_since: Mapping[Key, tuple[float, int]] = field(default_factory=dict)
    passive: Mapping[Key, Passive] = field(default_factory=dict)
    keeps_since: Mapping[Key, float] = field(default_factory=dict)
    keep: frozenset[Key] = frozenset()
    late: frozenset[Key] = frozenset()
    first_s: Mapping[Key, float] = field(default_factory=dict)
    among: tuple[int, ...] = ()
    seen_s: float = math.inf
    lacks: Mapping[str, float] = field(default_factory=dict)
    owed: Mapping[str, float] = field(default_factory=dict)
    came: Mapping[str, float] = field(default_factory=dict)
    there: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Split:
    """``part``: what this pilot may hold (infinite: no other user wants any). It leaves the first ``before`` idle nodes to
    others who lack some: of pilots that request the same node, only one gets it. It releases ``gives`` of its nodes now, best
    those of ``fits``, for ``reason``. ``is_short``: it lacks nodes and finds none. ``tells``: for the log of events.
    """

    part: float = math.inf
    before: int = 0
    gives: int = 0
    fits: frozenset[str] | None = None
    reason: str = ""
    is_short: bool = False
    again_s: float = math.inf
    tells: tuple[str, ...] = ()
    memory: ShareMemory = field(default_factory=ShareMemory)


def mean_parts(nodes: float, wants: Mapping[str, int], weights: Mapping[str, int] | None = None) -> dict[str, float]:
    """``nodes`` divided by weight (None: evenly), no user above its demand: what each should have on average. Those of weight 0
    divide what the others leave. Cost: O(U log U).
    """
    weight = {name: 1 if weights is None else weights[name] for name in wants}
    parts, left, total = dict.fromkeys(wants, 0.0), max(nodes, 0), sum(weight.values())
    for name in sorted((name for name in wants if weight[name]), key=lambda name: wants[name] / weight[name]):
        parts[name] = min(wants[name], left * weight[name] / total)
        if parts[name] == wants[name]:
            left, total = left - wants[name], total - weight[name]
    rest = {name: n for name, n in wants.items() if not weight[name]}
    return parts | mean_parts(0 if total else left, rest) if rest else parts


def whole_parts(
    nodes: int, wants: Mapping[str, int], holds: Mapping[str, int] | None = None,
    owed: Mapping[str, float] | None = None, weights: Mapping[str, int] | None = None,
) -> dict[str, int]:  # fmt: skip
    """The same in whole nodes. Odd ones stay with who holds more, then go to whom most is owed, else to the largest fraction,
    else by name: pilots that know of different debts differ in idle nodes only. The sum is the smaller of both sums.
    Cost: O(U log U).
    """
    means = mean_parts(nodes, wants, weights)
    parts = {name: int(mean) for name, mean in means.items()}
    left, holds, owed = max(nodes, 0) - sum(parts.values()), holds or {}, owed or {}

    def place(name: str) -> tuple[bool, float, float, str]:
        is_below = holds.get(name, 0) <= parts[name]
        return is_below, -owed.get(name, 0.0) * is_below, parts[name] - means[name], name

    for name in sorted(parts, key=place):
        more = int(left > 0 and parts[name] < means[name])
        parts[name] += more
        left -= more
    return parts


def turns(
    room: int, means: Mapping[str, float], least: Mapping[str, int], wants: Mapping[str, int], now_s: float, step: float
) -> dict[str, int]:
    """Those whose mean part is below the smallest size of their trainers: each has that size for a share of the time, else
    nothing. A part of 2 and a size of 8 give a quarter of all spans of :data:`TURN_S`, in an order that all compute.
    """
    names = sorted(name for name, mean in means.items() if mean < least[name] <= wants[name])
    found, at = dict.fromkeys(names, 0), (now_s // TURN_S + 1) * step
    points = {name: (at + i / len(names)) % 1.0 * least[name] / max(means[name], 1e-9) for i, name in enumerate(names)}
    for name in sorted(names, key=points.__getitem__):  # with more nodes, no user loses a turn
        found[name] = least[name] * (points[name] < 1 and least[name] <= room)
        room -= found[name]
    return found


def parts_of(
    nodes: int, claims: Iterable[Sharer], keep: Collection[Key] = (), now_s: float = 0.0,
    owed: Mapping[str, float] | None = None,
) -> dict[Key, int]:  # fmt: skip
    """The part of each pilot: by weight among users, and of a user's part evenly among the user's pilots. Those that ``keep``
    what they hold have that, as a part of their user's or beyond it; the others divide the rest.
    """
    pilots: dict[str, list[Sharer]] = defaultdict(list)
    for claim in claims:
        pilots[claim.user].append(claim)
    of_user = _divided(nodes, pilots, keep, now_s, _OF_USERS, owed)
    parts: dict[Key, int] = {}
    for user, its in pilots.items():
        of_pilot = {its[0].pilot: of_user[user]}
        if len(its) > 1:
            of_pilot = _divided(of_user[user], {c.pilot: [c] for c in its}, keep, now_s, _OF_PILOTS)
        parts |= {c.key: of_pilot[c.pilot] for c in its}
    return parts


def _divided(
    nodes: int, groups: Mapping[str, Sequence[Sharer]], keep: Collection[Key], now_s: float, step: float,
    owed: Mapping[str, float] | None = None,
) -> dict[str, int]:  # fmt: skip
    """The parts of users, or of pilots, in groups of one."""
    kept = {name: sum(c.holds for c in its if c.key in keep) for name, its in groups.items()}
    wants = {name: kept[name] + sum(_wants(c) for c in its if c.key not in keep) for name, its in groups.items()}
    holds = {name: sum(c.holds for c in its) for name, its in groups.items()}
    least = {
        name: 0 if any(c.key in keep for c in its) else min((c.least for c in its if _wants(c)), default=0)
        for name, its in groups.items()
    }
    weights = {name: its[0].weight for name, its in groups.items()}
    parts, open_, has_turns = dict[str, int](), dict(wants), True
    while open_:
        found = whole_parts(nodes, open_, holds, owed, weights)
        fixed = {name: kept[name] for name in open_ if kept[name] > found[name]}
        if not fixed and has_turns:
            has_turns, room = False, nodes - sum(kept[name] for name in open_)
            fixed = turns(room, mean_parts(nodes, open_, weights), least, wants, now_s, step)
        parts |= fixed or found
        nodes -= sum(fixed.values())
        open_ = {name: n for name, n in open_.items() if name not in parts}
    return parts


def _wants(claim: Sharer) -> int:
    return claim.holds if claim.wants is None else claim.wants


def split(
    own: Sharer, leaves: int, others: Sequence[Sharer], idle: Collection[str], most: float, was: ShareMemory, now_s: float,
    poll_s: float = 10.0,
) -> Split:  # fmt: skip
    """``leaves``: nodes that this pilot has decided to release and still holds. ``idle``: nodes that no pilot holds and it may
    take. ``most``: nodes that all pilots together may hold.
    """
    others = [c for c in others if c.holds or c.wants]
    holds, idle_since = {c.key: c.holds for c in others}, _inherited(was.idle_since, others, was)
    passive = {
        key: p for key, p in _inherited(was.passive, others, was).items()
        if holds.get(key, 0) <= p.holds and now_s < p.until_s + p.for_s
    }  # fmt: skip
    if all(c.user == own.user for c in others):
        calm = max(was.came.values(), default=0.0) <= RESTLESS
        among = () if calm else was.among
        memory = ShareMemory(among=among, seen_s=was.seen_s, came=was.came, idle_since=idle_since, passive=passive)
        return Split(tells=(ALONE,) if was.among and calm else (), memory=memory)
    there = int(min(own.holds + leaves + len(idle) + sum(c.holds for c in others), most))
    lately = [*was.recent[:-1], *((now_s, n) for _, n in was.recent[-1:])]  # the last number was so until now
    lately = [(at_s, n) for at_s, n in lately if now_s - at_s < SETTLES_S and there < n <= most]
    claims = [own, *(_counted(c, passive, now_s) for c in others)]
    recent = (*lately, (now_s, there))
    memory = replace(was, nodes=recent[0][1], recent=recent)
    memory = _with_owed(memory, claims, now_s)
    parts = partial(parts_of, memory.nodes, claims, now_s=now_s, owed=memory.owed)
    silent = frozenset(c.key for c in others if c.wants is None)
    late = frozenset(c.key for c in claims if c.holds == 0 or c.key in was.late or _is_new(c, memory, now_s))
    fair = parts()
    due = parts(silent) if silent else fair
    memory = _with_came(memory, frozenset(c.user for c in claims[1:] if c.key in late and has_too_few(c, due)))
    memory, again_s = _with_keepers(memory, claims, due, fair, silent, late, idle, now_s)
    due = parts(silent | memory.keep) if memory.keep else due
    tells = [
        f"a pilot of {c.user} has kept {c.holds} nodes for {TOLD_S:g} s or more although its part is {fair[c.key]}"
        for c in others
        if c.key in memory.keep - was.keep
    ]
    part, weights = due[own.key], {c.user: c.weight for c in claims}
    in_vain_s, away_s = max(IN_VAIN_S, 3 * poll_s), max(now_s - was.seen_s, 0.0)
    idle_since = {key: (at_s + away_s if key[1] == _GONE else at_s, n) for key, (at_s, n) in idle_since.items()}
    idle_since, passive, tried_s = _in_vain(claims, due, idle, idle_since, passive, now_s, in_vain_s)
    lacking = [c for c in claims[1:] if has_too_few(c, due) and memory.came.get(c.user, 0.0) <= RESTLESS]
    lack = {short: sum(due[c.key] - c.holds for c in lacking if c.is_short is short) for short in (True, False)}
    gives = min(own.holds - part, lack[True] + max(lack[False] - len(idle), 0))
    above_s = min(was.above_s, now_s) if gives > 0 else math.inf
    late = late.intersection(c.key for c in lacking)
    due_s = above_s + (SOON_S if late else LATER_S)
    again_s += [due_s, *tried_s]
    again_s += [at_s + SETTLES_S for at_s, _ in lately[:1]]
    again_s += [(now_s // TURN_S + 1) * TURN_S] if any(c.least > 1 or not due[c.key] for c in claims) else []
    said = f"{EQUAL_PART} {memory.nodes} nodes for {len(weights)} users is {part}"
    if len({*weights.values()}) > 1:
        said = f"{PART} {part} of {memory.nodes} nodes by weight {own.weight} of {sum(weights.values())}"
    said += f", fewer than a trainer's {own.least}: it has turns" if part == 0 < min(own.weight, _wants(own)) else ""
    if part < _wants(own) and memory.nodes:
        steady = {c.user: c.weight for c in claims if memory.came.get(c.user, 0.0) <= RESTLESS}
        among = len(steady), own.weight, sum(steady.values())
        tells += [said] if among != was.among else []
        memory = replace(memory, among=among)
    return Split(
        part,
        sum(max(due[c.key] - c.holds, 0) for c in claims[1:] if c.key < own.key),
        gives if now_s >= due_s else 0,
        None if any(c.nodes is None for c in lacking) else frozenset().union(*(c.nodes or () for c in lacking)),
        f"for {', '.join(sorted({c.user for c in lacking})[:3])}: {said}",
        own.holds < min(part, _wants(own)) and not idle,
        min(again_s),
        tuple(tells),
        replace(memory, above_s=above_s, idle_since=idle_since, passive=passive, late=late),
    )


def _with_owed(was: ShareMemory, claims: Sequence[Sharer], now_s: float) -> ShareMemory:
    """What users have had since the last time, beside their mean parts, and when this pilot first saw the others."""
    for_s = max(now_s - was.seen_s, 0.0)
    owed = {user: n * 0.5 ** (for_s / HALF_LIFE_S) + was.lacks.get(user, 0.0) * for_s for user, n in was.owed.items()}
    wants, holds = defaultdict[str, int](int), defaultdict[str, int](int)
    for c in claims:
        wants[c.user] += _wants(c)
        holds[c.user] += c.holds
    weights = {c.user: c.weight for c in claims}
    lacks = {user: part - holds[user] for user, part in mean_parts(was.nodes, wants, weights).items()}
    first_s = {c.key: was.first_s.get(c.key, now_s) for c in claims[1:]}
    came = {user: n * 0.5 ** (for_s / LATER_S) for user, n in was.came.items()}
    return replace(was, first_s=first_s, seen_s=now_s, lacks=lacks, owed=dict.fromkeys(lacks, 0.0) | owed, came=came)


def _with_came(was: ShareMemory, there: frozenset[str]) -> ShareMemory:
    """Who comes and goes is soon known for it, and forgiven within :data:`LATER_S`."""
    came = {user: min(was.came.get(user, 0.0) + 1, 2 * RESTLESS) for user in there - was.there}
    return replace(was, came={**was.came, **came}, there=there)


def has_too_few(claim: Sharer, due: Mapping[Key, int]) -> bool:
    """Whether a pilot has well below what is due to it."""
    return claim.holds < TOLERATED * due[claim.key]


def _is_new(claim: Sharer, memory: ShareMemory, now_s: float) -> bool:
    return now_s - memory.first_s.get(claim.key, -math.inf) < LATER_S


def _with_keepers(
    was: ShareMemory, claims: Sequence[Sharer], due: Mapping[Key, int], fair: Mapping[Key, int], silent: Collection[Key],
    late: Collection[Key], idle: Collection[str], now_s: float,
) -> tuple[ShareMemory, list[float]]:  # fmt: skip
    """Since when other pilots keep what others lack, which do for too long, and when that may change. ``silent`` pilots show no
    demand: what they hold is ``due`` to them, not ``fair``.
    """

    def waiting(parts: Mapping[Key, int]) -> list[Sharer]:
        calm = (c for c in claims if was.came.get(c.user, 0.0) <= RESTLESS)
        return [c for c in calm if has_too_few(c, parts) and not c.finds(idle)]

    lack = {True: bool(waiting(fair)), False: bool(waits := waiting(due))}
    patience_s = TOLD_S if any(c.key in late for c in waits) else TOLD_S + LATER_S
    told_s = {c.key: TOLD_S if c.key in silent else patience_s for c in claims}
    above = [c.key for c in claims[1:] if c.holds > (fair if c.key in silent else due)[c.key] and lack[c.key in silent]]
    holds, dues, began = defaultdict[str, int](int), defaultdict[str, int](int), defaultdict[str, float](lambda: now_s)
    for c in claims:
        holds[c.user] += c.holds
        dues[c.user] += due[c.key]
    for (user, _), since_s in was.keeps_since.items():  # a pilot may call itself otherwise at any time
        began[user] = min(began[user], since_s) if holds[user] > dues[user] else now_s
    since = {key: min(was.keeps_since.get(key, now_s), began[key[0]], now_s) for key in above}
    keep = frozenset(key for key, since_s in since.items() if now_s - since_s >= told_s[key])
    again_s = [since_s + told_s[key] for key, since_s in since.items() if key not in keep]
    return replace(was, keeps_since=since, keep=keep), again_s


def _inherited(known: Mapping[Key, _T], others: Sequence[Sharer], was: ShareMemory) -> dict[Key, _T]:
    """What is known of pilots that are gone holds for their user's next new one: any may call itself otherwise, or pause."""
    here, new = {c.key for c in others}, {c.user: c.key for c in others if c.key not in was.first_s}
    return {key if key in here else new.get(key[0], (key[0], _GONE)): it for key, it in known.items()}


def _counted(claim: Sharer, passive: Mapping[Key, Passive], now_s: float) -> Sharer:
    """The claim; of a pilot that counts with what it holds, that."""
    known = passive.get(claim.key)
    return replace(claim, wants=claim.holds) if known and now_s < known.until_s and _wants(claim) else claim


def _in_vain(
    claims: Sequence[Sharer], due: Mapping[Key, int], idle: Collection[str], was: Mapping[Key, tuple[float, int]],
    passive: Mapping[Key, Passive], now_s: float, patience_s: float,
) -> tuple[dict[Key, tuple[float, int]], dict[Key, Passive], list[float]]:  # fmt: skip
    """Since when the other pilots leave nodes idle below their parts, those that count as passive, and when that may change.
    ``claims`` begin with this pilot's own.
    """
    own, found, since = claims[0], dict(passive), {key: it for key, it in was.items() if key[1] == _GONE}
    again_s = []
    for c in claims[1:]:
        could = idle if c.nodes is None else c.nodes.intersection(idle)
        if c.holds >= due[c.key] or not could or (own.holds > due[own.key] and c.is_short):
            continue
        since_s, held = was.get(c.key, (now_s, c.holds))
        since_s = since_s if held == c.holds else now_s
        due_s = since_s + patience_s * (ASKING if c.asks else 1.0)
        if now_s >= due_s:
            before = found.get(c.key)
            for_s = FORGOTTEN_S if before is None else min(2 * before.for_s, LONGEST_S)
            found[c.key] = Passive(c.holds, (now_s // for_s + 2) * for_s, for_s)  # all try again at once
        else:
            since[c.key] = since_s, c.holds
            again_s.append(due_s)
    return since, found, [*again_s, *(p.until_s for p in found.values() if p.until_s > now_s)]
