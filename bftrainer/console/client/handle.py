"""Handles of trainers, for Python programs and notebooks: what the commands do, as methods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bftrainer.console.client.history import (
    History,
    Progress,
    exit_status,
    latest_progress,
    read_history,
)
from bftrainer.console.client.requests import enqueue, select
from bftrainer.console.client.state_dir import opened_registry
from bftrainer.console.client.statuses import SubmissionStatus, SubmissionView, read_views
from bftrainer.errors import StoreError, TrainerFailedError, UserError, WaitTimeoutError
from bftrainer.pilot.persistence.registry import TrainerRecord
from bftrainer.pilot.persistence.spool import RequestKind
from bftrainer.system.regular import read_end
from bftrainer.wires.metrics import Metric
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import parameter_value

POLL_S = 0.5
"""Seconds between two looks at the state directory."""
BLIND_S = 300.0
"""A wait survives a state directory that cannot be read for so long (a file server that is
busy).
"""
_LOG_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TrainerResult:
    """Results of a trainer.

    ``exit_status`` is 0 if the trainer is done, the failed worker's if it has failed, and None if
    there is none (canceled, rejected, killed). ``metrics`` has ``loss`` and the metrics that the
    script reported, each with its last, smallest and largest value. ``checkpoint`` is the last file
    that the script named in ``report.checkpointed(path)``. ``logs`` are the files of its last
    start.
    """

    name: str
    status: SubmissionStatus
    reason: str
    exit_status: int | None = None
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    samples: float = 0.0
    step: int | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    checkpoint: Path | None = None
    logs: tuple[Path, ...] = ()
    node_hours: float = 0.0
    submitted_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the trainer is done."""
        return self.status is SubmissionStatus.DONE

    def last(self, metric: str) -> float:
        """The last value of a metric. Raises :class:`~bftrainer.errors.UserError` if the trainer
        never reported it.
        """
        return self._metric(metric).last

    def least(self, metric: str) -> float:
        """The smallest value of a metric."""
        return self._metric(metric).least

    def most(self, metric: str) -> float:
        """The largest value of a metric."""
        return self._metric(metric).most

    def _metric(self, name: str) -> Metric:
        """Return a metric by its name. Raises ``UserError`` if it was not reported."""
        if name not in self.metrics:
            reported = ", ".join(self.metrics) or "none"
            raise UserError(
                f"training {self.name!r} reported no metric {name!r}; reported: {reported}"
            )
        return self.metrics[name]


@dataclass(frozen=True, slots=True)
class TrainerHandle:
    """A handle of one trainer.

    ``await handle`` gives its result; every method reads the state directory when it is called.
    """

    state: Path
    """The state directory."""
    name: str
    spool_name: str = ""
    """The spool name of its submission; empty for a trainer that was found by name."""

    def status(self) -> SubmissionStatus:
        """The present status."""
        return self.view().status

    def view(self) -> SubmissionView:
        """The present status with its reason, and the registry's record."""
        return read_views(self.state, {self.name: self.spool_name})[self.name]

    def done(self) -> bool:
        """Whether the trainer has ended, in whatever way."""
        return self.view().is_over

    def progress(self) -> Progress | None:
        """The latest report of the training script; None before the first."""
        return latest_progress(self._directory)

    def history(self) -> History:
        """Every report, thinned to a few thousand points, and the number of nodes over time."""
        return read_history(self._directory)

    def logs(self, lines: int | None = None) -> str:
        """Return the output of the workers since the last start, or its last ``lines`` lines per
        worker.

        At most 1 MiB of each worker is read.
        """
        paths = self._directory.latest_logs()
        output: list[str] = []
        for path in paths:
            log_lines = read_end(path, _LOG_BYTES).decode(errors="replace").splitlines()
            if lines is not None:
                log_lines = log_lines[max(len(log_lines) - lines, 0) :]
            if len(paths) > 1:
                log_lines.insert(0, f"==> {path.name} <==")
            output.append("\n".join(log_lines))
        return "\n".join(output)

    def cancel(self) -> None:
        """Ask the pilot to cancel the trainer; a running one checkpoints first.

        Nothing happens if it has ended.
        """
        try:
            self._request(RequestKind.CANCEL)
        except UserError:
            if not self.status().is_final:
                raise

    def pause(self) -> None:
        """Ask the pilot to checkpoint the trainer and release its nodes."""
        self._request(RequestKind.PAUSE)

    def resume(self) -> None:
        """Ask the pilot to resume the trainer."""
        self._request(RequestKind.RESUME)

    def wait(self, timeout_s: float | None = None) -> SubmissionStatus:
        """Wait until the trainer has ended. Raises :class:`~bftrainer.errors.WaitTimeoutError`."""
        wait = _Wait(self, timeout_s)
        while (view := wait.poll()) is None:
            time.sleep(POLL_S)
        return view.status

    async def wait_async(self, timeout_s: float | None = None) -> SubmissionStatus:
        """Wait as :meth:`wait` does, without blocking the event loop."""
        wait = _Wait(self, timeout_s)
        while (view := await asyncio.to_thread(wait.poll)) is None:
            await asyncio.sleep(POLL_S)
        return view.status

    def result(self, timeout_s: float | None = None, *, check: bool = True) -> TrainerResult:
        """Wait, and return the trainer's results.

        With ``check``, raises :class:`~bftrainer.errors.TrainerFailedError` if it is not done:
        failed, canceled or rejected.
        """
        self.wait(timeout_s)
        return self._result(check)

    async def result_async(
        self, timeout_s: float | None = None, *, check: bool = True
    ) -> TrainerResult:
        """Return the results as :meth:`result` does, without blocking the event loop."""
        await self.wait_async(timeout_s)
        return await asyncio.to_thread(partial(self._result, check))

    def __await__(self) -> Generator[object, None, TrainerResult]:
        """``await handle``: its result."""
        return self.result_async().__await__()

    @property
    def _directory(self) -> TrainerDirectory:
        return TrainerDirectory.of(self.state, self.name)

    def _request(self, kind: RequestKind) -> None:
        enqueue(self.state, kind, select(self.state, (self.name,)))

    def _result(self, check: bool) -> TrainerResult:
        """Return the results of a trainer that has ended; with ``check``, raise
        ``TrainerFailedError`` if it is not done.
        """
        view = self.view()
        if check and view.status is not SubmissionStatus.DONE:
            raise TrainerFailedError(
                f"training {self.name!r} is {view.status.value}: "
                f"{view.reason or 'no reason is known'}"
            )
        record, progress = view.record, self.progress()
        if record is None:  # rejected
            return TrainerResult(self.name, view.status, view.reason)
        with opened_registry(self.state) as registry:
            metrics = registry.metrics(self.name).get(self.name, ())
        status = 0 if view.status is SubmissionStatus.DONE else None
        if view.status is SubmissionStatus.FAILED:
            status = exit_status(self._directory)
        return TrainerResult(
            name=self.name,
            status=view.status,
            reason=view.reason,
            exit_status=status,
            parameters={key: parameter_value(text) for key, text in record.spec.parameters.items()},
            samples=record.samples_done,
            step=None if progress is None else progress.step,
            metrics={metric.name: metric for metric in metrics},
            checkpoint=checkpoint_of(record, progress),
            logs=tuple(self._directory.latest_logs()),
            node_hours=record.held_node_s / 3600,
            submitted_s=record.submitted_s,
            started_s=record.started_s,
            finished_s=record.finished_s,
        )


def checkpoint_of(record: TrainerRecord, progress: Progress | None) -> Path | None:
    """Return the path of the checkpoint in a trainer's latest report; None if its script has not
    named one.
    """
    if progress is None or progress.checkpoint is None:
        return None
    return record.spec.cwd / progress.checkpoint


class _Wait:
    """Polls a trainer's status until it has ended or the time is over."""

    def __init__(self, handle: TrainerHandle, timeout_s: float | None) -> None:
        self._handle = handle
        self._timeout_s = timeout_s
        self._start_s = time.monotonic()
        self._last_read_s = self._start_s  # when the status could be read

    def poll(self) -> SubmissionView | None:
        """Read the status once: return the trainer's view if it is over, else None.

        Raises ``WaitTimeoutError`` when the time is over, and ``StoreError`` when nothing could be
        read for ``BLIND_S``.
        """
        now_s = time.monotonic()
        view = None
        try:
            view = self._handle.view()
            self._last_read_s = now_s
        except StoreError:
            if now_s - self._last_read_s > BLIND_S:
                raise
        if view is not None and view.is_over:
            return view
        if self._timeout_s is not None and now_s - self._start_s >= self._timeout_s:
            status = "unknown" if view is None else view.status.value
            raise WaitTimeoutError(
                f"training {self._handle.name!r} has not ended after {self._timeout_s:g} s: "
                f"{status}"
            )
        return None
