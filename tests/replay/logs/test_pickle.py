"""The authors' pickle: read by hand, and a malicious one that must stay words."""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import tarfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data import data_file
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_logs import read

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.event_log import read_event_log
from bftrainer_replay.logs.open import open_log
from bftrainer_replay.logs.pickle_text import PickledCall, PickledName, PickleError, load

NAMES = ["b2", "a1", "c3"]
TIMES = np.array(["2021-02-10T00:00:10", "2021-02-10T00:01:10", "2021-02-10T00:02:00"], dtype="M8[ns]")
IDLE = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 0]], dtype=np.int8)  # nodes x times


@contextlib.contextmanager
def modules_like_pandas() -> Iterator[dict[str, Any]]:
    """Classes of the names that pandas 1.x pickles, so that pickles of its shape can be made without it."""
    made: dict[str, Any] = {}
    before = dict(sys.modules)
    wanted = {
        "pandas.core.frame": ["DataFrame"],
        "pandas.core.internals.managers": ["BlockManager"],
        "pandas.core.indexes.base": ["Index", "_new_Index"],
        "pandas.core.indexes.datetimes": ["DatetimeIndex", "_new_DatetimeIndex"],
        "pandas.core.arrays.datetimes": ["DatetimeArray"],
    }
    for module, names in wanted.items():
        for end in range(module.count(".") + 1):
            sys.modules.setdefault(".".join(module.split(".")[: end + 1]), types.ModuleType("made"))
        for name in names:
            thing: Any = (lambda *a: None) if name.startswith("_") else type(name, (), {})
            thing.__module__, thing.__qualname__, thing.__name__ = module, name, name
            setattr(sys.modules[module], name, thing)
            made[name] = thing
    try:
        yield made
    finally:
        sys.modules.clear()
        sys.modules.update(before)


class Made:
    """Pickles as a call with a state."""

    def __init__(self, what: Any, arguments: tuple[Any, ...] = (), state: Any = None) -> None:
        self.parts = (what, arguments) if state is None else (what, arguments, state)

    def __reduce__(self) -> Any:
        return self.parts


def table(names: Any = NAMES, times: Any = TIMES, idle: Any = IDLE) -> bytes:
    with modules_like_pandas() as pandas:
        columns = Made(pandas["_new_Index"], (pandas["Index"], {"data": np.array(names, dtype=object), "name": None}))
        rows = Made(pandas["DatetimeArray"], (), {"_data": times, "_freq": None})
        index = Made(pandas["_new_DatetimeIndex"], (pandas["DatetimeIndex"], {"data": rows, "tz": None}))
        manager = Made(pandas["BlockManager"], (), ([columns, index], [idle], [columns], {}))
        frame = Made(pandas["DataFrame"], (), {"_mgr": manager, "_typ": "dataframe"})
        data = pickle.dumps(frame, protocol=4)
    # numpy 2 names its module anew; the authors' file is of numpy 1, and its dtype('O') is spelt O8 there as here.
    return data.replace(b"\x8c\x16numpy._core.multiarray", b"\x8c\x15numpy.core.multiarray")


def unframed(data: bytes) -> bytes:
    """Without FRAME, whose length would no longer be right."""
    return data[:2] + data[11:] if data[2:3] == b"\x95" else data


def seen(found: Any) -> list[tuple[list[str], list[str]]]:
    return [(sorted(e.change.joined), sorted(e.change.left)) for e in found.log.events]


def test_a_table_like_theirs(tmp_path: Path) -> None:
    found = read(tmp_path, unframed(table()))
    assert seen(found) == [(["b2"], []), (["a1"], []), ([], ["b2"])]
    assert [e.at_s for e in found.log.events] == [1612915210.0, 1612915270.0, 1612915320.0]
    fortran = read(tmp_path, unframed(table(idle=np.asfortranarray(IDLE))))
    assert fortran.log.events == found.log.events


def test_in_a_tar_archive(tmp_path: Path) -> None:
    data = unframed(table())
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        info = tarfile.TarInfo("../../x.pkl")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    assert seen(read(tmp_path, archive.getvalue())) == [(["b2"], []), (["a1"], []), ([], ["b2"])]
    with pytest.raises(InputFileError, match="log: "):
        read(tmp_path, archive.getvalue()[:-40])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (pickle.dumps({"a": 1}), "DataFrame is missing"),
        (pickle.dumps([1, 2, 3]), "DataFrame is missing"),
        (unframed(table(names=["a", "b", 3])), "not node names"),
        (unframed(table(names=["a", "b", "a"])), "twice"),
        (unframed(table(idle=IDLE * 2)), "values other than 0 and 1"),
        (unframed(table(idle=IDLE.astype(float))), "unknown type"),
        (unframed(table(times=TIMES[::-1].copy())), "do not increase"),
        (unframed(table(idle=IDLE[:2])), "one int8"),
        (unframed(table())[:-300], "damaged or truncated"),
        (b"\x80\x04\x95", "damaged or truncated|no end"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "damaged or truncated"),
    ],
)
def test_other_pickles_are_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(InputFileError, match=problem):
        read(tmp_path, data)


class Evil:
    def __init__(self, what: Any, *arguments: Any) -> None:
        self.what, self.arguments = what, arguments

    def __reduce__(self) -> Any:
        return self.what, self.arguments


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_nothing_of_a_malicious_pickle_is_executed(tmp_path: Path, protocol: int) -> None:
    import os

    bait = tmp_path / "owned"
    for evil in (
        Evil(os.system, f"touch {bait}"),
        Evil(eval, f"open({str(bait)!r}, 'w')"),
        Evil(exec, f"open({str(bait)!r}, 'w')"),
        [Evil(open, str(bait), "w")],
        {"_mgr": Evil(os.mkdir, str(bait))},
    ):
        data = pickle.dumps(evil, protocol=protocol)
        with pytest.raises(InputFileError):
            read(tmp_path, data)
        assert not bait.exists()
    # The bait is real: python's own pickle takes it.
    os.close(os.open(bait.with_name("x"), os.O_CREAT))
    pickle.loads(pickle.dumps(Evil(os.mkdir, str(bait)), protocol=protocol))
    assert bait.exists()


def test_a_call_stays_a_description(tmp_path: Path) -> None:
    found = load(io.BytesIO(pickle.dumps(Evil(print, "hello"), protocol=4)))
    assert found == PickledCall(PickledName("builtins.print"), ("hello",))


@pytest.mark.parametrize(
    "opcodes", [b"(S'ls'\nios\nsystem\n.", b"cos\nsystem\n(S'ls'\no.", b"Ppid\n.", b"\x80\x02\x82\x01."]
)
def test_opcodes_that_no_table_needs_are_refused(opcodes: bytes) -> None:
    with pytest.raises(PickleError, match=r"which no table needs|damaged"):
        load(io.BytesIO(opcodes))


def doubled(levels: int) -> bytes:
    """A tuple of twice the tuple before, many times: small on disk and in memory, endless to print or to hash."""
    return b")" + b"".join(b"q%ch%c\x86" % (level, level) for level in range(levels))


@pytest.mark.parametrize(
    "opcodes",
    [
        b"})" + 200_000 * b"\x85" + b"K\x01s.",  # a deep tuple as a key
        b"}" + doubled(60) + b"K\x01s.",  # a tuple as a key whose hash takes 2**60 steps
        b"}(" + doubled(60) + b"K\x01u.",
        doubled(60) + b"\x8c\x01x\x93.",  # such a tuple as the module of a name
        b"\x8c\x01x" + doubled(60) + b"\x93.",
    ],
)
def test_a_small_pickle_neither_hangs_nor_overflows(opcodes: bytes) -> None:
    with pytest.raises(PickleError, match=r"as a key, expected text|a name is not text"):
        load(io.BytesIO(b"\x80\x04" + opcodes))


def test_nothing_endless_is_printed_or_looked_up(tmp_path: Path) -> None:
    """Where the type of an array, or the unit of its times, is such a tuple."""
    for name, was in (("code", b"\x8c\x02M8"), ("unit", b"C\x02ns")):
        data = unframed(table())
        assert was in data, name
        with pytest.raises(InputFileError, match=r"unknown|damaged|layout|no times|not match"):
            read(tmp_path, data.replace(was, doubled(60)))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_pickles_end_in_a_log_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(unframed(table()))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(2, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("fuzz") / "log"
    path.write_bytes(content)
    with contextlib.suppress(InputFileError):
        open_log(path)


@pytest.mark.data
@pytest.mark.slow
def test_the_authors_file_says_what_the_text_says() -> None:
    theirs = open_log(data_file("summit-2021-02/ndstat-10sdn6-evt.tar.gz")).log
    text = read_event_log(data_file("summit-2021-02/summit-2021-02-events.csv.gz"))
    assert theirs.events == text.events
    assert len(theirs.events) == 23_883
