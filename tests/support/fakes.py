"""Stand-ins for what a test cannot have for real: solvers that fail on demand, packages without a
license.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace, TracebackType
from typing import Any

import gurobipy
import highspy

from bftrainer.decide.allocation.gains import objective_value
from bftrainer.decide.domain.problem import Answer, Problem, Status
from bftrainer.errors import BFTrainerError, Reason, SolverError


@dataclass
class FakeAllocator:
    """An Allocator that gives the same counts (worth what they are worth) or raises the same error,
    and counts calls.
    """

    name: str
    counts: tuple[int, ...] = ()
    status: Status = Status.OPTIMAL
    error: BFTrainerError | None = None
    overclaim: float = 0.0
    calls: int = field(default=0, init=False)

    def solve(self, problem: Problem) -> Answer:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return Answer(
            self.counts,
            objective_value(problem, self.counts) + self.overclaim,
            self.name,
            self.status,
            0.25,
        )


def failing(name: str, reason: Reason) -> FakeAllocator:
    return FakeAllocator(name, error=SolverError(name, reason, f"{name} made this up"))


def highspy_that_ends_with(status: highspy.HighsModelStatus, *, solved: bool = False) -> Any:
    """The real highspy, except that every run ends with ``status``, and without a solution unless
    ``solved``.
    """

    class Ended(highspy.Highs):  # type: ignore[misc]
        def getModelStatus(self) -> highspy.HighsModelStatus:  # noqa: N802
            return status

        def getInfo(self) -> Any:  # noqa: N802
            if solved:
                return super().getInfo()
            return SimpleNamespace(
                primal_solution_status=int(highspy.SolutionStatus.kSolutionStatusNone),
                mip_dual_bound=highspy.kHighsInf,
            )

    return SimpleNamespace(**{**vars(highspy), "Highs": Ended})


@dataclass(eq=False)
class FakeGurobipy:
    """A gurobipy whose license or optimize() fails with an error number, or which ends with a
    status.
    """

    environment_errno: int | None = None
    optimize_errno: int | None = None
    status: int = gurobipy.GRB.Status.OPTIMAL
    solutions: int = 0
    starts: int = field(default=0, init=False)
    models: int = field(default=0, init=False)
    GRB: Any = gurobipy.GRB
    GurobiError: type[Exception] = gurobipy.GurobiError
    LinExpr: Callable[..., Any] = field(default=lambda *_: 0.0)
    gurobi: Any = field(default_factory=lambda: SimpleNamespace(version=lambda: (99, 1, 2)))

    def error(self, errno: int) -> Exception:
        return gurobipy.GurobiError(errno, f"made up {errno}")

    def Env(self, params: dict[str, Any]) -> object:  # noqa: N802
        self.starts += 1
        if self.environment_errno is not None:
            raise self.error(self.environment_errno)
        return object()

    def Model(self, env: object) -> _FakeModel:  # noqa: N802
        self.models += 1
        return _FakeModel(self)


class _FakeModel:
    variables = 0
    ObjBound = float("inf")
    ObjVal = 1.0

    def __init__(self, package: FakeGurobipy) -> None:
        self.package = package
        self.Status = package.status
        self.SolCount = package.solutions

    def __enter__(self) -> _FakeModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        pass

    def addVars(self, n: int, **_: object) -> Sequence[object]:  # noqa: N802
        self.variables = n
        return [object()] * n

    def setParam(self, *_: object) -> None:  # noqa: N802
        pass

    def getAttr(self, name: str, _: object = None) -> object:  # noqa: N802
        if name == "X":
            return [0.0] * self.variables
        assert name == "LicenseExpiration"
        return 99999999

    addLConstr = addSOS = update = setParam  # noqa: N815

    def optimize(self) -> None:
        if self.package.optimize_errno is not None:
            raise self.package.error(self.package.optimize_errno)
