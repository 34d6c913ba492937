"""Answers of schedulers: every public function ``parse_...`` of the adapters, each with the
recordings that it may be given.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzz.readers.reader import RECORDED, Read, Reader
from support.recorded_slurm import MARK

from bftrainer.errors import BFTrainerError
from bftrainer.system import command

LSF_SAMPLES = RECORDED.parent / "lsf" / "samples"
OURS = "bftrainer: idle node held by pilot test of root; it is given back at once when wanted"
_GIVEN: dict[str, object] = {
    "mark": MARK,
    "pilot": "test",
    "user": "root",
    "comment": OURS,
    "label": "bftrainer holder",
    "now_s": 1.7e9,
    "slots_per_node": 42,
    "header": "JOBID|STATE",
    "what": "jobs",
    "name": "idle",
    "uid": 0,
    "owner": "root",
    "plan": {},
    "priorities": {"idle": 1},
}
"""Arguments by name."""


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _document(*records: dict[str, str]) -> bytes:
    return json.dumps(
        {"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=2
    ).encode()


# Shapes that no recording has: after the manuals of Slurm 26.05 and LSF 10.1, and the adapters' own
# argument lists.
_JOB = {
    "JOBID": "17",
    "STAT": "RUN",
    "USER": "eve",
    "QUEUE": "idle",
    "PROJ_NAME": "default",
    "JOB_NAME": "pilot",
}
_UNFINISHED = {
    **_JOB,
    "NREQ_SLOT": "42",
    "RUN_TIME": "12 second(s)",
    "EXEC_HOST": "42*node01",
    "JOB_NAME": "bftrainer-holder",
    "JOB_DESCRIPTION": "bftrainer:test:node01 idle node",
}
_WRITTEN: dict[str, tuple[bytes, ...]] = {
    "slurm.hostlists.parse_hostlist": (
        b"node[01-08,10],rack[1-2]n[08-09],login",
        b"(null)",
        b"cpn-f13-[01-20]",
    ),
    "slurm.records.parse_records": (_lines(f"JOBID|STATE|{MARK}", f"1|RUNNING|{MARK}"),),
    "slurm.jobs.parse_submitted": (b"12\n", b"12;cluster\n"),
    "slurm.jobs.parse_steps": (_lines("STEPID|NAME|end", "12.0|bftrainer-payload|end"),),
    "slurm.jobs.parse_holder": (
        f"17|RUNNING|n1|1790000000|None|{OURS}; hosts n[1-3],gpu*".encode(),
        f"18|PENDING||N/A|Resources|{OURS}".encode(),
    ),
    "slurm.peers.parse_peers": (
        _lines(
            f"JOBID|USER|STATE|NAME|REASON|NODES|COMMENT|{MARK}",
            "17|eve|RUNNING|bftrainer-pilot|None|1|bftrainer: pilot x of eve; wants 5 short; "
            f"hosts n[1-3],gpu*|{MARK}",
            "18|eve|RUNNING|bftrainer-holder|None|4|bftrainer: idle node held by pilot x of "
            f"eve; wants 5|{MARK}",
        ),
    ),
    "slurm.job_list.parse_jobs": (
        _lines(
            "JOBID|USER|ACCOUNT|QOS|STATE|PARTITION|START_TIME|SCHEDNODES|NODES|REQ_NODES|END_TIME|REASON|NAME|COMMENT|"
            + MARK,
            f"17|eve|a|q|PENDING|p,q|1790000000|n[1-3]|3||N/A|Priority|x|y|{MARK}",
            f"18|eve|a|q|RUNNING|p|N/A|(null)|1|n1|1790000000|None|bftrainer-holder|{OURS}|{MARK}",
        ),
        _lines(
            "JOBID|PRIORITY|ARRAY_TASK_ID|EXC_NODES|SUBMIT_TIME|NODELIST|CPUS|MIN_CPUS|MIN_MEMORY"
            "|TRES_PER_NODE|USER|ACCOUNT|QOS|STATE|PARTITION|START_TIME|SCHEDNODES|NODES|REQ_NODES"
            f"|END_TIME|REASON|FEATURES NAME|COMMENT|{MARK}",
            "17|9|1,3%2|n[1-2]|1790000000||2|1|4G|gres:gpu:2|eve|a|q|PENDING|p,q|N/A|(null)|3||N/A"
            "|Resources|a|b x|y"
            f"|{MARK}",
        ),
    ),
    "slurm.node_waits.parse_task_count": (b"1,3,5-9:2%2", b"0-99,200-...", b"N/A"),
    "slurm.published.parse_head": (
        b'{"at_s": 1.7e9, "for_s": 12.0, "size": 99, "mark": "0123", "news": "89ab", '
        b'"weights_size": 0, "cluster": ""}',
    ),
    "slurm.setup.parse_version": (b"slurm 22.05.8\n", b"slurm 26.05.2\n"),
    "slurm.setup.parse_qos": (
        _lines(
            "normal||cluster|1.000000|||" + "|" * 11,
            "idle|normal|requeue|0|00:01:00|00:05:00|1-00:00:00|10|4|100|50|node=4|node=8|20|9|node=6|cpu=600|1-00:00:00",
        ),
    ),
    "slurm.setup.parse_tres": (b"cpu=8,mem=8000M,node=4,gres/gpu=16",),
    "slurm.pilot_job.parse_job": (
        _lines("RUNNING|1790000000|eve|idle|normal|account|(null)|(null)|pilot|x"),
    ),
    "lsf.text.parse_pending": (
        _document(
            {**_JOB, "STAT": "PEND", "NREQ_SLOT": "84"}, {**_JOB, "STAT": "PSUSP", "NREQ_SLOT": "-"}
        ),
    ),
    "lsf.node_waits.parse_jobs": (
        _document(
            {**_UNFINISHED, "NREQ_SLOT": "84"},
            {**_UNFINISHED, "STAT": "PEND", "NREQ_SLOT": "4", "EXEC_HOST": "", "RUN_TIME": ""},
        ),
    ),
    "lsf.jobs.parse_running": (_document(_UNFINISHED),),
    "lsf.jobs.parse_submitted": (
        _lines("Job <17> is submitted to queue <idle>."),
        _lines("welcome", "Job <9> is submitted to default queue <normal>."),
    ),
    "lsf.windows.parse_length": (b"1 hours 11 minutes 50 seconds", b"44 minutes", b"UNLIMITED"),
    "lsf.queue.parse_app": (
        _lines(
            "",
            "APPLICATION NAME: idle",
            " -- For training.",
            "JOB_CONTROLS:",
            "    SUSPEND:     [SIGTSTP]",
            "RESUME_CONTROL = SIGCONT",
            "JOB_SUSPEND_DELAY = 10",
        ),
    ),
    "lsf.pilot_job.parse_job": (
        _document(
            {**_JOB, "TIME_LEFT": "1:30 L", "FINISH_TIME": "Nov 22 21:00 L", "RUNTIMELIMIT": "60"}
        ),
    ),
    "lsf.pilot_job.parse_waiting": (_document({**_JOB, "STAT": "PEND"}),),
    "pbs.jobs.parse_submitted": (b"445.head\n", b"445123.pbs-01.hsn.cm.example.org\n"),
    "pbs.jobs.parse_ids": (b"445.head\n411[].head\n411[2].head\n",),
    "pbs.text.parse_time": (b"Sat Nov 28 16:26:57 2026",),
    "pbs.text.parse_length": (b"00:10:00", b"3600"),
}


def _parsers() -> Iterator[tuple[str, Callable[..., Any]]]:
    for scheduler in ("slurm", "lsf", "pbs", "oar"):
        package = importlib.import_module(f"bftrainer_clusters.{scheduler}")
        for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            for each, function in sorted(vars(module).items()):
                own = getattr(function, "__module__", "") == module.__name__
                if own and each.startswith("parse_") and inspect.isfunction(function):
                    yield f"{scheduler}.{found.name}.{each}", function


def _argument(parameter: inspect.Parameter) -> object:
    """Something of its type, where its name is not known: a test tells whether a sample is read
    with it.
    """
    of_its_type: dict[str, object] = {"str": "u", "int": 1, "float": 1.7e9, "bool": True}
    return _GIVEN.get(parameter.name.lstrip("_"), of_its_type.get(str(parameter.annotation)))


def _parser(function: Callable[..., Any]) -> Read:
    more = list(inspect.signature(function).parameters.values())[1:]
    given = [_argument(each) for each in more if each.default is each.empty]

    def read(data: bytes, folder: Path) -> object:
        text = data.decode("utf-8", "replace")  # as command.run decodes
        return command.parsed(["fuzz"], text, lambda answer: function(answer, *given))

    return read


def _answer(path: Path) -> bytes:
    """What the command printed: recordings begin with how they were made, or are a transcript of
    it.
    """
    text = path.read_bytes()
    transcript = re.fullmatch(
        rb"\$ [^\n]*\n(.*?)--- stderr\n(.*?)--- status \d+\n", text, re.DOTALL
    )
    if transcript:
        return transcript[1] or transcript[2]
    return re.sub(rb"\A(?:# [^\n]*\n)+", b"", text)


_FOLDERS = {"pbs": "openpbs"}


@functools.cache
def _recorded(scheduler: str) -> tuple[bytes, ...]:
    folders = sorted(RECORDED.glob(f"{_FOLDERS.get(scheduler, scheduler)}-*"))
    if scheduler == "lsf":
        folders.append(LSF_SAMPLES)
    files = [path for folder in folders for path in sorted(folder.iterdir())]
    return tuple(
        _answer(path)[:100_000]
        for path in files
        if path.suffix in (".txt", ".json", ".dsv") and path.stem != "SOURCE"
    )


def _samples_of(name: str, function: Callable[..., Any]) -> tuple[bytes, ...]:
    """What was written for this parser, and the recordings of its scheduler."""
    recorded = _recorded(name.partition(".")[0])
    if function.__name__ == "parse_queue":  # each recording has the name of its queue
        recorded = tuple(re.sub(rb"(?m)^QUEUE: \S+", b"QUEUE: idle", each) for each in recorded)
    return (*_WRITTEN.get(name, ()), *recorded)


def readers() -> Iterator[Reader]:
    """The parsers."""
    of_json = (
        "lsf.text.parse_hosts",
        "lsf.text.parse_pending",
        "lsf.jobs.parse_list",
        "lsf.jobs.parse_running",
        "lsf.node_waits.parse_jobs",
        "lsf.pilot_job.parse_job",
        "oar.text.parse_jobs",
        "oar.text.parse_nodes",
        "oar.text.parse_own",
        "oar.text.parse_plan",
        "pbs.text.parse_nodes",
        "pbs.queue.parse_server",
    )
    for name, function in _parsers():
        is_json = name in of_json
        yield Reader(
            name,
            _parser(function),
            _samples_of(name, function),
            clean=BFTrainerError,
            is_json=is_json,
        )
