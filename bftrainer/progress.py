"""For training scripts: reports progress to the pilot and obeys its stop requests.

Elastic Horovod, one changed line::

    state = progress.track(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, samples=0), hvd, checkpoint=save)

torch.distributed, under the launcher ``torchrun``, on every rank::

    agreement = progress.Agreement.of_torch(report, torch.distributed)
    ...
    report.step(step=step, samples=samples, loss=loss, world_size=size)
    if agreement.to_stop():
        save()                # rank 0, then a barrier
        report.checkpointed()
        report.leave()

Any other program, after each step, on rank 0::

    if report.step(step=step, samples=samples, loss=loss, world_size=size):
        save()
        report.checkpointed()
        report.leave()

Outside bftrainer (without ``BFTRAINER_TRAINER_DIR``) all calls do nothing, and the script runs as it is. Only the standard
library is needed. ``docs/trainer-directory.md`` describes the files.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from bftrainer.errors import InputFileError
from bftrainer.protocol.control import STOPPED_STATUS, ControlMessage, ControlRequest
from bftrainer.protocol.environment import INCARNATION, REPORT_EVERY_S, TRAINER_DIR, run_in_worker
from bftrainer.protocol.messages import TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory, older_part
from bftrainer.protocol.progress_line import Phase, ProgressLine, format_progress
from bftrainer.protocol.typed_json import OtherVersionError, read_json
from bftrainer.scaling import Batches, LearningRate, LearningRateRule, Scaling

__all__ = [
    "STOPPED_STATUS",
    "Agreement",
    "Batches",
    "LearningRate",
    "LearningRateRule",
    "Reporter",
    "Scaling",
    "batches",
    "track",
]

LINE_EVERY_S = 1.0
CONTROL_EVERY_S = 0.2
PROGRESS_BYTES = 20_000_000
"""A longer ``progress.jsonl`` is renamed to ``progress.jsonl.1``; both together never exceed twice this size."""
RANK_VARIABLES = ("HOROVOD_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")

State = TypeVar("State")


def batches(scaling: Scaling, global_batch: int, environment: Mapping[str, str] = os.environ) -> Batches:
    """The trainer file's ``scaling`` and ``global_batch``; outside bftrainer, and where it sets none, the arguments."""
    path = environment.get(TRAINER_DIR)
    if not path:
        return Batches(scaling, global_batch)
    trainer = read_json(TrainerMessage, TrainerDirectory(Path(path)).trainer)
    return Batches(trainer.scaling or scaling, trainer.global_batch or global_batch)


class Reporter:
    """Writes ``progress.jsonl`` and reads stop requests; does nothing outside bftrainer."""

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
        rank: int | None = None,
    ) -> None:
        path = environment.get(TRAINER_DIR)
        self.directory = TrainerDirectory(Path(path)) if path else None
        self.incarnation = int(environment.get(INCARNATION, "1"))
        self.clock = clock
        given = next((environment[name] for name in RANK_VARIABLES if name in environment), "0")
        self._writes = (rank if rank is not None else int(given)) == 0
        self._every_s = float(environment.get(REPORT_EVERY_S, LINE_EVERY_S))
        self._last = ProgressLine(0.0, Phase.RUNNING, self.incarnation)
        self._written_at = -self._every_s
        self._asked_at = -CONTROL_EVERY_S
        self._stop = False
        self._complaint = ""

    def step(
        self,
        *,
        step: int | None,
        samples: int | None,
        loss: float | None = None,
        world_size: int = 1,
        at_s: float | None = None,
        force: bool = False,
        formed: bool = False,
        **further: object,
    ) -> bool:
        """Report a step (or commit), and return whether a stop has been requested.

        A line is written about once a second (every ``BFTRAINER_REPORT_EVERY_S``), at every new world size and with
        ``force``. Only rank 0 writes. ``formed`` marks the first line of a new group of workers.
        """
        now = self.clock() if at_s is None else at_s
        changed = self._last.world_size != world_size
        self._last = ProgressLine(
            now, Phase.RUNNING, self.incarnation, world_size, step, samples, loss, formed, further
        )
        if force or changed or now - self._written_at >= self._every_s:
            self._written_at = now
            self._write(self._last)
        return self.stop_requested()

    def checkpointed(self) -> None:
        """Report that the state of the last reported step is on disk."""
        self._write(self._last._replace(at_s=self.clock(), phase=Phase.CHECKPOINTED))

    def done(self) -> None:
        """Report that training is complete."""
        self._write(self._last._replace(at_s=self.clock(), phase=Phase.DONE))

    def leave(self) -> NoReturn:
        """End this process with the exit status of a requested stop."""
        raise SystemExit(STOPPED_STATUS)

    def stop_requested(self) -> bool:
        """Whether the pilot or the driver requests a checkpoint and an exit. Reads the files at most every 0.2 s."""
        if self.directory is None or self._stop:
            return self._stop
        now = self.clock()
        if now - self._asked_at >= CONTROL_EVERY_S:
            self._asked_at = now
            self._stop = self._asks(self.directory.control, None) or self._asks(self.directory.leave, self.incarnation)
        return self._stop

    def act_as(self, rank: int) -> None:
        """Take another rank after a rescale; rank 0 writes."""
        self._writes = rank == 0

    def _asks(self, path: Path, number: int | None) -> bool:
        """Whether a file requests a stop; one that is missing, or not readable now, does not."""
        try:
            message = read_json(ControlMessage, path)
        except OtherVersionError as error:
            if not self._complaint:
                self._complaint = f"bftrainer: stop requests are not understood: {error}"
                print(self._complaint, file=sys.stderr)
            return False
        except InputFileError:
            return False
        return message.request is ControlRequest.STOP and number in (None, message.number)

    def _write(self, line: ProgressLine) -> None:
        if self.directory is None or not self._writes:
            return
        path = self.directory.progress
        try:
            if path.exists() and path.stat().st_size > PROGRESS_BYTES:
                path.replace(older_part(path))
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, f"{format_progress(line)}\n".encode())
            finally:
                os.close(file)
        except OSError as error:  # a full disk must not end the training
            print(f"bftrainer: progress is not written: {error}", file=sys.stderr)


def track(
    state: State,
    hvd: Any,
    *,
    checkpoint: Callable[[], object] | None = None,
    checkpoint_every_s: float | None = None,
    on_rescale: Callable[[int, int], object] | None = None,
    further: Callable[[], Mapping[str, object]] | None = None,
    reporter: Reporter | None = None,
) -> State:
    """Make Horovod's elastic ``state`` report, and obey stop requests, at each ``commit()``; returns the state.

    ``hvd`` is the framework's module (``import horovod.torch as hvd``). The attributes ``step``, ``samples`` and ``loss`` of
    the state are reported where they exist. ``checkpoint()`` saves to disk; rank 0 calls it at a stop request and every
    ``checkpoint_every_s``. ``on_rescale(old, new)`` runs on every remaining worker before the state is synchronized: set
    the learning rate there. ``further()`` adds keys to the lines.
    """
    tracker = _Tracker(state, hvd, reporter or Reporter(), checkpoint, checkpoint_every_s, on_rescale, further)
    tracker.install()
    return state


class Agreement:
    """Lets all workers stop at the same step.

    ``broadcast`` returns rank 0's argument on every worker. All workers call ``to_stop()`` after each step. A broadcast at
    each step would cost too much: rank 0 says after how many steps the next one takes place, about every 0.2 s.
    """

    def __init__(self, reporter: Reporter, broadcast: Callable[[object], Any]) -> None:
        self.reporter = reporter
        self.broadcast = broadcast
        self.begin()

    @classmethod
    def of_torch(cls, reporter: Reporter, distributed: Any) -> Agreement:
        """Over ``torch.distributed`` (the module), whose process group has been initialized."""

        def broadcast(value: object) -> Any:
            box = [value]
            distributed.broadcast_object_list(box, src=0)
            return box[0]

        return cls(reporter, broadcast)

    def begin(self) -> None:
        """Begin with a new group: the next call broadcasts."""
        self._calls_left = self._every = 1
        self._asked_at = self.reporter.clock()

    def to_stop(self) -> bool:
        """Whether all workers are to checkpoint and leave now."""
        self._calls_left -= 1
        if self._calls_left:
            return False
        now = self.reporter.clock()
        per_call_s = max(1e-6, (now - self._asked_at) / self._every)
        self._asked_at = now
        every = max(1, int(CONTROL_EVERY_S / per_call_s))
        stop, every = self.broadcast((self.reporter.stop_requested(), every))
        self._calls_left = self._every = every
        return bool(stop)


class _Tracker:
    """The wrapped ``commit`` of one state. Outside bftrainer only ``on_rescale`` is active."""

    def __init__(
        self,
        state: Any,
        hvd: Any,
        reporter: Reporter,
        checkpoint: Callable[[], object] | None,
        checkpoint_every_s: float | None,
        on_rescale: Callable[[int, int], object] | None,
        further: Callable[[], Mapping[str, object]] | None,
    ) -> None:
        self.state = state
        self.hvd = hvd
        self.reporter = reporter
        self.checkpoint = checkpoint
        self.checkpoint_every_s = checkpoint_every_s
        self.on_rescale = on_rescale
        self.further = further
        self.clock = reporter.clock
        self.size = int(hvd.size())
        self.saved_at = self.clock()
        self.last: dict[str, Any] | None = None  # what the last commit reported
        self.fresh = True  # no step of this group has been reported
        self.agreement = Agreement(reporter, lambda value: hvd.broadcast_object(value, root_rank=0))

    def install(self) -> None:
        self.state.register_reset_callbacks([self.resized])
        if self.reporter.directory is not None:
            run_in_worker()
            self.reporter.act_as(self.hvd.rank())
            self.original = self.state.commit
            self.state.commit = self.commit

    def commit(self) -> None:
        self.last = self.facts()
        self.reporter.step(**self.last, force=self.fresh)
        self.fresh = False
        self.original()  # leaves by HostsUpdatedInterrupt before a rescale
        if self.agreement.to_stop():
            self.save()
            self.hvd.broadcast_object(True, root_rank=0)  # no worker leaves while rank 0 saves
            self.reporter.leave()
        if self.checkpoint_every_s is not None and self.clock() - self.saved_at >= self.checkpoint_every_s:
            self.save()

    def save(self) -> None:
        self.saved_at = self.clock()
        if self.checkpoint is not None and self.hvd.rank() == 0:
            self.checkpoint()
            self.reporter.checkpointed()

    def resized(self) -> None:
        """Report a new group. The last commit of the old group is written too, so that the stall can be measured."""
        old, self.size = self.size, int(self.hvd.size())
        self.fresh = True
        self.agreement.begin()
        if self.on_rescale is not None and old != self.size:
            self.on_rescale(old, self.size)
        if self.reporter.directory is not None:
            self.reporter.act_as(self.hvd.rank())
            if self.last is not None:
                self.reporter.step(**self.last, force=True)
            self.reporter.step(**self.facts(), force=True, formed=True)

    def facts(self) -> dict[str, Any]:
        state = self.state
        return {
            "at_s": self.clock(),
            "world_size": self.size,
            "step": getattr(state, "step", None),
            "samples": getattr(state, "samples", None),
            "loss": getattr(state, "loss", None),
            **(self.further() if self.further is not None else {}),
        }
