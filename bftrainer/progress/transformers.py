"""A callback for the Trainer of Transformers.

::

    arguments = TrainingArguments("out", num_train_epochs=3, **constant_batch(32))
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[IdleNodesCallback()])
    trainer.train(resume_from_checkpoint=last_checkpoint("out"))

The Trainer counts steps: its schedule, its number of epochs and its position in the data are right
at every size only if a step always has the same number of samples. ``constant_batch`` therefore
divides one global batch among the workers.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bftrainer.errors import InvalidValueError
from bftrainer.progress.agreement import Agreement, numbers_from_rank_0
from bftrainer.progress.randomness import seed_step
from bftrainer.progress.readable import unreadable_file
from bftrainer.progress.reporter import Reporter


def constant_batch(global_batch: int, save_steps: int = 200) -> dict[str, Any]:
    """Return keys of ``TrainingArguments`` with which the global batch is the same on every number
    of workers that divides it.

    Args:
        global_batch: Samples per step of all workers. Allow only its divisors in the trainer file
            (``sizes = [1, 2, 4]``).
        save_steps: Steps between checkpoints.

    Raises:
        InvalidValueError: The number of workers does not divide the global batch.
    """
    workers = int(os.environ.get("WORLD_SIZE", "1"))
    if global_batch % workers:
        raise InvalidValueError(
            f"a global batch of {global_batch} cannot be divided equally among {workers} "
            "workers; allow only sizes that divide "
            "it (sizes = [...] in the trainer file)"
        )
    return {
        "per_device_train_batch_size": global_batch // workers,
        "dataloader_drop_last": True,
        "save_strategy": "steps",
        "save_steps": save_steps,
        "save_total_limit": 2,
    }


def last_checkpoint(folder: str | Path) -> str | None:
    """Return the latest checkpoint of an output folder that can be read; None if there is none.

    It has ``trainer_state.json``, which the Trainer writes last, and no file is too short: a kill
    while another rank saves, or a full disk, leaves such files. Rank 0 names on stderr what is
    passed over.
    """
    numbered = [
        (int(path.name.rpartition("-")[2]), path)
        for path in Path(folder).glob("checkpoint-*")
        if path.name.rpartition("-")[2].isdecimal()
    ]
    for _, path in sorted(numbered, reverse=True):
        if not (path / "trainer_state.json").is_file():
            continue
        unreadable = unreadable_file(path)
        if unreadable is None:
            return str(path)
        if os.environ.get("RANK", "0") == "0":
            print(
                f"bftrainer: {path}: {unreadable} is incomplete: looking for an earlier checkpoint",
                file=sys.stderr,
            )
    return None


def _multiplies_mean_loss(args: TrainingArguments, model: object) -> bool:
    """Whether the Trainer would multiply a loss that is a mean by the number of workers, so that
    gradients grow with it.

    With ``average_tokens_across_devices`` (the default of Transformers 5), it multiplies the loss
    of each model whose ``forward`` takes further keywords: right for a loss that is the sum over a
    worker's tokens, divided by the tokens of all workers. A model that computes a loss of its own,
    such as ``BertForSequenceClassification``, returns the mean.
    """
    if args.world_size == 1 or not getattr(args, "average_tokens_across_devices", False):
        return False
    unwrap = getattr(model, "get_base_model", None)  # of an adapter by PEFT
    forward = getattr(type(unwrap() if unwrap else model), "forward", None)
    try:
        text = inspect.getsource(inspect.unwrap(forward)) if forward is not None else ""
    except (OSError, TypeError):
        return False
    uses_tokens = "loss_function(" in text or "num_items_in_batch" in text
    return "**kwargs" in text and "loss" in text and not uses_tokens


class IdleNodesCallback(TrainerCallback):  # type: ignore[misc]  # its types are not read: it may be missing
    """Reports each step; at a stop request, lets the Trainer write a checkpoint and leaves, all
    ranks at the same step.
    """

    def __init__(self) -> None:
        self._leaves = False
        self._loss: float | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Prepare the reports of this rank.

        The samples in total follow from the Trainer's number of steps. All ranks stop at the same
        step by an :class:`Agreement`. Each rank reports digests of its weights and its learning
        rate, so that ranks that disagree are noticed.
        """
        self.report = Reporter(rank=args.process_index)
        self._batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        if state.max_steps > 0:
            self.report.samples_total = state.max_steps * self._batch
        self._agreement = Agreement(
            self.report, lambda numbers: numbers_from_rank_0(numbers, args.world_size)
        )
        self.report.watch(kwargs.get("model"), kwargs.get("optimizer"))
        if _multiplies_mean_loss(args, kwargs.get("model")):
            args.average_tokens_across_devices = False

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Seed this rank's random numbers for the step.

        The Trainer gives all ranks the same numbers, and after a change of size those of the first
        step again.
        """
        seed_step(args.seed, state.global_step, args.process_index)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Report the step; at a stop request, let the Trainer save, on all ranks at the same step.

        :meth:`on_save` leaves then.
        """
        self.report.step(
            step=state.global_step,
            samples=state.global_step * self._batch,
            loss=self._loss,
            world_size=args.world_size,
        )
        if self._agreement.to_stop():
            self._leaves = control.should_save = True

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: object,
    ) -> None:
        """Remember the loss."""
        self._loss = (logs or {}).get("loss", self._loss)

    def on_prediction_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Report a sign of life."""
        self.report.busy()

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float] | None = None,
        **kwargs: object,
    ) -> None:
        """Report the metrics of an evaluation."""
        self.report.metrics(
            **{k: v for k, v in (metrics or {}).items() if isinstance(v, (int, float))}
        )

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Report the checkpoint, and leave if a stop was requested."""
        self.report.checkpointed(Path(args.output_dir) / f"checkpoint-{state.global_step}")
        if self._leaves:
            numbers_from_rank_0([0], args.world_size)  # no worker leaves while rank 0 saves
            self.report.leave()

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Report the end."""
        self.report.done()
