"""The inputs of a sweep as a file beside its results, for workers that are not children of the
command.

The file is a pickle. Its digest travels with each task, through the executor that runs our code
anyway: a worker unpickles nothing but the bytes that the command wrote.
"""

from __future__ import annotations

import hashlib
import pickle
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bftrainer.errors import UserError
from bftrainer.system.files import remove_file, write_atomically
from bftrainer_replay.sweep.cell import Inputs


@dataclass(frozen=True, slots=True)
class SharedInputs:
    """The inputs in a file, and the SHA-256 of its bytes."""

    path: Path
    digest: str


@contextmanager
def shared_inputs(inputs: Inputs, folder: Path) -> Iterator[SharedInputs]:
    """Write the inputs into a file in ``folder`` for the time of the block; yield where they are.

    Raises ``UserError`` if the folder cannot be written.
    """
    data = pickle.dumps(inputs, protocol=pickle.HIGHEST_PROTOCOL)
    path = folder.absolute() / f".inputs-{secrets.token_hex(6)}"
    try:
        write_atomically(path, data, 0o600)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        yield SharedInputs(path, hashlib.sha256(data).hexdigest())
    finally:
        remove_file(path)


@lru_cache(maxsize=1)  # a worker computes many tasks of one sweep
def read_shared(shared: SharedInputs) -> Inputs:
    """Return the inputs of a sweep in a worker, from the file that the command wrote.

    Raises ``UserError`` if the file is missing, or not the one that was written.
    """
    try:
        data = shared.path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{shared.path}: cannot be read by a worker: {error.strerror}; expected an output "
            "directory that all workers share"
        ) from error
    if hashlib.sha256(data).hexdigest() != shared.digest:
        raise UserError(f"{shared.path}: is not the file that this sweep wrote")
    inputs = pickle.loads(data)  # noqa: S301  # the digest came with the code
    assert isinstance(inputs, Inputs), "the digest is right"
    return inputs
