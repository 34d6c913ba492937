"""The state of a replica on its way to another: tensors and plain values, from a peer that knows
the key.
"""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.needs import need_package

from bftrainer.errors import UserError
from bftrainer.progress.weights import WeightsServer, copied_from, described, restored
from bftrainer.system.listening_ports import hosts_in
from bftrainer.system.sealed import HEAD, Seal, SealError

KEY = b"k" * 32


@pytest.fixture
def server() -> Iterator[WeightsServer]:
    need_package("torch")
    made = WeightsServer("127.0.0.1", KEY, hosts_in(["127.0.0.0/8"]))
    yield made
    made.close()


def copies(server: WeightsServer, state: object, key: bytes = KEY) -> Any:
    """The state as a peer gets it."""
    giving = threading.Thread(target=server.pass_on, args=(state, 3, 1, 60.0))
    giving.start()
    found = copied_from(f"127.0.0.1:{server.port}", key, 3, 60.0)
    giving.join()
    return found


def test_a_peer_gets_what_training_needs(server: WeightsServer) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(700, 900), torch.nn.BatchNorm1d(900))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.randn(4, 700)).sum().backward()
    optimizer.step()
    odd = {
        dtype: torch.ones(3, 0, 2).to(getattr(torch, dtype))
        for dtype in ("bfloat16", "bool", "complex64")
    }
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "odd": odd,
        "scalar": torch.tensor(2.5),
        "part": torch.arange(10)[::2],
        7: (None, True, -1, float("inf"), "x", [b"y"]),
        "large": torch.randn(3 << 20),
    }
    found = copies(server, state)
    wanted, tensors = described(state)
    described_again, copied = described(found)
    assert described_again == wanted
    assert all(
        a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(copied, tensors, strict=True)
    )
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])


def test_what_is_no_plain_value_is_named(server: WeightsServer) -> None:
    with pytest.raises(
        UserError, match=r"replicas: state\.keep 0\.rates\[1\]: object cannot be copied to a peer"
    ):
        described({"keep 0": {"rates": [1, object()]}})


def test_who_does_not_know_the_key_gets_and_gives_nothing(server: WeightsServer) -> None:
    with pytest.raises(SealError, match="does not know"):
        copied_from(f"127.0.0.1:{server.port}", b"x" * 32, 3, 60.0)

    def stranger(listener: socket.socket) -> None:
        with listener, listener.accept()[0] as peer:
            peer.sendall(bytes(64) + pickle.dumps(print))
            peer.recv(1000)

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=stranger, args=(listener,)).start()
    with pytest.raises(SealError, match="does not know"):
        copied_from(f"127.0.0.1:{listener.getsockname()[1]}", KEY, 3, 60.0)


@pytest.mark.parametrize(
    "lie",
    [
        b'{"tensor": "float32", "shape": ["x"]}',
        b'{"tensor": "float32", "shape": [[1]]}',
        b'{"dict": [[{"list": []}, 1]]}',
        b'{"tensor": "float32", "shape": [-1]}',
        b'{"tensor": "float32", "shape": [1125899906842624]}',
        b"[" * 100_000,
        b'{"tensor": "load", "shape": [1]}',
        b'{"tensor": "float32"}',
        b'{"dict": [[1]]}',
    ],
)
def test_a_peer_that_knows_the_key_and_lies_fails_the_step_alone(lie: bytes) -> None:
    need_package("torch")

    def peer(listener: socket.socket) -> None:
        with listener, listener.accept()[0] as client:
            seal = Seal(KEY, client.recv(32, socket.MSG_WAITALL), bytes(32), is_client=False)
            client.sendall(bytes(32) + seal.proof)
            client.recv(32 + 4 + 1 + 32, socket.MSG_WAITALL)  # its proof, and the step
            client.sendall(HEAD.pack(len(lie)) + lie + seal.tag(lie))
            while client.recv(4096):
                pass

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=peer, args=(listener,)).start()
    with pytest.raises(SealError, match="not a description"):
        copied_from(f"127.0.0.1:{listener.getsockname()[1]}", KEY, 3, 60.0)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_description_makes_anything_else(found: Any) -> None:
    try:
        restored(found, iter(()))
    except (SealError, ValueError, TypeError, StopIteration):
        return


def test_messages_cannot_be_changed_repeated_or_sent_back() -> None:
    client, server = (Seal(KEY, b"c", b"s", is_client=side) for side in (True, False))
    server.check_proof(client.proof)
    with pytest.raises(SealError):
        server.check_proof(server.proof)
    tag = client.tag(b"one")
    server.check(b"one", tag)
    for message, seal in ((b"one", server), (b"two", server), (b"one", client)):
        with pytest.raises(SealError):
            seal.check(message, tag)
