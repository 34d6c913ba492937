"""``bftrainer.submit`` and its companions: the commands of users who train models, as functions."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from bftrainer.console.client.gate import draft
from bftrainer.console.client.handle import POLL_S, TrainerHandle
from bftrainer.console.client.requests import known_trainers
from bftrainer.console.client.results import Goal, ResultRow, best_first, result_rows
from bftrainer.console.client.state_dir import default_state
from bftrainer.console.client.statuses import read_views
from bftrainer.console.client.submission import submit_one, submit_sweep
from bftrainer.console.client.sweep import combined, grid_trials, trials_as_text
from bftrainer.counted import counted
from bftrainer.decide.domain.stopping import ASHA
from bftrainer.errors import InvalidValueError, UserError, WaitTimeoutError
from bftrainer.pilot.persistence.spool import open_state_dir

if TYPE_CHECKING:
    from typing_extensions import Unpack

Value = str | int | float | bool
"""The value of a parameter."""


class TrainerKeys(TypedDict, total=False):
    """The keys of a trainer file (docs/pilot.md) as keyword arguments."""

    name: str
    command: Sequence[str]
    launcher: str
    min_nodes: int
    max_nodes: int
    min_gpus: int
    max_gpus: int
    sizes: Sequence[int]
    slots: int
    curve: Mapping[str, Sequence[float]]
    samples_per_s: float
    model: str
    samples_total: float
    scale_up_s: float
    scale_down_s: float
    start_s: float
    priority: float
    requested_nodes: int
    reports_loss: bool
    cwd: str | Path
    inherit: Sequence[str]
    env: Mapping[str, str]
    setup: Sequence[str]
    image: str
    stage_in: Sequence[str]
    started_per: str
    scaling: str
    global_batch: int
    stop_s: float
    stop_signal: str
    hang_s: float
    first_step_s: float
    fill: bool
    group: str
    parameters: Mapping[str, Value]
    stop_when: Sequence[str]
    notify: Sequence[str]
    trackers: Sequence[str]
    node_class: str


def submit(
    file: str | Path | None = None,
    /,
    *,
    state: str | Path | None = None,
    **keys: Unpack[TrainerKeys],
) -> TrainerHandle:
    """Submit a trainer by trainer file, by keys, or by both (keys override the file), and return
    its handle.

    The submission is on disk when this returns; the pilot need not be running. ``state`` is the
    pilot's state directory (default: ``$BFTRAINER_STATE``, or ``~/.bftrainer``). Raises
    :class:`~bftrainer.errors.UserError` in one line::

        handle = bftrainer.submit("digits.toml", name="digits-2", max_nodes=8)
        handle = bftrainer.submit(name="mnist", command=["python", "train.py", "--lr", "{lr}"],
                                  max_nodes=4, parameters={"lr": 0.1})
        print(handle.result().least("loss"))
    """
    trainer_draft = draft(None if file is None else Path(file), keys)
    folder, submission = submit_one(_state_directory(state), trainer_draft, _print_note)
    return TrainerHandle(folder, submission.spec.name, submission.spool_name)


def sweep(
    file: str | Path | None = None,
    /,
    *,
    grid: Mapping[str, Iterable[Value]] | None = None,
    trials: Iterable[Mapping[str, Value]] | None = None,
    stop: ASHA | str | None = None,
    state: str | Path | None = None,
    **keys: Unpack[TrainerKeys],
) -> tuple[TrainerHandle, ...]:
    """Submit one trainer per combination of a ``grid``, per mapping of ``trials``, or per
    combination of both.

    ``{lr}`` in ``command`` and ``env`` stands for the parameter ``lr``. All trials are submitted,
    or none. Trials that were submitted before are not submitted again: their handles are returned.
    ``stop`` is a rule that ends trials early, as in ``stop_when``::

        handles = bftrainer.sweep("digits.toml", grid={"lr": [0.1, 0.01], "seed": range(10)},
                                  stop=bftrainer.ASHA("loss", first=1000, most=27000, factor=3))
    """
    base = draft(None if file is None else Path(file), keys)
    if stop is not None:
        rules = base.table.get("stop_when", ())
        base = replace(base, table={**base.table, "stop_when": [*rules, str(stop)]})
    combinations = None
    if grid is not None:
        combinations = grid_trials({key: tuple(values) for key, values in grid.items()})
    text_trials = None if trials is None else trials_as_text(trials)
    if text_trials and combinations:
        all_trials = combined(text_trials, combinations)
    else:
        all_trials = text_trials or combinations or ()
    if not all_trials:
        raise InvalidValueError("a sweep without trials: expected a grid with values, or trials")
    folder, submissions = submit_sweep(_state_directory(state), base, all_trials, _print_note)
    return tuple(TrainerHandle(folder, trial.spec.name, trial.spool_name) for trial in submissions)


def trainer(name: str, *, state: str | Path | None = None) -> TrainerHandle:
    """Return the handle of a trainer that was submitted before.

    Raises :class:`~bftrainer.errors.UserError` for an unknown name.
    """
    folder = open_state_dir(_state_directory(state))
    if name not in known_trainers(folder):
        raise UserError(f"no training named {name!r} in {folder}; see `bftrainer list --all`")
    return TrainerHandle(folder, name)


def trainers(
    pattern: str = "*", *, group: str | None = None, state: str | Path | None = None
) -> tuple[TrainerHandle, ...]:
    """Return the handles of all trainers whose name matches a pattern, those that have ended
    included.
    """
    folder = open_state_dir(_state_directory(state))
    return tuple(
        TrainerHandle(folder, name)
        for name, trainer in known_trainers(folder).items()
        if fnmatchcase(name, pattern) and group in (None, trainer.spec.group)
    )


def results(
    group: str | None = None,
    *,
    minimize: str | None = None,
    maximize: str | None = None,
    state: str | Path | None = None,
) -> tuple[ResultRow, ...]:
    """Return the rows of ``bftrainer results``: parameters, samples and metrics of all trainers, or
    of a group.

    With a metric to minimize or maximize, the best trainer is first.
    """
    rows = result_rows(_state_directory(state), group)
    if minimize is not None and maximize is not None:
        raise InvalidValueError("expected minimize or maximize, got both")
    metric = minimize or maximize
    return rows if metric is None else best_first(rows, Goal(metric, maximize is not None))


def as_completed(
    handles: Iterable[TrainerHandle], timeout_s: float | None = None
) -> Iterator[TrainerHandle]:
    """Yield the handles in the order in which their trainers end.

    One query of the state directory serves all of them. Raises
    :class:`~bftrainer.errors.WaitTimeoutError` if some have not ended after ``timeout_s``.
    """
    open_handles, start_s = list(handles), time.monotonic()
    while open_handles:
        ended_handles = _ended_handles(open_handles)
        yield from ended_handles
        open_handles = [handle for handle in open_handles if handle not in ended_handles]
        _check_time(open_handles, start_s, timeout_s)
        if open_handles and not ended_handles:
            time.sleep(POLL_S)


async def as_completed_async(
    handles: Iterable[TrainerHandle], timeout_s: float | None = None
) -> AsyncIterator[TrainerHandle]:
    """Yield the handles as :func:`as_completed` does, without blocking the event loop."""
    open_handles, start_s = list(handles), time.monotonic()
    while open_handles:
        ended_handles = await asyncio.to_thread(_ended_handles, open_handles)
        for handle in ended_handles:
            yield handle
        open_handles = [handle for handle in open_handles if handle not in ended_handles]
        _check_time(open_handles, start_s, timeout_s)
        if open_handles and not ended_handles:
            await asyncio.sleep(POLL_S)


def _ended_handles(handles: Sequence[TrainerHandle]) -> list[TrainerHandle]:
    """Return the handles whose trainers have ended, by one query of each state directory."""
    spool_names: dict[Path, dict[str, str]] = {}
    for handle in handles:
        spool_names.setdefault(handle.state, {})[handle.name] = handle.spool_name
    views = {state: read_views(state, names) for state, names in spool_names.items()}
    return [handle for handle in handles if views[handle.state][handle.name].is_over]


def _check_time(
    open_handles: Sequence[TrainerHandle], start_s: float, timeout_s: float | None
) -> None:
    """Raise ``WaitTimeoutError`` if trainers have not ended ``timeout_s`` after ``start_s`` (of
    ``time.monotonic``).
    """
    if open_handles and timeout_s is not None and time.monotonic() - start_s >= timeout_s:
        raise WaitTimeoutError(
            f"{counted(len(open_handles), 'training has', 'trainings have')} not ended after "
            f"{timeout_s:g} s, such as {open_handles[0].name!r}"
        )


def _state_directory(state: str | Path | None) -> Path:
    return default_state() if state is None else Path(state).expanduser()


def _print_note(text: str) -> None:
    print(f"bftrainer: note: {text}", file=sys.stderr)
