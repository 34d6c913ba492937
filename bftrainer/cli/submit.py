"""``bftrainer submit``: hand a trainer in. It is safe on disk when the command returns, whether the pilot runs or not."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.cli.state import json_option, show_json, state_option
from bftrainer.errors import InputFileError

if TYPE_CHECKING:
    from bftrainer.config.trainer_file import TrainerSpec


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False, metavar="[FILE.toml]")
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@click.option("--name", metavar="NAME", help="What the other commands call it.")
@click.option("--launcher", metavar="NAME", help="restart, horovod, horovodrun or torchrun.  [default: restart]")
@click.option("--min-nodes", type=int, metavar="N", help="Smallest size it can run on.  [default: 1]")
@click.option("--max-nodes", type=int, metavar="N", help="Largest size it can use.")
@click.option("--samples-per-s", type=float, metavar="RATE", help="On one node; without it or a curve: measured.")
@click.option("--model", metavar="NAME", help="What is learned of its speed is kept under this name.")
@click.option("--samples-total", type=float, metavar="N", help="Its work, where it is known.")
@click.option("--priority", type=float, metavar="P", help="For the objective priority.  [default: 1]")
@click.option("--cwd", type=str, metavar="DIR", help="Where it runs.  [default: FILE's folder, or here]")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any key of the trainer file, as TOML.")
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
    """Submit a trainer, by a TOML file, by options, or by both (options win).

    \b
    Example:
      bftrainer submit digits.toml
      bftrainer submit digits.toml --name digits-2 --max-nodes 8
      bftrainer submit --name mnist --max-nodes 4 --samples-per-s 900 -- python train.py --lr 0.1
    """
    from bftrainer.cli.pilot import read
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
    _look_for_the_script(spec, where)
    folder = open_state_dir(state, create=True)
    config = read(folder, None)
    if config.workers.require_rehearsal:
        require(folder, spec, where)
    _look_for_the_class(spec, config.classes, where)
    _check_name(folder, spec.name, where)
    spool_name = Spool(folder).put(Request(kind=RequestKind.SUBMIT, trainer=spec.name, spec=spec, owner=_user()))
    if as_json:
        show_json([{"trainer": spec.name, "spool": spool_name}])
        return
    click.echo(f"submitted {spec.name}: {spec.min_nodes} to {spec.max_nodes} nodes, launcher {spec.launcher}")


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


def _look_for_the_script(spec: TrainerSpec, where: str) -> None:
    """A note where `python SCRIPT` has no script: it may come later, but mostly the name or the folder is wrong."""
    program, script = Path(spec.command[0]).name, (*spec.command, "")[1]
    if program.startswith("python") and script.endswith(".py") and not Path(spec.cwd or "", script).exists():
        click.echo(f"note: {where}: command: there is no {script} in {spec.cwd} yet", err=True)


def _look_for_the_class(spec: TrainerSpec, classes: Collection[str], where: str) -> None:
    """A note where nodes have names of classes and this is none of them: it may be their hardware, mostly it is a slip."""
    if classes and spec.node_class not in (None, *classes):
        names = ", ".join(sorted(classes))
        click.echo(
            f"note: {where}: node_class: {spec.node_class!r} is no class of the pilot's configuration ({names}); "
            "it waits for a node of that hardware",
            err=True,
        )


def _check_name(state: Path, name: str, where: str) -> None:
    """Refuse a name that the registry or a waiting submission has."""
    from bftrainer.cli.state import opened_registry
    from bftrainer.persistence.spool import RequestKind, Spool
    from bftrainer.persistence.store import DB_NAME

    waiting = [r.request for r in Spool(state).pending() if r.request is not None]
    taken = any(r.kind is RequestKind.SUBMIT and r.trainer == name for r in waiting)
    if not taken and (state / DB_NAME).exists():
        with opened_registry(state) as registry:
            taken = any(trainer.name == name for trainer in registry.trainers())
    if taken:
        raise InputFileError(f"{where}: name", f"{name!r} is taken; expected a name that no trainer here has had")


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
