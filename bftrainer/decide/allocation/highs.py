"""HiGHS, the MILP solver that needs no license. It has no SOS2, so one binary per segment enforces
adjacency.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bftrainer.decide.allocation.milp import Milp, build
from bftrainer.decide.allocation.outcome import optimal, out_of_time, without_variables
from bftrainer.decide.domain.problem import Answer, Problem
from bftrainer.errors import Reason, SolverError

# Option names of HiGHS 1.7 to 1.16. Gaps of 0 give the same optimum as ``exact``. Tolerances are
# tight because with the default of 1e-6 on a count, a solution reports gain that its rounded counts
# do not have.
OPTIONS = {
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}

# Versions that call worse counts optimal. 1.14.0: presolve rounds an integer column up (HiGHS issue
# 3043), which keeps nodes idle; 1.9.0 lost 0.004 % on one of 1,000 random problems. All others from
# 1.7.1 to 1.16.0 agree with ``exact`` on them.
WRONG = ((1, 9, 0), (1, 14, 0))


def load() -> Any:
    """Import and return the package highspy, at the first solve: the import takes tens of
    milliseconds.

    Raises ``ImportError`` if it is not installed, or is one of ``WRONG``.
    """
    highspy = importlib.import_module("highspy")
    version = (
        highspy.HIGHS_VERSION_MAJOR,
        highspy.HIGHS_VERSION_MINOR,
        highspy.HIGHS_VERSION_PATCH,
    )
    if version in WRONG:
        raise ImportError(
            f"highspy {'.'.join(map(str, version))} calls counts optimal that are not"
        )
    return highspy


@dataclass(frozen=True, slots=True)
class Highs:
    """Solves with highspy within ``time_limit_s``.

    Raises ``SolverError``: NO_PACKAGE, INFEASIBLE (verified by the chain), TIME_LIMIT (no solution,
    and the current map is not legal), NUMERICAL (all other failures).
    """

    time_limit_s: float = 10.0
    name: str = "highs"
    load: Callable[[], Any] = load

    def solve(self, problem: Problem) -> Answer:
        """Return the optimum; at the time limit the better of the incumbent (the best solution that
        HiGHS has) and the current map, the present counts (paper 3.6).

        Raises ``SolverError``, as the class says.
        """
        milp = build(problem, native_sos=False)
        if (empty := without_variables(problem, milp, self.name)) is not None:
            return empty
        try:
            highspy = self.load()
        except ImportError as error:
            raise SolverError(
                self.name,
                Reason.NO_PACKAGE,
                f"{error}; install it with: pip install --upgrade highspy",
            ) from error
        solver = loaded(highspy, milp, self.name, {**OPTIONS, "time_limit": self.time_limit_s})
        if solver.run() == highspy.HighsStatus.kError:
            raise SolverError(self.name, Reason.NUMERICAL, f"run failed: {_status_text(solver)}")
        return self._answer(highspy, solver, problem, milp)

    def _answer(self, highspy: Any, solver: Any, problem: Problem, milp: Milp) -> Answer:
        """Turn the state in which HiGHS ended into an answer, with the counts of its solution.
        Raises ``SolverError`` where there is none.
        """
        status = solver.getModelStatus()
        info = solver.getInfo()
        has_solution = info.primal_solution_status == int(
            highspy.SolutionStatus.kSolutionStatusFeasible
        )
        x = solver.getSolution().col_value if has_solution else None
        statuses = highspy.HighsModelStatus
        if status == statuses.kOptimal and x is not None:
            return optimal(problem, milp, self.name, x, info.objective_function_value)
        if status == statuses.kTimeLimit:
            return out_of_time(problem, milp, self.name, x, info.mip_dual_bound)
        # Every variable is bounded, so no model is unbounded.
        if status in (statuses.kInfeasible, statuses.kUnboundedOrInfeasible):
            raise SolverError(self.name, Reason.INFEASIBLE, _status_text(solver))
        raise SolverError(self.name, Reason.NUMERICAL, f"ended with {_status_text(solver)}")


def silent_solver(highspy: Any) -> Any:
    """Return a new HiGHS solver that prints nothing.

    HiGHS 1.16 prints a banner on descriptor 1, amid the JSON of a command, as soon as callbacks are
    enabled, which highspy does before its constructor returns. So output is switched off at that
    point.
    """

    class Silent(highspy.Highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:  # noqa: N802
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    solver = Silent()
    solver.setOptionValue("output_flag", False)  # older versions enable none
    return solver


def loaded(highspy: Any, milp: Milp, name: str, options: Mapping[str, object]) -> Any:
    """Return a HiGHS that prints nothing, with the options set and the model passed; ``name`` is
    that of the solver in errors. Raises ``SolverError`` if it refuses either.
    """
    solver = silent_solver(highspy)
    for option, value in options.items():
        if solver.setOptionValue(option, value) == highspy.HighsStatus.kError:
            raise SolverError(name, Reason.NUMERICAL, f"option {option} = {value} was rejected")
    status = solver.passModel(
        len(milp.objective),
        len(milp.row_lower),
        len(milp.row_value),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMaximize),
        # The constant of the objective.
        0.0,
        milp.objective,
        milp.lower,
        milp.upper,
        milp.row_lower,
        milp.row_upper,
        # HiGHS takes the starts only; the last entry of row_start is the end of the last row.
        milp.row_start[:-1],
        milp.row_column,
        milp.row_value,
        milp.integer.astype(np.int32),
    )
    if status == highspy.HighsStatus.kError:
        raise SolverError(name, Reason.NUMERICAL, "the model was rejected")
    return solver


def _status_text(solver: Any) -> str:
    return str(solver.modelStatusToString(solver.getModelStatus()))
