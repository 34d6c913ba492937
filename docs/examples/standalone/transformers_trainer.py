"""The Trainer of Transformers, resumed at another number of workers, without a pilot.

    torchrun --nproc-per-node=2 transformers_trainer.py --stop-after 5
    torchrun --nproc-per-node=3 transformers_trainer.py

`constant_batch` divides one global batch among the workers, so that a step has the same samples at
every number of workers that divides it.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from bftrainer.progress.transformers import IdleNodesCallback, constant_batch, last_checkpoint

options = argparse.ArgumentParser()
options.add_argument("--stop-after", type=int, help="steps, as if the job ended then")
options.add_argument("--samples-log", type=Path, help="folder for the samples that were used")
options = options.parse_args()
data = [{"index": index, "inputs": torch.tensor([index / 96.0])} for index in range(96)]


class Model(nn.Module):
    """Learns to double a number."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 1)

    def forward(self, inputs, index):
        if options.samples_log is not None and self.training:
            name = f"samples.{os.getpid()}.{os.environ.get('RANK', '0')}"
            with (options.samples_log / name).open("a") as file:
                print(*index.tolist(), sep="\n", file=file)
        return {"loss": (self.linear(inputs) - 2 * inputs).square().mean()}


class StopAfter(TrainerCallback):
    """Ends the training after a checkpoint, as the end of a job would."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == options.stop_after:
            control.should_save = control.should_training_stop = True


torch.manual_seed(7)
arguments = TrainingArguments(
    "out",
    num_train_epochs=1,
    **constant_batch(12),
    learning_rate=1e-2,
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
)
callbacks = [IdleNodesCallback(), StopAfter()]
trainer = Trainer(Model(), arguments, train_dataset=data, callbacks=callbacks)
trainer.train(resume_from_checkpoint=last_checkpoint("out"))
if torch.distributed.is_initialized():
    # Otherwise a thread of gloo may outlive Python, and abort the process after the training.
    torch.distributed.destroy_process_group()
