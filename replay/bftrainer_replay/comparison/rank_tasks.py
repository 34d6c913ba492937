"""The replay of one policy of a comparison, as a task for a worker anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.allocation.chain import build_allocator
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.plugins import build_policy, find_objective
from bftrainer_replay.comparison.compare import RankedPolicy, rank_policy
from bftrainer_replay.simulation.bounds import Bounds
from bftrainer_replay.simulation.play import Scenario


@dataclass(frozen=True, slots=True)
class RankTask:
    """The names and numbers from which a worker process builds a policy: a policy itself cannot
    always be sent to another process. ``name`` is the name in the ranking; ``solve_s`` is the time
    limit of a MILP solver.
    """

    name: str
    policy: str
    objective: str
    forward_s: float
    seed: int
    solver: str
    solve_s: float


def rank(common: tuple[Scenario, Bounds], task: RankTask) -> RankedPolicy:
    """Replay a scenario under the policy that a task names; return the results by which the policy
    is ranked. ``common`` is the scenario with its bounds, the same for all tasks.
    """
    scenario, bounds = common
    settings = PolicySettings(
        build_allocator(task.solver, task.solve_s),
        find_objective(task.objective),
        task.forward_s,
        task.seed,
    )
    policy = build_policy(task.policy, settings)
    return rank_policy(task.name, scenario, policy, bounds)
