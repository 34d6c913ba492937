"""The optimal allocator of ModelArts (Hu et al. 2021, [ModelArts section 4]): most progress over a
rolling horizon.

Every f = 5 min the model of [ModelArts 4.4] looks T = 5 steps of f ahead
(:mod:`bftrainer.decide.allocation.horizon`); its first step is carried out. Sizes are the legal
powers of two up to a cap. Demand d_i and speed come from the remaining samples and the curve of the
trainer; the paper's law n * 0.8^log2(n) [ModelArts Eqns 3, 4] is such a curve.

When jobs outnumber nodes, "only the head of the queue" is in the model: running trainers first,
then waiting ones in order of admission, while their smallest sizes fit, so that the model is
feasible. Between scaling moments a freed node goes to the queue at once [ModelArts 5.1], as under
the greedy allocator. Our reading: a trainer that has passed its announced length counts as nearly
done.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import rates
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer_papers.policies.horizon import HorizonJob, solve
from bftrainer_papers.policies.lengths import remaining
from bftrainer_papers.policies.modelarts_greedy import Shares, next_moment


@dataclass(frozen=True, slots=True)
class ModelArtsOptimal:
    """The optimal allocator of [ModelArts]: ``interval_s`` is f, ``steps`` T, ``cap`` the largest
    size; ``gap`` and ``max_search`` bound the search.
    """

    cap: int = 16
    interval_s: float = 300.0
    steps: int = 5
    powers_of_two: bool = True
    gap: float = 1e-3
    max_search: int = 200
    name: str = "modelarts-optimal"
    needs: frozenset[Need] = frozenset({Need.LENGTH})

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Solve the model at scaling moments, and only serve the queue between them.

        Scaling moments are ``interval_s`` apart. The memory is the time of the next one, at which
        the policy asks to be called again.
        """
        next_s = state.memory if isinstance(state.memory, float) else state.at_s
        shares = Shares(state, powers_of_two=self.powers_of_two, cap=self.cap)
        if state.at_s >= next_s:
            next_s = next_moment(state.at_s, self.interval_s)
            shares.counts = self._optimal_counts(state, shares)
        else:
            shares.serve_queue()
        return Decision(tuple(shares.counts), next_s if state.active else None), next_s

    def _optimal_counts(self, state: State, shares: Shares) -> list[int]:
        """Return the optimal node count of each trainer, in the order of admission.

        The model contains the running trainers and then the waiting ones in order, as long as all
        fit at their smallest sizes, so that it has a solution. The others get 0 nodes.
        """
        free_nodes, in_model = len(state.pool), []
        waiting = shares.queue
        for j in (*(j for j, n in enumerate(shares.counts) if n), *waiting):
            smallest = shares.sizes[j][0]
            if smallest > free_nodes:
                break
            in_model.append(j)
            free_nodes -= smallest
        jobs = [self._horizon_job(state.active[j], shares.sizes[j]) for j in in_model]
        solution = solve(
            jobs, len(state.pool), self.steps, gap=self.gap, max_search=self.max_search
        )
        counts = [0] * len(state.active)
        for j, n in zip(in_model, solution.counts, strict=True):
            counts[j] = n
        return counts

    def _horizon_job(self, active: Active, sizes: tuple[int, ...]) -> HorizonJob:
        per_s = rates(active.trainer)
        # d_i is at least one second at full speed, so that a trainer past its announced length does
        # not outweigh all others.
        demand = max(remaining(active, self.name), max(per_s[n] for n in sizes), 1e-9)
        return HorizonJob(sizes, tuple(per_s[n] * self.interval_s / demand for n in sizes))


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    o = settings.option_values(
        "modelarts-optimal", cap=16, interval_s=300.0, steps=5, gap=1e-3, max_search=200
    )
    return ModelArtsOptimal(
        int(o["cap"]),
        o["interval_s"],
        int(o["steps"]),
        gap=o["gap"],
        max_search=int(o["max_search"]),
    )
