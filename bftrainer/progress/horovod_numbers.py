"""Numbers and bytes of rank 0 on all workers of Horovod: tensors, where Horovod's
``broadcast_object`` unpickles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def horovod_numbers(hvd: Any, numbers: Sequence[int]) -> list[int]:
    """Return rank 0's integers on every worker. All workers must pass equally many.

    ``hvd`` is the framework's module, initialized.
    """
    return [int(number) for number in _rank_0_values(hvd, numbers, "int64")]


def horovod_bytes(hvd: Any, data: bytes) -> bytes:
    """Return rank 0's bytes on every worker. ``data`` may be of any length, and counts on rank 0
    only.
    """
    (n_bytes,) = horovod_numbers(hvd, [len(data)])
    # Horovod broadcasts between tensors of one size.
    buffer = data if hvd.rank() == 0 else bytes(n_bytes)
    return bytes(_rank_0_values(hvd, buffer, "uint8"))


def _rank_0_values(hvd: Any, values: Sequence[int], dtype: str) -> Any:
    """Return rank 0's values on every worker, as an array of type ``dtype``: "uint8" for bytes,
    "int64" for integers. All workers must pass equally many.
    """
    name = f"bftrainer.{dtype}"
    if getattr(hvd, "__name__", "").startswith("horovod.torch"):
        import torch

        element = getattr(torch, dtype)
        tensor = (
            torch.frombuffer(bytearray(values), dtype=element)
            if dtype == "uint8"
            else torch.tensor(values, dtype=element)
        )
        return hvd.broadcast(tensor, root_rank=0, name=name).numpy()
    import numpy  # TensorFlow and Keras accept arrays

    array = (
        numpy.frombuffer(values, dtype) if isinstance(values, bytes) else numpy.array(values, dtype)
    )
    return numpy.asarray(hvd.broadcast(array, root_rank=0, name=name))
