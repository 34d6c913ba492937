"""Reports of a training script to the pilot, and the stop requests that it reads."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from bftrainer.errors import InputFileError, UserError
from bftrainer.progress.gpus import GpuWatch
from bftrainer.progress.ranks import Watch
from bftrainer.progress.sampler import Sampler
from bftrainer.scaling import Batches, LearningRate, Scaling
from bftrainer.wires.append import append_line
from bftrainer.wires.control import STOPPED_STATUS, ControlMessage, ControlRequest
from bftrainer.wires.environment import FRAGMENT, INCARNATION, REPORT_EVERY_S, TRAINER_DIR, WORKER
from bftrainer.wires.messages import StartedPer, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import PROGRESS_BYTES, Phase, ProgressLine, format_progress
from bftrainer.wires.typed_json import OtherVersionError, read_json

if TYPE_CHECKING:
    import torch

LINE_EVERY_S = 1.0
CONTROL_EVERY_S = 0.2
RANK_VARIABLES = ("HOROVOD_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def batches(
    scaling: Scaling, global_batch: int, environment: Mapping[str, str] = os.environ
) -> Batches:
    """Return the batch sizes that the trainer file sets.

    Args:
        scaling: How the global batch follows the number of workers, if the trainer file does not
            say, or outside bftrainer.
        global_batch: Samples per step, likewise: of all workers with strong scaling, of one worker
            with weak scaling.
        environment: The environment variables of the worker.
    """
    path = environment.get(TRAINER_DIR)
    if not path:
        return Batches(scaling, global_batch)
    trainer = read_json(TrainerMessage, TrainerDirectory(Path(path)).trainer)
    return Batches(trainer.scaling or scaling, trainer.global_batch or global_batch)


def named(path: str | Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path with ``{name}`` replaced by the trainer's name, or outside bftrainer by the
    script's.
    """
    trainer_dir = environment.get(TRAINER_DIR)
    name = Path(trainer_dir).name if trainer_dir else Path(sys.argv[0]).stem
    return Path(str(path).replace("{name}", name))


def _group_size() -> int:
    """Return the size of the group that torch or Horovod has formed here; 1 without one."""
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return int(dist.get_world_size())
    for name in ("horovod.torch", "horovod.tensorflow", "horovod.keras"):
        if (hvd := sys.modules.get(name)) is not None and hvd.is_initialized():
            return int(hvd.size())
    return 1


def _end_group() -> None:
    """End torch's process group while Python still runs, at the exit of a worker that leaves or is
    done.

    Otherwise a thread of gloo that completes a message later, and calls Python for it, finds no
    interpreter: "terminate called without an active exception", SIGABRT instead of the script's
    exit status (torch 2.13).
    """
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        try:
            dist.destroy_process_group()  # waits for its threads
        except Exception as error:  # the worker leaves all the same
            print(f"bftrainer: ending the process group: {error!r}", file=sys.stderr)


def _tracker_mirror(
    directory: TrainerDirectory,
) -> Callable[[int | None, Mapping[str, float | None]], None]:
    """Return a function that passes the values of a step on to the trackers that the trainer file
    names.

    It does nothing if the file names none.
    """
    try:
        is_tracked = bool(read_json(TrainerMessage, directory.trainer).trackers)
    except InputFileError:
        is_tracked = False
    if not is_tracked:
        return lambda step, values: None
    from bftrainer.progress.trackers import Mirror  # other scripts need no subprocess

    return Mirror(directory).put


class Reporter:
    """Writes ``progress.jsonl`` and reads stop requests; does nothing outside bftrainer.

    Args:
        environment: The environment variables of the worker.
        clock: Seconds since 1970.
        rank: This worker's rank. Default: the rank that Horovod, torchrun, MPI or Slurm has set.
            Rank 0 writes.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
        rank: int | None = None,
    ) -> None:
        path = environment.get(TRAINER_DIR)
        self.directory = TrainerDirectory(Path(path)) if path else None
        """None outside bftrainer."""
        self.incarnation = int(environment.get(INCARNATION, "1"))
        self.clock = clock
        # A pool's driver reports; its workers only read stop requests.
        self._is_pool_worker = WORKER in environment
        self._fragment = environment.get(FRAGMENT, "")
        ranks = (environment[name] for name in RANK_VARIABLES if name in environment)
        launcher_rank = next(ranks, "0")
        # Workers that were started together, and so should form a group; 1 where that is not known.
        # Horovod's size changes within a process; its other variables name a group of torch's or of
        # the script's own.
        self._started_workers = 1
        if self.directory is not None and "HOROVOD_RANK" not in environment:
            self._started_workers = int(environment.get("WORLD_SIZE") or 1)
        self._every_s = float(environment.get(REPORT_EVERY_S, LINE_EVERY_S))
        self._latest_line = ProgressLine(0.0, Phase.RUNNING, self.incarnation)  # of a step
        self.samples_total: float | None = None
        """Samples of the whole training, if they are known: every later line has them, so ``list``
        shows what is left.
        """
        self._written_at_s = -self._every_s  # when the latest line was written
        self._is_latest_written = True  # whether the latest line needs no write at the end
        self._requests_at_s = -CONTROL_EVERY_S  # when the files of requests were read
        self._is_stop_requested = False
        self._complaint = ""  # about a request of another version; printed once
        self._rank = rank if rank is not None else int(launcher_rank)
        self._unwritten_metrics: dict[str, float] = {}
        self._watch: Watch | None = None
        self._gpu: GpuWatch | None = None
        self._mirror: Callable[[int | None, Mapping[str, float | None]], None] | None = None
        if self.directory is not None and not self._is_pool_worker:
            self._watch = Watch(
                self.directory, self.incarnation, clock, every_step=self._every_s == 0
            )
            self._gpu = GpuWatch(self.directory, environment)
            atexit.register(self._write_latest)

    def step(
        self,
        *,
        step: int | None,
        samples: int | None,
        loss: float | None = None,
        world_size: int | None = None,
        at_s: float | None = None,
        force: bool = False,
        metrics: Mapping[str, float] = MappingProxyType({}),
        samples_total: float | None = None,
        **further: object,
    ) -> bool:
        """Report a step (or commit). All ranks call it; rank 0 writes a line about once a second.

        Args:
            step: Steps since training began.
            samples: Samples that all workers have processed since training began.
            loss: Training loss of this step.
            world_size: Number of workers. Default: the size of the process group of torch or
                Horovod.
            at_s: Time of the step, in seconds since 1970. Default: now.
            force: Write a line in any case.
            metrics: Values such as an accuracy, for ``bftrainer results``; the next line has them.
            samples_total: Samples of the whole training, for ``bftrainer list`` and for policies;
                later lines keep them.
            further: Other keys of the line.

        Returns:
            Whether a stop has been requested: write a checkpoint and call :meth:`leave`.

        Raises:
            UserError: A launcher has started several workers, but this one trains alone.
        """
        world_size = _group_size() if world_size is None else world_size
        if self._watch is not None:
            self._watch.step(self._rank, world_size, step)
        if self._gpu is not None:
            self._gpu.look(self._rank, self.clock())
        self._unwritten_metrics |= metrics
        return self.line(
            step=step,
            samples=samples,
            loss=loss,
            world_size=world_size,
            at_s=at_s,
            force=force,
            samples_total=samples_total,
            further=further,
        )

    def line(
        self,
        *,
        step: int | None,
        samples: int | None,
        loss: float | None = None,
        world_size: int = 1,
        at_s: float | None = None,
        force: bool = False,
        formed: bool = False,
        samples_total: float | None = None,
        further: Mapping[str, object] = MappingProxyType({}),
    ) -> bool:
        """Write a line as :meth:`step` does, for a moment that is not the end of a step.

        ``formed``: it is the first line of a new group of workers. ``further`` are other keys of
        the line. The other arguments, the result and the error are those of :meth:`step`.
        """
        line_at_s = self.clock() if at_s is None else at_s
        has_new_size = self._latest_line.world_size != world_size
        if has_new_size and world_size == 1 and self._started_workers > 1:
            self._check_alone()
        if formed and self._watch is not None:
            self._watch.formed()
        self.samples_total = self.samples_total if samples_total is None else samples_total
        self._latest_line = ProgressLine(
            line_at_s,
            Phase.RUNNING,
            self.incarnation,
            world_size,
            step,
            samples,
            loss,
            formed,
            None if self._watch is None else self._watch.disagreement,
            further,
            samples_total=self.samples_total,
        )
        self._is_latest_written = False
        is_due = line_at_s - self._written_at_s >= self._every_s
        if force or has_new_size or is_due:
            self._written_at_s = line_at_s
            self._write_line(self._latest_line)
        return self.stop_requested()

    def watch(
        self,
        model: torch.nn.Module | Callable[[], object] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        sampler: Sampler | None = None,
        rate: LearningRate | None = None,
    ) -> None:
        """Let every rank report a digest of its weights and its learning rate, so that ranks that
        disagree are noticed.

        Call it on every rank, after the checkpoint has been loaded. ``progress.track`` calls it
        itself.

        Args:
            model: A torch module, or a function that returns the arrays of the weights. Sharded
                weights are left out.
            optimizer: Its learning rate is reported.
            sampler: With it, ``bftrainer rehearse`` checks that each sample is used once.
            rate: The learning rate to compare with the optimizer's.
        """
        if self._watch is not None:
            self._watch.begin(model, optimizer, sampler, rate)

    def metrics(self, **values: float) -> None:
        """Report values between steps: ``report.metrics(accuracy=0.93)`` after a validation. Counts
        as a sign of life.
        """
        self._unwritten_metrics |= values
        self.busy()

    def busy(self) -> bool:
        """Report a sign of life between steps, such as in each batch of a validation; returns the
        same as :meth:`step`.

        Rank 0 writes a line about once a second. Without one for ``hang_s``, the trainer counts as
        hung, and fails.
        """
        now_s = self.clock()
        if now_s - self._written_at_s >= self._every_s:
            self._written_at_s = now_s
            self._write_line(ProgressLine(now_s, Phase.BUSY, self.incarnation))
        return self.stop_requested()

    def checkpointed(self, path: str | Path | None = None) -> None:
        """Report that the state of the last reported step is on disk: in ``path``, relative to the
        working directory.
        """
        self._write_line(self._checkpoint_line(self._latest_line, path))

    def mark(self) -> Callable[[str | Path | None], None]:
        """Return a function to be called once the state of the step that is the last reported one
        now is on disk, in any thread.

        It does the same as :meth:`checkpointed`, for that step, and writes no metrics.
        """
        marked_line = self._latest_line

        def checkpointed(path: str | Path | None = None) -> None:
            self._append_line(self._checkpoint_line(marked_line, path))

        return checkpointed

    def _checkpoint_line(self, line: ProgressLine, path: str | Path | None) -> ProgressLine:
        """Return the line that reports that the state of a step's line is on disk now."""
        name = None if path is None else os.fspath(path)
        return line._replace(at_s=self.clock(), phase=Phase.CHECKPOINTED, checkpoint=name)

    def done(self) -> None:
        """Report that training is complete."""
        atexit.register(_end_group)
        self._write_line(self._latest_line._replace(at_s=self.clock(), phase=Phase.DONE))

    def leave(self) -> NoReturn:
        """End this process with the exit status of a requested stop, after the group of torch."""
        atexit.register(_end_group)
        raise SystemExit(STOPPED_STATUS)

    def stop_requested(self, *, at_once: bool = False) -> bool:
        """Whether the pilot or the driver requests that the worker saves a checkpoint and leaves.

        The files of requests are read at most every 0.2 s, or now with ``at_once``. A request is
        never withdrawn.
        """
        if self.directory is None or self._is_stop_requested:
            return self._is_stop_requested
        now_s = self.clock()
        if at_once or now_s - self._requests_at_s >= CONTROL_EVERY_S:
            self._requests_at_s = now_s
            self._is_stop_requested = self._has_stop_request(self.directory)
        return self._is_stop_requested

    def _has_stop_request(self, directory: TrainerDirectory) -> bool:
        """Return whether a file requests a stop: of the trainer (by the pilot), of this incarnation
        (by the driver), or of a pool's worker on this fragment.
        """
        if self._requests_stop(directory.control, None):
            return True
        if self._requests_stop(directory.leave, self.incarnation):
            return True
        if not self._is_pool_worker:
            return False
        return self._requests_stop(directory.leave_of(self._fragment), self.incarnation)

    def act_as(self, rank: int) -> None:
        """Take another rank after a rescale; rank 0 writes."""
        self._rank = rank

    def _check_alone(self) -> None:
        """Raise ``UserError`` because several workers were started, but this one has formed no
        group with them: call only then, and inside bftrainer.

        A program that starts its own workers (``started_per = "trainer"``) is exempt.
        """
        assert self.directory is not None
        if read_json(TrainerMessage, self.directory.trainer).started_per is StartedPer.WORKER:
            raise UserError(
                f"{self._started_workers} workers were started, but this one trains alone, so "
                "all train the same: form a group "
                "(torch.distributed.init_process_group, hvd.init), or submit with max_nodes = "
                "1. Workers that do form a "
                "group of another kind report it: report.step(world_size=...)"
            )

    def _requests_stop(self, path: Path, incarnation: int | None) -> bool:
        """Return whether the file at ``path`` requests a stop of this incarnation (None: of any).

        A file that is missing, or not readable now, does not. One of another version does not
        either, and is reported once on standard error.
        """
        try:
            message = read_json(ControlMessage, path)
        except OtherVersionError as error:
            if not self._complaint:
                self._complaint = f"bftrainer: stop requests are not understood: {error}"
                print(self._complaint, file=sys.stderr)
            return False
        except InputFileError:
            return False
        is_for_this = incarnation is None or incarnation == message.number
        return message.request is ControlRequest.STOP and is_for_this

    def _write_latest(self) -> None:
        """Write the latest line at the end of the process, if it came too soon to be written."""
        if not self._is_latest_written:
            self._write_line(self._latest_line)

    def _write_line(self, line: ProgressLine) -> None:
        """Write a line with the metrics not yet written, and pass its values on to the trackers.
        Only rank 0 does, and no worker of a pool.
        """
        if self.directory is None or self._rank != 0 or self._is_pool_worker:
            return
        if line.phase is not Phase.BUSY:  # all other lines have the latest step
            self._is_latest_written = True
        metrics = self._unwritten_metrics
        self._unwritten_metrics = {}
        self._append_line(line._replace(metrics=metrics))
        self._mirror = self._mirror or _tracker_mirror(self.directory)
        if line.phase is Phase.RUNNING or metrics:
            latest = self._latest_line
            self._mirror(
                latest.step,
                {
                    "loss": latest.loss,
                    "samples": latest.samples,
                    "workers": latest.world_size,
                    **metrics,
                },
            )

    def _append_line(self, line: ProgressLine) -> None:
        """Append a line of rank 0 to ``progress.jsonl``, in any thread."""
        if self.directory is not None and self._rank == 0:
            append_line(self.directory.progress, format_progress(line), PROGRESS_BYTES, "progress")
