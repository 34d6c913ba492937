"""Eqn 10 with the big M that the authors' code uses, |N| + 1: the decisions that it excludes, and
the effect.

Let a trainer grow by d nodes, so that u sums to d. The row that z_j = 0 switches off still requires
d <= -d + M; if the trainer shrinks, the other row requires the same. No trainer can therefore
change by more than (|N| + 1) / 2 nodes at one event. In terms of counts, this is a list of allowed
sizes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.bftrainer import BFTrainer, demands_of
from bftrainer_replay.simulation.play import Scenario, play

SEED = 20210622
PROBLEMS = 400


def as_printed(problem: Problem) -> Problem:
    """Return a problem restricted to the sizes that Eqn 10 allows if M is |N| + 1, as printed.

    With this M, a trainer's size cannot change by more than half of the pool (see the module); the
    other sizes are removed from its list of allowed sizes.
    """
    max_change = (problem.pool_size + 1) // 2

    def near(demand: TrainerDemand) -> TrainerDemand:
        """The demand with the sizes that are near its present one."""
        sizes = demand.sizes
        if sizes is None:
            sizes = (0, *range(demand.min_nodes, demand.max_nodes + 1))
        allowed = tuple(n for n in sizes if abs(n - demand.standing) <= max_change)
        return replace(demand, sizes=allowed)

    return replace(problem, demands=tuple(near(demand) for demand in problem.demands))


@dataclass(slots=True)
class AsPrintedPolicy:
    """The policy of the paper with Eqn 10 as printed; ``bound`` counts the decisions in which that
    excludes the optimum.
    """

    policy: BFTrainer
    decisions: int = 0
    bound: int = 0

    @property
    def name(self) -> str:
        return self.policy.name

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Decide as the policy does, but within the sizes that Eqn 10 as printed allows; count the
        cases.

        The problem is solved without the limit first: only if some trainer then changes by more
        than half of the pool does the limit exclude the solution, and the problem is solved again
        with it. There is no memory.
        """
        demands = demands_of(state, self.policy.objective)
        problem = Problem(len(state.pool), self.policy.forward_s, demands)
        answer = self.policy.allocator.solve(problem)
        self.decisions += 1
        max_change = (problem.pool_size + 1) // 2
        moves = [
            abs(count - demand.standing)
            for count, demand in zip(answer.counts, demands, strict=True)
        ]
        if any(move > max_change for move in moves):
            self.bound += 1
            answer = Exact().solve(as_printed(problem))
        return Decision(answer.counts, answer=answer), None


def largest_loss(problems: int = PROBLEMS) -> float:
    """Return the most that Eqn 10 as printed costs an optimum, in percent, over random problems.

    They have 10 trainers on 20 nodes, always the same ones.
    """
    rng = random.Random(SEED)
    worst = 0.0
    for _ in range(problems):
        problem = _random_problem(rng)
        best, printed = (
            Exact().solve(problem).objective_value,
            Exact().solve(as_printed(problem)).objective_value,
        )
        # No loss can be computed of nothing.
        if best > 0:
            worst = max(worst, 100 * (1 - printed / best))
    return worst


def over_a_replay(scenario: Scenario, policy: BFTrainer) -> tuple[float, float]:
    """Replay with Eqn 10 as printed; return the percentage of decisions in which it excludes the
    optimum, and the samples trained.
    """
    printed = AsPrintedPolicy(policy)
    outcome = play(scenario, printed, keep_entries=False)
    return 100 * printed.bound / max(printed.decisions, 1), outcome.totals.samples


def _random_problem(rng: random.Random) -> Problem:
    """Draw a problem of 10 trainers on 20 nodes, some of which the trainers hold already.

    Throughput is ``unit * n**power``, so all curves are concave.
    """
    nodes = (1, 2, 4, 8, 16, 32, 64)
    demands, free_nodes = [], 20
    for j in range(10):
        power, unit = rng.uniform(0.6, 0.98), rng.uniform(100, 3000)
        current = min(rng.choice((0, 0, 1, 2, 4)), free_nodes)
        free_nodes -= current
        curve = Curve(nodes, tuple(unit * n**power for n in nodes))
        demands.append(
            TrainerDemand(f"t{j}", curve, 1, 64, rng.uniform(5, 60), rng.uniform(5, 30), current)
        )
    return Problem(20, 120.0, tuple(demands))
