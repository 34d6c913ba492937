"""A training loop of plain PyTorch, on one worker or under torchrun, in a few changed lines.

::

    training = Training(model, optimizer, loader, checkpoint="{name}.pt")
    for epoch in training.epochs(20):
        for inputs, targets in training.loader:
            optimizer.zero_grad()
            loss = loss_of(parallel(inputs), targets)
            training.backward(loss)
            optimizer.step()
            training.step(loss)

It brings the order of the data, the learning rate at every size, the random numbers of each step,
checkpoints and the report, as ``docs/training.md`` describes them. Without bftrainer the same
script trains as well, and resumes from its checkpoint. A loop over steps wants :class:`StepLoop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bftrainer.errors import InvalidValueError
from bftrainer.progress.agreement import numbers_from_rank_0
from bftrainer.progress.data_set import check_ranks, check_start, samples_are_fixed, summary_of
from bftrainer.progress.elastic import Kept
from bftrainer.progress.loaders import LoaderParts, parts
from bftrainer.progress.pairs import paired
from bftrainer.progress.reporter import Reporter, batches
from bftrainer.progress.sampler import Sampler
from bftrainer.progress.script_values import KeptAttributes
from bftrainer.progress.steps import StepLoop, current_training
from bftrainer.progress.virtual_rank_checks import check_kept
from bftrainer.progress.virtual_rank_data import SeededSamples, StepBatches, VirtualSampler
from bftrainer.progress.virtual_ranks import VirtualRanks
from bftrainer.scaling import Batches, LearningRate, LearningRateRule, Scaling
from bftrainer.wires.data_summary import DataSummary

if TYPE_CHECKING:
    import torch

__all__ = ["FrozenWeights", "KeptAttributes", "Scaling", "StepLoop", "Training", "current_training"]

_SCRIPT = "script"


class Training(StepLoop):
    """Data order, learning rate, checkpoints and reports of a loop. Create it after the process
    group, before the loop.

    Args:
        model: The model, bare or wrapped by DistributedDataParallel, which is loaded from
            ``checkpoint`` if that exists.
        optimizer: Its optimizer, loaded as well. Its learning rate is the rate for ``batch``; where
            a scheduler of torch has changed it, its ``initial_lr``.
        data: The data set, or a ``DataLoader``, whose data set, batch size and options are used.
        batch: Samples per step of one worker, and of all workers with ``Scaling.STRONG``; the
            trainer file may override it.
        checkpoint: File of the checkpoint; ``{name}`` in it stands for the trainer's name, so that
            trials share none.
        scaling: How the global batch follows the number of workers; the trainer file may override
            it.
        rule: How the learning rate follows the global batch.
        warmup_steps: Steps in which the rate rises to a new value.
        checkpoint_every_s: Seconds between checkpoints. Default: by what a save costs and how often
            work was lost, between 1 s and 10 minutes.
        seed: Seed of the order of the data, the same on all workers.
        schedule: Maps the share of the training that is done (0 to 1) to a factor of the rate.
            "script": the rates are those that the script sets, by a scheduler of torch or by hand;
            they are multiplied by the factor of the global batch during ``optimizer.step()`` only.
        keep: Further objects with ``state_dict`` and ``load_state_dict`` for the checkpoint, by
            name.
        loader_options: Arguments of ``DataLoader``.
        compare_data: Whether the data set must be the one of the start before. If not, it may
            change between two starts, and only its length is compared, on all ranks; the present
            epoch continues at the same share of the samples.
        virtual_ranks: A power of two: the training has the same bits with 1 to so many workers. The
            loop then calls :meth:`gradients`, and ``batch`` is the global batch, whatever
            ``scaling`` is. None: no virtual ranks.
        reporter: Default: a new ``Reporter``.

    Raises:
        InvalidValueError: The data have no length or no batch size, the weights are sharded, the
            data set is another one than on rank 0 or at the start before, or the model cannot be
            trained with virtual ranks.
    """

    _ends_left_epochs = True
    """Whether a pass over the data that a ``break`` ends is the end of its epoch."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data: torch.utils.data.Dataset[Any] | torch.utils.data.DataLoader[Any],
        *,
        batch: int | None = None,
        checkpoint: str | Path,
        scaling: Scaling = Scaling.WEAK,
        rule: LearningRateRule = LearningRateRule.LINEAR,
        warmup_steps: int = 100,
        checkpoint_every_s: float | None = None,
        seed: int = 0,
        schedule: Callable[[float], float] | str = lambda done: 1.0,
        keep: Mapping[str, Kept] | None = None,
        loader_options: Mapping[str, object] | None = None,
        compare_data: bool = True,
        virtual_ranks: int | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        import torch

        self._virtual_count = virtual_ranks
        self._begin(model, optimizer, checkpoint, checkpoint_every_s, keep)
        source = parts(data, batch, loader_options)
        self.batches = batches(scaling, source.batch)
        if virtual_ranks is not None:
            self.batches = Batches(Scaling.STRONG, self.batches.global_batch)
        self._virtual = self._virtual_ranks(virtual_ranks, seed)
        if isinstance(schedule, str):
            if schedule != _SCRIPT:
                raise InvalidValueError(
                    f"expected a function or {_SCRIPT!r} as schedule, got {schedule!r}"
                )
            self._schedule = None
            self._shares: list[float] = []
            self.rate = LearningRate(1.0, source.batch, rule, warmup_steps)
            self._own_rates: list[Any] = []
            stepped = getattr(optimizer, "optimizer", optimizer)
            stepped.register_step_pre_hook(self._scale_rates)
            stepped.register_step_post_hook(self._restore_rates)
        else:
            self._schedule = schedule
            rates = [group.get("initial_lr", group["lr"]) for group in optimizer.param_groups]
            self._shares = [rate / rates[0] for rate in rates]
            self.rate = LearningRate(float(rates[0]), source.batch, rule, warmup_steps)
        self.sampler = self._make_sampler(source, seed, compare_data)
        samples = source.data if virtual_ranks is None else SeededSamples(source.data, seed)
        self.loader = _Loader(
            torch.utils.data.DataLoader(samples, batch_sampler=self.sampler, **source.options),
            source.data,
            self,
        )
        summary = (
            summary_of(source.data, int(self.loader.num_workers))
            if compare_data
            else DataSummary(self.sampler.size)
        )
        self._compares_data, self.sampler.summary = compare_data, summary
        self._check_ranks(summary)
        self.step_loader = _StepLoader(self.loader, self)
        """A loader that counts a step when the loop asks for the next batch: the loop has no call
        of :meth:`step`.
        """
        self._epochs: int | None = None
        self._pending = self._worked = self._iterates = False
        self._at_epoch_end = self._is_leaving_pass = False
        self._loss: Any | None = None
        self._epoch_values: dict[tuple[str, ...], Callable[[], Mapping[str, Any]]] = {}
        self._load()
        self._report(reporter)

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the numbers of the epochs that are left; after the last one, the checkpoint is
        written and the end reported.
        """
        self._epochs = count
        self.report.samples_total = count * self.sampler.size
        while self.sampler.epoch < count:
            epoch = self.sampler.epoch
            if self._virtual is not None:
                self._virtual.seed_epoch(epoch)
            yield epoch
            self._count_left()
            self._at_epoch_end = False
            is_left = self._iterates and self._ends_left_epochs
            if is_left and self.sampler.epoch == epoch:
                self.sampler.end_epoch()
            self._iterates = False
            if self.step_loader.counts and self.sampler.epoch < count:
                self._save_or_leave()
        self.end()

    def one_epoch(self) -> Iterator[Any]:
        """Yield the batches of a training of one epoch, and count a step for each; then write the
        checkpoint and report the end.
        """
        for _ in self.epochs(1):
            yield from self.step_loader

    def endless(self) -> Iterator[Any]:
        """Yield batches epoch after epoch, and count a step for each, for a loop that ends
        elsewhere.
        """
        while True:
            yield from self.step_loader

    @property
    def epoch(self) -> int:
        """The number of the present epoch."""
        return self.sampler.epoch

    @property
    def begins_epoch(self) -> bool:
        """Whether the present epoch has had no step: false after a resume within an epoch."""
        return self.sampler.steps_in_epoch == 0

    @property
    def batch_number(self) -> int:
        """The steps of the present epoch so far, at which ``enumerate`` has to begin."""
        return self.sampler.steps_in_epoch

    def epoch_values(
        self, present: Callable[[], Mapping[str, Any]], loader: Any = None
    ) -> tuple[Any, ...]:
        """Keep values that start again in each epoch, such as the sum of its losses.

        Call it before the loop over the batches, like :meth:`values`. The values of the checkpoint
        are returned once, if it was written within an epoch.

        Args:
            present: Returns the present values by name.
            loader: The loader of the loop; for another one than ``step_loader``, nothing is kept.

        Raises:
            InvalidValueError: A value has a type that a checkpoint cannot keep.
        """
        import torch

        if loader is not None and loader is not self.step_loader:
            return tuple(present().values())
        key = tuple(present())
        is_resumed = key in self._saved_values
        result = self.values(present)
        if is_resumed and any(
            isinstance(value, torch.optim.lr_scheduler.LRScheduler) for value in result
        ):
            # Its class has changed the rates when it was made again.
            for group, options in zip(self.optimizer.param_groups, self._loaded_rates):
                group.update(options)
        self._epoch_values[key] = self._values.pop(key)
        return result

    def gradients(self, loss_of: Callable[[Any], torch.Tensor], batch: Any) -> torch.Tensor:
        """Compute the gradients of a batch of :attr:`loader`, in place of :meth:`backward`.

        ::

            for batch in training.loader:
                optimizer.zero_grad()
                loss = training.gradients(loss_of, batch)
                optimizer.step()
                training.step(loss)

        Args:
            loss_of: Returns the mean loss of a batch. With virtual ranks, it is called once for
                each of this worker's, with the batch of that one, and must not use
                ``torch.distributed``.
            batch: What the loader has yielded: a batch, or those of this worker's virtual ranks.

        Returns:
            The loss without its graph: of this worker's batch, with virtual ranks of the global
            batch.

        Raises:
            InvalidValueError: With virtual ranks, the batch is not the loader's, ``loss_of`` uses
                ``torch.distributed``, or gradients are sparse.
        """
        if self._virtual is None:
            loss = loss_of(batch)
            self.backward(loss)
            return loss.detach()
        loss = self._virtual.gradients(loss_of, batch, self.step_number, self._virtual_weight)
        self._note_loss(loss)
        return loss

    def backward(
        self, loss: torch.Tensor, *, unscaled: torch.Tensor | None = None, **options: Any
    ) -> None:
        """Call ``loss.backward()`` for a mean loss, weighted by this worker's share of the batch.

        With strong scaling, the batches of workers may differ by one sample. ``unscaled`` is the
        loss to report, if a scaler has multiplied ``loss``; ``options`` go to ``backward()``.
        """
        if self._virtual is not None:
            raise InvalidValueError(
                "virtual_ranks: call training.gradients(loss_of, batch) in place of "
                "training.backward(loss)"
            )
        self._note_loss(loss if unscaled is None else unscaled)
        self._weighted(loss).backward(**options)

    def _note_loss(self, loss: torch.Tensor) -> None:
        """Keep the loss of the batch that the step loader gave out, for its report."""
        self._loss, self._worked = loss.detach(), True

    def step(self, loss: torch.Tensor | float | None = None, **metrics: float) -> None:
        """Count and report a step, as :meth:`StepLoop.step` describes."""
        super().step(loss, **metrics)
        # After the report, whose states of random numbers are this rank's own.
        self._seed_batch()

    def end(self) -> None:
        """Count the step of a loop that was left, write the checkpoint, and report the end."""
        self._count_left()
        super().end()

    def apply_rate(self) -> None:
        """Set the learning rate of the next step."""
        done = (
            0.0
            if not self._epochs
            else min(self.sampler.samples / (self._epochs * self.sampler.size), 1.0)
        )
        rate = self.rate.at(self.batches.total(self.size), self.step_number)
        if self._schedule is None:
            self.rate.latest = None  # the script's own rate is the wanted one
            return
        rate *= self._schedule(done)
        problem = "parameter groups were added after Training(...)"
        for group, share in paired(self.optimizer.param_groups, self._shares, problem):
            group["lr"] = rate * share
        self.rate.latest = rate

    def placed(self, batch: Any) -> Any:
        """Return the batch on the device of the model; with plain PyTorch, the loop does that
        itself.
        """
        return batch

    def _scale_rates(self, *_: object) -> None:
        """Multiply the script's rates by the factor of the global batch, for this step."""
        groups = self.optimizer.param_groups
        self._own_rates = [group["lr"] for group in groups]
        factor = self.rate.at(self.batches.total(self.size), self.step_number)
        self.rate.latest = None
        for group, rate in zip(groups, self._own_rates):
            group["lr"] = rate * factor

    def _restore_rates(self, *_: object) -> None:
        """Set the rates again that the script had set: its schedulers compute the next from
        them.
        """
        for group, rate in zip(self.optimizer.param_groups, self._own_rates):
            group["lr"] = rate

    def _average_gradients(self) -> None:
        if self._virtual_count is None:
            super()._average_gradients()

    def _make_sampler(self, source: LoaderParts, seed: int, compare_data: bool) -> Sampler:
        """Return the sampler that gives the order of the data."""
        if self._virtual_count is None:
            return Sampler(
                source.data,
                self.batches,
                self.rank,
                self.size,
                seed=seed,
                shuffle=source.shuffle,
                compare_data=compare_data,
            )
        return VirtualSampler(
            source.data,
            self.batches,
            self.rank,
            self.size,
            virtual_ranks=self._virtual_count,
            seed=seed,
            shuffle=source.shuffle,
            compare_data=compare_data,
        )

    def _virtual_ranks(self, count: int | None, seed: int) -> VirtualRanks | None:
        """Return the virtual ranks of a training that has some. Raises InvalidValueError if it
        cannot have them.
        """
        if count is None:
            return None
        check_kept(self._keep)
        virtual = VirtualRanks(self.model, self.optimizer, count, seed, self.rank, self.size)
        virtual.compare_workers()
        return virtual

    def _virtual_weight(self, virtual_rank: int) -> float:
        """Return the factor of the mean loss of a virtual rank."""
        assert self._virtual_count is not None
        return self.batches.weight(virtual_rank, self._virtual_count)

    def _next_batch(self, batches: Iterator[Any]) -> Any:
        """Return the next batch of the loader; those of a step with virtual ranks."""
        if self._virtual is None:
            return next(batches)
        first = next(batches)
        return StepBatches([first, *islice(batches, len(self._virtual.own) - 1)])

    def _seed_batch(self) -> None:
        """Seed what the loop draws for the next batch."""
        if self._virtual is None:
            self._seed()
        else:
            self._virtual.seed_whole_step(self.step_number)

    def _begin_pass(self) -> None:
        """Finish the pass before this one, in a loop without :meth:`epochs`."""
        self._count_left()
        if self._epochs is not None:
            return
        if self._iterates and not self.begins_epoch:
            self.sampler.end_epoch()  # the pass was left by a break
            self._at_epoch_end = True
        if self._at_epoch_end:
            self._at_epoch_end = False
            self._save_or_leave()

    def _count_pending(self) -> None:
        """Count the step of the batch that the step loader gave out last."""
        if not self._pending:
            return
        self._pending = False
        loss, self._loss = self._loss, None
        self.step(loss)

    def _count_left(self) -> None:
        """Count the step of a loop that was left by a break; a batch that was only looked at is
        none. Saving and leaving wait until the epoch is ended as well.
        """
        self._pending = self._pending and self._worked
        self._is_leaving_pass = True
        self._count_pending()
        self._is_leaving_pass = False

    def _applied(self, *_: object) -> None:
        super()._applied()
        self._worked = True

    def _save_or_leave(self) -> None:
        """Save or leave as in any loop; at the end of an epoch, what the script does then comes
        first.
        """
        if not (self._at_epoch_end or self._is_leaving_pass):
            super()._save_or_leave()

    def _kept_values(self) -> list[Callable[[], Mapping[str, Any]]]:
        within_epoch = [] if self.begins_epoch else list(self._epoch_values.values())
        return [*super()._kept_values(), *within_epoch]

    def _samples_after(self, steps: int) -> int:
        return self.sampler.samples + steps * self.batches.total(self.size)

    def _position(self) -> dict[str, Any]:
        """Return the position in the data and the learning rate, for a checkpoint."""
        position = {
            "sampler": self.sampler.state_dict(),
            "rate": self.rate.state_dict(),
            "base": self.rate.base,
        }
        if self.sampler.summary is not None:
            position["data"] = self.sampler.summary.as_dict()
        if self._virtual is not None:
            position["virtual_ranks"] = self._virtual.state_dict()
        return position

    def _restore(self, content: Mapping[str, Any]) -> None:
        """Continue at the position in the data, and with the learning rate, of a checkpoint."""
        self.sampler.load_state_dict(content["sampler"])
        if self._compares_data and self.sampler.summary is not None:
            self.sampler.summary = check_start(
                self.sampler.summary,
                content.get("data"),
                self.checkpoint,
                self._samples_are_fixed,
            )
        self.rate.load_state_dict(content["rate"])
        # The script may have loaded a checkpoint of its own into the optimizer, with the rate of
        # another size.
        self.rate.base = content.get("base", self.rate.base)
        if self._virtual is not None and "virtual_ranks" in content:
            self._virtual.load_state_dict(content["virtual_ranks"])

    def _check_ranks(self, summary: DataSummary) -> None:
        """Compare the data sets of all ranks, which all make this object now."""
        check_ranks(
            summary,
            self.rank,
            lambda numbers: numbers_from_rank_0(numbers, self.size),
            self._samples_are_fixed,
        )

    def _samples_are_fixed(self) -> bool:
        """Return whether the samples of the summary are no random ones."""
        assert self.sampler.summary is not None
        return samples_are_fixed(
            self.loader.dataset, self.sampler.summary, int(self.loader.num_workers)
        )

    def _advance(self) -> int:
        """Count the samples of a step; returns those since training began."""
        epoch = self.sampler.epoch
        self.sampler.advance()
        if self._virtual is not None:
            self._virtual.end_step()
        self._at_epoch_end = self.step_loader.counts and self.sampler.epoch != epoch
        return self.sampler.samples

    def _watched(self) -> dict[str, Any]:
        return {"sampler": self.sampler, "rate": self.rate}

    def _weighted(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self.batches.weight(self.rank, self.size)


class _Loader:
    """A ``DataLoader`` that sets the learning rate before each batch."""

    def __init__(self, loader: Any, data: Any, training: Training) -> None:
        self._loader = loader
        self._training = training
        self.dataset = data
        self.num_workers = loader.num_workers

    def __len__(self) -> int:
        return len(self._training.sampler)

    def __iter__(self) -> Iterator[Any]:
        training = self._training
        batches = iter(self._loader)
        training._iterates = True
        while True:
            training._seed("data")
            try:
                batch = training._next_batch(batches)
            except StopIteration:
                training._iterates = False
                return
            training.apply_rate()
            training._seed_batch()
            yield training.placed(batch)


class _StepLoader:
    """The loader of a loop without ``training.step()``.

    A step is counted when the loop asks for its next batch, so after everything that the loop does
    with the batch, on each path through it. The last step of an epoch is saved, and a stop obeyed,
    only once the script has done what it does between epochs: ``epochs()`` goes on, or the next
    pass over the data begins.
    """

    def __init__(self, loader: _Loader, training: Training) -> None:
        self._loader = loader
        self._training = training
        self.counts = False
        """Whether a pass has begun: the loop is one that does not count its steps itself."""
        self.dataset = loader.dataset
        self.batch_sampler = self.sampler = training.sampler
        self.batch_size = training.batches.of(training.rank, training.size)

    def __len__(self) -> int:
        return len(self._loader)

    @property
    def batch_number(self) -> int:
        """The steps of the present epoch so far, at which ``enumerate`` has to begin."""
        return self._training.batch_number

    def __iter__(self) -> Iterator[Any]:
        training = self._training
        self.counts = True
        training._begin_pass()
        for batch in self._loader:
            training._pending, training._worked = True, False
            yield batch
            training._count_pending()


class FrozenWeights:
    """Which weights of a model require a gradient, for ``keep``, where a script unfreezes layers in
    its loop.

    Args:
        model: The model.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def state_dict(self) -> dict[str, Any]:
        """Return whether each weight requires a gradient, in the order of the model."""
        return {"requires_grad": [weight.requires_grad for weight in self._model.parameters()]}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Freeze and unfreeze the weights as they were."""
        for weight, requires_grad in zip(self._model.parameters(), state["requires_grad"]):
            weight.requires_grad_(requires_grad)
