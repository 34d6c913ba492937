"""``bftrainer submit``: submit a trainer. It is safe on disk when the command returns; the pilot need not be running."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.cli.choices import LAUNCHER
from bftrainer.cli.output import json_option, say, show_json
from bftrainer.cli.state import has_registry, opened_registry, pending_submissions, state_option
from bftrainer.errors import InputFileError

if TYPE_CHECKING:
    from bftrainer.config.trainer_file import TrainerSpec


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False, metavar="[FILE.toml]")
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@click.option("--name", metavar="NAME", help="Name of the trainer, for use in other commands.")
@click.option(
    "--launcher", type=LAUNCHER, help="How the workers are started: restart, torchrun, ...  [default: restart]"
)
@click.option("--min-nodes", type=int, metavar="N", help="Smallest number of nodes.  [default: 1]")
@click.option("--max-nodes", type=int, metavar="N", help="Largest number of nodes.")
@click.option("--samples-per-s", type=float, metavar="RATE", help="Speed on one node.  [default: measured]")
@click.option("--model", metavar="NAME", help="Name under which the measured speed is stored for later trainers.")
@click.option("--samples-total", type=float, metavar="N", help="Total work in samples, if it is known.")
@click.option("--priority", type=float, metavar="P", help="Weight used by the 'priority' objective.  [default: 1]")
@click.option(
    "--cwd", type=str, metavar="DIR", help="Working directory.  [default: the directory of FILE, or the current one]"
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override any key of the trainer file; VALUE is TOML.",
)
@state_option
@json_option
def submit(
    file: Path | None,
    command: tuple[str, ...],
    assignments: tuple[str, ...],
    state: Path,
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a trainer with a TOML file, with options, or with both (options override the file). The pilot need not be running.

    \b
    Example:
      bftrainer submit digits.toml
      bftrainer submit digits.toml --name digits-2 --max-nodes 8
      bftrainer submit --name mnist --max-nodes 4 --samples-per-s 900 -- python train.py --lr 0.1
    """
    from bftrainer.cli.pilot import CONFIG_NAME, read
    from bftrainer.config.trainer_file import settle
    from bftrainer.persistence.spool import Request, RequestKind, Spool, open_state_dir
    from bftrainer.plugins import driver_module
    from bftrainer.rehearsal.stamp import require

    if file is not None and not file.name.endswith(".toml"):
        file, command = None, (str(file), *command)
    table = _table(file) | {key: value for key, value in options.items() if value is not None} | _assigned(assignments)
    if command:
        table["command"] = list(command)
    where = "submit" if file is None else str(file)
    spec = _checked(table, where)
    driver_module(spec.launcher, where)
    home = Path.cwd() if file is None or options.get("cwd") is not None else file.absolute().parent
    spec = settle(spec, where, home, os.environ)
    folder = open_state_dir(state, create=True)
    config = read(folder, None)
    if config.workers.require_rehearsal:
        require(folder, spec, where)
    _check_launcher(spec, where, (folder / CONFIG_NAME).exists(), config.workers.allow_stock_horovodrun)
    _note_missing_script(spec, where)
    _note_unknown_class(spec, config.classes, where)
    _check_name(folder, spec.name, where)
    spool_name = Spool(folder).put(Request(kind=RequestKind.SUBMIT, trainer=spec.name, spec=spec))
    if as_json:
        show_json([{"trainer": spec.name, "spool": spool_name}])
        return
    say(f"submitted {spec.name}: {spec.min_nodes} to {spec.max_nodes} nodes, launcher {spec.launcher}")


def _table(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    from bftrainer.config.validation import load_toml

    return load_toml(file)


def _assigned(assignments: tuple[str, ...]) -> dict[str, Any]:
    from bftrainer.config.validation import parse_toml

    found: dict[str, Any] = {}
    for text in assignments:
        found |= parse_toml(text, f"--set {text}")
    return found


def _checked(table: dict[str, Any], where: str) -> TrainerSpec:
    from bftrainer.config.trainer_file import TrainerSpec
    from bftrainer.config.validation import check_table

    return check_table(table, TrainerSpec, where)


def _check_launcher(spec: TrainerSpec, where: str, is_configured: bool, allows_stock: bool) -> None:
    """Reject what can only fail once it has nodes."""
    from bftrainer.config.trainer_file import own_launcher

    if found := own_launcher(spec):
        raise InputFileError(
            f"{where}: command",
            f"begins with {found}, but launcher = {spec.launcher!r} starts the workers itself; expected the command of one "
            'worker, such as ["python", "train.py"]',
        )
    if spec.launcher == "horovodrun" and not allows_stock:
        problem = (
            "'horovodrun' lets everybody who can reach its port run code, and the pilot's configuration does not allow it; "
            "use launcher = 'horovod', or set workers.allow_stock_horovodrun (docs/security-horovod.md)"
        )
        if is_configured:
            raise InputFileError(f"{where}: launcher", problem)
        say(f"note: {where}: launcher: {problem}", err=True)  # a pilot may have its configuration elsewhere


def _note_missing_script(spec: TrainerSpec, where: str) -> None:
    """A note if SCRIPT in `python SCRIPT` does not exist: it may appear later, but usually the name or the folder is wrong."""
    program, script = Path(spec.command[0]).name, (*spec.command, "")[1]
    if program.startswith("python") and script.endswith(".py") and not Path(spec.cwd or "", script).exists():
        say(f"note: {where}: command: {script} does not exist in {spec.cwd}", err=True)


def _note_unknown_class(spec: TrainerSpec, classes: Collection[str], where: str) -> None:
    """A note if the configuration names node classes and this is not one of them: usually a typo, but hardware is allowed."""
    if classes and spec.node_class not in (None, *classes):
        names = ", ".join(sorted(classes))
        say(
            f"note: {where}: node_class: {spec.node_class!r} is not a class of the pilot's configuration ({names}); "
            "the trainer waits for a node with that hardware",
            err=True,
        )


def _check_name(state: Path, name: str, where: str) -> None:
    """Reject a name that the registry or a pending submission has."""
    taken = any(request.trainer == name for request in pending_submissions(state))
    if not taken and has_registry(state):
        with opened_registry(state) as registry:
            taken = any(trainer.name == name for trainer in registry.trainers())
    if taken:
        raise InputFileError(
            f"{where}: name", f"{name!r} is taken; expected a name that no trainer of this state directory has had"
        )
