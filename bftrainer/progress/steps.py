"""A loop over steps, whose batches have no order (random ones): checkpoints and reports.

::

    steps = StepLoop(model, optimizer, batch=32, checkpoint="{name}.pt")
    for step in steps.range(10_000):
        ...
        optimizer.step()
        steps.step(loss)
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bftrainer.errors import InvalidValueError
from bftrainer.progress.agreement import Agreement, numbers_from_rank_0
from bftrainer.progress.averaging import GradientAverage
from bftrainer.progress.elastic import Kept
from bftrainer.progress.randomness import seed_step
from bftrainer.progress.reporter import Reporter, named
from bftrainer.progress.script_values import decoded, encoded

if TYPE_CHECKING:
    import torch


_PRIOR_S = 120.0
"""Training time until a loss of the workers, before any time was measured."""
_SHORTEST_S, _FIRST_S, _LONGEST_S = 1.0, 10.0, 600.0
"""Limits of the time between two saves, and that before the first one, whose duration is unknown.
"""
_LONGEST_SHARE = 0.05
"""Share of the time that saves may take where nothing is lost; a slow one comes later than
``_LONGEST_S``.
"""
_MOST_HALVINGS = 10
_MOST_UNAPPLIED = 64
"""Batches after which an optimizer whose ``step()`` was never called is not waited for: another one
steps.
"""


class StepLoop:
    """Checkpoints and reports of a loop over steps. Create it after the process group, before the
    loop.

    Where several workers have formed no process group, it forms one, and averages their gradients
    in each ``backward()``.

    The order of the data and the learning rate stay the script's. Before each step, the generators
    of Python, NumPy and torch are seeded by torch's seed, the step and the rank: a restart repeats
    no random batch of an earlier step, and ranks draw different ones.

    Args:
        model: The model, bare or wrapped by DistributedDataParallel, which is loaded from
            ``checkpoint`` if that exists.
        optimizer: Its optimizer, loaded as well.
        batch: Samples per step of one worker.
        steps: Steps of the whole training, so that ``list`` shows what is left; ``range`` knows
            them.
        checkpoint: File of the checkpoint; ``{name}`` in it stands for the trainer's name, so that
            trials share none.
        checkpoint_every_s: Seconds between checkpoints. Default: by what a save costs and how often
            work was lost, between 1 s and 10 minutes.
        keep: Further objects with ``state_dict`` and ``load_state_dict`` for the checkpoint, by
            name; None is left out.
        reporter: Default: a new ``Reporter``.

    Raises:
        InvalidValueError: The weights are sharded.
    """

    _forms_group = False
    _current: ClassVar[StepLoop | None] = None
    """The object that this process made last, for :func:`current_training`."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        batch: int,
        checkpoint: str | Path,
        steps: int | None = None,
        checkpoint_every_s: float | None = None,
        keep: Mapping[str, Kept] | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self._begin(model, optimizer, checkpoint, checkpoint_every_s, keep)
        self.samples, self._batch = 0, batch
        self._load()
        self._seed()
        self._report(reporter)
        if steps is not None:
            self._expect(steps)

    def _begin(
        self,
        model: Any,
        optimizer: Any,
        checkpoint: str | Path,
        every_s: float | None,
        keep: Mapping[str, Kept] | None,
    ) -> None:
        """Set rank, size and fields, and form a group if several workers have none."""
        import torch

        StepLoop._current = self
        self._loaded_rates: list[dict[str, Any]] = []
        """The options of the optimizer's parameter groups in the checkpoint that was loaded."""
        self._values: dict[tuple[str, ...], Callable[[], Mapping[str, Any]]] = {}
        self._saved_values: dict[tuple[str, ...], dict[str, Any]] = {}
        self._iteration = 0
        self._is_ended = self._is_through = False
        self._script_seed = torch.initial_seed()
        self.rank, self.size = self._place()
        self.model, self.optimizer, self.checkpoint = model, optimizer, named(checkpoint)
        if any(hasattr(weight, "full_tensor") for weight in model.parameters()):
            raise InvalidValueError(
                "the weights are sharded (fully_shard): expected a checkpoint of shards "
                "(docs/torchrun.md)"
            )
        self._weight_names = frozenset(self._bare().state_dict())
        _check_weights(model, optimizer, keep or {})
        if self._forms_group:  # no DistributedDataParallel has been wrapped around the model
            self._average_gradients()
        self.step_number = 0
        """Steps since training began."""
        self._every_s = every_s
        self._keep = {name: kept for name, kept in (keep or {}).items() if kept is not None}
        self._save_s: float | None = None
        """Duration of the latest save; None before the first."""
        self._saved_in: int | None = None
        """The incarnation of the latest save; None before the first."""
        self._trained_s, self._losses, self._begun_at = 0.0, 0, time.monotonic()
        """Training time before this start; how many starts before it had lost work."""
        self._is_last = False

    def _average_gradients(self) -> None:
        """Average the gradients of all workers in each ``backward()`` from now on."""
        self._averaging = GradientAverage(self.model, self.size)

    def _report(self, reporter: Reporter | None) -> None:
        """Begin to report, and to count the steps of the optimizer."""
        self.report = reporter or Reporter(rank=self.rank)
        self.report.watch(self._bare(), self.optimizer, **self._watched())
        self._agreement = Agreement(
            self.report, lambda numbers: numbers_from_rank_0(numbers, self.size)
        )
        self._saved_at = time.monotonic()
        self._stops = self._applies = False
        self._unapplied = 1
        """Batches since the latest ``optimizer.step()``, and one."""
        getattr(self.optimizer, "optimizer", self.optimizer).register_step_post_hook(self._applied)

    def range(self, count: int) -> Iterator[int]:
        """Yield the numbers of the steps that are left, from 0 to ``count`` - 1.

        A pass of the loop without a call of :meth:`step` counts as a step. At the end, the
        checkpoint is written and the end is reported.
        """
        self._expect(count)
        while self.step_number < count:
            number = self.step_number
            # After the last step, the loop ends: in a further start it would make no pass, and
            # names that it sets would have no values.
            self._is_through = number == count - 1
            yield number
            if self.step_number == number:
                self.step()
        self.end()

    def iterations(self, count: int) -> Iterator[int]:
        """Yield the numbers of the passes of a loop that are left, from 0 to ``count`` - 1.

        For a loop whose passes are not steps, because batches are counted elsewhere. At the end,
        the checkpoint is written and the end is reported.
        """
        while self._iteration < count:
            yield self._iteration
            self._iteration += 1
        self.end()

    def values(self, present: Callable[[], Mapping[str, Any]]) -> tuple[Any, ...]:
        """Keep values of the script's own variables in the checkpoint; returns them as they are.

        ::

            best, waited = training.values(lambda: {"best": best, "waited": waited})

        Call it before the loop. After a resume, the values of the checkpoint are returned; those of
        objects with ``load_state_dict`` are loaded into the present objects.

        Args:
            present: Returns the present values by name. It is called at each checkpoint, on rank 0.

        Raises:
            InvalidValueError: A value has a type that a checkpoint cannot keep.
        """
        own = present()
        key = tuple(own)
        for name, value in own.items():
            encoded(name, value)
        self._values[key] = present
        saved = self._saved_values.pop(key, None)
        if saved is None:
            return tuple(own.values())
        return tuple(decoded(saved[name], value) for name, value in own.items())

    def end(self) -> None:
        """Write the checkpoint, and report the end. Further calls do nothing."""
        if self._is_ended:
            return
        self._is_ended = self._is_last = True
        self._is_through = False
        self.save()
        self.report.done()

    def step(self, loss: torch.Tensor | float | None = None, **metrics: float) -> None:
        """Count and report a step, save every ``checkpoint_every_s``, and leave at a stop request.

        Call it after ``optimizer.step()``. Where a script accumulates the gradients of several
        batches, saving and leaving wait for the next ``optimizer.step()``: no checkpoint has the
        gradients.

        Args:
            loss: Training loss of this step.
            metrics: Values such as an accuracy, for ``bftrainer results``.
        """
        samples = self._advance()
        self.step_number += 1
        self._seed()
        # A tensor becomes a number only in a line that is written.
        shown = loss if loss is None or isinstance(loss, (int, float)) else loss.detach()
        self.report.step(
            step=self.step_number,
            samples=samples,
            loss=shown,
            world_size=self.size,
            metrics=metrics,
        )
        self._stops = self._agreement.to_stop() or self._stops
        self._unapplied += 1
        self._save_or_leave()

    def _save_or_leave(self) -> None:
        """Leave if a stop was requested, and save if it is time, unless an ``optimizer.step()`` is
        to come first.
        """
        if self._unapplied > 1 and (self._applies or self._unapplied < _MOST_UNAPPLIED):
            return
        if self._stops and not self._is_through:
            self._is_last = True
            self.save()
            self.report.leave()
        # Only rank 0's clock counts; the others wait for it at the end of a step anyway.
        if self.rank == 0 and time.monotonic() - self._saved_at >= self._due_s():
            self._write()

    def _due_s(self) -> float:
        """Return the seconds from one save to the next.

        By default they are sqrt(2 C M), with C the duration of a save and M the mean training time
        until work is lost (Young 1974): more saves cost more time than they keep. They are halved
        for each start that ended without a save, so that a training whose starts have become short
        makes progress.
        """
        if self._every_s is not None:
            return self._every_s
        if self._save_s is None:
            return _FIRST_S
        mean_s = (self._all_trained_s() + _PRIOR_S) / (self._losses + 1)
        longest_s = max(_LONGEST_S, self._save_s * (1 / _LONGEST_SHARE - 1))
        due_s = min(math.sqrt(2 * self._save_s * mean_s), longest_s)
        return max(due_s * 0.5 ** self._starts_without_save(), _SHORTEST_S)

    def _starts_without_save(self) -> int:
        """Return how many starts between the latest save and this start made none, at most 10."""
        if self._saved_in is None:
            return 0
        return min(max(self.report.incarnation - self._saved_in - 1, 0), _MOST_HALVINGS)

    def _all_trained_s(self) -> float:
        """Return the training time of all starts."""
        return self._trained_s + time.monotonic() - self._begun_at

    def save(self) -> None:
        """Write a checkpoint on rank 0; all ranks wait for it."""
        if self.rank == 0:
            self._write()
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier()

    def _write(self) -> None:
        """Write a checkpoint: to a file of another name, which is then renamed, so that the
        checkpoint is never half-written.

        It has the model, the optimizer, the position in the data, the objects of ``keep`` and the
        values of the script.
        """
        import torch

        from bftrainer.system.files import make_empty_file

        began_s = time.monotonic()
        model = self._bare().state_dict()
        if further := sorted(set(model) - self._weight_names):
            raise InvalidValueError(
                f"the model has further weights since {type(self).__name__}(...) was made "
                f"({', '.join(further[:3])}), which a restart could not load: make them before, "
                "for example by a forward pass, or in the model's __init__"
            )
        content = {
            "model": model,
            "optimizer": self.optimizer.state_dict(),
            "step": self.step_number,
            "saves": {
                "save_s": self._save_s,
                "trained_s": self._all_trained_s(),
                "losses": self._losses,
                "is_last": self._is_last,
                "incarnation": self.report.incarnation,
            },
        }
        content |= self._position()
        content["keep"] = {name: keeper.state_dict() for name, keeper in self._keep.items()}
        content["iteration"] = self._iteration
        content["values"] = []
        for present in self._kept_values():
            values = present()
            content["values"].append({name: encoded(name, values[name]) for name in values})
        part = self.checkpoint.with_name(f"{self.checkpoint.name}.part")
        make_empty_file(part)  # beside that, an error of Python's names the file
        torch.save(content, part)
        part.replace(self.checkpoint)  # never half-written
        self.report.checkpointed(self.checkpoint)
        self._saved_at = time.monotonic()
        self._save_s = self._saved_at - began_s
        self._saved_in = self.report.incarnation

    def _load(self) -> None:
        """Load the checkpoint, if there is one."""
        import torch

        if not self.checkpoint.exists():
            return
        content = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        self._bare().load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self._loaded_rates = _rates_of(self.optimizer)
        self._restore(content)
        self.step_number = int(content["step"])
        self._restore_saves(content.get("saves") or {})
        self._iteration = int(content.get("iteration", 0))
        self._saved_values = {tuple(values): values for values in content.get("values", [])}
        for name, keeper in self._keep.items():
            keeper.load_state_dict(content["keep"][name])

    def _restore_saves(self, saves: Mapping[str, Any]) -> None:
        """Restore what decides the time between saves. A start whose last save was not made at a
        stop request, or at the end, has lost work.
        """
        self._save_s, self._saved_in = saves.get("save_s"), saves.get("incarnation")
        self._trained_s = float(saves.get("trained_s", 0.0))
        self._losses = int(saves.get("losses", 0)) + int(not saves.get("is_last", True))

    def _kept_values(self) -> list[Callable[[], Mapping[str, Any]]]:
        """Return the functions that return the script's values, as a checkpoint now has them."""
        return list(self._values.values())

    def _expect(self, steps: int) -> None:
        """Report the length of the training, as if all steps that are left had the present number
        of workers.
        """
        self.report.samples_total = self._samples_after(max(steps - self.step_number, 0))

    def _samples_after(self, steps: int) -> int:
        """Return the samples of all workers since training began, after so many further steps."""
        return self.samples + steps * self._batch * self.size

    def _position(self) -> dict[str, Any]:
        """Return what the checkpoint says of the position in the data."""
        return {"samples": self.samples}

    def _restore(self, content: Mapping[str, Any]) -> None:
        self.samples = int(content["samples"])

    def _advance(self) -> int:
        """Count the samples of a step; returns those since training began."""
        self.samples += self._batch * self.size
        return self.samples

    def _watched(self) -> dict[str, Any]:
        return {}

    def _place(self) -> tuple[int, int]:
        """Return this worker's rank and the number of workers; forms torch's process group if it
        has to.
        """
        import torch.distributed as dist

        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
            dist.init_process_group()
            self._forms_group = True
        return (
            (dist.get_rank(), dist.get_world_size())
            if dist.is_available() and dist.is_initialized()
            else (0, 1)
        )

    def _seed(self, purpose: str = "step") -> None:
        """Seed this rank's random numbers for its next step."""
        step, rank = self._next_step()
        seed_step(self._script_seed, step, rank, purpose)

    def _next_step(self) -> tuple[int, int]:
        """Return the number of the next step, and this worker's rank in it."""
        return self.step_number, self.rank

    def _applied(self, *_: object) -> None:
        self._unapplied, self._applies = 0, True

    def _bare(self) -> torch.nn.Module:
        """Return the model without DistributedDataParallel, also around the models of a list."""
        import torch

        if isinstance(self.model, torch.nn.ModuleList):
            return torch.nn.ModuleList(_unwrapped(model) for model in self.model)
        return _unwrapped(self.model)


def current_training() -> Any:
    """Return the ``Training`` or ``StepLoop`` that this process made last, for a loop in another
    module than the one that made it.

    Raises:
        InvalidValueError: None was made.
    """
    if StepLoop._current is None:
        raise InvalidValueError("no Training or StepLoop was made before its loop")
    return StepLoop._current


def _check_weights(model: Any, optimizer: Any, keep: Mapping[str, Any]) -> None:
    """Raise InvalidValueError for an optimizer of weights that no checkpoint would have."""
    import torch

    if not isinstance(optimizer, torch.optim.Optimizer):
        return
    weights = {id(weight) for weight in model.parameters()}
    for keeper in keep.values():
        if isinstance(keeper, torch.nn.Module):
            weights.update(id(weight) for weight in keeper.parameters())
    steps_on = [weight for group in optimizer.param_groups for weight in group["params"]]
    if others := sum(id(weight) not in weights for weight in steps_on):
        raise InvalidValueError(
            f"{others} of the optimizer's {len(steps_on)} weights are not the model's, so no "
            "checkpoint would have them: pass torch.nn.ModuleList([model, other]) as the model"
        )


def _rates_of(optimizer: Any) -> list[dict[str, Any]]:
    """Return the options of an optimizer's parameter groups, such as the learning rate."""
    options = [dict(group) for group in optimizer.param_groups]
    for of_group in options:
        del of_group["params"]
    return options


def _unwrapped(model: Any) -> Any:
    """Return the module that DistributedDataParallel wraps, or the module itself."""
    from torch.nn.parallel import DistributedDataParallel

    return model.module if isinstance(model, DistributedDataParallel) else model
