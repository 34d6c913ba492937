"""``bftrainer doctor``: what of this installation works, shown by using it, and how to fix what
does not.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import DIR

if TYPE_CHECKING:
    from bftrainer.decide.domain.checks import Check


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.option(
    "--site",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Check only the site of this configuration: run all of the pilot's queries. Read-only.",
)
@click.option(
    "--keep",
    type=DIR,
    default=Path("site-answers"),
    metavar="FOLDER",
    help="Directory for output of the scheduler that cannot be parsed.",
)
@click.option(
    "--state",
    type=DIR,
    default=lambda: os.environ.get("BFTRAINER_STATE"),
    show_default="$BFTRAINER_STATE",
    help=(
        "Also check a pilot's state directory: its file system and locks, its site, what its "
        "launchers need. Changes nothing."
    ),
)
def doctor(as_json: bool, site: Path | None, keep: Path, state: Path | None) -> None:
    """Check this installation: Python, solvers, plots, job scripts; with --state, a pilot's
    directory and site.

    Every solver is tried on a small problem. The exit status is 0 if everything required works, 1
    otherwise; warnings do not affect it. On a Slurm cluster, the site is always checked, but
    without --state its problems do not affect the exit status.

    \b
    Example:
      bftrainer doctor
      bftrainer doctor --state ~/.bftrainer
      bftrainer doctor --site bftrainer.toml
    """
    from bftrainer.console.cli.doctor.frame import is_healthy, print_json, print_lines
    from bftrainer.console.cli.doctor.installation import examine

    checks = (
        [*examine(), *_pilot_checks(state, keep)] if site is None else _configured_site(site, keep)
    )
    if as_json:
        print_json(checks)
    else:
        print_lines(checks)
    if not is_healthy(checks):
        raise click.exceptions.Exit(1)


def _pilot_checks(state: Path | None, keep: Path) -> list[Check]:
    """Check what a pilot needs: its state directory and configuration, or without one, the
    schedulers that are installed here.
    """
    if state is not None:
        from bftrainer.console.cli.doctor.pilot_checks import examine_pilot

        return examine_pilot(state, keep)
    from bftrainer.plugins import SITE_GROUP, installed_names

    sites = installed_names(SITE_GROUP)
    return [
        dataclasses.replace(check, required=False)
        for name in sites
        for check in _installed_site_checks(name, keep)
    ]


def _installed_site_checks(name: str, keep: Path) -> list[Check]:
    """Check what an installed site finds here without a configuration; a site that cannot be loaded
    is a finding as well.
    """
    from bftrainer.cluster.site_plugin import find_site
    from bftrainer.decide.domain.checks import Check
    from bftrainer.errors import UserError

    try:
        return find_site(name).check(None, "", keep)
    except UserError as error:
        return [
            Check.broken(name, str(error), "reinstall or remove the package that provides the site")
        ]


def _configured_site(path: Path, keep: Path) -> list[Check]:
    """Check the site of a configuration instead of the installation."""
    from bftrainer.cluster.site_plugin import find_site
    from bftrainer.config.pilot import read_config

    config = read_config(path)
    return find_site(config.nodes.holder).check(config, str(path), keep)
