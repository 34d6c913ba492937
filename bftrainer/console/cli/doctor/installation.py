"""Working parts of this installation: Python, packages, solvers, job scripts."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import bftrainer
from bftrainer.console.cli.doctor.frame import check_or_error, first_line
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.system.installed import Installed, installed_folder
from bftrainer.system.own_programs import this_interpreter

if TYPE_CHECKING:
    from bftrainer.decide.domain.ports import Allocator
    from bftrainer.decide.domain.problem import Problem

# What `pip install bftrainer` brings beside click and the solvers, and what needs it.
PACKAGES = (
    ("numpy", "every solver"),
    ("rich", "tables on the terminal"),
    ("jinja2", "report pages"),
    ("matplotlib", "plots"),
)


def examine() -> list[Check]:
    """Run all checks, in the order in which they are printed."""
    return [
        _check_python(),
        check_or_error("bftrainer", _check_bftrainer, "pip install --force-reinstall bftrainer"),
        *(_check_package(name, purpose) for name, purpose in PACKAGES),
        check_or_error(
            "exact", _check_exact_solver, "pip install --force-reinstall bftrainer numpy"
        ),
        check_or_error("highs", _check_highs, "pip install --force-reinstall highspy"),
        check_or_error(
            "gurobi",
            _check_gurobi,
            "pip install --force-reinstall 'bftrainer[gurobi]'",
            required=False,
        ),
        check_or_error(
            "jobscripts",
            _check_job_scripts,
            "pip install --force-reinstall bftrainer",
            required=False,
        ),
    ]


def _check_python() -> Check:
    return Check.ok("python", f"{platform.python_version()}, {this_interpreter()}")


def _check_bftrainer() -> Check:
    return Check.ok("bftrainer", f"{bftrainer.__version__}, {Path(bftrainer.__file__).parent}")


def _check_package(name: str, purpose: str) -> Check:
    """Check that a package can be imported; ``purpose`` says what needs it."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return Check(
            name, CheckStatus.MISSING, f"not installed, needed for {purpose}", f"pip install {name}"
        )
    except Exception as error:
        return Check.broken(name, first_line(error), f"pip install --force-reinstall {name}")
    return Check.ok(name, f"{importlib.metadata.version(name)}, for {purpose}")


def _check_exact_solver() -> Check:
    from bftrainer.decide.allocation.exact import Exact

    _solve_sample(Exact())
    return Check.ok("exact", "works; needs no license")


def _check_highs() -> Check:
    """Check HiGHS: its package, and a solved sample. Raises the solver's error if that fails."""
    from bftrainer.decide.allocation.highs import Highs
    from bftrainer.errors import Reason, SolverError

    try:
        _solve_sample(Highs())
    except SolverError as error:
        if error.reason is Reason.NO_PACKAGE:
            return Check(
                "highs", CheckStatus.MISSING, error.detail, "pip install --upgrade highspy"
            )
        raise
    return Check.ok(
        "highs", f"highspy {importlib.metadata.version('highspy')}, works; needs no license"
    )


def _check_gurobi() -> Check:
    """Check Gurobi, which is optional: its package, its license, and a solved sample."""
    from bftrainer.decide.allocation.gurobi import Gurobi, find_license

    gurobi_license = find_license()
    if gurobi_license.version is None:
        return Check(
            "gurobi",
            CheckStatus.MISSING,
            str(gurobi_license),
            "pip install 'bftrainer[gurobi]'",
            required=False,
        )
    renew = "pip install --upgrade gurobipy, or set GRB_LICENSE_FILE to your license"
    if not gurobi_license.usable:
        return Check.broken("gurobi", str(gurobi_license), renew, required=False)
    # With an expired license, Gurobi refuses every model as too large: its date is checked before.
    today = datetime.datetime.now(tz=datetime.UTC).date()
    if gurobi_license.expires is not None and gurobi_license.expires < today.isoformat():
        return Check.broken("gurobi", f"{gurobi_license} (expired)", renew, required=False)
    _solve_sample(Gurobi())
    limits = (
        "; at most 2,000 variables and rows, larger problems go to highs"
        if gurobi_license.restricted
        else ""
    )
    return Check.ok("gurobi", f"{gurobi_license}, works{limits}", required=False)


def _check_job_scripts() -> Check:
    """Check that the example job scripts were installed, and list them."""
    folder = installed_folder(Installed.JOBSCRIPT)
    if folder is None:
        remedy = "pip install --force-reinstall bftrainer"
        detail = f"no {Installed.JOBSCRIPT.share}/ was installed"
        return Check("jobscripts", CheckStatus.MISSING, detail, remedy, required=False)
    names = ", ".join(sorted(path.name for path in folder.iterdir()))
    return Check.ok("jobscripts", f"{folder}: {names}", required=False)


def _sample_problem() -> tuple[Problem, tuple[int, ...]]:
    """Return a problem and its optimal node counts: two trainers and six nodes, of which 2 and 4
    nodes give 18 + 32 samples per second.
    """
    from bftrainer.decide.domain.model import Curve
    from bftrainer.decide.domain.problem import Problem, TrainerDemand

    def demand(name: str, samples_per_s: tuple[float, ...]) -> TrainerDemand:
        return TrainerDemand(
            name,
            Curve((1, 2, 4), samples_per_s),
            min_nodes=1,
            max_nodes=4,
            scale_up_s=18.0,
            scale_down_s=12.0,
        )

    saturating = demand("levels off", (10.0, 18.0, 30.0))
    linear = demand("scales", (8.0, 16.0, 32.0))
    return Problem(6, 120.0, (saturating, linear)), (2, 4)


def _solve_sample(solver: Allocator) -> None:
    """Solve the sample with the real solver. Raises ``SolverError`` if it fails, and
    ``RejectedAnswerError`` for counts that are not the optimum.
    """
    from bftrainer.decide.allocation.check import checked
    from bftrainer.errors import RejectedAnswerError

    problem, optimum = _sample_problem()
    answer = checked(problem, solver.solve(problem))
    if answer.counts != optimum:
        raise RejectedAnswerError(
            f"{solver.name} gave {answer.counts} for the sample problem, expected {optimum}"
        )
