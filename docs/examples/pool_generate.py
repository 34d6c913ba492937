"""Batch inference with a language model (here: a small one, initialized at random), for the
launcher ``pool``.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from bftrainer.progress.tasks import tasks

torch.manual_seed(0)
torch.set_num_threads(1)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=258, n_layer=2, n_head=2, n_embd=32, bos_token_id=256, eos_token_id=257)
)
model.eval()
for task in tasks("prompts.jsonl", results="answers.jsonl"):
    prompt = torch.tensor([[256, *task.value["prompt"].encode()]])
    with torch.inference_mode():
        text = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=16,
            do_sample=False,
            pad_token_id=257,
        )
    task.done({"tokens": text[0, prompt.shape[1] :].tolist()})
