"""Every reader of bytes that somebody else may have written, with samples of what it reads.

A reader gets bytes and a folder for its files. It returns, or raises a :class:`BFTrainerError` whose message is one line;
readers of files raise a :class:`UserError` (exit status 2). Everything else is a finding.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import json
import os
import pickle
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from log_examples import EXAMPLES
from recorded_slurm import MARK
from trace_examples import GAVEL, PHILLY, POLLUX, SIA

from bftrainer.errors import BFTrainerError, UserError
from bftrainer.system import command

TESTS = Path(__file__).resolve().parents[1]
RECORDED = TESTS / "recorded"
Read = Callable[[bytes, Path], object]


@dataclass(frozen=True)
class Reader:
    """``clean`` is what it may raise; ``is_json`` lets the mutations change values in a parsed sample, too."""

    name: str
    read: Read
    samples: tuple[bytes, ...]
    clean: type[BFTrainerError] = UserError
    is_json: bool = False


def _file(function: Callable[[Path], object], name: str = "file") -> Read:
    def read(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        return function(path)

    return read


# Logs and tables


def _log(form: str | None) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        from bftrainer_replay.logs.model import cut
        from bftrainer_replay.logs.open import open_log
        from bftrainer_replay.logs.source import ImportOptions

        refusal: UserError | None = None
        for skip_bad in (True, False):
            try:
                opened = open_log(path, ImportOptions(format=form, skip_bad=skip_bad))
            except UserError as error:  # noqa: PERF203  # two rounds
                refusal = refusal or error
            else:
                cut(opened.log)
        if refusal is not None:
            raise refusal

    return read


def _pickles() -> tuple[bytes, ...]:
    """Pickles of plain values in each protocol, and a table as the authors' log has it, by hand: pandas is not installed."""
    import numpy as np

    plain = {"a": [1, 2.5, None, True, b"x", ("y", "z")], "b": {"c": np.arange(6).reshape(2, 3)}}
    return (*(pickle.dumps(plain, protocol) for protocol in (2, 3, 4, 5)), _table_pickle())


def _table_pickle() -> bytes:
    """The opcodes of a small DataFrame with two nodes and three rows, after pandas 1.3 (protocol 4)."""
    import numpy as np

    def text(value: str) -> bytes:
        return b"\x8c" + bytes((len(value),)) + value.encode()

    def name(dotted: str) -> bytes:
        module, _, attribute = dotted.rpartition(".")
        return text(module) + text(attribute) + b"\x93"

    def kind(code: str, state: bytes = b"(K\x03\x8c\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb") -> bytes:
        return name("numpy.dtype") + text(code) + b"\x89\x88\x87R" + state

    def array(shape: str, code: bytes, data: bytes, by_columns: bool = False) -> bytes:
        new = name("numpy.core.multiarray._reconstruct") + name("numpy.ndarray") + b"K\x00\x85C\x01b\x87R"
        sides = b"".join(b"K" + bytes((int(side),)) for side in shape.split("x"))
        return new + b"(K\x01" + b"(" + sides + b"t" + code + (b"\x88" if by_columns else b"\x89") + data + b"tb"

    def blob(data: bytes) -> bytes:
        return b"C" + bytes((len(data),)) + data

    def index(data: bytes) -> bytes:
        return (
            name("pandas.core.indexes.base._new_Index")
            + name("pandas.core.indexes.base.Index")
            + (b"}" + b"(" + text("data") + data + text("name") + b"Nu" + b"\x86R")
        )

    nodes = index(array("2", kind("O8"), b"](" + text("n1") + text("n2") + b"e"))
    unit = b"(K\x04\x8c\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00}(C\x02nsK\x01K\x01K\x01t\x86tb"
    moments = np.array([1612987200, 1612987260, 1612987320], dtype="<i8") * 10**9
    times = index(array("3", kind("M8", unit), blob(moments.tobytes())))
    values = array("2x3", kind("i1"), blob(np.array([[1, 0, 0], [0, 1, 1]], dtype=np.int8).tobytes()))
    manager = (
        name("pandas.core.internals.managers.BlockManager")
        + b")R"
        + (b"(](" + nodes + times + b"e]" + values + b"a](" + nodes + b"et" + b"b")
    )
    frame = name("pandas.core.frame.DataFrame") + b")\x81"
    return b"\x80\x04" + frame + b"}" + text("_mgr") + manager + b"sb."


def _tar(members: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _profiles(path: Path) -> None:
    from bftrainer_replay.workload.traces.profiles import read_profiles
    from bftrainer_replay.workload.traces.scaling import CurveShape, scaling_of

    for profile in read_profiles(path).found:
        for shape in CurveShape:
            scaling_of(profile, 2, shape, extrapolate_to=32)


def _trace(path: Path) -> None:
    from bftrainer_replay.workload.traces.arrivals import read_trace

    read_trace(path, skip_bad=True)
    read_trace(path)


def _curves(path: Path) -> None:
    from bftrainer_replay.workload.curves import read_curves

    read_curves(path)


def _workload(path: Path) -> None:
    from bftrainer_replay.workload.curves import TABLE_2
    from bftrainer_replay.workload.workload import read_workload

    read_workload(path, TABLE_2)


def _node_list(path: Path) -> None:
    from bftrainer_replay.logs.node_list import read_node_list

    read_node_list(path)


WORKLOAD = (
    b"job,model,Tcup,Tcdw,Jmin,Jmax,Pmax,Tsub,priority\na,shufflenet,17.5,11.5,1,64,1.3e8,2021-02-10T20:21:15,1\n"
    b"b,vgg16,18,12,2,32.0,5e6,2021-02-10 21:00:00,2.5\n"
)
CURVES = b"model,nodes_1,nodes_2,nodes_8\nresnet,100,190.5,700\nbert,,12,40\n"


# Configuration


PILOT = (
    b'[decisions]\npolicy = "bftrainer?guard_hours=6"\nobjective = "throughput"\nforward_s = 120.0\nmax_parallel = 10\n\n'
    b'[nodes]\nholder = "trace"\nslots = 2\nhosts = ["node[001-128,200]", "gpu*"]\nquiet_hours = ["mon-fri 08:00-18:00"]\n'
    b"min_window_s = 60\n\n[times]\npoll_s = 10\nlease_s = 60.5\n\n[metrics]\nport = 9100\naddress = '127.0.0.1'\n\n"
    b'[classes.fast]\nhosts = ["a[1-4]"]\ngpu = "a100"\nslots = 4\n\n[trace]\nlog = "log.csv"\nspeedup = 60.0\n'
    b'[slurm]\npartition = "idle"\n\n[notices]\non_event = ["mail", "-s", "x"]\n'
)
TRAINER = (
    b'name = "mnist"\ncommand = ["true", "train.py"]\nmax_nodes = 4\nsizes = [1, 2, 4]\nsamples_total = 1.0e6\n'
    b'curve = {nodes = [1, 4], samples_per_s = [100.0, 380.0]}\npriority = 2\ncwd = "."\nenv = {A = "1", "B_C" = "x y"}\n'
    b'setup = ["module load x"]\nscaling = "strong"\nglobal_batch = 256\nstop_signal = "SIGUSR1"\nnode_class = "4 a100"\n'
)
GRID = (
    b'[[logs]]\npath = "log.csv"\nhours = 24.0\n\n[[workloads]]\nkind = "hpo"\nmodel = "shufflenet"\ncount = 10\n\n[grid]\n'
    b'policies = ["bftrainer", "equal-share"]\nforward_s = [30.0, 120.0]\nseeds = [0, 1]\nnoise = 0.1\ncost_model = "stall"\n'
)
PROBLEM = (
    b'{"pool": 11, "forward_s": 120, "objective": "throughput", "trainers": [{"id": "a", "min_nodes": 1, "max_nodes": 8, '
    b'"scale_up_s": 20, "scale_down_s": 10, "nodes": 3, "curve": {"nodes": [1, 4, 8], "samples_per_s": [100, 380, 700]}}, '
    b'{"id": "b", "min_nodes": 2, "max_nodes": 8, "scale_up_s": 20, "scale_down_s": 10, "priority": 2.0, '
    b'"remaining_samples": 1e6, "sizes": [2, 8], "curve": {"nodes": [2, 8], "samples_per_s": [90, 300]}}]}'
)
NAMED_PROBLEM = (
    b'{"pool": ["n1", "n2", "n3"], "trainers": [{"id": "a", "min_nodes": 1, "max_nodes": 2, "scale_up_s": 20, '
    b'"scale_down_s": 10, "nodes": ["n1"], "curve": {"nodes": [1, 2], "samples_per_s": [100, 150]}}]}'
)


def _pilot_config(path: Path) -> None:
    from bftrainer.config.pilot import read_config
    from bftrainer.plugins import load_site

    config = read_config(path)
    if (site := getattr(load_site(config.nodes.holder), "check_table", None)) is not None:
        site(config, str(path))


def _trainer_file(path: Path) -> None:
    from bftrainer.config.trainer_file import read_trainer_file, settle

    spec = settle(read_trainer_file(path), str(path), path.parent, {"PATH": os.defpath, "HOME": "/"})
    for text in (*spec.command, *spec.env, *spec.env.values(), str(spec.cwd), *spec.setup, *spec.stage_in):
        assert "\0" not in text, "a NUL that no program can be given"
    assert all(name and "=" not in name for name in spec.env), "a variable that no environment can have"
    trainer = spec.trainer()
    assert all(value <= 1e15 for value in trainer.curve.per_s), "a rate without a bound"


def _grid(path: Path) -> None:
    from bftrainer.config.validation import read_toml
    from bftrainer_replay.sweep.grid import SweepFile

    read_toml(path, SweepFile)


def _problem(data: bytes, folder: Path) -> None:
    from bftrainer.cli.problem_file import read_problem

    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UserError("not UTF-8") from error  # the command says it
    found = read_problem("problem.json", text)
    assert found.problem.pool_size <= 10_000_000, "a pool without a bound"


def _host_list(data: bytes, folder: Path) -> None:
    from bftrainer.config.hosts import expand, host_patterns, matches
    from bftrainer.live.nodes.claims import MOST_STEPS, ClaimComparison

    text = data.decode("utf-8", "surrogateescape")
    patterns = tuple(text.split(" "))
    comparison = ClaimComparison([f"n{number}" for number in range(1000)])
    comparison.claimed("eve", patterns)
    assert comparison.steps <= MOST_STEPS
    try:
        matches("n17", patterns)
        assert host_patterns(patterns)
    finally:
        expand(text)


# What survives a crash


@functools.cache
def _journals() -> dict[str, list[sqlite3.Row]]:
    """The rows of recorded journals, by policy."""
    found = {}
    for path in sorted((RECORDED / "journal-before").glob("*.sql")):
        with closing(sqlite3.connect(":memory:")) as database:
            database.row_factory = sqlite3.Row
            database.executescript(path.read_text())
            found[path.stem] = database.execute("SELECT * FROM journal").fetchall()
    return found


def _row_samples() -> Iterator[bytes]:
    for rows in _journals().values():
        for row in rows[1:12:5]:
            for column in ("event", "plan", "answers"):
                yield row[column].encode()


def _journal_row(data: bytes, folder: Path) -> None:
    from bftrainer.persistence import codec

    text = data.decode("utf-8", "replace")
    for strict in (False, True):
        codec.dumps(codec.loads(text, strict=strict))


def _journal_samples() -> Iterator[bytes]:
    """The rows of a journal, for :func:`_journal`: a JSON object with the policy and a list of [at_s, event, plan, answers]."""
    for name in ("bftrainer", "flowcon", "loss-phase", "equal-share"):
        rows = [
            [row["at_s"], *(json.loads(row[column]) for column in ("event", "plan", "answers"))]
            for row in _journals()[name][:6]
        ]
        settings = {"policy": name, "solver": "exact", "objective": "throughput", "forward_s": 120.0, "seed": 0}
        yield json.dumps({"settings": {**settings, "max_parallel": 10}, "rows": rows}).encode()


def _journal(data: bytes, folder: Path) -> None:
    """A foreign pilot.db, decided again."""
    from bftrainer.live.rerun import decide_again
    from bftrainer.persistence.store import DB_NAME, open_store

    try:
        document = json.loads(data)
        settings, rows = dict(document["settings"]), list(document["rows"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(mode=0o700)
    path = RECORDED / "journal-before" / "bftrainer.sql"
    with closing(sqlite3.connect(state / DB_NAME)) as database:
        database.executescript(path.read_text())
        database.executescript("DELETE FROM journal; DELETE FROM last_state; DELETE FROM states;")
        with suppress(sqlite3.Error, TypeError, OverflowError, RecursionError, ValueError):
            for key, value in settings.items():
                if key in ("policy", "solver", "objective", "forward_s", "seed", "max_parallel"):
                    database.execute(f"UPDATE settings SET {key} = ?", (value,))
            for number, row in enumerate(rows, start=1):
                at_s, *texts = row
                values = [json.dumps(each) for each in texts]
                database.execute("INSERT INTO journal VALUES (?, ?, 1, ?, ?, ?, 0.1)", (number, at_s, *values))
        database.commit()
    with closing(open_store(state)) as store:
        list(decide_again(store))


def _spool_sample() -> bytes:
    from bftrainer.config.trainer_file import TrainerSpec
    from bftrainer.config.validation import check_table
    from bftrainer.persistence.spool import Request, RequestKind

    table = {"name": "a", "command": ["true"], "max_nodes": 4, "samples_per_s": 10.0, "env": {"A": "1"}, "cwd": "/"}
    spec = check_table(table, TrainerSpec, "sample")
    return Request(kind=RequestKind.SUBMIT, trainer="a", spec=spec).model_dump_json().encode()


def _spool(data: bytes, folder: Path) -> None:
    from bftrainer.persistence.spool import Spool

    (folder / "spool").mkdir(exist_ok=True)
    (folder / "spool" / "1.json").write_bytes(data)
    (received,) = Spool(folder).pending()
    assert received.request is not None or "\n" not in received.refused
    if received.request is not None and received.request.spec is not None:
        received.request.spec.trainer()


# The trainer directory


def _recorded(name: str) -> tuple[bytes, ...]:
    found = sorted((RECORDED / "trainer-directory-1").glob(f"*/{name}"))
    return tuple(path.read_bytes() for path in found) or (b"{}",)


def _progress(path: Path) -> None:
    from bftrainer.protocol.reports import DriverView, after_progress
    from bftrainer.system.json_tail import JsonTail

    view = after_progress(DriverView(on=frozenset({"1"})), JsonTail(path).read())
    for value in (view.samples, view.loss, view.heard_s, view.step):
        assert value is None or -1e31 < value < 1e31, f"an unbounded number {str(value)[:40]}"


def _events(path: Path) -> None:
    from bftrainer.protocol.reports import DriverView, after_events
    from bftrainer.system.json_tail import JsonTail

    view = after_events(DriverView(), JsonTail(path).read())
    for value in (view.said_s, view.world_size, view.incarnation):
        assert -1e18 < value < 1e18, f"an unbounded number {str(value)[:40]}"


def _hosts(path: Path) -> None:
    from bftrainer.protocol.hosts import read_hosts

    read_hosts(path)


def _driver_pid(path: Path) -> None:
    from bftrainer.protocol.driver_pid import read_driver_pid

    read_driver_pid(path)


def _control(path: Path) -> None:
    from bftrainer.protocol.control import is_stop_requested

    is_stop_requested(path)


def _message(kind: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        from bftrainer.protocol import messages
        from bftrainer.protocol.typed_json import read_json

        read_json(getattr(messages, kind), path)

    return read


# Answers of schedulers: every public parser of a text, whatever it is called


_PARSERS = (
    "slurm.text", "slurm.json", "slurm.jobs", "slurm.peers", "slurm.preempt", "lsf.text", "lsf.jobs", "lsf.windows",
    "lsf.queue",
)  # fmt: skip
_DEFAULTS: dict[str, object] = {"str": "u", "int": 1, "float": 1.7e9, "bool": True}


def _parsers() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in _PARSERS:
        module = importlib.import_module(f"bftrainer_adapters.{name}")
        for each, function in sorted(vars(module).items()):
            own = getattr(function, "__module__", "") == module.__name__
            if own and each.startswith("parse_") and inspect.isfunction(function):
                yield f"{name}.{each}", function


def _parser(function: Callable[..., Any]) -> Read:
    more = list(inspect.signature(function).parameters.values())[1:]
    given = [
        MARK if each.name.endswith("mark") else _DEFAULTS.get(str(each.annotation), "u")
        for each in more
        if each.default is each.empty
    ]

    def read(data: bytes, folder: Path) -> object:
        text = data.decode("utf-8", "replace")  # as command.run decodes
        return command.parsed(["fuzz"], text, lambda answer: function(answer, *given))

    return read


@functools.cache
def _answers() -> dict[str, bytes]:
    folders = [TESTS / "lsf" / "samples", *sorted(RECORDED.glob("lsf-*")), *sorted(RECORDED.glob("slurm-*"))]
    files = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".txt", ".json")]
    # Recorded files begin with how they were recorded.
    return {
        path.name: re.sub(rb"\A(?:# [^\n]*\n)+", b"", path.read_bytes())[:100_000]
        for path in files
        if path.stem != "SOURCE"
    }


_WRITTEN = (
    f"JOBID|USER|STATE|NAME|REASON|COMMENT|{MARK}\n"
    f"17|eve|RUNNING|bftrainer-pilot|None|bftrainer: pilot x of eve; hosts n[1-3],gpu*|{MARK}\n"
    f"18|eve|RUNNING|bftrainer-holder|None|bftrainer: idle node held by pilot x of eve|{MARK}\n"
).encode()


def _samples_of(name: str) -> tuple[bytes, ...]:
    """The recorded answers of that scheduler, those that the parser understands first."""
    scheduler = name.partition(".")[0]
    is_slurm = scheduler == "slurm"
    found = [
        data for file, data in _answers().items()
        if is_slurm == (file in {path.name for folder in RECORDED.glob("slurm-*") for path in folder.iterdir()})
    ]  # fmt: skip
    if ".json" in name or "json" in name.rpartition(".")[2]:
        found = [data for data in found if data.lstrip()[:1] == b"{"] or found
    return (*found, _WRITTEN) if is_slurm else tuple(found)


@functools.cache
def readers() -> dict[str, Reader]:
    """All readers by name."""
    found: list[Reader] = []

    def add(name: str, read: Read, *samples: bytes, **more: Any) -> None:
        found.append(Reader(name, read, samples, **more))

    for form, example in EXAMPLES.items():
        add(form, _file(_log(form)), example, is_json=form == "sacct-json")
    add("any log", _file(_log(None)), *EXAMPLES.values(), _tar({"log": _table_pickle()}))
    add(
        "pickle", _file(_log("pickle")), *_pickles(), _tar({"t": _table_pickle()}), _tar({"t": _table_pickle()}, "w:gz")
    )
    sia = {name: text.encode() for name, text in SIA.items()}
    add("profiles", _file(_profiles), GAVEL.encode(), _tar(sia), _tar(sia, "w:gz"), is_json=True)
    add("trace", _file(_trace), PHILLY.encode(), POLLUX.encode(), _tar({"a/trace.csv": PHILLY.encode()}, "w:gz"))
    add("workload", _file(_workload), WORKLOAD)
    add("curves", _file(_curves), CURVES)
    add("node list", _file(_node_list), b"n1\nn2\n\n n3 \n")
    add("pilot config", _file(_pilot_config, "bftrainer.toml"), PILOT)
    add("trainer file", _file(_trainer_file, "trainer.toml"), TRAINER)
    add("sweep grid", _file(_grid, "grid.toml"), GRID)
    add("problem file", _problem, PROBLEM, NAMED_PROBLEM, is_json=True)
    add("host list", _host_list, b"node[01-03,7],gpu*", b"n[1-4]m[2,3] cn?[08-10] x-1")
    add("journal row", _journal_row, *_row_samples(), is_json=True)
    add("journal", _journal, *_journal_samples(), is_json=True, clean=BFTrainerError)
    add("spool", _spool, _spool_sample(), b'{"kind": "cancel", "trainer": "a"}', is_json=True)
    add("progress", _file(_progress, "progress.jsonl"), *_recorded("progress.jsonl"), is_json=True)
    add("events.jsonl", _file(_events, "events.jsonl"), *_recorded("events.jsonl"), is_json=True)
    add("hosts", _file(_hosts, "hosts"), *_recorded("hosts"))
    add("driver.pid", _file(_driver_pid, "driver.pid"), *_recorded("driver.pid"), is_json=True)
    add("control", _file(_control, "control"), *_recorded("control"), is_json=True)
    add("trainer.json", _file(_message("TrainerMessage"), "t"), *_recorded("trainer.json"), is_json=True)
    add("driver.json", _file(_message("DriverSettings"), "t"), *_recorded("driver.json"), is_json=True)
    for name, function in _parsers():
        add(name, _parser(function), *_samples_of(name), clean=BFTrainerError, is_json="json" in name)
    return {reader.name: reader for reader in found}
