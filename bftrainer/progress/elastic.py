"""Elastic Horovod: the state reports at each commit, and its followers are synchronized with it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

from bftrainer.progress.agreement import Agreement
from bftrainer.progress.horovod_numbers import horovod_bytes, horovod_numbers
from bftrainer.progress.pairs import paired
from bftrainer.progress.plain_values import packed_values, unpacked_values
from bftrainer.progress.reporter import Reporter, named
from bftrainer.progress.sampler import Sampler
from bftrainer.scaling import LearningRate
from bftrainer.wires.environment import run_in_worker

StateT = TypeVar("StateT")


def track(
    state: StateT,
    hvd: ModuleType,
    *,
    checkpoint: Callable[[], object] | str | Path | None = None,
    checkpoint_every_s: float | None = None,
    keep: Iterable[Kept] = (),
    on_rescale: Callable[[int, int], object] | None = None,
    further: Callable[[], Mapping[str, object]] | None = None,
    reporter: Reporter | None = None,
) -> StateT:
    """Make Horovod's elastic ``state`` report, and obey stop requests, at each ``commit()``;
    returns the state.

    Args:
        state: An elastic state of Horovod. Its attributes ``step``, ``samples``, ``loss`` and
            ``samples_total`` are reported where they exist.
        hvd: The framework's module (``import horovod.torch as hvd``).
        checkpoint: Saves to disk; rank 0 calls it at a stop request and every
            ``checkpoint_every_s``. A file name: the model, optimizer and numbers of a
            ``TorchState`` and ``keep`` are loaded from this file now, and saved there.
        checkpoint_every_s: Seconds between checkpoints. Default: only at stop requests.
        keep: A ``LearningRate``, a ``Sampler``, or other objects with ``state_dict`` and
            ``load_state_dict``; they are saved, restored and synchronized with the state, also to
            workers that join.
        on_rescale: Called with the old and the new number of workers before the state is
            synchronized, on the remaining workers only: nothing that training depends on belongs
            there.
        further: Returns other keys of the lines.
        reporter: Default: a new ``Reporter``.
    """
    kept = tuple(keep)
    if isinstance(checkpoint, (str, Path)):
        checkpoint = CheckpointFile(named(checkpoint), state, kept)
        checkpoint.load()
    tracker = _Tracker(
        state,
        hvd,
        reporter or Reporter(),
        checkpoint,
        checkpoint_every_s,
        kept,
        on_rescale,
        further,
    )
    tracker.install()
    return state


class Kept(Protocol):
    """An object that ``keep`` accepts."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> None: ...


@dataclass(frozen=True)
class CheckpointFile:
    """A file with the model, optimizer and numbers of a ``TorchState``, and with the objects in
    ``kept``.
    """

    path: Path
    state: Any
    kept: tuple[Kept, ...]

    def load(self) -> None:
        """Load the file, if it exists, and commit it to the state."""
        import torch

        if self.path.exists():
            content = torch.load(self.path, map_location="cpu", weights_only=True)
            parts = (self.state.model, self.state.optimizer, *self.kept)
            problem = f"{self.path}: the checkpoint has another number of objects in keep=[...]"
            for part, saved in paired(parts, content["parts"], problem):
                part.load_state_dict(saved)
            for name, number in content["numbers"].items():
                setattr(self.state, name, number)
            self.state.save()

    def __call__(self) -> None:
        """Write the file under another name, then rename it, so that it is never half-written."""
        import torch

        from bftrainer.system.files import make_empty_file

        keepers = (self.state.model, self.state.optimizer, *self.kept)
        numbers = {
            name: number
            for name, number in vars(self.state).items()
            if name[0] != "_" and isinstance(number, (int, float))
        }
        part = self.path.with_name(f"{self.path.name}.part")
        make_empty_file(part)
        torch.save({"parts": [keeper.state_dict() for keeper in keepers], "numbers": numbers}, part)
        part.replace(self.path)


class _Followers:
    """Saves, restores and synchronizes the objects in ``kept`` whenever an elastic state does so:
    it puts its own methods in the place of those of the state.

    They cannot be attributes of the state: ``ObjectState.save`` keeps a reference, so that what was
    changed since the commit would survive ``restore`` (Horovod 0.28.1).
    """

    def __init__(self, state: Any, hvd: Any, kept: tuple[Kept, ...]) -> None:
        self.hvd = hvd
        self.kept = kept
        self.committed = self.copied_states()
        self.original_save = state.save
        self.original_restore = state.restore
        self.original_sync = state.sync
        state.save, state.restore, state.sync = self.save, self.restore, self.sync

    def copied_states(self) -> list[dict[str, Any]]:
        """Return copies of the present states of all objects."""
        return [copy.deepcopy(keeper.state_dict()) for keeper in self.kept]

    def load(self, states: list[dict[str, Any]]) -> None:
        """Load copies of these states into the objects, in their order."""
        problem = "the workers have different numbers of objects in keep=[...]"
        for keeper, state in paired(self.kept, states, problem):
            keeper.load_state_dict(copy.deepcopy(state))

    def save(self) -> None:
        self.original_save()
        self.committed = self.copied_states()

    def restore(self) -> None:
        self.original_restore()
        self.load(self.committed)

    def sync(self) -> None:
        """Synchronize the state, and load rank 0's objects on every worker."""
        self.original_sync()
        from_rank_0 = horovod_bytes(self.hvd, packed_values(self.copied_states()))
        self.committed = unpacked_values(from_rank_0)
        self.load(self.committed)


@dataclass(eq=False)
class _Tracker:
    """Wraps ``commit`` and ``sync`` of one elastic state, so that they report and obey stop
    requests.

    Outside bftrainer only ``keep`` and ``on_rescale`` are active.
    """

    state: Any
    hvd: Any
    reporter: Reporter
    checkpoint: Callable[[], object] | None
    checkpoint_every_s: float | None
    keep: tuple[Kept, ...]
    on_rescale: Callable[[int, int], object] | None
    further: Callable[[], Mapping[str, object]] | None

    def __post_init__(self) -> None:
        self.clock = self.reporter.clock
        self.size = int(self.hvd.size())
        self.checkpoint_at_s = self.clock()
        # The keys of the line of the last commit: its facts, and the further ones.
        self.last_commit: tuple[dict[str, Any], Mapping[str, Any]] | None = None
        self.is_first_commit = True  # of this group
        self.agreement = Agreement(
            self.reporter, lambda numbers: horovod_numbers(self.hvd, numbers)
        )

    def install(self) -> None:
        """Put this object's methods in the place of those of the state, and begin to watch the
        ranks.
        """
        self.state.register_reset_callbacks([self.resized])
        if self.keep:
            _Followers(self.state, self.hvd, self.keep)
        self.shard()
        if self.reporter.directory is not None:
            run_in_worker()
            self.reporter.act_as(self.hvd.rank())
            self.watch()
            self.original_commit = self.state.commit
            self.state.commit = self.commit
            self.original_sync = self.state.sync
            self.state.sync = self.sync

    def commit(self) -> None:
        """Report the step and commit the state; then save or leave if that is requested or due."""
        facts, further = self.facts(), self.further_keys()
        self.last_commit = facts, further
        self.reporter.step(**facts, force=self.is_first_commit, **further)
        self.is_first_commit = False
        self.original_commit()  # raises HostsUpdatedInterrupt before a rescale
        is_to_stop, is_to_save = self.agreement.to_stop_or_save(self.is_save_due())
        if is_to_stop:
            self.save_and_leave()
        if is_to_save:
            self.save()
            if self.agreement.to_stop_after_save():
                self.reporter.leave()

    def is_save_due(self) -> bool:
        """Whether a regular checkpoint is due, by this worker's clock."""
        if self.checkpoint_every_s is None:
            return False
        return self.clock() - self.checkpoint_at_s >= self.checkpoint_every_s

    def sync(self) -> None:
        """Synchronize a new group. If a stop is requested, save and leave before its first step.

        The stop cannot wait for a step: the group may have no legal size.
        """
        self.original_sync()
        requested = self.reporter.stop_requested(at_once=True)
        if horovod_numbers(self.hvd, [int(requested)])[0]:
            self.save_and_leave()

    def save_and_leave(self) -> None:
        """Save a checkpoint and end this process. All workers call it together."""
        self.save()
        horovod_numbers(self.hvd, [0])  # no worker leaves while rank 0 saves
        self.reporter.leave()

    def save(self) -> None:
        """Record the time of a checkpoint; rank 0 writes it, if there is a function that does."""
        self.checkpoint_at_s = self.clock()
        if self.checkpoint is not None and self.hvd.rank() == 0:
            self.checkpoint()
            self.reporter.checkpointed()

    def resized(self) -> None:
        """Report a new group of workers, after a rescale.

        The last commit of the old group is written too, even if its line was not due, so that the
        stall can be measured.
        """
        old_size = self.size
        self.size = int(self.hvd.size())
        self.is_first_commit = True
        self.agreement.begin()
        self.shard()
        if self.on_rescale is not None and old_size != self.size:
            self.on_rescale(old_size, self.size)
        if self.reporter.directory is not None:
            self.reporter.act_as(self.hvd.rank())
            if self.last_commit is not None:
                facts, further = self.last_commit
                self.reporter.line(**facts, force=True, further=further)
            self.reporter.line(**self.facts(), force=True, formed=True, further=self.further_keys())

    def shard(self) -> None:
        """Tell the samplers, those of ``keep`` and those of the state, the rank and the size of the
        new group.

        Horovod's own sampler learns of them at a synchronization only, and there is none where
        workers only left (0.28.1): it would continue with the shares of the old group, from the
        position where it last learned of one.
        """
        for keeper in self.keep:
            if isinstance(keeper, Sampler):
                keeper.shard(int(self.hvd.rank()), self.size)
        for value in list(vars(self.state).values()):
            # The attributes of Horovod's ElasticSampler.
            if hasattr(value, "record_batch") and hasattr(value, "processed_num"):
                value.reset()

    def watch(self) -> None:
        """Let the reporter watch the model, the optimizer, and the first sampler and learning rate
        that it finds.
        """
        rates = [keeper for keeper in self.keep if isinstance(keeper, LearningRate)]
        candidates = [*self.keep, *vars(self.state).values()]
        samplers = [
            candidate
            for candidate in candidates
            if isinstance(candidate, Sampler) or hasattr(candidate, "record_batch")
        ]
        self.reporter.watch(
            getattr(self.state, "model", None),
            getattr(self.state, "optimizer", None),
            sampler=samplers[0] if samplers else None,
            rate=rates[0] if rates else None,
        )

    def facts(self) -> dict[str, Any]:
        """Return the keys of a progress line that the state knows."""
        values = {
            name: getattr(self.state, name, None)
            for name in ("step", "samples", "loss", "samples_total")
        }
        return {"at_s": self.clock(), "world_size": self.size, **values}

    def further_keys(self) -> Mapping[str, Any]:
        """Return the keys of a progress line that the script adds."""
        return {} if self.further is None else self.further()
