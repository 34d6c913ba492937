"""Scripts that train wrongly without a word: each shipped example with one mistake that is common
in published scripts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


@dataclass(frozen=True)
class Wrong:
    """An example, the replacements that make it wrong, the check that must fail, and words of its
    line that name the cause.
    """

    launcher: str
    example: str
    changes: tuple[tuple[str, str], ...]
    check: str
    words: str

    @property
    def needs(self) -> str:
        """The package without which it cannot run."""
        return "numpy" if self.launcher == "restart" else "torch"

    def write(self, folder: Path) -> Path:
        """The script in a folder. A replacement that does not match is an error."""
        text = (EXAMPLES / self.example).read_text()
        for old, new in self.changes:
            assert text.count(old) == 1, (old, text.count(old))
            text = text.replace(old, new)
        path = folder / "wrong.py"
        path.write_text(text)
        return path


WRONG = {
    "rate-on-survivors-only": Wrong(
        "horovod",
        "horovod_digits.py",
        (
            ("keep=[sampler, rate]", "keep=[sampler], on_rescale=rescaled"),
            (
                "def save():",
                "last = {'batch': options.batch}\n\n\ndef rescaled(old, new):\n"
                "    last['batch'] = batches.total(new)\n\n\ndef save():",
            ),
            ("batches.total(hvd.size()), state.step)", "last['batch'], state.step)"),
        ),
        "ranks",
        "learning rates differ at step",
    ),
    "set-epoch-at-the-start": Wrong(
        "horovod",
        "horovod_digits.py",
        (
            (
                "progress.Sampler(data, batches, seed=options.seed)",
                "hvd.elastic.ElasticSampler(data)",
            ),
            (
                "DataLoader(data, batch_sampler=sampler)",
                "DataLoader(data, options.batch, sampler=sampler)",
            ),
            ("step = 0\nif", "step = epoch = samples = 0\nif"),
            (
                'step = content["step"]',
                'step, epoch, samples = content["step"], content["epoch"], content["samples"]',
            ),
            (
                '"step": state.step}',
                '"step": state.step, "epoch": state.epoch, "samples": state.samples}',
            ),
            (
                "step=step, samples=sampler.samples)",
                "step=step, samples=samples, epoch=epoch, sampler=sampler)",
            ),
            ("keep=[sampler, rate]", "keep=[rate]"),
            (
                "    while sampler.epoch < options.epochs:\n",
                "    while state.epoch < options.epochs:\n        sampler.set_epoch(state.epoch)\n",
            ),
            ("for inputs, targets in loader", "for index, (inputs, targets) in enumerate(loader)"),
            ("sampler.advance()", "sampler.record_batch(index, options.batch)"),
            ("state.samples = sampler.samples", "state.samples += options.batch * hvd.size()"),
            (
                "                state.commit()\n    state.commit()",
                "                state.commit()\n        state.epoch += 1",
            ),
        ),
        "order",
        "sampler.set_epoch was called within the epoch",
    ),
    "sampler-without-state": Wrong(
        "restart",
        "numpy_parallel.py",
        (
            ('json.dumps({"sampler": sampler.state_dict(), "rate"', 'json.dumps({"rate"'),
            ('        sampler.load_state_dict(others["sampler"])\n', ""),
        ),
        "order",
        "samples of epoch 0 that step",
    ),
    "rate-from-the-optimizer-s-state": Wrong(
        "torchrun",
        "torch_digits.py",
        (
            ("lr=0.02, momentum", "lr=0.02 * size, momentum"),
            ("        rate.apply(optimizer, batches.total(size), step)\n", ""),
        ),
        "rate",
        "optimizer.load_state_dict has brought back the rate of another size",
    ),
    "unseeded-split": Wrong(
        "torchrun",
        "torch_digits.py",
        (
            (
                "torch.manual_seed(options.seed)\n",
                "every = torch.Generator().manual_seed(int(time.time() * 1000))\n"
                "data, _ = torch.utils.data.random_split(data, [4000, 96], every)\n"
                "torch.manual_seed(options.seed)\n",
            ),
        ),
        "order",
        "has another data set than before: 4000 samples, but others",
    ),
    "dropout-repeats-at-a-restart": Wrong(
        "torchrun",
        "torch_digits.py",
        (("nn.ReLU(), ", "nn.ReLU(), nn.Dropout(0.1), "),),
        "random",
        "torch's random numbers at step",
    ),
    "checkpoint-of-another-step": Wrong(
        "restart",
        "numpy_parallel.py",
        (
            ("    def save() -> None:", "    kept = weights\n\n    def save() -> None:"),
            ("weights=weights, step=step", "weights=kept, step=step"),
            (
                # so the weights are never those of the step that is saved
                "            weights = weights - rate",
                "            kept = weights if step % 7 == 0 else kept\n            weights = "
                "weights - rate",
            ),
        ),
        "state",
        "holds the weights of step",
    ),
    "optimizer-beside-the-shards": Wrong(
        "torchrun",
        "fsdp_text.py",
        (
            (
                "step = checkpoints.load()\n",
                "step = checkpoints.load()\nfrom torch.distributed.checkpoint import "
                "state_dict as sd\n"
                "WHOLE = sd.StateDictOptions(full_state_dict=True, cpu_offload=True)\n"
                "if os.path.exists('optim_state_dict.pt'):\n"
                "    sd.set_optimizer_state_dict(model, optimizer, "
                "torch.load('optim_state_dict.pt'), options=WHOLE)\n\n"
                "def beside():\n    whole = sd.get_optimizer_state_dict(model, optimizer, "
                "options=WHOLE)\n"
                "    if rank == 0:\n        torch.save(whole, 'optim_state_dict.pt')\n",
            ),
            (
                "            checkpoints.save(step)\n",
                "            beside()\n            checkpoints.save(step)\n",
            ),
            (
                "            checkpoints.begin(step)",
                "            beside()\n            checkpoints.begin(step)",
            ),
        ),
        "atomic",
        "optim_state_dict.pt is written in place",
    ),
}
