"""The compiled engine, and the structures that it shares with ``engine.cpp``, in the same order.

The library needs no Python headers, so that one wheel per platform serves every version of Python.
Without it, every replay runs in Python.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bftrainer.errors import UserError
from bftrainer.system.signals import ending_deferred

VERSION = 2
"""That of the structures: a library of another version is not used."""
SOURCE = Path(__file__).with_name("engine.cpp")
"""A library that was built from another text is not used: an editable installation may have kept
it."""
CHOICE = "BFTRAINER_ENGINE"
"""Environment variable: the path of another library, or ``python`` for none."""
_I64, _F64, _I32 = ctypes.c_int64, ctypes.c_double, ctypes.c_int32


class ShapeIn(ctypes.Structure):
    """``Shape``: a curve, with the sizes of the trainers that have it."""

    _fields_ = (
        ("min_nodes", _I64),
        ("max_nodes", _I64),
        ("n_points", _I64),
        ("nodes", ctypes.c_void_p),
        ("value", ctypes.c_void_p),
        ("rates", ctypes.c_void_p),
        ("table", ctypes.c_void_p),
        ("at", ctypes.c_void_p),
        ("n_corners", _I64),
        ("corner_nodes", ctypes.c_void_p),
        ("corner_rates", ctypes.c_void_p),
        ("one", _F64),
        ("takes_one", _I64),
    )


class ReplayIn(ctypes.Structure):
    """``Input``: a scenario and a policy."""

    _fields_ = (
        ("n_nodes", _I64),
        ("n_events", _I64),
        ("n_trainers", _I64),
        ("n_shapes", _I64),
        ("max_parallel", _I64),
        ("policy", _I64),
        ("is_relative", _I64),
        ("rigid", _I64),
        ("pool_events_only", _I64),
        ("until_done", _I64),
        ("compensated", _I64),
        ("keep_rows", _I64),
        ("plain_nodes", _I64),
        ("start_s", _F64),
        ("end_s", _F64),
        ("forward_s", _F64),
        ("kappa", _F64),
        ("places", _F64),
        ("initial", ctypes.c_void_p),
        ("n_initial", _I64),
        ("event_s", ctypes.c_void_p),
        ("joined_cuts", ctypes.c_void_p),
        ("joined", ctypes.c_void_p),
        ("left_cuts", ctypes.c_void_p),
        ("left", ctypes.c_void_p),
        ("shapes", ctypes.c_void_p),
        ("trainers", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
    )


TRAINER_IN = np.dtype(
    [
        ("shape", np.int64),
        ("kind", np.int64),
        ("at_s", np.float64),
        ("up_s", np.float64),
        ("down_s", np.float64),
        ("total", np.float64),
    ]
)
ROW = np.dtype(
    [
        (name, np.float64)
        for name in (
            "at_s",
            "took_s",
            "value",
            "samples",
            "lost_to_preemption",
            "lost_to_rescale",
            "invested",
        )
    ]
    + [
        (name, np.int64)
        for name in (
            "joined",
            "left",
            "submitted",
            "finished",
            "pool_nodes",
            "taken_nodes",
            "counts_end",
            "answer_end",
        )
    ]
)
TRAINER_OUT = np.dtype(
    [
        (name, np.float64)
        for name in (
            "since_s",
            "samples",
            "stalled_until_s",
            "ready_s",
            "preempted_until_s",
            "lost_to_preemption",
            "lost_to_rescale",
            "admitted_s",
            "started_s",
            "finished_s",
            "node_s",
            "stalled_node_s",
            "waits_since_s",
            "waited_s",
        )
    ]
    + [(name, np.int64) for name in ("preemptions", "rescales", "submitted", "held_end")]
)


_BYTES = (
    ctypes.sizeof(ShapeIn),
    TRAINER_IN.itemsize,
    ctypes.sizeof(ReplayIn),
    ROW.itemsize,
    TRAINER_OUT.itemsize,
)


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What the engine returns, as arrays: seconds per decision, rows of the journal, pairs
    (trainer, nodes), counts of the answers, trainers, their nodes, and the totals.
    """

    took_s: NDArray[np.float64]
    rows: NDArray[Any]
    counts: NDArray[np.int32]
    answers: NDArray[np.int32]
    trainers: NDArray[Any]
    held: NDArray[np.int32]
    totals: NDArray[np.float64]


class Engine:
    """A compiled library at ``path``. Raises :class:`OSError` if it is none of this version."""

    def __init__(self, path: Path) -> None:
        """Load the library, and declare its functions.

        Raises :class:`OSError` for a library of another version, with structures of other sizes, or
        built from another source.
        """
        self.path = path
        self._library = ctypes.CDLL(str(path))
        try:
            version = self._library.bftrainer_engine_version
        except AttributeError as error:
            raise OSError(f"{path} is no engine of bftrainer") from error
        version.restype = _I64
        bytes_of = np.zeros(5, dtype=np.int64)
        if version() == VERSION:
            self._library.bftrainer_engine_bytes.argtypes = [ctypes.c_void_p]
            self._library.bftrainer_engine_bytes(bytes_of.ctypes.data)
        if tuple(bytes_of.tolist()) != _BYTES:
            raise OSError(f"{path} is an engine of another version, expected {VERSION}")
        self._library.bftrainer_engine_source.restype = ctypes.c_char_p
        digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
        if self._library.bftrainer_engine_source() != digest.encode():
            raise OSError(f"{path} was not built from {SOURCE}; build it again")
        self._library.bftrainer_replay.restype = ctypes.c_void_p
        self._library.bftrainer_replay.argtypes = [ctypes.POINTER(ReplayIn)]
        self._library.bftrainer_sizes.argtypes = [ctypes.c_void_p] * 2
        self._library.bftrainer_copy.argtypes = [ctypes.c_void_p] * 8
        self._library.bftrainer_free.argtypes = [ctypes.c_void_p]

    def run(self, scenario: ReplayIn) -> Result | None:
        """Run a replay; return its result as arrays of this process, or None if the engine gives
        up.

        Other threads run meanwhile.
        """
        handle = self._replay_in_thread(scenario)
        if not handle:
            return None
        try:
            sizes = np.zeros(6, dtype=np.int64)
            self._library.bftrainer_sizes(handle, sizes.ctypes.data)
            decisions, rows, counts, answers, trainers, held = sizes.tolist()
            result = Result(
                np.empty(decisions, dtype=np.float64),
                np.empty(rows, dtype=ROW),
                np.empty((counts, 2), dtype=np.int32),
                np.empty(answers, dtype=np.int32),
                np.empty(trainers, dtype=TRAINER_OUT),
                np.empty(held, dtype=np.int32),
                np.empty(3, dtype=np.float64),
            )
            arrays = [getattr(result, name).ctypes.data for name in Result.__slots__]
            self._library.bftrainer_copy(handle, *arrays)
        finally:
            self._library.bftrainer_free(handle)
        return result

    def _replay_in_thread(self, scenario: ReplayIn) -> int | None:
        """Replay in another thread, and return the handle of the result (None if the engine gives
        up).

        A signal that ends this thread, such as Ctrl-C, ends the replay at its next event.
        """
        stop = ctypes.c_int64(0)
        scenario.stop = ctypes.addressof(stop)
        handles: list[int | None] = []
        returned = threading.Event()

        def replay() -> None:
            try:
                handles.append(self._library.bftrainer_replay(ctypes.byref(scenario)))
            finally:
                returned.set()

        # Not Thread.join: interrupted, that of Python 3.11 and 3.12 marks a thread that still runs
        # as stopped, and the engine would go on in memory that is free.
        thread = threading.Thread(target=replay, name="engine")
        try:
            with ending_deferred():
                thread.start()
            returned.wait()
        except BaseException:
            # The engine reads this value at each event. Its memory must stay until it has returned.
            stop.value = 1
            while thread.ident is not None and not returned.is_set():
                with suppress(KeyboardInterrupt):
                    returned.wait()
            if handles and handles[0]:
                self._library.bftrainer_free(handles[0])
            raise
        return handles[0]


@functools.cache
def installed() -> Engine | None:
    """Return the engine that is installed, or that the environment names; None to replay in Python.

    Raises :class:`UserError` if what the environment names is no engine.
    """
    choice = os.environ.get(CHOICE, "")
    # The structures are read on little-endian machines only.
    if choice == "python" or sys.byteorder != "little":
        return None
    try:
        library = Path(choice).absolute() if choice else SOURCE.with_name("libengine.so")
        return Engine(library)
    except OSError as error:
        if choice:
            raise UserError(f"{CHOICE}: {error}") from error
        return None
