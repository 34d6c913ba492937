"""The chain of solvers: every answer is checked, every fallback is recorded with its reason, and a
decision always results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.check import VALUE_TOLERANCE, checked, require_feasible
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.gains import objective_value
from bftrainer.decide.allocation.gurobi import Gurobi
from bftrainer.decide.allocation.highs import Highs
from bftrainer.decide.allocation.outcome import current_map, relative_gap
from bftrainer.decide.domain.ports import Allocator
from bftrainer.decide.domain.problem import Answer, Fallback, Problem, Status
from bftrainer.errors import Reason, RejectedAnswerError, SolverError, UnknownNameError

# No later event can change these: the requested solver is not available.
ABSENT = (Reason.NO_PACKAGE, Reason.NO_LICENSE)


@dataclass(frozen=True, slots=True)
class Chain:
    """Asks ``solvers`` in order until one proves its optimum.

    The chain falls back to the next solver at a time limit (the counts are kept as a candidate),
    without an answer, and when an answer breaks a rule. If no solver proves an optimum, the best
    candidate wins, the current map included (paper 3.6). Raises ``NoFeasibleCountsError`` for a
    problem without a solution, and ``SolverError`` if no solver is available, or if all failed and
    the current map is not legal.
    """

    solvers: Sequence[Allocator]
    name: str = "auto"

    def __post_init__(self) -> None:
        assert self.solvers, "a chain needs at least one solver"

    def solve(self, problem: Problem) -> Answer:
        """Return the optimum, or the best known counts, with every fallback that led there.

        ``fallbacks`` of the answer lists each solver that was asked before without proving an
        optimum, and why. Raises ``NoFeasibleCountsError`` and ``SolverError``, as the class says.
        """
        # Before any solver: its own report that a problem is infeasible is then a fault of the
        # solver, and a reason to ask the next one.
        require_feasible(problem)
        fallbacks: list[Fallback] = []
        best: Answer | None = None
        for solver in self.solvers:
            try:
                answer = checked(problem, solver.solve(problem))
            except SolverError as error:
                fallbacks.append(Fallback(solver.name, error.reason, error.detail))
                continue
            except RejectedAnswerError as error:
                fallbacks.append(Fallback(solver.name, Reason.REJECTED, str(error)))
                continue
            best = _better_answer(best, answer)
            if answer.status is Status.OPTIMAL:
                return replace(best, fallbacks=tuple(fallbacks))
            fallbacks.append(
                Fallback(solver.name, Reason.TIME_LIMIT, f"relative gap {answer.gap:.3g}")
            )
        return self._without_optimum(problem, best, tuple(fallbacks))

    def _without_optimum(
        self, problem: Problem, best: Answer | None, fallbacks: tuple[Fallback, ...]
    ) -> Answer:
        """Return the better of the ``best`` answer so far and the current map, if no solver proved
        an optimum.

        The current map is the present count of each trainer: with these counts nothing is rescaled.
        Raises ``SolverError`` if no solver is installed and licensed, or if there is neither an
        answer nor a legal current map.
        """
        # No later event brings a solver that is not there: the present counts would be kept for
        # ever.
        if all(fallback.reason in ABSENT for fallback in fallbacks):
            raise self._chain_error(fallbacks)
        counts = current_map(problem)
        if counts is not None:
            value = objective_value(problem, counts)
            gap = relative_gap(problem, value)
            best = _better_answer(best, Answer(counts, value, self.name, Status.KEPT, gap))
        if best is None:
            raise self._chain_error(fallbacks)
        return replace(best, fallbacks=fallbacks)

    def _chain_error(self, fallbacks: tuple[Fallback, ...]) -> SolverError:
        """Return the error of a chain whose solvers gave no answer: that of its only solver, else
        one that lists the failures of all.
        """
        if len(fallbacks) == 1:
            return SolverError(fallbacks[0].solver, fallbacks[0].reason, fallbacks[0].detail)
        failures = "; ".join(
            f"{fallback.solver}: {fallback.reason.value}: {fallback.detail}"
            for fallback in fallbacks
        )
        return SolverError(
            self.name,
            fallbacks[-1].reason,
            f"no solver found an answer, and the current map is not legal: {failures}",
        )


def _better_answer(incumbent: Answer | None, candidate: Answer) -> Answer:
    """Return the answer with the higher value; of two that are equal within the tolerance, the
    ``candidate`` if its optimum is proven, else the ``incumbent``.

    The ``incumbent`` is the best answer so far (None: there is none).
    """
    if incumbent is None:
        return candidate
    are_equal = math.isclose(
        incumbent.objective_value, candidate.objective_value, rel_tol=VALUE_TOLERANCE
    )
    if are_equal and candidate.status is Status.OPTIMAL:
        return candidate
    return candidate if candidate.objective_value > incumbent.objective_value else incumbent


_SOLVERS: dict[str, Callable[[float, bool], Sequence[Allocator]]] = {
    "auto": lambda limit_s, restricted: (Exact(),),
    "exact": lambda limit_s, restricted: (Exact(),),
    "gurobi": lambda limit_s, restricted: (Gurobi(limit_s, restricted_license=restricted),),
    "highs": lambda limit_s, restricted: (Highs(limit_s),),
    "milp": lambda limit_s, restricted: (*milp_solvers(limit_s, restricted), Exact()),
}


def milp_solvers(time_limit_s: float, restricted_license: bool) -> tuple[Allocator, ...]:
    """The solvers of the paper's MILP (Eqns 1 to 16), in the order in which they are asked."""
    return Gurobi(time_limit_s, restricted_license=restricted_license), Highs(time_limit_s)


def build_allocator(
    name: str, time_limit_s: float, *, restricted_license: bool = True
) -> Allocator:
    """Return the allocator for ``--solver NAME``. A single solver is a chain of one, so that its
    answer is checked as well.

    ``auto`` is ``exact``, which proves the same optimum in milliseconds. ``milp`` is the chain of
    the paper's MILP. ``time_limit_s`` is that of each MILP solver. Without ``restricted_license``,
    Gurobi is not used with the license in its package, which forbids production; replays and
    experiments may use that license. Raises :class:`UnknownNameError`.
    """
    if name not in _SOLVERS:
        raise UnknownNameError("solver", name, _SOLVERS)
    return Chain(_SOLVERS[name](time_limit_s, restricted_license), name)
