"""The state of a replica on its way to another one: tensors as they lie in memory, and a JSON
description of the rest.

Reading one makes numbers, text, lists, tuples, dicts and tensors, and nothing else: no class is
looked up, nothing is called.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bftrainer.errors import UserError
from bftrainer.system.listening_ports import Connection, Limits, Port, PortServer
from bftrainer.system.network import tcp_listener
from bftrainer.system.sealed import SealedClient, SealedServer, SealError

MOST_BYTES = 1 << 30
"""The largest size of a description; a tensor may be of any size."""
_CHUNK_BYTES = 4 << 20
_BACKLOG = 16_384
_LIMITS = Limits(strangers=2048, clients=64, request_s=10.0)
_DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "complex64",
    "complex128",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)

_CONTENTS: dict[str, type] = {
    "tensor": str,
    "dict": list,
    "list": list,
    "tuple": list,
    "bytes": str,
}
"""The kinds of values in a description, and how JSON holds the content of each."""


def described(state: object, where: str = "state") -> tuple[Any, list[Any]]:
    """Return a state as a JSON description and a list of its tensors, which the description only
    refers to.

    {"lr": 0.1, "w": tensor} becomes {"dict": [["lr", 0.1], ["w", {"tensor": "float32", "shape":
    [2]}]]} and [tensor]. Raises :class:`UserError` for a value that cannot be sent, with its place
    in the state.
    """
    torch = importlib.import_module("torch")
    tensors: list[Any] = []

    def of(value: Any, place: str) -> Any:
        """Describe one value, which stands at ``place``."""
        if isinstance(value, torch.Tensor):
            name = str(value.dtype).removeprefix("torch.")
            if name not in _DTYPES or value.layout is not torch.strided:
                raise UserError(
                    f"replicas: {place}: a tensor of {name}, {value.layout} cannot be copied "
                    "to a peer"
                )
            tensors.append(value.detach())
            return {"tensor": name, "shape": list(value.shape)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, dict):
            return {"dict": [[of(k, place), of(v, f"{place}.{k}")] for k, v in value.items()]}
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [of(item, f"{place}[{number}]") for number, item in enumerate(value)]}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        raise UserError(
            f"replicas: {place}: {type(value).__name__} cannot be copied to a peer; expected "
            "tensors, numbers, text, lists, "
            "tuples and dicts"
        )

    return of(state, where), tensors


def _kind_of(description: Any) -> str | None:
    """Return the kind of value (of ``_CONTENTS``) that an object describes; None if it describes
    none.
    """
    if not isinstance(description, dict):
        return None
    for kind, content_type in _CONTENTS.items():
        if isinstance(description.get(kind), content_type):
            return kind
    return None


def restored(description: Any, tensors: Iterator[Any]) -> Any:
    """Return the state that a description and its tensors stand for. Raises :class:`SealError` for
    another object.
    """
    if description is None or isinstance(description, (bool, int, float, str)):
        return description
    kind = _kind_of(description)
    if kind is None:
        raise SealError(f"not a description of a state: {description!r:.60}")
    content = description[kind]
    if kind == "tensor":
        return next(tensors)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "dict":
        return {restored(key, tensors): restored(value, tensors) for key, value in content}
    items = [restored(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items


def empty_tensors(description: Any) -> Iterator[Any]:
    """Yield new tensors for those of a description, in their order, to be filled."""
    torch = importlib.import_module("torch")
    kind = _kind_of(description)
    if kind == "tensor":
        name, shape = description["tensor"], description.get("shape")
        if name in _DTYPES and isinstance(shape, list):
            yield torch.empty([int(size) for size in shape], dtype=getattr(torch, name))
    elif kind == "dict":
        for pair in description["dict"]:
            for part in pair:
                yield from empty_tensors(part)
    elif kind in ("list", "tuple"):
        for item in description[kind]:
            yield from empty_tensors(item)


def copied_from(source: str, key: bytes, step: int, timeout_s: float) -> Any:
    """Fetch a peer's state after ``step`` steps. Raises ``OSError``, :class:`SealError`."""
    host, _, port = source.rpartition(":")
    client = SealedClient((host, int(port)), key, timeout_s)
    try:
        client.send(str(step).encode())
        description = json.loads(client.receive(MOST_BYTES))
        tensors = list(empty_tensors(description))
        for tensor in tensors:
            left = _tensor_bytes(tensor)
            while left:
                piece = client.receive(min(_CHUNK_BYTES, len(left)))
                left[: len(piece)] = piece
                left = left[len(piece) :]
        client.send(b"")
        return restored(description, iter(tensors))
    except (
        ValueError,
        TypeError,
        RuntimeError,
        StopIteration,
    ) as error:
        # RecursionError is among these, as a RuntimeError.
        raise SealError(f"not a description of a state: {error}") from error
    finally:
        client.close()


def _tensor_bytes(tensor: Any) -> memoryview:
    """Return the bytes of a contiguous tensor in the host's memory, not a copy of them."""
    torch = importlib.import_module("torch")
    return (
        memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
        if tensor.numel()
        else memoryview(b"")
    )


class WeightsServer:
    """Passes this replica's state to peers that know the key, while :meth:`pass_on` waits for
    them.
    """

    def __init__(self, address: str, key: bytes, welcomes: Callable[[str], bool]) -> None:
        self._key = key
        self._state: tuple[int, bytes, list[Any]] | None = None
        self._passed = threading.Semaphore(0)
        listener = tcp_listener(address, 0, _BACKLOG)
        self.port = int(listener.getsockname()[1])
        self._server = PortServer("weights", [Port(listener, welcomes, self._serve, _LIMITS)])
        self._server.start()

    def pass_on(self, state: object, step: int, copies: int, timeout_s: float) -> None:
        """Offer the state after ``step`` steps until ``copies`` peers have fetched it.

        Raises ``TimeoutError`` if one does not come in time, and :class:`UserError` for a state
        that cannot be sent.
        """
        description, tensors = described(state)
        self._state = (
            step,
            json.dumps(description).encode(),
            [tensor.cpu().contiguous() for tensor in tensors],
        )
        try:
            for _ in range(copies):
                if not self._passed.acquire(timeout=timeout_s):
                    raise TimeoutError("a peer has not come for the weights")
        finally:
            self._state = None

    def close(self) -> None:
        self._server.stop()

    async def _serve(self, connection: Connection) -> None:
        """Pass the state to one peer that knows the key and names the offered step."""
        sealed = SealedServer(connection.read, connection.send, self._key)
        try:
            await sealed.greet()
            if not connection.admit():
                return
            step = int(await sealed.receive(64))
            connection.close_after(None)
            # The peer may be told of the step before this replica is.
            while self._state is None or self._state[0] != step:
                await connection.while_silent(asyncio.sleep(0.005))
            _, description, tensors = self._state
            await sealed.send(description)
            for tensor in tensors:
                memory = _tensor_bytes(tensor)
                for begin in range(0, len(memory), _CHUNK_BYTES):
                    await sealed.send(memory[begin : begin + _CHUNK_BYTES])
            await sealed.receive(0)
            self._passed.release()
        except (SealError, ValueError):
            return
