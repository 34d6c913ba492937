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

from bftrainer.console.cli.choices import FILE, LAUNCHER, CountRange, IsoTime, PluginOption
from bftrainer.console.cli.output import json_option, note, say, show_json
from bftrainer.console.cli.state import set_option, state_option
from bftrainer.console.cli.topics import CommandWithTopics
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


_TOPICS = {
    "GPUs": ("--min-gpus", "--max-gpus", "--gpus-per-node"),
    "Speed and work": ("--samples-per-s", "--model", "--samples-total", "--priority", "--deadline"),
    "Sweeps": ("--stop-when", "--group"),
}


@click.command(cls=CommandWithTopics, topics=_TOPICS)
@click.argument("file", type=FILE, required=False, metavar="[FILE.toml | SCRIPT.py]")
@click.argument("command", nargs=-1, metavar="[-- COMMAND... | -- ARGUMENTS...]")
@click.option("--name", metavar="NAME", help="Name of the training, for use in other commands.")
@click.option(
    "--launcher",
    cls=PluginOption,
    type=LAUNCHER,
    help=(
        "How the workers are started: {names}.  [default: {default}; for SCRIPT.py, guessed from "
        "the script]"
    ),
)
@click.option(
    "-N",
    "--nodes",
    type=CountRange(),
    metavar="[MIN-]MAX",
    help="Number of nodes, as for sbatch: -N 1-4 is --min-nodes 1 --max-nodes 4.",
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
    help="Name under which the measured speed is stored for later trainings.",
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
    help=(
        "Submit a training per value: A,B,... or FIRST..LAST. Several grids give all combinations."
    ),
)
@click.option(
    "--array",
    type=FILE,
    metavar="FILE.csv",
    help="Submit a training per row of a CSV file; its first row has the names of the parameters.",
)
@click.option(
    "--stop-when",
    multiple=True,
    metavar="RULE",
    help=(
        "End a training early: 'loss>2@1000' (at 1,000 samples), or 'asha(min loss, 1000, "
        "27000, 3)' within its group."
    ),
)
@click.option(
    "--group",
    metavar="NAME",
    help="Group of the trainings.  [default for a sweep: the training's name]",
)
@click.option(
    "--rehearse-first", is_flag=True, help="Rehearse on this host; submit only if no check fails."
)
@click.option(
    "--follow",
    "follows",
    is_flag=True,
    help="Print states and output until the training ends; Ctrl-C leaves it running.",
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
    nodes: tuple[int | None, int] | None,
    state: Path,
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a script, a TOML file, or a command. Options override the file. The pilot need not be
    running.

    SCRIPT.py runs as `python SCRIPT.py ARGUMENTS...`; it is named after its file (train, then
    train-2, ...), and its launcher is guessed from its text.

    In a sweep (--grid, --array), {lr} in the command and in env stands for the parameter lr, {name}
    for the training's name, and {{ and }} for braces. A sweep is submitted whole or not at all.
    Submitted again, it continues with the trials that are missing.

    \b
    Example:
      bftrainer submit train.py --max-nodes 4 -- --lr 0.1
      bftrainer submit train.py -N 1-4 --rehearse-first --follow
      bftrainer submit digits.toml
      bftrainer submit digits.toml --name digits-2 --max-nodes 8
      bftrainer submit --name mnist --max-nodes 4 --samples-per-s 900 -- python train.py --lr 0.1
      bftrainer submit --max-nodes 4 --grid lr=0.1,0.01 --grid seed=0..9 -- python t.py {lr} {seed}
    """
    from bftrainer.console.cli.trainers import NO_PILOT, read_allocation
    from bftrainer.console.client.gate import draft, script_draft
    from bftrainer.console.client.submission import submit_one

    file, command = _file_and_command(file, command)
    keys = {key: value for key, value in options.items() if value not in (None, ())}
    if nodes is not None:
        keys |= _sizes_of(nodes, keys)
    if file is not None and file.suffix == ".py":
        base = script_draft(file, command, keys, assignments)
    else:
        if command:
            keys["command"] = list(command)
        base = draft(file, keys, assignments)
    if file is None and array is None:
        _check_complete(base)
    # First: Ctrl-C while the trainer is followed leaves it alone.
    needs_pilot = not read_allocation(state).is_pilot_running
    submissions: Sequence[Submitted]
    if grid or array is not None:
        if follows:
            raise UserError(
                "submit: --follow is for one training; a sweep is watched by `bftrainer list` "
                "or `bftrainer top`"
            )
        submissions = _submit_sweep(base, grid, array, state, as_json, rehearse_first)
    else:
        if rehearse_first:
            _rehearse_draft(base, state)
        folder, submission = submit_one(state, base, note)
        submissions = (submission,)
        if as_json:
            show_json(_submission_objects(submissions))
        else:
            _say_one(submission, base)
    first = submissions[0]
    if deadline is not None:
        _print_forecast(submissions, deadline, state, as_json)
    if needs_pilot:
        note(f"{first.spec.name} {NO_PILOT}")
    if follows and not as_json:
        follow(folder, first.spec.name, first.spool_name)


def _file_and_command(
    file: Path | None, command: tuple[str, ...]
) -> tuple[Path | None, tuple[str, ...]]:
    """Return the script or trainer file, if the first argument is one, and the command. Raises
    ``UserError`` for a notebook.
    """
    if file is None or file.suffix in (".py", ".toml"):
        return file, command
    if file.suffix == ".ipynb":
        raise UserError(
            f"{file} is a notebook; make a script of it with `jupyter nbconvert --to script "
            f"{file}`, and submit that"
        )
    # It is the first word of a command, as in `submit --name mnist python train.py`.
    return None, (str(file), *command)


def _sizes_of(nodes: tuple[int | None, int], keys: dict[str, Any]) -> dict[str, int]:
    """Return the keys of the trainer file for ``-N``. Raises ``UserError`` where another option has
    given them, or the range is empty.
    """
    smallest, largest = nodes
    if keys.keys() & {"min_nodes", "max_nodes", "min_gpus", "max_gpus"}:
        raise UserError("submit: -N cannot be combined with --min-nodes, --max-nodes or GPUs")
    if smallest is None:
        return {"max_nodes": largest}
    if smallest > largest:
        raise UserError(f"submit: -N {smallest}-{largest}: the first number is the smaller one")
    return {"min_nodes": smallest, "max_nodes": largest}


def _check_complete(base: Draft) -> None:
    """Raise ``UserError`` for a command line without a trainer's name or size.

    Call it only where neither a trainer file nor an array can add them.
    """
    missing = [option for option, keys in _NEEDED if keys.isdisjoint(base.table)]
    if missing:
        raise UserError(
            f"submit: {' and '.join(missing)} missing; expected for example: "
            "bftrainer submit --name mnist --max-nodes 4 -- python train.py"
        )


def follow(folder: Path, name: str, spool_name: str) -> None:
    """Print each change of the status and new output, until the trainer has ended.

    ``name`` is the trainer's, ``spool_name`` that of its submission in the spool. Raises click's
    ``Exit``: with status 0 if the trainer is done, 1 if it has ended otherwise, 130 after Ctrl-C,
    which leaves the trainer running.
    """
    from bftrainer.console.cli.logs import POLL_S, print_new
    from bftrainer.console.cli.trainers import read_allocation
    from bftrainer.console.client.statuses import SubmissionStatus, read_views
    from bftrainer.wires.paths import TrainerDirectory

    directory = TrainerDirectory.of(folder, name)
    offsets: dict[Path, int] = {}
    previous_line = ("", "")
    try:
        while True:
            view = read_views(folder, {name: spool_name})[name]
            nodes = read_allocation(folder).nodes.get(name, ())
            status, remark = _status_and_remark(view, nodes)
            # A remark in which only a number has changed is not printed again.
            line = (status, _NUMBERS.sub("", remark))
            if line != previous_line:
                say(": ".join(filter(None, (name, status, remark))), err=True)
                previous_line = line
            paths = directory.latest_logs()
            for path in paths:
                print_new(path, offsets, None, has_worker_names=len(paths) > 1)
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


def _status_and_remark(view: SubmissionView, nodes: tuple[str, ...]) -> tuple[str, str]:
    """Return the status of a submission as text, and a remark on it; ``nodes`` are the trainer's
    fragments.
    """
    from bftrainer.console.cli.trainers import status_text
    from bftrainer.console.client.remarks import remark_of

    if view.record is None:
        return view.status.value, view.reason or ""
    status = status_text(view.record, len(nodes))
    if nodes and not view.status.is_final:
        status += f" on {counted(len(nodes), 'node')}"
    return status, remark_of(view.record)


def _print_forecast(
    submissions: Sequence[Submitted], deadline_s: float, state: Path, as_json: bool
) -> None:
    """Print the forecast for the submitted trainer, or for the group of a sweep.

    The command `bftrainer forecast` is in another package: ``UserError`` is raised if that is not
    installed. Where there is no forecast, a note says why; the submission stands.
    """
    context = click.get_current_context()
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, "forecast")
    if command is None:
        raise UserError(
            "--deadline: submitted, but the package with the command forecast is not installed"
        )
    spec = submissions[0].spec
    selection = {"group": spec.group} if len(submissions) > 1 else {"name": spec.name}
    try:
        context.invoke(command, **selection, by_s=deadline_s, state=state, as_json=as_json)
    except UserError as error:
        note(f"submitted; no forecast: {error}")


def _say_one(submission: Submitted, base: Draft) -> None:
    """Print a line on the submitted trainer: its name, sizes and launcher."""
    spec = submission.spec
    name_remark = f" ({submission.taken_name!r} is taken)" if submission.taken_name else ""
    launcher_remark = f" ({base.launcher_reason})" if base.launcher_reason else ""
    say(
        f"submitted {spec.name}{name_remark}: {sizes_text(spec)}, "
        f"launcher {spec.launcher}{launcher_remark}"
    )


def sizes_text(spec: TrainerSpec) -> str:
    """Return the legal sizes of a trainer in words: ``1 to 4 nodes``, ``1, 2 or 4 GPUs``."""
    if spec.sizes and len(spec.sizes) > 1:
        others = ", ".join(map(str, spec.sizes[:-1]))
        return f"{others} or {counted(spec.sizes[-1], spec.grain.noun)}"
    largest = counted(spec.max_nodes, spec.grain.noun)
    return largest if spec.min_nodes == spec.max_nodes else f"{spec.min_nodes} to {largest}"


def _rehearse_draft(trainer_draft: Draft, state: Path) -> None:
    """Rehearse a draft and print the report. Raises click's ``Exit`` with status 1 if the draft
    does not pass.
    """
    from bftrainer.console.cli.rehearse import passes
    from bftrainer.console.client.gate import checked
    from bftrainer.pilot.persistence.spool import open_state_dir

    spec = checked(trainer_draft, os.environ)
    if not passes(spec, trainer_draft.where, open_state_dir(state, create=True)):
        say("not submitted: the rehearsal has not passed", err=True)
        raise click.exceptions.Exit(1)


def _submit_sweep(
    base: Draft,
    grid: tuple[str, ...],
    array: Path | None,
    state: Path,
    as_json: bool,
    rehearse_first: bool,
) -> Sequence[Submitted]:
    """Submit a sweep, of the trials of ``--grid`` and ``--array`` or of both combined, and print
    what was submitted. With ``rehearse_first``, the first trial is rehearsed before.
    """
    from bftrainer.console.client.submission import submit_sweep
    from bftrainer.console.client.sweep import (
        combined,
        drafts_of,
        grid_trials,
        parse_grid,
        read_trials,
    )

    array_trials = () if array is None else read_trials(array)
    grid_combinations = grid_trials(parse_grid(grid), "--grid") if grid else ()
    if array_trials and grid_combinations:
        trials = combined(array_trials, grid_combinations)
    else:
        trials = array_trials or grid_combinations
    if rehearse_first:
        _rehearse_draft(drafts_of(base, trials)[0], state)
    _, submissions = submit_sweep(state, base, trials, note)
    if as_json:
        show_json(_submission_objects(submissions))
    else:
        _say_sweep(submissions)
    return submissions


def _say_sweep(submissions: Sequence[Submitted]) -> None:
    """Print how many trainers of a sweep are new, and how many an earlier submission has."""
    first = submissions[0]
    new_names = [trial.spec.name for trial in submissions if trial.spool_name]
    group = f" of group {first.spec.group}" if first.spec.group else ""
    name_remark = f" ({first.taken_name!r} is taken)" if first.taken_name else ""
    name_range = f": {new_names[0]}" if new_names else ""
    if len(new_names) > 1:
        name_range += f" to {new_names[-1]}"
    earlier_count = len(submissions) - len(new_names)
    earlier = ""
    if earlier_count:
        earlier = f"; {counted(earlier_count, 'was', 'were')} submitted before"
    say(f"submitted {counted(len(new_names), 'training')}{group}{name_remark}{name_range}{earlier}")
    if not new_names:
        note("to train them again, submit the sweep with another --name")


def _submission_objects(submissions: Sequence[Submitted]) -> list[dict[str, object]]:
    """The JSON objects of submissions; ``spool`` is null for a trial of an earlier submission."""
    return [
        {"trainer": trial.spec.name, "spool": trial.spool_name or None} for trial in submissions
    ]
