"""Logs of schedulers, tables and traces."""

from __future__ import annotations

import io
import pickle
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz.readers.reader import Reader, of_file
from log_examples import EXAMPLES
from trace_examples import GAVEL, PHILLY, POLLUX, SIA

from bftrainer.errors import UserError


def _log(form: str | None) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        from bftrainer_replay.analysis.idle_causes import idle_causes
        from bftrainer_replay.analysis.partitions import partitions_of
        from bftrainer_replay.analysis.shared_nodes import shared_nodes
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
                window = cut(opened.log)
                idle_causes(window, most_work=0)
                partitions_of(window)
                shared_nodes(window)
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


def _outages(option: str) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        from bftrainer_replay.logs.node_events import read_events, read_reservations
        from bftrainer_replay.logs.source import ImportOptions, Source

        source = Source(path, ImportOptions())
        (read_events if option == "events" else read_reservations)(source, path)

    return read


def _node_list(path: Path) -> None:
    from bftrainer_replay.logs.node_list import read_node_list

    read_node_list(path)


WORKLOAD = (
    b"job,model,Tcup,Tcdw,Jmin,Jmax,Pmax,Tsub,priority\na,shufflenet,17.5,11.5,1,64,1.3e8,2021-02-10T20:21:15,1\n"
    b"b,vgg16,18,12,2,32.0,5e6,2021-02-10 21:00:00,2.5\n"
)
SACCT_NEEDS = (
    b"JobID|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NodeList|State|Partition|QOS|Reason|ReqTRES|AllocTRES|"
    b"Constraints|Flags\n"
    b"1|1600000000|1600000000|1600000000|1600003600|3600|60|2|n[1-2]|COMPLETED|a|q|None|cpu=2,gres/gpu=2,node=2|"
    b"billing=8,cpu=8,gres/gpu:a100=4,node=2|intel&ib|SchedBackfill\n"
    b"2|1600000000|1600000600|1600003600|1600007200|3600|UNLIMITED|1|n3|TIMEOUT|b|q|Dependency|cpu=1,node=1|cpu=4,node=1||\n"
    b"3|1600000000|1600000000|None|1600005000|0|1-00:00:00|4|None assigned|CANCELLED|a,b|q|QOSMaxJobsLimit|cpu=4|||\n"
    b"4|1600004000|1600004000|1600004000|Unknown|9|10|1|n1|RUNNING|a|q|None|cpu=4|cpu=4,gres/gpu=1||\n"
)
NODE_EVENTS = (
    b"Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\nlab||2026-11-22T20:54:12|Unknown||Cluster Registered TRES|\n"
    b"lab|node01|2026-11-22T20:54:22|2026-11-22T20:54:25|DOWN|test|root(0)\nlab|n[1-3]|2026-11-22T20:54:12|Unknown|DRAIN|x|a\n"
)
RESERVATIONS = (
    b"ReservationName=maint StartTime=2026-11-22T21:54:25 EndTime=2026-11-22T23:54:25 Duration=02:00:00\n   Nodes=node[02-04] "
    b"NodeCnt=3 CoreCnt=2 Features=(null) Flags=MAINT,SPEC_NODES\n   TRES=cpu=2\n\n"
)
CURVES = b"model,nodes_1,nodes_2,nodes_8\nresnet,100,190.5,700\nbert,,12,40\n"


def readers() -> Iterator[Reader]:
    """The readers of logs, tables and traces."""
    for form, example in EXAMPLES.items():
        yield Reader(form, of_file(_log(form)), (example,), is_json=form == "sacct-json")
    table = _table_pickle()
    yield Reader("sacct with needs", of_file(_log("sacct")), (SACCT_NEEDS,))
    yield Reader("node events", of_file(_outages("events")), (NODE_EVENTS,))
    yield Reader("reservations", of_file(_outages("reservations")), (RESERVATIONS, NODE_EVENTS))
    yield Reader("any log", of_file(_log(None)), (*EXAMPLES.values(), _tar({"log": table})))
    pickles = (*_pickles(), _tar({"t": table}), _tar({"t": table}, "w:gz"))
    yield Reader("pickle", of_file(_log("pickle")), pickles)
    sia = {name: text.encode() for name, text in SIA.items()}
    yield Reader("profiles", of_file(_profiles), (GAVEL.encode(), _tar(sia), _tar(sia, "w:gz")), is_json=True)
    traces = (PHILLY.encode(), POLLUX.encode(), _tar({"a/trace.csv": PHILLY.encode()}, "w:gz"))
    yield Reader("trace", of_file(_trace), traces)
    yield Reader("workload", of_file(_workload), (WORKLOAD,))
    yield Reader("curves", of_file(_curves), (CURVES,))
    yield Reader("node list", of_file(_node_list), (b"n1\nn2\n\n n3 \n",))
