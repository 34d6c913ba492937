"""Logs of schedulers, tables and traces."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from itertools import pairwise
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
            except UserError as error:  # two rounds
                refusal = refusal or error
                continue
            if skip_bad:  # what is read without skipping is the same log, and a million nodes take seconds
                window = cut(opened.log)
                idle_causes(window, most_work=0)
                partitions_of(window)
                shared_nodes(window)
        if refusal is not None:
            raise refusal

    return read


def _tar(members: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _profiles(path: Path) -> None:
    from bftrainer_papers.traces.profiles import read_profiles
    from bftrainer_papers.traces.scaling import CurveShape, scaling_of

    for profile in read_profiles(path).found:
        for shape in CurveShape:
            found = scaling_of(profile, 2, shape, extrapolate_to=32)
            assert found is None or (found.curve.nodes[0] == 1 and min(found.curve.per_s) >= 0)


def _trace(path: Path) -> None:
    from bftrainer_papers.traces.arrivals import read_trace

    for skip_bad in (True, False):
        trace = read_trace(path, skip_bad=skip_bad)
        assert trace.tally.read == len(trace.jobs) + trace.tally.skipped
        assert skip_bad or not trace.tally.skipped
        assert all(one.at_s <= other.at_s for one, other in pairwise(trace.jobs))


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
        yield Reader(form, of_file(_log(form)), (example,))
    yield Reader("sacct with needs", of_file(_log("sacct")), (SACCT_NEEDS,))
    yield Reader("node events", of_file(_outages("events")), (NODE_EVENTS,))
    yield Reader("reservations", of_file(_outages("reservations")), (RESERVATIONS, NODE_EVENTS))
    yield Reader("any log", of_file(_log(None)), tuple(EXAMPLES.values()))
    sia = {name: text.encode() for name, text in SIA.items()}
    yield Reader("profiles", of_file(_profiles), (GAVEL.encode(), _tar(sia), _tar(sia, "w:gz")), is_json=True)
    traces = (PHILLY.encode(), POLLUX.encode(), _tar({"a/trace.csv": PHILLY.encode()}, "w:gz"))
    yield Reader("trace", of_file(_trace), traces)
    yield Reader("workload", of_file(_workload), (WORKLOAD,))
    yield Reader("curves", of_file(_curves), (CURVES,))
    yield Reader("node list", of_file(_node_list), (b"n1\nn2\n\n n3 \n",))
