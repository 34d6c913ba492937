"""The Trainer of Transformers on generated text, as a script is usually written: a tiny model, made
here.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

EPOCHS = int(os.environ.get("EPOCHS", "3"))

torch.set_num_threads(1)
torch.manual_seed(7)
texts = torch.arange(16).repeat(256, 1).add(torch.randint(0, 50, (256, 1))).remainder(50)
data = [{"input_ids": text, "labels": text} for text in texts]
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2))
quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True}
arguments = TrainingArguments(
    "out",
    num_train_epochs=EPOCHS,
    per_device_train_batch_size=32,
    learning_rate=1e-2,
    logging_steps=4,
    **quiet,
)
trainer = Trainer(model, arguments, train_dataset=data)
trainer.train()
if trainer.is_world_process_zero():
    torch.save(model.state_dict(), "weights.pt")
