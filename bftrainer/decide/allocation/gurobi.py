"""Gurobi, the solver of the paper, with native SOS2. Optional; the license included in the package
is limited in size.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bftrainer.decide.allocation.milp import Milp, build
from bftrainer.decide.allocation.outcome import optimal, out_of_time, without_variables
from bftrainer.decide.domain.problem import Answer, Problem
from bftrainer.errors import Reason, SolverError

NAME = "gurobi"
PACKAGE = "gurobipy"
# https://docs.gurobi.com/projects/optimizer/en/current/reference/numericcodes/errors.html
NO_LICENSE, SIZE_LIMIT_EXCEEDED = 10009, 10010
# Gaps of 0 give the same optimum as ``exact``. Tolerances are the tightest of Gurobi: with counts
# integral only to 1e-5, a solution reports gain that its rounded counts do not have.
PARAMETERS = {
    "Threads": 1,
    "MIPGap": 0.0,
    "MIPGapAbs": 0.0,
    "IntFeasTol": 1e-9,
    "FeasibilityTol": 1e-9,
    "OptimalityTol": 1e-9,
}


def load() -> Any:
    """The package gurobipy, imported at the first solve: the import takes tens of milliseconds."""
    return importlib.import_module(PACKAGE)


@dataclass(slots=True)
class Gurobi:
    """Solves with gurobipy within ``time_limit_s``.

    Raises ``SolverError``: NO_PACKAGE and NO_LICENSE (remembered, as they do not change while a
    process runs), TOO_LARGE for the license (the size is remembered, so that no model of that size
    is tried again), INFEASIBLE (verified by the chain), TIME_LIMIT (no solution, and the current
    map is not legal), NUMERICAL (all other failures).

    Without ``restricted_license``, the license that the package contains counts as none: it forbids
    production.
    """

    time_limit_s: float = 10.0
    name: str = NAME
    load: Callable[[], Any] = load
    restricted_license: bool = True
    _unusable: SolverError | None = field(default=None, init=False)
    _too_large: tuple[int, int] | None = field(default=None, init=False)

    def solve(self, problem: Problem) -> Answer:
        """Return the optimum; at the time limit the better of the incumbent (Gurobi's best
        solution) and the current map, the present counts (paper 3.6).

        Raises ``SolverError``, as the class says.
        """
        # First, so that a missing solver fails for an empty model as well.
        package, environment = self._started_package()
        milp = build(problem, native_sos=True)
        if (empty := without_variables(problem, milp, self.name)) is not None:
            return empty
        size = (len(milp.objective), len(milp.row_lower))
        # size is (variables, rows). A model that is at least as large in both was refused before.
        if self._too_large and size[0] >= self._too_large[0] and size[1] >= self._too_large[1]:
            raise SolverError(self.name, Reason.TOO_LARGE, _size_text(size))
        try:
            with _gurobi_model(package, environment, milp, self.time_limit_s) as (model, variables):
                model.optimize()
                return self._answer(package, model, variables, problem, milp)
        except package.GurobiError as error:
            if error.errno == SIZE_LIMIT_EXCEEDED:
                self._too_large = size
                raise SolverError(self.name, Reason.TOO_LARGE, _size_text(size)) from error
            reason = Reason.NO_LICENSE if error.errno == NO_LICENSE else Reason.NUMERICAL
            raise SolverError(self.name, reason, f"error {error.errno}: {error}") from error

    def _started_package(self) -> tuple[Any, Any]:
        """Return the module gurobipy and its started environment, which every model needs. A
        failure is remembered, and raised again at the next call.
        """
        if self._unusable is not None:
            raise SolverError(self.name, self._unusable.reason, self._unusable.detail)
        try:
            package = self.load()
        except ImportError as error:
            self._unusable = SolverError(
                self.name,
                Reason.NO_PACKAGE,
                f"{error}; install it with: pip install 'bftrainer[gurobi]'",
            )
            raise self._unusable from error
        if not self.restricted_license and is_restricted(package):
            self._unusable = SolverError(
                self.name,
                Reason.NO_LICENSE,
                f"the license in {PACKAGE} forbids production; set GRB_LICENSE_FILE to your "
                "license, or decisions.restricted_license = true if this is a trial",
            )
            raise self._unusable
        try:
            return package, _gurobi_environment(package)
        except package.GurobiError as error:
            self._unusable = SolverError(
                self.name, Reason.NO_LICENSE, f"error {error.errno}: {error}"
            )
            raise self._unusable from error

    def _answer(
        self, package: Any, model: Any, variables: list[Any], problem: Problem, milp: Milp
    ) -> Answer:
        """Turn the state in which Gurobi ended into an answer, with the counts of its solution.
        Raises ``SolverError`` where there is none.

        ``variables`` are Gurobi's, in the order of the columns of ``milp``.
        """
        statuses = package.GRB.Status
        x = model.getAttr("X", variables) if model.SolCount > 0 else None
        if model.Status == statuses.OPTIMAL and x is not None:
            return optimal(problem, milp, self.name, x, model.ObjVal)
        if model.Status == statuses.TIME_LIMIT:
            return out_of_time(problem, milp, self.name, x, model.ObjBound)
        if model.Status in (statuses.INFEASIBLE, statuses.INF_OR_UNBD):  # every variable is bounded
            raise SolverError(self.name, Reason.INFEASIBLE, f"status {model.Status}")
        raise SolverError(self.name, Reason.NUMERICAL, f"ended with status {model.Status}")


@lru_cache(maxsize=4)
def _gurobi_environment(package: Any) -> Any:
    """Return the environment of Gurobi, one per process: starting it checks the license, perhaps
    over the network.
    """
    return package.Env(params={"OutputFlag": 0})


@lru_cache(maxsize=4)
def is_restricted(package: Any) -> bool:
    """Whether the only license of Gurobi is the restricted one in ``package``.

    The trial breaks no condition of that license, which refuses the model before it is solved.
    """
    return find_license(lambda: package).restricted


@contextmanager
def _gurobi_model(
    package: Any, environment: Any, milp: Milp, time_limit_s: float
) -> Iterator[tuple[Any, list[Any]]]:
    """Build the Gurobi model of a MILP; yields (model, its variables in the order of the columns),
    and frees the model at the end.
    """
    with package.Model(env=environment) as model:
        for parameter, value in {**PARAMETERS, "TimeLimit": time_limit_s}.items():
            model.setParam(parameter, value)
        types = {True: package.GRB.INTEGER, False: package.GRB.CONTINUOUS}
        variable_types = [types[is_integer] for is_integer in milp.integer.tolist()]
        variable_count = len(variable_types)
        # The matrix interface for rows needs scipy. Row by row takes under a microsecond per entry.
        added = model.addVars(
            variable_count,
            lb=milp.lower.tolist(),
            ub=milp.upper.tolist(),
            obj=milp.objective.tolist(),
            vtype=variable_types,
        )
        variables = [added[i] for i in range(variable_count)]
        starts, columns, values = (
            milp.row_start.tolist(),
            milp.row_column.tolist(),
            milp.row_value.tolist(),
        )
        sides = zip(milp.row_lower.tolist(), milp.row_upper.tolist(), strict=True)
        for start, end, (lower, upper) in zip(starts, starts[1:], sides, strict=False):
            row = package.LinExpr(
                values[start:end], [variables[column] for column in columns[start:end]]
            )
            # Gurobi has one side per constraint: a row with two different bounds becomes two.
            if lower > -package.GRB.INFINITY:
                model.addLConstr(
                    row, package.GRB.EQUAL if lower == upper else package.GRB.GREATER_EQUAL, lower
                )
            if upper < package.GRB.INFINITY and lower != upper:
                model.addLConstr(row, package.GRB.LESS_EQUAL, upper)
        # The numbers only give the order in which variables of a set are adjacent.
        for weights in milp.sos2:
            model.addSOS(
                package.GRB.SOS_TYPE2,
                [variables[c] for c in weights],
                list(range(1, len(weights) + 1)),
            )
        model.ModelSense = package.GRB.MAXIMIZE
        yield model, variables


def _size_text(size: tuple[int, int]) -> str:
    return f"{size[0]} variables and {size[1]} rows"


@dataclass(frozen=True, slots=True)
class License:
    """The state of Gurobi and its license, for ``doctor``.

    ``restricted``: it is the license in the package, for at most 2,000 variables and rows.
    """

    version: str | None
    usable: bool
    restricted: bool
    expires: str | None
    detail: str

    def __str__(self) -> str:
        """The one line that ``doctor`` prints: version, kind and expiry, or what is wrong."""
        if self.version is None or not self.usable:
            return self.detail
        kind = "restricted, non-production" if self.restricted else "full size"
        return f"{PACKAGE} {self.version}, license {kind}" + (
            f", expires {self.expires}" if self.expires else ""
        )


def find_license(load: Callable[[], Any] = load) -> License:
    """Find out by trial which license Gurobi has: only the restricted one rejects a model of 2,001
    variables.

    Returns what ``doctor`` shows. ``load`` imports the package. Parameters and attributes do not
    name the kind of license (gurobipy 11 to 13); the expiry date is an attribute.
    """
    try:
        package = load()
    except ImportError as error:
        return License(
            version=None,
            usable=False,
            restricted=False,
            expires=None,
            detail=f"{PACKAGE} is not installed: {error}",
        )
    version = ".".join(map(str, package.gurobi.version()))
    try:
        with package.Model(env=_gurobi_environment(package)) as model:
            # One more than the restricted license allows.
            model.addVars(2001, ub=1.0)
            model.update()
            expires = _license_date(model.getAttr("LicenseExpiration"))
            try:
                model.optimize()
            except package.GurobiError as error:
                if error.errno != SIZE_LIMIT_EXCEEDED:
                    raise
                return License(
                    version, usable=True, restricted=True, expires=expires, detail=str(error)
                )
            return License(version, usable=True, restricted=False, expires=expires, detail="")
    except package.GurobiError as error:
        return License(
            version,
            usable=False,
            restricted=False,
            expires=None,
            detail=f"{PACKAGE} {version}: error {error.errno}: {error}",
        )


def _license_date(yyyymmdd: int) -> str | None:
    """Return the date 20271129 as the text 2027-11-29; None for a license that does not expire,
    which has 99999999 or 0.
    """
    text = str(yyyymmdd)
    if len(text) != 8 or text >= "99990000":
        return None
    return f"{text[:4]}-{text[4:6]}-{text[6:]}"
