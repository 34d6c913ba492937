"""Data-parallel training with only NumPy: a small network that learns the letters of a generated
alphabet.

Each worker computes the gradient of its share of the batch. Rank 0 adds the gradients and returns
the sum over a Unix socket in the trainer directory, so all workers run on one machine (``holder =
"trace"``). The contract with bftrainer is the same for any program under ``launcher = "restart"``:

* report after each step, on every rank (rank 0 writes the progress);
* if the report returns a stop request: checkpoint, then leave;
* at the start: resume from the checkpoint, also the position in the data and the learning rate;
* end with status 0 when training is complete.

Example trainer file: ``numpy_parallel.toml`` beside this one. By hand: ``python numpy_parallel.py
--steps 100``.
"""

import argparse
import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(
        _name, "1"
    )  # before numpy is imported: several workers share this machine

import numpy as np  # noqa: E402

from bftrainer import progress  # noqa: E402

RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
CLASSES, PIXELS, HIDDEN = 10, 64, 32


class Group:
    """All workers: rank 0 with one connection to each of the others."""

    def __init__(self) -> None:
        self.peers: list[socket.socket] = []
        if SIZE == 1:
            return
        folder = os.open(os.environ["BFTRAINER_TRAINER_DIR"], os.O_RDONLY | os.O_DIRECTORY)
        # Through the descriptor: the path of a socket has at most 108 characters.
        path = f"/proc/self/fd/{folder}/group.{os.environ['BFTRAINER_INCARNATION']}"
        if RANK == 0:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path)
                server.listen(SIZE)
                server.settimeout(60)
                self.peers = [server.accept()[0] for _ in range(SIZE - 1)]
            Path(path).unlink()
        else:
            self.peers = [self._connect(path)]

    @staticmethod
    def _connect(path: str) -> socket.socket:
        end = time.monotonic() + 60
        while True:
            peer = socket.socket(socket.AF_UNIX)
            try:
                peer.connect(path)
                return peer
            except (FileNotFoundError, ConnectionRefusedError):
                peer.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def add_up(self, values: np.ndarray) -> np.ndarray:
        """The sum of all workers' values, on every worker."""
        if RANK:
            _send(self.peers[0], values)
            return _receive(self.peers[0])
        total = values + sum(_receive(peer) for peer in self.peers)
        for peer in self.peers:
            _send(peer, total)
        return total


def _send(peer: socket.socket, values: np.ndarray) -> None:
    data = values.astype("<f8").tobytes()
    peer.sendall(struct.pack("<q", len(data)) + data)


def _receive(peer: socket.socket) -> np.ndarray:
    (size,) = struct.unpack("<q", _exactly(peer, 8))
    return np.frombuffer(_exactly(peer, size), "<f8")


def _exactly(peer: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        data = peer.recv(size - len(parts))
        if not data:
            raise ConnectionError("a worker has closed its connection")
        parts += data
    return bytes(parts)


def letters(count: int, alphabet: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The data set: noisy letters and their labels."""
    rng = np.random.default_rng(7)
    labels = rng.integers(CLASSES, size=count)
    return alphabet[labels] + 0.9 * rng.standard_normal((count, PIXELS)), labels


def gradient(
    weights: np.ndarray, images: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, float]:
    """Gradient and loss of two layers with a softmax, as sums over the samples."""
    first = weights[: PIXELS * HIDDEN].reshape(PIXELS, HIDDEN)
    second = weights[PIXELS * HIDDEN :].reshape(HIDDEN, CLASSES)
    hidden = np.maximum(images @ first, 0)
    scores = hidden @ second
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -float(np.log(chances[rows, labels] + 1e-12).sum())
    chances[rows, labels] -= 1
    back = (chances @ second.T) * (hidden > 0)
    return np.concatenate([(images.T @ back).ravel(), (hidden.T @ chances).ravel()]), loss


def main() -> int:
    """Train."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--epochs", type=int, default=1_000_000)
    options.add_argument(
        "--seed", type=int, default=7, help="of the initial weights and the order of the data"
    )
    options.add_argument("--samples", type=int, default=4096, help="size of the data set")
    options.add_argument("--batch", type=int, default=32, help="samples per worker and step")
    options.add_argument("--pace-s", type=float, default=0.0, help="minimum duration of a step")
    options.add_argument("--checkpoint", type=Path, default=Path("checkpoint.npz"))
    options.add_argument("--checkpoint-every", type=int, default=20, help="steps")
    options.add_argument(
        "--record", type=Path, help="rank 0 appends 'incarnation step size' per step"
    )
    given = options.parse_args()

    report, group = progress.Reporter(), Group()
    batches = progress.batches(progress.Scaling.WEAK, given.batch)
    rate = progress.LearningRate(base=0.05, base_batch=given.batch, warmup_steps=20)
    alphabet = np.random.default_rng(1).standard_normal((CLASSES, PIXELS))
    rng = np.random.default_rng(given.seed)
    weights = 0.1 * rng.standard_normal(PIXELS * HIDDEN + HIDDEN * CLASSES)
    images, labels = letters(given.samples, alphabet)
    sampler = progress.Sampler(given.samples, batches, RANK, SIZE, seed=given.seed)
    step = 0
    if given.checkpoint.exists():
        with np.load(given.checkpoint) as saved:
            weights, step = saved["weights"], int(saved["step"])
            others = json.loads(str(saved["others"]))
        sampler.load_state_dict(others["sampler"])
        rate.load_state_dict(others["rate"])

    report.watch(lambda: [weights], sampler=sampler, rate=rate)

    def save() -> None:
        if RANK == 0:
            part = given.checkpoint.with_suffix(".part.npz")
            others = json.dumps({"sampler": sampler.state_dict(), "rate": rate.state_dict()})
            np.savez(part, weights=weights, step=step, others=others)
            part.replace(given.checkpoint)
            report.checkpointed()

    total, loss = batches.total(SIZE), None
    if RANK == 0:
        print(f"resumes at step {step} with {SIZE} workers", flush=True)
    while step < given.steps and sampler.epoch < given.epochs:
        for mine in sampler:
            began = time.monotonic()
            # The last value counts the workers that have seen a stop request, so all of them stop
            # at the same step.
            stop = report.stop_requested()
            change, part_loss = gradient(weights, images[mine], labels[mine])
            summed = group.add_up(np.concatenate([change, [part_loss, float(stop)]]))
            weights = weights - rate.at(total, step) * summed[:-2] / total
            sampler.advance()
            step, loss = step + 1, float(summed[-2]) / total
            report.step(step=step, samples=sampler.samples, loss=loss, world_size=SIZE)
            if given.record is not None and RANK == 0:
                with given.record.open("a") as out:
                    out.write(f"{report.incarnation} {step} {SIZE}\n")
            if summed[-1] > 0:
                save()
                report.leave()
            if step % given.checkpoint_every == 0:
                save()
            if RANK == 0 and step % 100 == 0:
                print(f"step {step}, {sampler.samples} samples, loss {loss:.4f}", flush=True)
            time.sleep(max(0.0, given.pace_s - (time.monotonic() - began)))
            if step == given.steps:
                break
    save()
    report.done()
    if RANK == 0:
        print(
            f"done: {step} steps, {sampler.samples} samples, loss "
            f"{loss if loss is None else round(loss, 4)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
