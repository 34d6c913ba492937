"""ModelArts (Hu et al. 2021, section 5): the optimal allocator against the greedy one, on generated jobs.

The paper gives 447 jobs of at least 5 minutes over 50 hours with 232.6 minutes of training in the mean (1,252 jobs and 84.3
minutes in all), but neither their node counts nor the spread. A job's demand is taken as its training time x an assumed
number of nodes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from bftrainer.domain.events import Event
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.ports import Policy
from bftrainer.domain.state import Decision, State
from bftrainer.policies.modelarts_greedy import ModelArtsGreedy
from bftrainer.policies.modelarts_optimal import ModelArtsOptimal
from bftrainer_papers.reproduction import PaperResult, Reproduction, ReproductionOptions, change
from bftrainer_replay.simulation.completion import Completion, completion
from bftrainer_replay.simulation.fixed_pool import long_enough
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.world import Arrival

JOBS, ALL_JOBS, SPAN_H = 447, 1252, 50.0
MEAN_MIN, LEAST_MIN, SIGMA = 232.6, 5.0, 1.2
SHORT_MEAN_MIN = 1.7  # (1252 * 84.3 - 447 * 232.6) / 805 minutes
POOLS = (70, 90, 110, 130, 150, 170, 190)
CAP = 16
LAW = Curve(tuple(range(1, CAP + 1)), tuple(n * 0.8 ** math.log2(n) for n in range(1, CAP + 1)))  # Fig. 6


class Trouble(Enum):
    """Sections 5.4 and 5.5."""

    NONE = "as announced"
    ETA = "ETA +-10 %"
    BUGS = "ETA +-10 %, 15 % with bugs, 10 % terminated"
    DELAY = "15 s scaling delay"


def jobs(seed: int, count: float, trouble: Trouble, *, short_too: bool = False) -> tuple[Arrival, ...]:
    """``count``: the assumed number of nodes; demand in one-node seconds, one sample each."""
    rng = np.random.default_rng(np.random.PCG64(seed))
    number = ALL_JOBS if short_too else JOBS
    times = np.sort(rng.uniform(0, SPAN_H * 3600, number))
    mean = MEAN_MIN - LEAST_MIN
    minutes = LEAST_MIN + rng.lognormal(math.log(mean) - SIGMA * SIGMA / 2, SIGMA, number)
    short = np.zeros(number, dtype=bool)
    short[rng.permutation(number)[: number - JOBS]] = True
    minutes[short] = np.clip(rng.exponential(SHORT_MEAN_MIN, int(short.sum())), 0.1, LEAST_MIN - 0.1)
    lots, early, errors = rng.uniform(size=number), rng.uniform(size=number), rng.uniform(0.9, 1.1, number)
    arrivals = []
    for i, (at_s, trained_s) in enumerate(zip(times, minutes * 60, strict=True)):
        actual, stops_s = float(trained_s) * count, math.inf
        told = actual if trouble in (Trouble.NONE, Trouble.DELAY) else actual * float(errors[i])
        if trouble is Trouble.BUGS and lots[i] < 0.25:
            told = actual
            stops_s = float(early[i]) * (300.0 if lots[i] < 0.15 else float(trained_s))
        up_s = 15.0 if trouble is Trouble.DELAY else 0.0
        trainer = Trainer(f"job-{i:04d}", LAW, 1, CAP, up_s, 0.0, told)
        arrivals.append(Arrival(float(at_s), trainer, actual, stops_s))
    return tuple(arrivals)


@dataclass(slots=True)
class Timed:
    """A policy whose scaling decisions are timed: those of the optimal allocator are one MILP each."""

    policy: Policy
    name: str = "timed"
    took_s: list[float] = field(default_factory=list)

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Ask it; a decision that set a new scaling moment was one."""
        began = time.perf_counter()
        decision, memory = self.policy.decide(state, event)
        if memory != state.memory and state.active:
            self.took_s.append(time.perf_counter() - began)
        return decision, memory


def simulate(policy: Policy, arrivals: tuple[Arrival, ...], nodes: int, *, delay: bool = False) -> Completion:
    """Until all are done."""
    model = CostModel.DELAY if delay else CostModel.STALL
    scenario = Scenario(long_enough(arrivals, nodes), arrivals, len(arrivals), model)
    felt = completion(arrivals, play(scenario, policy, keep_entries=False).runs)
    assert felt.completed == len(arrivals)
    return felt


@dataclass(frozen=True, slots=True)
class Gain:
    """Of the optimal allocator over the greedy one: queueing in %, and jobs more per 100 by mean total time."""

    nodes: int
    queueing: float
    extra: float
    decision_s: tuple[float, ...]


def gain(seed: int, count: float, nodes: int, trouble: Trouble = Trouble.NONE, *, short_too: bool = False) -> Gain:
    """Both allocators on the same jobs."""
    arrivals, delay = jobs(seed, count, trouble, short_too=short_too), trouble is Trouble.DELAY
    optimal = Timed(ModelArtsOptimal(CAP))
    ours = simulate(optimal, arrivals, nodes, delay=delay)
    greedy = simulate(ModelArtsGreedy(CAP), arrivals, nodes, delay=delay)
    extra = 100 * (greedy.mean_s / ours.mean_s - 1)
    return Gain(nodes, change(ours.queueing_s, greedy.queueing_s), extra, tuple(optimal.took_s))


def reproduce(plan: ReproductionOptions) -> Reproduction:
    """Quick: three pool sizes, count 2, the first seed. Full: every pool size, counts 1 and 3, all seeds, every trouble."""
    seeds = tuple(plan.seeds) if plan.full else tuple(plan.seeds)[:1]
    rows = _by_pool(plan, 2.0, seeds, POOLS if plan.full else POOLS[::3])
    if plan.full:
        rows += _by_pool(plan, 1.0, seeds, POOLS[::3])
        rows += _by_pool(plan, 3.0, seeds, POOLS[::3])
        rows += _troubles(plan, seeds)
    model = (
        f"{JOBS} jobs, submissions uniform over {SPAN_H:g} h, training times 5 min + log-normal (mean 232.6 min in all, sigma "
        f"{SIGMA:g}), demand = training time x an assumed node count; seeds {', '.join(map(str, seeds))}",
        "speed n * 0.8^log2(n), 1 to 16 nodes; both allocators act every 5 min, the queue is served in between",
        "extra jobs per 100: mean total time under greedy over that under optimal",
        "tolerance: queueing 15 points, extra jobs 10, decision time 0.4 s (another machine, HiGHS in place of CBC)",
    )
    return Reproduction(
        "modelarts", "Hu et al., An Optimal Resource Allocator of Elastic Training, 2021", model, tuple(rows)
    )


def _by_pool(
    plan: ReproductionOptions, count: float, seeds: tuple[int, ...], pools: tuple[int, ...]
) -> list[PaperResult]:
    means = []
    for nodes in pools:
        plan.step(f"count {count:g}, {nodes} nodes")
        gains = [gain(seed, count, nodes) for seed in seeds]
        took = tuple(t for g in gains for t in g.decision_s)
        extra, queueing = (float(np.mean([getattr(g, what) for g in gains])) for what in ("extra", "queueing"))
        means.append(Gain(nodes, queueing, extra, took))
    label = f"count {count:g}"
    best = max(means, key=lambda g: g.extra)
    every = np.concatenate([g.decision_s for g in means])
    rows = [
        PaperResult(f"{label}, {g.nodes} nodes: queueing, optimal against greedy", None, g.queueing, sign=-1)
        for g in means
    ]
    rows += [PaperResult(f"{label}, {g.nodes} nodes: extra jobs per 100", None, g.extra, "", sign=1) for g in means]
    rows += [
        PaperResult(f"{label}: queueing at best", -32.0, min(g.queueing for g in means), tolerance=15.0),
        PaperResult(f"{label}: extra jobs per 100 at best", 17.4, best.extra, "", 10.0),
        PaperResult(f"{label}: best pool", 110, best.nodes, "nodes", 40, signed=False),
        PaperResult(f"{label}: mean decision time", 0.4, float(every.mean()), "s", 0.4),
        PaperResult(f"{label}: decision time p95", 1.49, float(np.percentile(every, 95)), "s", 1.49),
    ]
    return rows


def _troubles(plan: ReproductionOptions, seeds: tuple[int, ...]) -> list[PaperResult]:
    """At the paper's best pool size, count 2."""
    found = {}
    for trouble in Trouble:
        plan.step(trouble.value)
        found[trouble] = float(np.mean([gain(seed, 2.0, 110, trouble).extra for seed in seeds]))
    plan.step("all 1,252 jobs")
    every = float(np.mean([gain(seed, 2.0, 110, short_too=True).extra for seed in seeds]))
    base = found[Trouble.NONE]
    return [
        PaperResult("110 nodes, ETA +-10 %: extra jobs lost", 2.4, base - found[Trouble.ETA], "", 3.0, signed=False),
        PaperResult("110 nodes, bugs and terminations: extra jobs per 100", 15.0, found[Trouble.BUGS], "", 10.0),
        PaperResult("110 nodes, 15 s delay: extra jobs lost", 1.8, base - found[Trouble.DELAY], "", 3.0, signed=False),
        PaperResult("110 nodes, all 1,252 jobs: extra jobs per 100", 24.1, every, "", 15.0),
    ]
