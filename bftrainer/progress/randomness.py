"""Random numbers of a step that depend on seed, step and rank only.

A process that resumes draws the numbers of its first steps again, and processes with one seed draw
equal numbers: dropout, augmentation and noise would repeat. States that each rank saves are of no
use at another size. So the generators are seeded before every step.
"""

from __future__ import annotations

import hashlib
import random
import sys
from functools import lru_cache
from typing import Any


def step_seed(seed: int, step: int, rank: int, purpose: str = "step") -> int:
    """A number of 64 bits that differs for each seed, step, rank and purpose."""
    words = f"{seed} {step} {rank} {purpose}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big")


def seed_step(seed: int, step: int, rank: int, purpose: str = "step") -> None:
    """Seed the generators of Python, NumPy and torch (with its devices) for one step of one rank.

    NumPy and torch are seeded if they have been imported. Call it on every rank before each step.

    Args:
        seed: The training's seed, the same on all ranks and after every restart.
        step: Steps since training began.
        rank: The rank of this process.
        purpose: Separates numbers that are drawn for different reasons in one step.
    """
    number = step_seed(seed, step, rank, purpose)
    random.seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        _seed_torch(torch, number)


def _seed_torch(torch: Any, number: int) -> None:
    """Seed torch's generators of the CPU and of CUDA, or of all devices if there are others.

    ``torch.manual_seed`` alone would take 100 microseconds (torch 2.13): it asks for every kind of
    device.
    """
    if _has_other_devices():
        torch.manual_seed(number)
        return
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


@lru_cache(maxsize=1)
def _has_other_devices() -> bool:
    """Whether torch has devices of its own random numbers that are neither CPUs nor CUDA's."""
    import torch

    kinds = (getattr(torch, "xpu", None), getattr(torch.backends, "mps", None))
    return any(kind is not None and kind.is_available() for kind in kinds)


def random_states() -> tuple[tuple[str, str], ...]:
    """Return digests of the states of the generators of Python, NumPy, torch and the present CUDA
    device, by name.

    Those of packages that have not been imported, and of CUDA before its first use, are left out.
    """
    states = {"python": repr(random.getstate()).encode()}
    if (numpy := sys.modules.get("numpy")) is not None:
        kind, key, *position = numpy.random.get_state()
        states["numpy"] = f"{kind} {position}".encode() + key.tobytes()
    if (torch := sys.modules.get("torch")) is not None:
        states["torch"] = torch.get_rng_state().numpy().tobytes()
        if torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state().numpy().tobytes()
    return tuple(
        (name, hashlib.blake2b(state, digest_size=8).hexdigest()) for name, state in states.items()
    )
