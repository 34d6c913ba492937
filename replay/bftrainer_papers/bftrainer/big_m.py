"""Eqn 10 with the big M that the authors' code uses, |N| + 1: what it forbids, and what that is worth.

Let a trainer grow by d nodes, so that u sums to d. The row that z_j = 0 switches off still says d <= -d + M; shrinking, the
other row says the same. So nobody changes by more than (|N| + 1) / 2 nodes at one event. In counts that is a list of sizes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from bftrainer.allocation.exact import Exact
from bftrainer.domain.events import Event
from bftrainer.domain.model import Curve
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.domain.state import Decision, State
from bftrainer.policies.bftrainer import BFTrainer, demand_of
from bftrainer_replay.simulation.play import Scenario, play

SEED = 20210622
PROBLEMS = 400


def as_printed(problem: Problem) -> Problem:
    """The problem with only those sizes that Eqn 10 leaves with M = |N| + 1."""
    most = (problem.pool_size + 1) // 2

    def near(each: TrainerDemand) -> TrainerDemand:
        sizes = (0, *range(each.min_nodes, each.max_nodes + 1)) if each.sizes is None else each.sizes
        left = tuple(n for n in sizes if abs(n - each.standing) <= most)
        return replace(each, sizes=left)

    return replace(problem, demands=tuple(near(each) for each in problem.demands))


@dataclass(slots=True)
class AsPrinted:
    """The policy with Eqn 10 as printed; counts the decisions that it forbids."""

    policy: BFTrainer
    decisions: int = 0
    bound: int = 0

    @property
    def name(self) -> str:
        """Of the policy it stands in for."""
        return self.policy.name

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Solve without, and again with the smaller M where that forbids the answer."""
        demands = tuple(demand_of(active, self.policy.objective, state.at_s) for active in state.active)
        problem = Problem(len(state.pool), self.policy.forward_s, demands)
        answer = self.policy.allocator.solve(problem)
        self.decisions += 1
        most = (problem.pool_size + 1) // 2
        if any(abs(n - c.standing) > most for n, c in zip(answer.counts, demands, strict=True)):
            self.bound += 1
            answer = Exact().solve(as_printed(problem))
        return Decision(answer.counts, answer=answer), None


def largest_loss(problems: int = PROBLEMS) -> float:
    """Most of the optimum lost, in percent of it, over random problems of 10 trainers on 20 nodes."""
    rng = random.Random(SEED)
    worst = 0.0
    for _ in range(problems):
        problem = _problem(rng)
        best, printed = Exact().solve(problem).objective_value, Exact().solve(as_printed(problem)).objective_value
        if best > 0:
            worst = max(worst, 100 * (1 - printed / best))
    return worst


def over_a_replay(scenario: Scenario, policy: BFTrainer) -> tuple[float, float]:
    """Percent of the decisions that it forbids, and the samples that are trained with it."""
    printed = AsPrinted(policy)
    outcome = play(scenario, printed, keep_entries=False)
    return 100 * printed.bound / max(printed.decisions, 1), outcome.totals.samples


def _problem(rng: random.Random) -> Problem:
    nodes = (1, 2, 4, 8, 16, 32, 64)
    demands, free = [], 20
    for j in range(10):
        power, unit = rng.uniform(0.6, 0.98), rng.uniform(100, 3000)
        current = min(rng.choice((0, 0, 1, 2, 4)), free)
        free -= current
        curve = Curve(nodes, tuple(unit * n**power for n in nodes))
        demands.append(TrainerDemand(f"t{j}", curve, 1, 64, rng.uniform(5, 60), rng.uniform(5, 30), current))
    return Problem(20, 120.0, tuple(demands))
