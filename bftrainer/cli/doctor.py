"""``bftrainer doctor``: what of this installation works, shown by using it, and how to mend what does not."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import click

import bftrainer

if TYPE_CHECKING:
    from bftrainer.domain.ports import Allocator
    from bftrainer.domain.problem import Problem

# What a plain `pip install bftrainer` brings beside click and the solvers, and what is lost without it.
PACKAGES = (
    ("numpy", "every solver"),
    ("rich", "tables on the terminal"),
    ("jinja2", "report pages"),
    ("matplotlib", "plots"),
)
JOBSCRIPTS = "share/bftrainer/jobscripts/"


class CheckStatus(Enum):
    """How one part of the installation is."""

    OK = "OK"
    MISSING = "MISSING"
    BROKEN = "BROKEN"
    WARNING = "WARNING"
    """It works, but not as well as it could; never required."""


@dataclass(frozen=True, slots=True)
class Check:
    """What was found of one part; ``required`` parts decide the exit status."""

    name: str
    state: CheckStatus
    detail: str
    remedy: str = ""
    required: bool = True

    @property
    def label(self) -> str:
        """The state as it is printed."""
        plain = self.required or self.state in (CheckStatus.OK, CheckStatus.WARNING)
        return self.state.value if plain else f"{self.state.value} (optional)"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.option(
    "--lsf",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Ask this site's LSF all that the pilot would ask, with [lsf] of this configuration. Only reads.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("lsf-answers"),
    show_default=True,
    metavar="FOLDER",
    help="Where --lsf keeps answers that it does not understand.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: os.environ.get("BFTRAINER_STATE"),
    show_default="$BFTRAINER_STATE",
    metavar="DIR",
    help="Check what a pilot with this state directory needs, too: the directory, its site, Horovod. Only reads.",
)
def doctor(as_json: bool, lsf: Path | None, keep: Path, state: Path | None) -> None:
    """Check this installation: Python, solvers, plots, job scripts; with --state, a pilot's directory and site.

    Every solver is tried on a small problem. Exit status 0 if all that is required works, 1 otherwise; a WARNING is not
    required. On a Slurm machine the site is looked at in any case, and nothing of it is required without --state.

    \b
    Example:
      bftrainer doctor
      bftrainer doctor --state ~/.bftrainer
      bftrainer doctor --lsf bftrainer.toml
    """
    checks = [*examine(), *_live(state, keep)] if lsf is None else _lsf(lsf, keep)
    healthy = all(check.state is CheckStatus.OK for check in checks if check.required)
    if as_json:
        found = [{**dataclasses.asdict(check), "state": check.state.name} for check in checks]
        click.echo(json.dumps({"ok": healthy, "checks": found}, indent=2))
    else:
        for check in checks:
            _print(check)
    if not healthy:
        raise click.exceptions.Exit(1)


def examine() -> list[Check]:
    """Everything, in the order in which it is printed."""
    return [
        _python(),
        _guarded("bftrainer", _bftrainer, "pip install --force-reinstall bftrainer"),
        *(_package(name, purpose) for name, purpose in PACKAGES),
        _guarded("exact", _exact, "pip install --force-reinstall bftrainer numpy"),
        _guarded("highs", _highs, "pip install --force-reinstall highspy"),
        _guarded("gurobi", _gurobi, "pip install --force-reinstall 'bftrainer[gurobi]'", required=False),
        _guarded("jobscripts", _jobscripts, "pip install --force-reinstall bftrainer", required=False),
    ]


def _live(state: Path | None, keep: Path) -> list[Check]:
    """What a pilot needs: of its state directory and configuration, else of the Slurm that is here, if any."""
    if state is not None:
        from bftrainer.cli.doctor_pilot import examine_pilot

        return examine_pilot(state, keep)
    if shutil.which("scontrol") is None:
        return []
    from bftrainer_adapters.slurm.doctor import examine_slurm

    return [dataclasses.replace(check, required=False) for check in examine_slurm(None)]


def _lsf(config: Path, keep: Path) -> list[Check]:
    """The site's LSF instead of the installation."""
    from bftrainer.config.pilot import read_config
    from bftrainer_adapters.lsf.doctor import examine_lsf

    return examine_lsf(read_config(config).lsf, f"{config}: lsf", keep)


def _print(check: Check) -> None:
    colour = {CheckStatus.OK: "green", CheckStatus.BROKEN: "red"}.get(check.state, "yellow")
    click.echo(f"{click.style(f'{check.label:<18}', fg=colour)}  {check.name:<10}  {check.detail}")
    if check.remedy:
        click.echo(f"{'':<18}  {'':<10}  -> {check.remedy}")


def _guarded(name: str, look: Callable[[], Check], remedy: str, required: bool = True) -> Check:
    """Whatever goes wrong is the finding: a broken package raises what it likes."""
    try:
        return look()
    except Exception as error:
        return Check(name, CheckStatus.BROKEN, _first_line(error), remedy, required)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _python() -> Check:
    return Check("python", CheckStatus.OK, f"{platform.python_version()}, {sys.executable}")


def _bftrainer() -> Check:
    return Check("bftrainer", CheckStatus.OK, f"{bftrainer.__version__}, {Path(bftrainer.__file__).parent}")


def _package(name: str, purpose: str) -> Check:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return Check(name, CheckStatus.MISSING, f"not installed, needed for {purpose}", f"pip install {name}")
    except Exception as error:
        return Check(name, CheckStatus.BROKEN, _first_line(error), f"pip install --force-reinstall {name}")
    return Check(name, CheckStatus.OK, f"{importlib.metadata.version(name)}, for {purpose}")


def _exact() -> Check:
    from bftrainer.allocation.exact import Exact

    _prove(Exact())
    return Check("exact", CheckStatus.OK, "solves; needs no license")


def _highs() -> Check:
    from bftrainer.allocation.highs import Highs
    from bftrainer.errors import Reason, SolverError

    try:
        _prove(Highs())
    except SolverError as error:
        if error.reason is Reason.NO_PACKAGE:
            return Check(
                "highs", CheckStatus.MISSING, f"highspy is not installed: {error.detail}", "pip install highspy"
            )
        raise
    return Check("highs", CheckStatus.OK, f"highspy {importlib.metadata.version('highspy')}, solves; needs no license")


def _gurobi() -> Check:
    from bftrainer.allocation.gurobi import Gurobi, find_license

    found = find_license()
    if found.version is None:
        return Check("gurobi", CheckStatus.MISSING, str(found), "pip install 'bftrainer[gurobi]'", required=False)
    renew = "pip install --upgrade gurobipy, or name a license of yours in GRB_LICENSE_FILE"
    if not found.usable:
        return Check("gurobi", CheckStatus.BROKEN, str(found), renew, required=False)
    # An expired license refuses every model as too large; the date tells why.
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    if found.expires is not None and found.expires < today.isoformat():
        return Check("gurobi", CheckStatus.BROKEN, f"{found} (over)", renew, required=False)
    _prove(Gurobi())
    limits = "; at most 2,000 variables and rows, larger problems go to highs" if found.restricted else ""
    return Check("gurobi", CheckStatus.OK, f"{found}, solves{limits}", required=False)


def _jobscripts() -> Check:
    folder = jobscripts_folder()
    if folder is None:
        again = "pip install --force-reinstall bftrainer"
        return Check("jobscripts", CheckStatus.MISSING, f"no {JOBSCRIPTS} was installed", again, required=False)
    names = ", ".join(sorted(path.name for path in folder.iterdir()))
    return Check("jobscripts", CheckStatus.OK, f"{folder}: {names}", required=False)


def jobscripts_folder() -> Path | None:
    """Where the job scripts are: beside the package in a checkout, else where the installation's record says.

    The record knows whatever scheme pip used (an environment, --user, a distribution's own).
    """
    checkout = Path(bftrainer.__file__).parents[1] / "jobscripts"
    if checkout.is_dir():
        return checkout
    for file in importlib.metadata.files("bftrainer") or ():
        if JOBSCRIPTS in file.as_posix():
            place = Path(str(file.locate())).resolve()
            if place.is_file():
                return place.parent
    return None


def _sample() -> tuple[Problem, tuple[int, ...]]:
    """Two trainers want six nodes: 2 and 4 give 18 + 32 samples per second, more than any other counts."""
    from bftrainer.domain.model import Curve
    from bftrainer.domain.problem import Problem, TrainerDemand

    nodes = (1, 2, 4)
    levels_off = TrainerDemand("levels off", Curve(nodes, (10.0, 18.0, 30.0)), 1, 4, 18.0, 12.0)
    scales = TrainerDemand("scales", Curve(nodes, (8.0, 16.0, 32.0)), 1, 4, 18.0, 12.0)
    return Problem(6, 120.0, (levels_off, scales)), (2, 4)


def _prove(solver: Allocator) -> None:
    """Solve the sample through the real class."""
    from bftrainer.allocation.check import checked
    from bftrainer.errors import RejectedAnswerError

    problem, optimum = _sample()
    answer = checked(problem, solver.solve(problem))
    if answer.counts != optimum:
        raise RejectedAnswerError(f"{solver.name} gives {answer.counts} for the sample problem, expected {optimum}")
