"""Checkpoints of sharded models (FSDP2's ``fully_shard``), which load at every size; written while
training goes on.

::

    checkpoints = progress.Sharded(
        "checkpoints", model, optimizer, report, sampler=sampler, rate=rate
    )
    step = checkpoints.load()
    ...
        if agreement.to_stop():
            checkpoints.save(step)
            report.leave()
        if step % 20 == 0:
            checkpoints.begin(step)

A checkpoint is a folder ``step-N`` of ``torch.distributed.checkpoint``. It is written as
``step-N.part`` and renamed when the shards of all workers are on disk, so that a worker that dies
leaves the one before.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bftrainer.progress.agreement import numbers_from_rank_0
from bftrainer.progress.elastic import Kept
from bftrainer.progress.reporter import Reporter, named

if TYPE_CHECKING:
    import torch

_WHOLE = re.compile(r"step-(\d{1,18})")


class Sharded:
    """Sharded checkpoints in a folder. Create it on every worker, after the process group and
    ``fully_shard``.

    Args:
        folder: A folder that all nodes see.
        model: The model, sharded by ``fully_shard`` or wrapped by DistributedDataParallel.
        optimizer: Its optimizer.
        report: The reporter, which reports each checkpoint.
        keep: Further objects with ``state_dict`` and ``load_state_dict``, the same on all workers.
    """

    def __init__(
        self,
        folder: str | Path,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        report: Reporter,
        **keep: Kept,
    ) -> None:
        import torch.distributed as dist

        self.folder = named(folder)
        self.model = model
        self.optimizer = optimizer
        self.report = report
        self.keep = keep
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # The thread that writes has a group of its own: training uses the other one meanwhile.
        self._group = dist.new_group(backend="gloo")
        self._write: Future[Any] | None = None  # of the checkpoint that is being written
        self._step: int | None = None  # of the latest checkpoint, also while it is being written

    def load(self) -> int:
        """Load the latest checkpoint, of whatever number of workers, and return its step; 0 if
        there is none.
        """
        import torch
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict

        # Rank 0 says which: another node may see a new folder later.
        latest = max(self._complete_steps(), default=0) if self.rank == 0 else 0
        (step,) = numbers_from_rank_0([latest], self.size)
        self._step = step
        if self.rank == 0:
            for part in self.folder.glob("step-*.part"):  # of workers that died
                shutil.rmtree(part, ignore_errors=True)
        if step:
            content = self._checkpoint_content()
            dcp.load(content, checkpoint_id=self._checkpoint_path(step))
            set_state_dict(
                self.model,
                self.optimizer,
                model_state_dict=content["model"],
                optim_state_dict=content["optimizer"],
            )
            kept = torch.load(io.BytesIO(content["keep"]), map_location="cpu", weights_only=True)
            for name, keeper in self.keep.items():
                keeper.load_state_dict(kept[name])
        return int(step or 0)

    def begin(self, step: int) -> None:
        """Begin a checkpoint of this step, on all workers: the state is copied now, and written
        while training goes on.

        Waits until the previous checkpoint is complete, and raises the error with which it ended.
        """
        import torch.distributed.checkpoint as dcp

        self.finish()
        self._step = step
        part = self._checkpoint_path(step, ".part")
        write = dcp.async_save(
            self._checkpoint_content(), checkpoint_id=part, process_group=self._group
        )
        assert isinstance(write, Future)
        if self.rank == 0:
            write = _with_next(write, self._checkpoint_publisher(step, self.report.mark()))
        self._write = write

    def save(self, step: int) -> None:
        """Write a checkpoint of this step; returns on all workers when it is on disk. Call it on
        all workers. A checkpoint of this step that was begun before is not written again.
        """
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp

        self.finish()
        if step != self._step:
            self._step = step
            dcp.save(
                self._checkpoint_content(),
                checkpoint_id=self._checkpoint_path(step, ".part"),
                process_group=self._group,
            )
            if self.rank == 0:
                self._checkpoint_publisher(step, self.report.mark())()
        dist.barrier(group=self._group)

    def finish(self) -> None:
        """Wait for a checkpoint that is being written. Raises the error with which it ended."""
        if self._write is not None:
            self._write.result()
            self._write = None

    def _checkpoint_publisher(
        self, step: int, checkpointed: Callable[[Path], None]
    ) -> Callable[[], None]:
        """Return a function that makes a written checkpoint the latest: it renames it, reports it
        by ``checkpointed``, and removes all others.
        """

        def publish() -> None:
            path = self._checkpoint_path(step)
            self._checkpoint_path(step, ".part").replace(path)
            checkpointed(path)
            for old_step in self._complete_steps() - {step}:
                shutil.rmtree(self._checkpoint_path(old_step), ignore_errors=True)

        return publish

    def _checkpoint_content(self) -> dict[str, Any]:
        """Return the content of a checkpoint; torch loads into the same structure."""
        import torch
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        kept = io.BytesIO()
        torch.save({name: keeper.state_dict() for name, keeper in self.keep.items()}, kept)
        return {"model": model, "optimizer": optimizer, "keep": kept.getvalue()}

    def _complete_steps(self) -> set[int]:
        """Return the steps of the complete checkpoints in the folder."""
        matches = (_WHOLE.fullmatch(path.name) for path in self.folder.glob("step-*"))
        return {int(name[1]) for name in matches if name is not None}

    def _checkpoint_path(self, step: int, suffix: str = "") -> Path:
        return self.folder / f"step-{step}{suffix}"


def _with_next(first: Future[Any], action: Callable[[], None]) -> Future[None]:
    """Return a future that is done when ``first`` is done and ``action``, which follows it, has
    returned; it has the error of either.

    With a mere callback on ``first``, its waiters could go on while ``action`` still runs.
    """
    both: Future[None] = Future()

    def follow(completed: Future[Any]) -> None:
        try:
            completed.result()
            action()
            both.set_result(None)
        except BaseException as error:  # finish() raises it in the training's thread
            both.set_exception(error)

    first.add_done_callback(follow)
    return both
