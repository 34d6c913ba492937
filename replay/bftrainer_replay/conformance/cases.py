"""Seeded random pools, trainers and histories for the conformance suite, without further packages."""

from __future__ import annotations

import random

from bftrainer.domain.events import PoolChanged
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.state import Active, Losses, State
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.simulation.losses import FAMILIES
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.world import Arrival


def a_trainer(rng: random.Random, name: str, largest: int = 16) -> Trainer:
    """A trainer of any shape: dead zones, listed sizes, concave and convex curves, free and expensive rescaling."""
    high = rng.randint(1, largest)
    low = rng.choice((1, 1, rng.randint(1, high)))
    power = rng.choice((0.5, 0.8, 1.0, 1.2))
    sizes = tuple(sorted(rng.sample(range(low, high + 1), rng.randint(1, min(3, high + 1 - low)))))
    listed = rng.random() < 0.2
    return Trainer(
        name,
        Curve(tuple(range(1, high + 1)), tuple(10.0 * n**power for n in range(1, high + 1))),
        low,
        high,
        rng.choice((0.0, 18.0)),
        rng.choice((0.0, 12.0)),
        samples_total=rng.choice((500.0, 2e4, 1e6)),
        sizes=sizes if listed else None,
        requested_nodes=rng.choice(sizes) if listed else rng.choice((None, low, high)),
        reports_loss=True,
    )


def a_state(rng: random.Random, trainers: int, nodes: int, largest: int = 16) -> State:
    """Trainers in progress, some below their minimum as after a preemption; no policy memory yet."""
    free, active = [f"n{i:04d}" for i in range(nodes)], []
    for j in range(trainers):
        trainer = a_trainer(rng, f"t{j}", largest)
        held = min(rng.choice((0, rng.randint(0, trainer.max_nodes))), len(free))
        mine, free = free[:held], free[held:]
        assert trainer.samples_total is not None
        done = rng.choice((0.0, rng.uniform(0, trainer.samples_total)))
        losses = Losses(1.0, rng.random(), done, rng.choice((None, rng.random() / 1e3))) if done else None
        run_s = rng.uniform(0, 5e4)
        active.append(Active(trainer, frozenset(mine), done, 0.0, run_s, run_s * rng.uniform(1, 8), losses))
    pool = frozenset(free).union(*(a.nodes for a in active))
    return State(max(trainers, 1), rng.uniform(1e5, 2e5), pool, tuple(active))


def a_scenario(rng: random.Random, *, fixed: bool) -> Scenario:
    """Two hours on up to 16 nodes with up to 8 trainers; ``fixed``: no node joins or leaves."""
    names = [f"n{i:02d}" for i in range(16)]
    pool = set(rng.sample(names, rng.randint(0 if not fixed else 1, 16)))
    initial, events = frozenset(pool), []
    for at_s in () if fixed else sorted(rng.sample(range(1, 7200), rng.randint(0, 25))):
        flipped = set(rng.sample(names, rng.randint(1, 6)))
        events.append(PoolEvent(float(at_s), PoolChanged(frozenset(flipped - pool), frozenset(flipped & pool))))
        pool ^= flipped
    families = sorted(FAMILIES)
    arrivals = tuple(
        Arrival(float(rng.randint(-60, 6000)), a_trainer(rng, f"t{i}", 8), losses=FAMILIES[rng.choice(families)])
        for i in range(rng.randint(1, 8))
    )
    window = LogWindow(0.0, 7200.0, initial, tuple(events), 16, "generated")
    return Scenario(window, arrivals, rng.randint(1, 6), rng.choice(tuple(CostModel)))
