"""What workers say to each other: numbers, of which none can run code."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.needs import need_package
from support.ran import python

from bftrainer import progress
from bftrainer.errors import InvalidValueError
from bftrainer.progress.horovod_numbers import horovod_bytes, horovod_numbers
from bftrainer.progress.plain_values import packed_values, unpacked_values

CHECKOUT = Path(__file__).parents[2]

MEMBER = """
import os, sys, time
import torch.distributed as dist
from bftrainer import progress
class Runs:
    def __reduce__(self):
        return os.system, ("touch " + sys.argv[1] + "/ran",)
rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/meeting", rank=rank, world_size=2)
if sys.argv[3] == "honest" or rank == 1:
    print(progress.Agreement.of_torch(progress.Reporter(), dist).to_stop())
else:
    dist.broadcast_object_list([Runs()], src=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["honest", "hostile"])
def test_who_sits_in_rank_0_s_place_runs_no_code(tmp_path: Path, first: str) -> None:
    need_package("torch")
    (tmp_path / "member.py").write_text(MEMBER)
    members = [
        subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                str(tmp_path / "member.py"),
                str(tmp_path),
                str(rank),
                first,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [member.communicate(timeout=300) for member in members]
    assert not (tmp_path / "ran").exists()
    if first == "honest":
        assert [out for out, _ in said] == ["False\n", "False\n"], said


LEAVES = """
import sys, time
import torch, torch.distributed as dist
from bftrainer import progress
rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/meeting", rank=rank, world_size=2)
if rank == 0:
    time.sleep(3)
    dist.broadcast(torch.ones(4), 0)
    progress.Reporter().leave()
message = dist.broadcast(torch.zeros(4), 0, async_op=True)
message.get_future().then(lambda _: print("received", flush=True))
progress.Reporter().leave()
"""


@pytest.mark.slow
def test_a_worker_that_leaves_while_a_message_arrives_does_not_abort(tmp_path: Path) -> None:
    """gloo's thread calls Python when the message is complete: the worker waits for it, not the
    other way round.
    """
    need_package("torch")
    (tmp_path / "leaves.py").write_text(LEAVES)
    argv = [sys.executable, "-W", "ignore", str(tmp_path / "leaves.py"), str(tmp_path)]
    members = [
        subprocess.Popen([*argv, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(2)
    ]
    said = [member.communicate(timeout=300)[0] for member in members]
    assert [member.returncode for member in members] == [progress.STOPPED_STATUS] * 2
    assert said == ["", "received\n"]


OBJECTS = {
    "broadcast_object",
    "broadcast_object_list",
    "all_gather_object",
    "allgather_object",
    "gather_object",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
}


def calls_of(tree: ast.AST) -> set[str]:
    names = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    return names | {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def test_no_worker_sends_objects() -> None:
    """Neither the product nor an example, whose lines users copy."""
    files = [
        path
        for folder in ("bftrainer", "adapters", "docs/examples")
        for path in (CHECKOUT / folder).rglob("*.py")
    ]
    assert len(files) > 100
    sending = {str(path): calls_of(ast.parse(path.read_text())) & OBJECTS for path in files}
    assert {path: names for path, names in sending.items() if names} == {}


class Framework:
    """A Horovod of several workers that all hear rank 0. Horovod accepts arrays for TensorFlow and
    Keras.
    """

    def __init__(self, heard: list[Any], rank: int) -> None:
        self.heard, self._rank = heard, rank

    def rank(self) -> int:
        return self._rank

    def broadcast(self, array: Any, root_rank: int, name: str) -> Any:
        assert root_rank == 0
        if self._rank == 0:
            self.heard.append(array)
            return array
        sent = self.heard.pop(0)
        assert (sent.shape, sent.dtype) == (array.shape, array.dtype), "Horovod requires it"
        return sent


def test_horovod_s_workers_get_rank_0_s_numbers_and_bytes() -> None:
    heard: list[Any] = []
    first, other = Framework(heard, 0), Framework(heard, 1)
    assert horovod_numbers(first, [1, 50]) == horovod_numbers(other, [0, 7]) == [1, 50]
    assert horovod_bytes(first, b"weights") == horovod_bytes(other, b"") == b"weights"


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.integers() | st.text(), inner)
    ),
)


@given(PLAIN)
def test_a_plain_state_is_the_same_on_the_other_side(value: object) -> None:
    again = unpacked_values(packed_values(value))
    assert (again, type(again)) == (value, type(value))


def test_arrays_are_the_same_on_the_other_side() -> None:
    numpy = pytest.importorskip("numpy")
    for array in (
        numpy.arange(6, dtype="float32").reshape(2, 3),
        numpy.zeros((0, 2)),
        numpy.array(True),
    ):
        again = unpacked_values(packed_values({"mean": array}))["mean"]
        assert again.dtype == array.dtype
        assert numpy.array_equal(again, array)
    assert unpacked_values(packed_values(numpy.float64(0.1))) == 0.1


def test_tensors_are_the_same_on_the_other_side() -> None:
    need_package("torch")
    body = """
import torch
from bftrainer.progress.plain_values import packed_values, unpacked_values
for made in (torch.randn(3, 2), torch.randn(2).bfloat16(), torch.tensor(5), torch.empty(0, 4), torch.randn(2, 3).t()):
    found = unpacked_values(packed_values([made]))[0]
    assert found.dtype == made.dtype and torch.equal(found, made), made
print("same")
"""
    assert python("-W", "ignore", "-c", body).stdout == "same\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[",
        b'["os.system", "id"]',
        b'["tensor", "load", [1], ""]',
        b"[" * 100_000,
        b'["list"]',
    ],
)
def test_any_other_text_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidValueError, match="not a worker's state"):
        unpacked_values(data)


def test_an_object_is_refused_where_it_is_sent() -> None:
    with pytest.raises(InvalidValueError, match="a state_dict has a object, which is not sent"):
        packed_values({"file": object()})
