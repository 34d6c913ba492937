"""Starts an adapted script for one step, in a copy of its folder, before anything is written.

The script runs as a worker whose trainer is asked to stop: it makes one step, writes its checkpoint
and leaves. A second start has to continue from there.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bftrainer.console.client.adapt.script import Adapted
from bftrainer.console.rehearsal.copies import SCRATCH, copy_folder
from bftrainer.errors import InputFileError, UserError
from bftrainer.system.command import scrubbed
from bftrainer.system.files import write_atomically
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.own_programs import this_interpreter
from bftrainer.system.printable import printable
from bftrainer.wires.control import STOPPED_STATUS
from bftrainer.wires.environment import FRAGMENT, NODE, REPORT_EVERY_S, worker_variables
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import Phase, parse_progress

_MAX_COPY_BYTES = 1_000_000_000
_LOG_TAIL_BYTES = 65_536
_MAX_CHARACTERS = 300
_LONGER, _LONGER_S = 2, 5
"""The script without the changes starts if it runs for so many times as long as the adapted one ran
until it failed, and so many seconds.
"""
_TRACKERS = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "debug",
    "MLFLOW_TRACKING_URI": "",
}
"""Variables with which trackers send nothing: a trial is no run of the user's."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class TrialSteps:
    """What the two starts showed: the steps that they made."""

    first_step: int
    second_step: int


def try_out(
    adaptation: Adapted, arguments: Sequence[str], *, timeout_s: float, cwd: Path | None = None
) -> TrialSteps:
    """Start an adapted script twice for one step; the files of the user are not changed.

    Args:
        adaptation: The script with its changes.
        arguments: The script's own arguments.
        timeout_s: Seconds for both starts together.
        cwd: The working directory, by default that of this process if the script is below it.

    Raises:
        UserError: A start fails, makes no step within the time, or does not continue from the
            checkpoint of the first.
    """
    script = adaptation.script.path
    root = script.resolve().parent
    working = (cwd or Path.cwd()).resolve()
    if root.is_relative_to(working) and working != Path.home().resolve() and working != Path("/"):
        root = working
    with tempfile.TemporaryDirectory(prefix=SCRATCH, ignore_cleanup_errors=True) as scratch:
        copy = Path(scratch).resolve() / "copy"
        try:
            copy_folder(root, copy, _MAX_COPY_BYTES, str(script))
        except (InputFileError, OSError) as error:
            raise UserError(
                f"{script}: cannot be started for one step: {error}; --no-start writes it without"
            ) from error
        targets = [copy / file.path.resolve().relative_to(root) for file in adaptation.files]
        for file, target in zip(adaptation.files, targets, strict=True):
            target.write_bytes(file.after.encode())

        def restore_originals() -> None:
            """Write the script in the copy as it is without changes."""
            for file, target in zip(adaptation.files, targets, strict=True):
                target.write_bytes(file.before.encode())

        runner = _Runner(
            copy / script.resolve().relative_to(root),
            copy,
            Path(scratch).resolve() / f"{script.stem}-trial",
            arguments,
            time.monotonic() + timeout_s,
            timeout_s,
            script,
            restore_originals,
        )
        first = runner.step(1, 0)
        if first is None:
            raise runner.problem("made no step: it ended before its loop, or without one")
        second = runner.step(2, first)
        if second is None:
            return TrialSteps(first, first)  # one step was the whole training
        if second <= first:
            raise runner.problem(
                f"began at step {second} again after a stop at step {first}: its checkpoint was "
                "not loaded"
            )
        return TrialSteps(first, second)


class _Runner:
    """Runs a script as the only worker of a trainer that is asked to stop."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        trainer: Path,
        arguments: Sequence[str],
        deadline_s: float,
        timeout_s: float,
        shown: Path,
        restore_originals: Callable[[], None],
    ) -> None:
        self.restore_originals = restore_originals
        self.program, self.folder, self.arguments = program, folder, arguments
        self.deadline_s, self.timeout_s, self.shown = deadline_s, timeout_s, shown
        self.directory = TrainerDirectory(trainer)
        self.log = trainer / "log"
        trainer.mkdir()
        message = {
            "version": 1,
            "id": trainer.name,
            "command": [this_interpreter(), str(program), *arguments],
            "cwd": str(folder),
            "min_nodes": 1,
            "max_nodes": 1,
        }
        write_atomically(self.directory.trainer, json.dumps(message).encode())
        request = {"version": 1, "request": "stop", "number": 1}
        write_atomically(self.directory.control, json.dumps(request).encode())

    def step(self, incarnation: int, after: int) -> int | None:
        """Start the script; returns its last step, or None if it ended well without a new one.

        Raises UserError if it fails or takes too long.
        """
        began_s = time.monotonic()
        status = self._run_script(incarnation)
        lasted_s = time.monotonic() - began_s
        steps: list[int] = []
        has_checkpoint = False
        for line in map(parse_progress, JsonTail(self.directory.progress).read()):
            if line.incarnation != incarnation:
                continue
            if line.phase is Phase.RUNNING and line.step is not None:
                steps.append(line.step)
            has_checkpoint = has_checkpoint or line.phase is Phase.CHECKPOINTED
        if status not in (0, STOPPED_STATUS):
            what = f"failed with {_exit_status_text(status)}: {self._last_log_line()}"
            raise self.problem(what, starts=self._original_starts(lasted_s))
        if not steps:
            return None
        if not has_checkpoint:
            raise self.problem(f"made {len(steps)} steps and wrote no checkpoint")
        return steps[-1]

    def problem(self, what: str, *, starts: bool = False) -> UserError:
        """Build the error of a trial; ``starts``: the script starts without the changes."""
        remedy = "give its arguments after --, or write it with --no-start"
        if starts:
            remedy = (
                "without the changes it starts, so they are wrong for it: copy the lines of "
                "docs/recipes.md#any-other-script"
            )
        return UserError(
            f"{self.shown}: nothing is changed: started for one step, the adapted script {what}; "
            f"{remedy}"
        )

    def _original_starts(self, failed_after_s: float) -> bool:
        """Whether the script without the changes ends well, or runs for longer than the adapted one
        did.
        """
        self.restore_originals()
        timeout_s = min(
            _LONGER * failed_after_s + _LONGER_S, self.deadline_s - time.monotonic() + _LONGER_S
        )
        try:
            return self._exit_status(self._own_environment(), max(timeout_s, 1)) == 0
        except subprocess.TimeoutExpired:
            return True

    def _run_script(self, incarnation: int) -> int:
        """Run the script until it ends; returns its exit status. Raises UserError at the time
        limit.
        """
        left_s = self.deadline_s - time.monotonic()
        try:
            return self._exit_status(self._worker_environment(incarnation), max(left_s, 1))
        except subprocess.TimeoutExpired:
            raise self.problem(
                f"did not end within {self.timeout_s:g} s (--start-s): {self._last_log_line()}"
            ) from None

    def _exit_status(self, environment: dict[str, str], timeout_s: float) -> int:
        """Run the script until it ends; returns its exit status. Raises TimeoutExpired."""
        with self.log.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603  # a list, no shell
                [this_interpreter(), str(self.program), *self.arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                return process.wait(timeout_s)
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _worker_environment(self, incarnation: int) -> dict[str, str]:
        """Return the variables of the only worker, as torchrun sets them."""
        variables = worker_variables(self.directory.path, incarnation, "1", "localhost")
        assert {FRAGMENT, NODE} <= set(variables)
        return {**self._own_environment(), **variables, REPORT_EVERY_S: "0"}

    def _own_environment(self) -> dict[str, str]:
        """Return the variables of a process of torchrun that no pilot has started."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        own = {
            name: value for name, value in os.environ.items() if not name.startswith("BFTRAINER_")
        }
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        group |= dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK"), "0")
        group |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"), "1")
        return {**scrubbed(own), **group, **_TRACKERS}

    def _last_log_line(self) -> str:
        """Return the last line of the log, with the last line of the script that a traceback
        names.
        """
        with self.log.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines:
            return "it printed nothing"
        frames = [
            f"{Path(path).name}, line {line}: "
            for path, line in _FRAME.findall(text)
            if Path(path).is_relative_to(self.folder)
        ]
        where = frames[-1] if frames else ""
        return where + printable(lines[-1])[:_MAX_CHARACTERS]


def _exit_status_text(status: int) -> str:
    """Return an exit status in words."""
    return f"exit status {status}" if status > 0 else f"signal {-status}"
