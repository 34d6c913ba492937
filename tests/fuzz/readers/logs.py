"""Logs of schedulers, tables and traces."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from fuzz.readers.reader import Reader, of_file
from support.log_examples import (
    EXAMPLES,
    GPU_EVENTS,
    PBS_ARRAY,
    RECORDED_EVENTS,
    SACCT_WITH_LINE_BREAKS,
)
from support.reading_logs import totals
from support.trace_examples import GAVEL, PHILLY, POLLUX, SIA

from bftrainer.errors import UserError
from bftrainer_replay.logs.open import OpenedLog

_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7z")


def _log(form: str | None) -> Callable[[Path], object]:
    def read(path: Path) -> None:
        from bftrainer_replay.analysis.idle_causes import idle_causes
        from bftrainer_replay.analysis.partitions import partitions_of
        from bftrainer_replay.analysis.shared_nodes import shared_nodes
        from bftrainer_replay.logs.gpus import held_parts
        from bftrainer_replay.logs.model import restricted_log
        from bftrainer_replay.logs.open import open_log
        from bftrainer_replay.logs.source import ImportOptions

        refusal: UserError | None = None
        for skip_bad in (True, False):
            try:
                opened = open_log(path, ImportOptions(format=form, skip_bad=skip_bad))
            except UserError as error:  # two rounds
                refusal = refusal or error
                continue
            _adds_up(opened, form, path.read_bytes(), skip_bad)
            if (
                skip_bad
            ):  # what is read without skipping is the same log, and a million nodes take seconds
                window = restricted_log(opened.log)
                if window.gpus is not None:
                    assert all(
                        event.change.joined or event.change.left
                        for event in held_parts(window, 20.0).events
                    )
                    continue
                idle_causes(window, max_work=0)
                partitions_of(window)
                shared_nodes(window)
        if refusal is not None:
            raise refusal

    return read


def _adds_up(opened: OpenedLog, form: str | None, data: bytes, skip_bad: bool) -> None:
    """Every record is used, ignored or skipped, and no log is silently shorter than its file."""
    times = [event.at_s for event in opened.log.events]
    assert all(one < other for one, other in pairwise(times))
    assert all(start < end for start, end in opened.log.gaps)
    if data.startswith(_COMPRESSED):
        return
    if opened.is_event_log:
        rows = [
            line
            for line in data.split(b"\n")[1:]
            if line.strip(b"\r") and not line.startswith(b"time,")
        ]
        assert len(times) == len(rows) or b'"' in data
        return
    read, used, passed, skipped = totals(opened)
    assert read == used + passed + skipped
    assert skip_bad or not skipped
    assert _records_of(form, data) in (None, read)


def _records_of(form: str | None, data: bytes) -> int | None:
    """How many records a line-based log has, counted without the importer; None where a record is
    not a line.
    """
    lines = [
        line.rstrip("\r") for line in data.decode("utf-8-sig", errors="surrogateescape").split("\n")
    ]
    if form in ("sacct", "jobcomp", "lsb.acct"):
        lines = [line for line in lines if line and not line.startswith("#")]
    elif form == "pbs":
        lines = [line for line in lines if line]
    elif form == "swf":
        lines = [line for line in lines if line.strip() and not line.lstrip().startswith(";")]
    elif form == "alcf":
        lines = [line for line in lines if line.strip()]
    else:
        return None
    has_header = form == "alcf" or (form == "sacct" and "Start|" in lines[0] + "|")
    return len(lines) - has_header


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

    for profile in read_profiles(path).profiles:
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


def _audit(path: Path) -> None:
    from bftrainer.cluster.main_delays import main_delays
    from bftrainer_clusters.slurm.past_jobs import file_log

    log = file_log(path)
    for delay in main_delays(log):
        assert 0 < delay.seconds <= log.end_s - log.begin_s
        assert delay.missing <= delay.held


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
AUDIT = (
    b"JobIDRaw|Partition|NNodes|Eligible|Start|End|TimelimitRaw|Priority|Reason|NodeList|JobName\n"
    b"1|low|1|100|100|500|10|1|None|n1|bftrainer-holder\n2|main|3|100|100|400|10|1|None|n[2-4]|a\n"
    b"3|main|4|110|500|600|60|5|None|n[1-4]|b|c\nd\n4|main|1|2026-01-01T00:00:00|Unknown|Unknown|9|1|"
    b"QOSMaxJobsLimit|None assigned|e\n"
)
CURVES = b"model,nodes_1,nodes_2,nodes_8\nresnet,100,190.5,700\nbert,,12,40\n"


def readers() -> Iterator[Reader]:
    """The readers of logs, tables and traces."""
    for form, example in EXAMPLES.items():
        more = (GPU_EVENTS, RECORDED_EVENTS) if form == "events" else ()
        yield Reader(form, of_file(_log(form)), (example, *more), is_json=form == "sacct-json")
    yield Reader("sacct with line breaks", of_file(_log("sacct")), (SACCT_WITH_LINE_BREAKS,))
    yield Reader("pbs with arrays", of_file(_log("pbs")), (PBS_ARRAY,))
    yield Reader("sacct with needs", of_file(_log("sacct")), (SACCT_NEEDS,))
    yield Reader("node events", of_file(_outages("events")), (NODE_EVENTS,))
    yield Reader("reservations", of_file(_outages("reservations")), (RESERVATIONS, NODE_EVENTS))
    yield Reader("any log", of_file(_log(None)), tuple(EXAMPLES.values()))
    sia = {name: text.encode() for name, text in SIA.items()}
    yield Reader(
        "profiles", of_file(_profiles), (GAVEL.encode(), _tar(sia), _tar(sia, "w:gz")), is_json=True
    )
    traces = (PHILLY.encode(), POLLUX.encode(), _tar({"a/trace.csv": PHILLY.encode()}, "w:gz"))
    yield Reader("trace", of_file(_trace), traces)
    yield Reader("workload", of_file(_workload), (WORKLOAD,))
    yield Reader("curves", of_file(_curves), (CURVES,))
    yield Reader("audit", of_file(_audit), (AUDIT,))
    yield Reader("node list", of_file(_node_list), (b"n1\nn2\n\n n3 \n",))
