"""torchft: replicas of a model that train together, and of which any may join or be lost between
two steps, or within one.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from bftrainer.progress.elastic import Kept
from bftrainer.progress.group import Group
from bftrainer.progress.randomness import seed_step
from bftrainer.progress.reporter import Reporter
from bftrainer.progress.sampler import Sampler
from bftrainer.scaling import LearningRate
from bftrainer.wires.environment import run_in_worker
from bftrainer.wires.replicas import REPLICA

if TYPE_CHECKING:
    import torch

BatchT = TypeVar("BatchT")


class Replicas:
    """This process's copy of a model, averaged with its peers' at each step; see docs/torchft.md.

    ::

        replicas = progress.Replicas(model, optimizer, sampler, rate, checkpoint=save)
        for inputs, targets in replicas.batches(loader, epochs):
            replicas.step(cross_entropy(replicas.model(inputs), targets))

    Before each step the group is agreed on; a replica that joins gets the weights, the optimizer's
    state, the sampler's position, the rate and everything in ``keep`` from a peer. A step in which
    a peer was lost is not applied: its batches come again. Outside the launcher torchft, the
    process trains alone.

    Args:
        model: The model on its device.
        optimizer: Its optimizer; :meth:`step` calls it.
        sampler: The order of the data, which is also the loader's ``batch_sampler``.
        rate: The learning rate at every size. Default: the optimizer's own.
        checkpoint: Writes :meth:`state_dict` to disk; rank 0 calls it at a stop request, every
            ``checkpoint_every_s``, and at the end.
        checkpoint_every_s: Seconds between checkpoints. Default: only at stop requests and at the
            end.
        keep: Further objects with ``state_dict`` and ``load_state_dict``.
        reporter: Default: a new ``Reporter``.
        environment: The environment variables of the worker.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        sampler: Sampler,
        rate: LearningRate | None = None,
        *,
        checkpoint: Callable[[], object] | None = None,
        checkpoint_every_s: float | None = None,
        keep: Iterable[Kept] = (),
        reporter: Reporter | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.optimizer = optimizer
        self.sampler = sampler
        self.rate = rate
        self.rank, self.size = 0, 1
        self.steps = 0
        """Steps that were applied since training began."""
        self._plain = model
        library = sys.modules.get("torch")
        self._script_seed = 0 if library is None else int(library.initial_seed())
        self._kept: dict[str, Kept] = {"model": model, "optimizer": optimizer, "sampler": sampler}
        self._kept |= {} if rate is None else {"rate": rate}
        self._kept |= {f"keep {number}": keeper for number, keeper in enumerate(keep)}
        self._checkpoint = checkpoint
        self._every_s = checkpoint_every_s
        self._report = reporter or Reporter(environment)
        self._saved_at_s = self._report.clock()
        self._is_watched = False  # whether the reporter compares the replicas' weights
        self._group_number = 0  # of the latest group that was reported
        run_in_worker()
        self._group = (
            Group(self.state_dict, self.load_state_dict, environment)
            if environment.get(REPLICA)
            else None
        )
        self.model: torch.nn.Module = (
            model if self._group is None else _averaging_model(self._group, model)
        )
        """The model to train with: its gradients are averaged over the replicas."""

    @property
    def weight(self) -> float:
        """The factor for the mean loss of this replica's batch (``Batches.weight``); :meth:`step`
        applies it.
        """
        return self.sampler.batches.weight(self.rank, self.size)

    def batches(self, loader: Iterable[BatchT], epochs: int) -> Iterator[BatchT]:
        """Yield the batches of this replica until ``epochs`` epochs are complete. Each must be
        followed by :meth:`step`.
        """
        self._report.samples_total = epochs * self.sampler.size
        source: Iterator[BatchT] = iter(())
        # Rank, size and position in the data for which ``source`` has the right next batch.
        expected: object = None
        while self.sampler.epoch < epochs:
            self._begin_step()
            if expected != (self.rank, self.size, self.sampler.samples):
                source = self._new_pass(loader)
            batch = next(source, None)
            if batch is None:  # the end of an epoch
                source = iter(loader)
                batch = next(source)
            # If the step is applied and the group stays, the next batch of this pass follows.
            next_samples = self.sampler.samples + self.sampler.batches.total(self.size)
            expected = self.rank, self.size, next_samples
            yield batch
        self._finish_training()

    def step(self, loss: torch.Tensor | None = None) -> bool:
        """Average the gradients, apply them, and report the step.

        Args:
            loss: The mean loss of this replica's batch. Without it, the caller has called
                ``backward()`` on the loss times :attr:`weight`.

        Returns:
            Whether the step was applied; if not, its batches come again.
        """
        if loss is not None:
            (loss * self.weight).backward()
        if self._group is not None and not self._group.commits():
            return False
        if self.rate is not None:
            self.rate.apply(self.optimizer, self.sampler.batches.total(self.size), self.steps)
        self.optimizer.step()
        self.sampler.advance()
        self.steps += 1
        is_stop_requested = self._report.step(
            step=self.steps,
            samples=self.sampler.samples,
            loss=None if loss is None else float(loss.detach()),
            world_size=self.size,
        )
        if self.rank == 0:
            self._save_if_due(is_stop_requested)
        return True

    def state_dict(self) -> dict[str, Any]:
        """The content of a checkpoint: weights, optimizer, position, rate, ``keep``, and the number
        of steps.
        """
        return {key: keeper.state_dict() for key, keeper in self._kept.items()} | {
            "steps": self.steps
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint; all replicas that start together load the same one."""
        for key, keeper in self._kept.items():
            keeper.load_state_dict(state[key])
        self.steps = int(state["steps"])

    def _begin_step(self) -> None:
        """Begin a step: agree on its group, and seed the random numbers.

        A replica that is behind gets a peer's state here.
        """
        if self._group is not None:
            turn = self._group.agree(self.steps)
            self.rank, self.size = turn.rank, turn.size
            if turn.number != self._group_number:  # other replicas, or the same after an error
                self._group_number = turn.number
                self._report.act_as(self.rank)
                self._report.line(
                    step=self.steps,
                    samples=self.sampler.samples,
                    world_size=self.size,
                    force=True,
                    formed=True,
                )
                if self.rank == 0 and self._group.error is None:
                    self._leave_if_requested()
        seed_step(self._script_seed, self.steps, self.rank)
        if not self._is_watched:  # only now: a replica that was behind has the weights here
            self._is_watched = True
            self._report.watch(self._plain, self.optimizer, sampler=self.sampler, rate=self.rate)
        self.optimizer.zero_grad()

    def _new_pass(self, loader: Iterable[BatchT]) -> Iterator[BatchT]:
        """Return a new pass of the loader that goes on at the sampler's position, with the share of
        the present group.
        """
        self.sampler.load_state_dict(self.sampler.state_dict())  # forgets what was read ahead
        self.sampler.shard(self.rank, self.size)
        return iter(loader)

    def _save_if_due(self, is_stop_requested: bool) -> None:
        """Save at a stop request, or when the time has come; after a stop request, leave."""
        passed_s = self._report.clock() - self._saved_at_s
        is_due = self._every_s is not None and passed_s >= self._every_s
        if is_stop_requested or is_due:
            self._write_checkpoint()
        if is_stop_requested:
            self._report.leave()

    def _leave_if_requested(self) -> None:
        """Save and leave if a stop is requested before the first step of a group: the step may
        never come, because the group may have no legal size.
        """
        if self._report.stop_requested(at_once=True):
            self._write_checkpoint()
            self._report.leave()

    def _write_checkpoint(self) -> None:
        """Record the time of a checkpoint, and write it, if there is a function that does."""
        self._saved_at_s = self._report.clock()
        if self._checkpoint is not None:
            self._checkpoint()
            self._report.checkpointed()

    def _finish_training(self) -> None:
        """Save, report the end of training, and leave the group."""
        if self.rank == 0:
            self._write_checkpoint()
            self._report.done()
        if self._group is not None:
            self._group.close()


def _averaging_model(group: Group, model: torch.nn.Module) -> torch.nn.Module:
    """Wrap the model so that ``backward()`` averages its gradients over the group."""
    torch, torchft = importlib.import_module("torch"), importlib.import_module("torchft")

    class Averaged(torchft.DistributedDataParallel):  # type: ignore[misc,name-defined]
        """torchft's DistributedDataParallel, which never rebuilds its buckets: a replica that joins
        has the same ones.
        """

        @staticmethod
        def _comm_hook(state, bucket):  # type: ignore[no-untyped-def]  # torch checks annotations, which are text here
            gradients = bucket.buffer()
            state.average(gradients)
            future = torch.futures.Future(devices=[gradients.device] if gradients.is_cuda else None)
            future.set_result(gradients)
            return future

    return Averaged(group, model)
