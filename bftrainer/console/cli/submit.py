"""``bftrainer submit``: submit a trainer or a sweep. It is safe on disk when the command returns;
no pilot need be running.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.console.cli.choices import FILE, LAUNCHER, IsoTime, PluginOption
from bftrainer.console.cli.output import json_option, note, say, show_json
from bftrainer.console.cli.state import set_option, state_option
from bftrainer.counted import counted
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bftrainer.config.trainer_file import TrainerSpec
    from bftrainer.console.client.gate import Draft
    from bftrainer.console.client.statuses import SubmissionView
    from bftrainer.console.client.submission import Submitted

INTERRUPTED = 130
_NUMBERS = re.compile(r"[\d,.]+")  # a remark that only counts on is not printed again
_NEEDED = (("--name", {"name"}), ("--max-nodes", {"max_nodes", "max_gpus"}))


@click.command()
@click.argument("file", type=FILE, required=False, metavar="[FILE.toml | SCRIPT.py]")
@click.argument("command", nargs=-1, metavar="[-- COMMAND... | -- ARGUMENTS...]")
@click.option("--name", metavar="NAME", help="Name of the trainer, for use in other commands.")
@click.option(
    "--launcher",
    cls=PluginOption,
    type=LAUNCHER,
    help=(
        "How the workers are started: {names}.  [default: {default}; for SCRIPT.py, guessed from "
        "the script]"
    ),
)
@click.option("--min-nodes", type=int, metavar="N", help="Smallest number of nodes.  [default: 1]")
@click.option("--max-nodes", type=int, metavar="N", help="Largest number of nodes.")
@click.option(
    "--min-gpus",
    type=int,
    metavar="N",
    help="Smallest number of GPUs, if the pilot has nodes.unit = gpu.",
)
@click.option(
    "--max-gpus",
    type=int,
    metavar="N",
    help="Largest number of GPUs, if the pilot has nodes.unit = gpu.",
)
@click.option(
    "--gpus-per-node",
    "slots",
    type=int,
    metavar="N",
    help="Workers per node, one per GPU.  [default: nodes.slots of the pilot]",
)
@click.option(
    "--samples-per-s", type=float, metavar="RATE", help="Speed on one node.  [default: measured]"
)
@click.option(
    "--model",
    metavar="NAME",
    help="Name under which the measured speed is stored for later trainers.",
)
@click.option(
    "--samples-total", type=float, metavar="N", help="Total work in samples, if it is known."
)
@click.option(
    "--priority",
    type=float,
    metavar="P",
    help="Weight used by the 'priority' objective.  [default: 1]",
)
@click.option(
    "--cwd",
    type=str,
    metavar="DIR",
    help="Working directory.  [default: the directory of FILE, or the current one]",
)
@set_option
@click.option(
    "--grid",
    multiple=True,
    metavar="NAME=VALUES",
    help="Submit a trainer per value: A,B,... or FIRST..LAST. Several grids give all combinations.",
)
@click.option(
    "--array",
    type=FILE,
    metavar="FILE.csv",
    help="Submit a trainer per row of a CSV file; its first row has the names of the parameters.",
)
@click.option(
    "--stop-when",
    multiple=True,
    metavar="RULE",
    help=(
        "End a trainer early: 'loss>2@1000' (at 1,000 samples), or 'asha(min loss, 1000, "
        "27000, 3)' within its group."
    ),
)
@click.option(
    "--group",
    metavar="NAME",
    help="Group of the trainers.  [default for a sweep: the trainer's name]",
)
@click.option(
    "--rehearse-first", is_flag=True, help="Rehearse on this host; submit only if no check fails."
)
@click.option(
    "--follow",
    "follows",
    is_flag=True,
    help="Print states and output until the trainer ends; Ctrl-C leaves it running.",
)
@click.option(
    "--deadline",
    type=IsoTime(),
    metavar="WHEN",
    help=(
        "Print how likely it is done by then, as `bftrainer forecast` does: 2026-01-31T18:00, "
        "local time."
    ),
)
@state_option
@json_option
def submit(
    file: Path | None,
    command: tuple[str, ...],
    assignments: tuple[str, ...],
    grid: tuple[str, ...],
    array: Path | None,
    rehearse_first: bool,
    follows: bool,
    deadline: float | None,
    state: Path,
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a script, a TOML file, or a command. Options override the file. The pilot need not be
    running.

    SCRIPT.py runs as `python SCRIPT.py ARGUMENTS...`; it is named after its file (train, then
    train-2, ...), and its launcher is guessed from its text.

    In a sweep (--grid, --array), {lr} in the command and in env stands for the parameter lr, {name}
    for the trainer's name, and {{ and }} for braces. A sweep is submitted whole or not at all.
    Submitted again, it continues with the trials that are missing.

    \b
    Example:
      bftrainer submit train.py --max-nodes 4 -- --lr 0.1
      bftrainer submit train.py --max-nodes 4 --rehearse-first --follow
      bftrainer submit digits.toml
      bftrainer submit digits.toml --name digits-2 --max-nodes 8
      bftrainer submit --name mnist --max-nodes 4 --samples-per-s 900 -- python train.py --lr 0.1
      bftrainer submit --max-nodes 4 --grid lr=0.1,0.01 --grid seed=0..9 -- python t.py {lr} {seed}
    """
    from bftrainer.console.cli.trainers import NO_PILOT, allocation
    from bftrainer.console.client.gate import draft, script_draft
    from bftrainer.console.client.submission import submit_one

    if file is not None and file.suffix not in (".py", ".toml"):
        # It is the first word of a command, as in `submit --name mnist python train.py`.
        file, command = None, (str(file), *command)
    given = {key: value for key, value in options.items() if value not in (None, ())}
    if file is not None and file.suffix == ".py":
        base = script_draft(file, command, given, assignments)
    else:
        if command:
            given["command"] = list(command)
        base = draft(file, given, assignments)
    if file is None and array is None:
        _check_complete(base)
    # First: Ctrl-C while the trainer is followed leaves it alone.
    waits = not allocation(state).runs
    done: Sequence[Submitted]
    if grid or array is not None:
        if follows:
            raise UserError(
                "submit: --follow is for one trainer; a sweep is watched by `bftrainer list` "
                "or `bftrainer top`"
            )
        done = _sweep(base, grid, array, state, as_json, rehearse_first)
    else:
        if rehearse_first:
            _rehearse(base, state)
        folder, submitted = submit_one(state, base, note)
        done = (submitted,)
        if as_json:
            show_json(_rows(done))
        else:
            _say_one(submitted, base)
    if deadline is not None:
        _forecast(done, deadline, state, as_json)
    if waits:
        note(f"{done[0].spec.name} {NO_PILOT}")
    if follows and not as_json:
        follow(folder, done[0].spec.name, done[0].spool_name)


def _check_complete(base: Draft) -> None:
    """Reject a command without a name or a size, which no file can add."""
    missing = [option for option, keys in _NEEDED if keys.isdisjoint(base.table)]
    if missing:
        raise UserError(
            f"submit: {' and '.join(missing)} missing; expected for example: "
            "bftrainer submit --name mnist --max-nodes 4 -- python train.py"
        )


def follow(folder: Path, name: str, spool_name: str) -> None:
    """Print each change of the status and new output, until the trainer has ended.

    Raises click's ``Exit``: with status 1 if the trainer is not done, with 130 after Ctrl-C, which
    leaves it running.
    """
    from bftrainer.console.cli.logs import POLL_S, print_new
    from bftrainer.console.cli.trainers import allocation
    from bftrainer.console.client.statuses import SubmissionStatus, look
    from bftrainer.wires.paths import TrainerDirectory

    directory = TrainerDirectory.of(folder, name)
    offsets: dict[Path, int] = {}
    last_state = ("", "")
    try:
        while True:
            view = look(folder, {name: spool_name})[name]
            status, remark = _line(view, allocation(folder).nodes.get(name, ()))
            state = (status, _NUMBERS.sub("", remark))
            if state != last_state:
                say(": ".join(filter(None, (name, status, remark))), err=True)
                last_state = state
            paths = directory.latest_logs()
            for path in paths:
                print_new(path, offsets, None, named=len(paths) > 1)
            if view.is_over:
                raise click.exceptions.Exit(0 if view.status is SubmissionStatus.DONE else 1)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        say(
            f"{name} trains on; `bftrainer logs -f {name}` follows it, `bftrainer cancel "
            f"{name}` ends it",
            err=True,
        )
        raise click.exceptions.Exit(INTERRUPTED) from None


def _line(view: SubmissionView, nodes: tuple[str, ...]) -> tuple[str, str]:
    """Return the status of a submission as text, and a remark on it."""
    from bftrainer.console.cli.trainers import status_text
    from bftrainer.console.client.remarks import remark_of

    if view.record is None:
        return view.status.value, view.reason or ""
    on = f" on {counted(len(nodes), 'node')}" if nodes and not view.status.is_final else ""
    return status_text(view.record, len(nodes)) + on, remark_of(view.record)


def _forecast(done: Sequence[Submitted], deadline: float, state: Path, as_json: bool) -> None:
    """Run `bftrainer forecast` for what was submitted.

    That is a command of another package; the submission stands also if there is no forecast.
    """
    context = click.get_current_context()
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, "forecast")
    if command is None:
        raise UserError(
            "--deadline: submitted, but the package with the command forecast is not installed"
        )
    names = {"group": done[0].spec.group} if len(done) > 1 else {"name": done[0].spec.name}
    try:
        context.invoke(command, **names, by_s=deadline, state=state, as_json=as_json)
    except UserError as error:
        note(f"submitted; no forecast: {error}")


def _say_one(done: Submitted, base: Draft) -> None:
    spec, guessed = done.spec, f" ({base.guessed})" if base.guessed else ""
    taken = f" ({done.taken!r} is taken)" if done.taken else ""
    say(f"submitted {spec.name}{taken}: {sizes_text(spec)}, launcher {spec.launcher}{guessed}")


def sizes_text(spec: TrainerSpec) -> str:
    """Return the legal sizes of a trainer in words: ``1 to 4 nodes``, ``1, 2 or 4 GPUs``."""
    if spec.sizes and len(spec.sizes) > 1:
        others = ", ".join(map(str, spec.sizes[:-1]))
        return f"{others} or {counted(spec.sizes[-1], spec.grain.noun)}"
    largest = counted(spec.max_nodes, spec.grain.noun)
    return largest if spec.min_nodes == spec.max_nodes else f"{spec.min_nodes} to {largest}"


def _rehearse(trainer_draft: Draft, state: Path) -> None:
    """Rehearse a draft. Raises click's ``Exit`` if it does not pass."""
    from bftrainer.console.cli.rehearse import passes
    from bftrainer.console.client.gate import checked
    from bftrainer.pilot.persistence.spool import open_state_dir

    spec = checked(trainer_draft, os.environ)
    if not passes(spec, trainer_draft.where, open_state_dir(state, create=True)):
        say("not submitted: the rehearsal has not passed", err=True)
        raise click.exceptions.Exit(1)


def _sweep(
    base: Draft,
    grid: tuple[str, ...],
    array: Path | None,
    state: Path,
    as_json: bool,
    rehearse_first: bool,
) -> Sequence[Submitted]:
    """Submit a sweep, of the trials of ``--grid`` and ``--array`` or of both combined, and say what
    was submitted.
    """
    from bftrainer.console.client.submission import submit_sweep
    from bftrainer.console.client.sweep import (
        combined,
        drafts_of,
        grid_trials,
        parse_grid,
        read_trials,
    )

    rows = () if array is None else read_trials(array)
    combinations = grid_trials(parse_grid(grid), "--grid") if grid else ()
    trials = combined(rows, combinations) if rows and combinations else rows or combinations
    if rehearse_first:
        _rehearse(drafts_of(base, trials)[0], state)
    _, done = submit_sweep(state, base, trials, note)
    if as_json:
        show_json(_rows(done))
        return done
    _say_sweep(done)
    return done


def _say_sweep(done: Sequence[Submitted]) -> None:
    """Count the trainers of a sweep that are new, and those of an earlier submission."""
    first = done[0]
    fresh = [trial.spec.name for trial in done if trial.spool_name]
    group = f" of group {first.spec.group}" if first.spec.group else ""
    taken = f" ({first.taken!r} is taken)" if first.taken else ""
    names = f": {fresh[0]}" if fresh else ""
    if len(fresh) > 1:
        names += f" to {fresh[-1]}"
    earlier = len(done) - len(fresh)
    before = f"; {counted(earlier, 'was', 'were')} submitted before" if earlier else ""
    say(f"submitted {counted(len(fresh), 'trainer')}{group}{taken}{names}{before}")
    if not fresh:
        note("to train them again, submit the sweep with another --name")


def _rows(done: Sequence[Submitted]) -> list[dict[str, object]]:
    """The JSON objects of submissions; ``spool`` is null for a trial of an earlier submission."""
    return [{"trainer": trial.spec.name, "spool": trial.spool_name or None} for trial in done]
