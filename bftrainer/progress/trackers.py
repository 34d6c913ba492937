"""Mirrors what rank 0 reports to Weights & Biases, MLflow and TensorBoard: ``trackers`` in the
trainer file.

``python -m bftrainer.progress.trackers TRAINER_DIR`` reads lines ``[step, {name: value}]`` from
standard input. It is a process of its own: no training waits for a server, or fails because a
tracker does. Threads would not do: Python 3.12 starts none while it ends, and trackers need them to
open a run and to send its last values.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from bftrainer.system.files import write_atomically
from bftrainer.system.own_programs import module_command
from bftrainer.wires.messages import TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import parameter_value, read_json

CLOSE_S = 10.0
"""How long the end of a training waits for its trackers."""
Log = Callable[["int | None", Mapping[str, float]], object]
"""Logs values of a step to the open run of a tracker."""
Opened = tuple[Log, Callable[[], object]]
"""``Log``, and what ends the run."""


class Mirror:
    """Starts a process that passes values on to the trackers of a trainer; it ends with this
    process.
    """

    def __init__(self, directory: TrainerDirectory) -> None:
        argv = module_command("bftrainer.progress.trackers", str(directory.path))
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE)  # noqa: S603  # our own program
        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        os.set_blocking(self._pipe.fileno(), False)
        atexit.register(self.close)

    def put(self, step: int | None, values: Mapping[str, float | None]) -> None:
        """Pass on the values of a step without waiting.

        What does not fit into the pipe (64 KiB, minutes of reports) is dropped.
        """
        line = json.dumps(
            [step, {name: float(value) for name, value in values.items() if value is not None}]
        )
        with suppress(OSError):  # it is full, or its reader has ended
            os.write(self._pipe.fileno(), f"{line}\n".encode())

    def close(self) -> None:
        """Wait until all is passed on, for ``CLOSE_S`` at most."""
        self._pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_S)


def _open_wandb(trainer: TrainerMessage, folder: Path, step: int | None) -> Opened:
    """Open the trainer's run of Weights & Biases, the same one after each restart."""
    config = {name: parameter_value(text) for name, text in trainer.parameters.items()}
    run = import_module("wandb").init(
        # Unchanged by a restart, and different for a trainer of this name in another state
        # directory.
        id=f"{trainer.id}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}",
        resume="allow",
        name=trainer.id,
        group=trainer.group or None,
        config=config,
        dir=str(folder),
    )
    run.define_metric("*", step_metric="step")  # its own counter cannot go back to a checkpoint
    return lambda at, values: run.log({"step": at, **values}), run.finish


def _open_mlflow(trainer: TrainerMessage, folder: Path, step: int | None) -> Opened:
    """Open the trainer's run of MLflow, whose id is kept in a file: a restart continues it."""
    mlflow = import_module("mlflow")
    run_file = folder / "mlflow_run"
    run = mlflow.start_run(
        run_id=run_file.read_text() if run_file.exists() else None, run_name=trainer.id
    )
    if not run_file.exists():
        write_atomically(run_file, run.info.run_id.encode(), 0o600)
        mlflow.log_params(dict(trainer.parameters))
        mlflow.set_tags({"group": trainer.group} if trainer.group else {})
    return lambda at, values: mlflow.log_metrics(dict(values), step=at), mlflow.end_run


def _open_tensorboard(trainer: TrainerMessage, folder: Path, step: int | None) -> Opened:
    """Open an event file of TensorBoard. ``step`` is the first step that is logged.

    It is written without torch, whose ``SummaryWriter`` does the same: torch would be imported at
    every start.
    """
    proto = "tensorboard.compat.proto"
    event = import_module(f"{proto}.event_pb2")
    summary = import_module(f"{proto}.summary_pb2").Summary
    writer = import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter(
        str(trainer.cwd / "runs" / trainer.id)
    )
    # This entry hides what was logged after the checkpoint from which training resumes.
    start = event.SessionLog(status=event.SessionLog.START)
    writer.add_event(event.Event(step=step or 0, wall_time=time.time(), session_log=start))

    def log(at: int | None, values: Mapping[str, float]) -> None:
        shown = [summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        writer.add_event(
            event.Event(step=at or 0, wall_time=time.time(), summary=summary(value=shown))
        )

    return log, writer.close


_OPEN = {"wandb": _open_wandb, "mlflow": _open_mlflow, "tensorboard": _open_tensorboard}


@contextmanager
def _errors_logged(tracker: str) -> Iterator[None]:
    """Run the block; whatever a tracker raises in it becomes a line of the log."""
    try:
        yield
    except (Exception, SystemExit) as error:
        print(
            f"bftrainer: tracker {tracker} is not used: {type(error).__name__}: {error}",
            file=sys.stderr,
        )


def main(path: str) -> None:
    """Pass on the lines of standard input to the trackers of the trainer in folder ``path``, until
    the input ends. The first line opens their runs; a tracker that fails is not used again.
    """
    trainer = read_json(TrainerMessage, TrainerDirectory(Path(path)).trainer)
    runs: dict[str, Opened] = {}
    for index, line in enumerate(sys.stdin):
        step, values = json.loads(line)
        if index == 0:
            for name in trainer.trackers:
                with _errors_logged(name):
                    runs[name] = _OPEN[name](trainer, Path(path), step)
        for name, (log, _) in list(runs.items()):
            with _errors_logged(name):
                log(step, values)
                continue
            del runs[name]  # it has failed: without an error, ``continue`` skips this
    for name, (_, finish) in runs.items():
        with _errors_logged(name):
            finish()


if __name__ == "__main__":
    main(sys.argv[1])
