"""Random schedules of sizes, stops and kills of trainings with virtual ranks: the bits at the end
are those of one worker that nothing interrupts.

    python tests/support/virtual_rank_schedules.py [--schedules 1000] [--models mlp cnn transformer]

A start has 1 to 8 workers, each a process that is forked, begins with other weights and random
numbers, and loads the checkpoint. A start ends after a random step: by a save, or by SIGKILL of one
worker and then of all, at any moment, also during a save. Compared are the weights, the running
statistics, the state of the optimizer, and the position in the data.

``--plain`` trains without virtual ranks: a control, whose bits follow the sizes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Before torch, which reads them when it is imported.
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
from torch import nn

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bftrainer.progress import Reporter
from bftrainer.progress.torch import Scaling, Training

VIRTUAL_RANKS = 8
SAMPLES, BATCH, EPOCHS = 130, 30, 4
"""18 steps; the virtual ranks of a step have 4 and 3 samples, and epochs end within a step."""
STEPS = -(-SAMPLES * EPOCHS // BATCH)
SHARE_OF_KILLS = 0.4
LONGEST_START_S = 600.0


# --- Models, each with random numbers in its step


class Convolutions(nn.Module):
    """BatchNorm, also in a branch that only some virtual ranks take, dropout, and a buffer that
    changes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3, stride=2)
        self.first_norm, self.second_norm = nn.BatchNorm2d(8), nn.BatchNorm2d(16)
        self.branch = nn.Sequential(nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16))
        self.head, self.dropout = nn.Linear(16, 10), nn.Dropout()
        self.register_buffer("scale", torch.ones(3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.first_norm(self.first(images)).relu()
        hidden = self.second_norm(self.second(hidden)).relu()
        if self.training and torch.rand(()) < 0.2:
            hidden = hidden + self.branch(hidden)
            self.scale.mul_(0.9).add_(0.01 * images.mean())
        return self.head(self.dropout(hidden.mean((2, 3)))) * self.scale.mean()


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(32, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, "gelu", batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 32)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        return self.head(self.layers(self.tokens(text), mask=mask, is_causal=True))


def model_of(kind: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    if kind == "cnn":
        model: nn.Module = Convolutions()
        return model, torch.optim.Adam(model.parameters(), 3e-3)
    if kind == "transformer":
        model = Text()
        return model, torch.optim.AdamW(model.parameters(), 1e-3)
    layers = [nn.Flatten(), nn.Linear(100, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)]
    model = nn.Sequential(*layers)
    return model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)


class Data:
    """Images with labels, or text; images are augmented by all three generators."""

    def __init__(self, kind: str) -> None:
        generator = torch.Generator().manual_seed(7)
        self.is_text = kind == "transformer"
        self.images = torch.randn(SAMPLES, 1, 10, 10, generator=generator)
        self.labels = torch.randint(10, (SAMPLES,), generator=generator)
        self.text = torch.randint(32, (SAMPLES, 9), generator=generator)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if self.is_text:
            return self.text[index, :-1], self.text[index, 1:]
        shifted = self.images[index].roll(random.randrange(3), 1)
        return shifted + 0.1 * torch.rand(()), self.labels[index]


def loss_of(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    inputs, targets = batch
    noise = 0.1 * torch.randn_like(inputs) if inputs.is_floating_point() else 0
    return nn.functional.cross_entropy(model(inputs + noise).flatten(0, -2), targets.flatten())


# --- One start


@dataclass(frozen=True)
class Start:
    """A number of workers, and the step at which they save and end, or are killed."""

    size: int
    until: int
    is_killed: bool


def train(kind: str, folder: Path, start: Start, rank: int, steps: int, is_plain: bool) -> None:
    """Train as one worker; each step of rank 0 is a byte in the pipe ``steps``."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if start.size > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=start.size
        )
    # The first weights are those of rank 0 at the first start.
    torch.manual_seed(1 if rank == 0 else int.from_bytes(os.urandom(4), "big"))
    model, optimizer = model_of(kind)
    parallel: nn.Module = model
    if is_plain and start.size > 1:
        parallel = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    training = Training(
        parallel,
        optimizer,
        Data(kind),
        batch=BATCH,
        checkpoint=folder / "checkpoint.pt",
        checkpoint_every_s=0.02,
        scaling=Scaling.STRONG,
        warmup_steps=5,
        seed=3,
        virtual_ranks=None if is_plain else VIRTUAL_RANKS,
        reporter=Reporter({}),
    )
    for _ in training.epochs(EPOCHS):
        for batch in training.loader:
            optimizer.zero_grad()
            loss = training.gradients(lambda part: loss_of(parallel, part), batch)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            training.step(loss)
            if rank == 0:
                os.write(steps, b".")
            if training.step_number == start.until and not start.is_killed:
                training.save()
                os._exit(0)


def run(kind: str, folder: Path, start: Start, is_plain: bool = False) -> None:
    """Fork the workers of a start, wait for their end, or kill them. Raises AssertionError if one
    fails.
    """
    (folder / "meeting").unlink(missing_ok=True)
    reader, writer = os.pipe()
    first_step = checkpointed_step(folder)
    children = [_forked(kind, folder, start, rank, writer, is_plain) for rank in range(start.size)]
    os.close(writer)
    try:
        if start.is_killed:
            _wait_for_steps(reader, start.until - first_step)
            chance = random.Random(start.until)
            chance.shuffle(children)
            for child in children:  # first one alone: the others may notice
                os.kill(child, signal.SIGKILL)
        statuses = [os.waitpid(child, 0)[1] for child in children]
        assert start.is_killed or not any(statuses), (kind, start, statuses)
    finally:
        os.close(reader)


def _forked(kind: str, folder: Path, start: Start, rank: int, steps: int, is_plain: bool) -> int:
    """Fork a worker; return its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.alarm(int(LONGEST_START_S))
        train(kind, folder, start, rank, steps, is_plain)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wait_for_steps(reader: int, count: int) -> None:
    """Read a byte for each step, until so many or the end of all workers."""
    while count > 0 and (data := os.read(reader, count)):
        count -= len(data)


def checkpointed_step(folder: Path) -> int:
    path = folder / "checkpoint.pt"
    return int(torch.load(path, weights_only=True)["step"]) if path.exists() else 0


# --- Schedules


def schedule(chance: random.Random, largest: int) -> Iterator[Start]:
    """Yield starts until one trains to the end."""
    step = 0
    while step < STEPS:
        step += chance.randint(1, 9)
        is_last = step >= STEPS
        is_killed = not is_last and chance.random() < SHARE_OF_KILLS
        yield Start(chance.randint(1, largest), min(step, STEPS), is_killed)


@dataclass
class Tally:
    """What the schedules of one model have shown."""

    model: str
    schedules: int = 0
    other_bits: int = 0
    starts: int = 0
    kills: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    digests: set[str] = field(default_factory=set)
    seconds: float = 0.0

    def line(self) -> str:
        values = {name: value for name, value in vars(self).items() if name != "digests"}
        values["sizes"] = dict(sorted(self.sizes.items()))
        values["different_ends"], values["seconds"] = len(self.digests), round(self.seconds)
        return json.dumps(values)


def play(
    kind: str, plans: Sequence[Sequence[Start]], folder: Path, is_plain: bool = False
) -> list[str]:
    """Return the digest of the last checkpoint of each schedule."""
    digests: list[str] = []
    for plan in plans:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for start in plan:
            run(kind, folder, start, is_plain)
        digests.append(digest(torch.load(folder / "checkpoint.pt", weights_only=True)))
    return digests


def digest(checkpoint: dict[str, Any]) -> str:
    """Return a digest of weights, statistics, optimizer, step and position, to the last bit."""
    total = hashlib.blake2b(digest_size=8)

    def add(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            total.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, dict):
            for key in value:
                total.update(str(key).encode())
                add(value[key])
        elif isinstance(value, (list, tuple)):
            for item in value:
                add(item)
        else:
            total.update(repr(value).encode())

    add([checkpoint[name] for name in ("model", "optimizer", "step", "sampler")])
    return total.hexdigest()


def import_all(kind: str) -> None:
    """Make one step here: what torch imports at the first one, workers need not import again."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        model, optimizer = model_of(kind)
        training = Training(
            model,
            optimizer,
            Data(kind),
            batch=BATCH,
            checkpoint=Path(name, "checkpoint.pt"),
            virtual_ranks=VIRTUAL_RANKS,
            reporter=Reporter({}),
        )
        batch = next(iter(training.loader))
        training.gradients(lambda part: loss_of(model, part), batch)
        optimizer.step()
        training.save()
        checkpointed_step(Path(name))


def measure(kind: str, options: argparse.Namespace) -> Tally:
    """Play random schedules of one model and compare each with one worker."""
    import_all(kind)
    tally, began_s = Tally(kind), time.monotonic()
    chance = random.Random(f"{kind} {options.seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "training")
        (reference,) = play(kind, [[Start(1, STEPS, False)]], folder, options.plain)
        tally.digests.add(reference)
        for _ in range(options.schedules):
            plan = list(schedule(chance, options.largest))
            (end,) = play(kind, [plan], folder, options.plain)
            tally.schedules += 1
            tally.other_bits += end != reference
            tally.starts += len(plan)
            tally.kills += sum(start.is_killed for start in plan)
            tally.sizes.update(start.size for start in plan)
            tally.digests.add(end)
            tally.seconds = time.monotonic() - began_s
            if options.progress and tally.schedules % options.progress == 0:
                print(tally.line(), flush=True)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["mlp", "cnn", "transformer"])
    parser.add_argument("--schedules", type=int, default=1000, help="of all models (1000)")
    parser.add_argument("--largest", type=int, default=VIRTUAL_RANKS, help="workers (8)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="without virtual ranks")
    parser.add_argument("--progress", type=int, default=0, help="a line every so many schedules")
    options = parser.parse_args()
    options.schedules = -(-options.schedules // len(options.models))
    warnings.filterwarnings("ignore")
    other_bits = 0
    for kind in options.models:
        tally = measure(kind, options)
        print(tally.line(), flush=True)
        other_bits += tally.other_bits
    sys.exit(1 if other_bits and not options.plain else 0)


if __name__ == "__main__":
    main()
