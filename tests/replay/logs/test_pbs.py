"""PBS, Torque and Cobalt accounting lines. The texts are minimal examples by hand; those marked
``data`` are real.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest
from support.data import data_file
from support.reading_logs import PLAIN, changes, read, totals

from bftrainer.errors import InputFileError
from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.analysis.idle_causes import IdleCause, explained, idle_causes
from bftrainer_replay.analysis.partitions import headings, words_of
from bftrainer_replay.logs.dialect import SACCT
from bftrainer_replay.logs.job_needs import JobFact
from bftrainer_replay.logs.model import cut
from bftrainer_replay.logs.open import FORMATS, open_log
from bftrainer_replay.logs.torus import all_nodes, nodes_of_block

T = 1_600_000_000


def entry(kind: str, job: str, text: str) -> str:
    return f"09/13/2020 12:26:40;{kind};{job};user=u queue=q {text}\n"


def ended(
    job: str, submit: int, start: int, end: int, place: str, count: int, key: str = "exec_host"
) -> str:
    text = (
        f"ctime={submit} qtime={submit} etime={submit} start={start} {key}={place} "
        f"Resource_List.nodect={count} end={end}"
    )
    return entry("E", job, text)


LAST = ended("99", T + 300, T + 300, T + 900, "h9/0", 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("h1/3+h1/2", "h2/0+h3/0"),
        ("h1/0-3,5", "h2/0-3+h3/1"),
        ("h1/0*8", "h2/0*8+h3/0*8"),
        ("(h1:ncpus=8:mem=1kb)", "(h2:ncpus=8+h2[1]:ncpus=8)+(h3:ncpus=4)"),
    ],
)
def test_forms_of_exec_host_and_exec_vnode(tmp_path: Path, first: str, second: str) -> None:
    key = "exec_vnode" if first.startswith("(") else "exec_host"
    text = (
        ended("1", T, T, T + 100, first, 1, key)
        + ended("2", T, T, T + 200, second, 2, key)
        + ended("3", T + 50, T + 250, T + 400, first, 1, key)
        + LAST
    )
    found = read(tmp_path, text)
    names = [
        (at, [n for n in j if n != "h9"], [n for n in k if n != "h9"])
        for at, j, k in changes(found)
    ]
    assert names == [(0, ["h1"], []), (100, ["h2", "h3"], []), (150, [], ["h1"]), (200, [], [])]
    assert totals(found) == (4, 4, 0, 0)


def test_starts_without_an_end_still_run_and_reruns_end_a_run(tmp_path: Path) -> None:
    text = (
        entry("Q", "1", "")
        + entry("S", "1", f"ctime={T} start={T + 10} exec_host=h1/0 Resource_List.nodect=1")
        + "09/13/2020 12:28:20;R;1;\n"  # T + 100
        + entry("S", "1", f"ctime={T} start={T + 200} exec_host=h2/0 Resource_List.nodect=1")
        + entry("S", "2", f"ctime={T} start={T} exec_host=h3/0 Resource_List.nodect=1")
        + entry("E", "2", f"ctime={T} start={T} exec_host=h3/0 Resource_List.nodect=1 end={T + 50}")
        + entry("D", "7", "requestor=u@h")
        + entry("E", "8", f"ctime={T + 5} Resource_List.nodect=4 end={T + 80}")
        + ended("3", T + 400, T + 400, T + 500, "h3/0", 1)
    )
    found = read(tmp_path, text)
    assert changes(found) == [
        (0, ["h2", "h3"], []),
        (50, ["h1"], []),
        (150, [], ["h2"]),
        (350, [], ["h3"]),
        (450, [], []),
    ]
    assert totals(found) == (9, 7, 2, 0)
    assert 4 in found.log.queue.nodes.tolist()


def test_mira_blocks_wrap_and_count() -> None:
    assert len(all_nodes()) == 49152
    assert len(nodes_of_block("MIR-00000-73FF1-16384")) == 16384
    wrapped = nodes_of_block("MIR-70000-00000-2")
    assert wrapped == ["MIR-70000", "MIR-00000"]
    assert nodes_of_block("MIR-00000-00000-1-1") == ["MIR-00000"]


@pytest.mark.parametrize(
    "block",
    [
        "MIR-00000-73FF1-16383",
        "MIR-80000-80000-1",
        "MIR-0000-00000-1",
        "MIR-00000-00000",
        "MIR-00002-00002-1",
    ],
)
def test_odd_blocks_are_refused(tmp_path: Path, block: str) -> None:
    with pytest.raises(InputFileError, match=r"log:1: .*(?:block|torus|box)"):
        read(tmp_path, ended("1", T, T, T + 100, block, 1) + LAST)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (f"end={T + 100}", f"end={T - 100}", "before it starts"),
        (f"end={T + 100}", "end=x", "is not a time"),
        (f"end={T + 100}", "", "has no end"),
        ("exec_host=h1/0", "", "has no exec_host"),
        ("exec_host=h1/0", "exec_host=+", "is not a node"),
        ("nodect=1", "nodect=-1", "not a number of nodes"),
        ("09/13/2020 12", "09/13/2020X12", "not an accounting record"),
        ("exec_host=h1/0", "exec_host=1-99999999", "not a range of nodes"),
    ],
)
def test_bad_records(tmp_path: Path, old: str, new: str, problem: str) -> None:
    bad = ended("1", T, T, T + 100, "h1/0", 1).replace(old, new, 1)
    good = ended("2", T, T, T + 200, "h2/0", 1)
    with pytest.raises(InputFileError, match=rf"log:2: .*{problem}"):
        read(tmp_path, good + bad + LAST)
    assert totals(read(tmp_path, good + bad + LAST, skip_bad=True)) == (3, 2, 0, 1)


@pytest.mark.data
def test_real_pbs_lines(tmp_path: Path) -> None:
    with tarfile.open(data_file("slurm-formats/scheduler-output-samples.tar.gz")) as archive:
        name = next(
            each
            for each in archive.getnames()
            if each.endswith("xdmod-shredder-pbs/accounting-logs.log")
        )
        content = archive.extractfile(name)
        data = content.read()
    with pytest.raises(InputFileError, match="log:6: the job ran, but has no exec_host"):
        read(tmp_path, data)
    found = read(tmp_path, data, skip_bad=True)
    assert totals(found) == (9, 8, 0, 1)
    assert {"i02n30", "i02n31", "i02n32", "i02n33"} <= set(found.log.nodes())


def test_nodes_and_chunks(tmp_path: Path) -> None:
    """What a job held is in exec_host: nodect counts chunks, Torque's ppn, or the blocks of a
    Cobalt job.
    """
    found = read(tmp_path, ended("1", T, T, T + 100, "h1/0*8+h1/1*8+h2/0*8+h2/1*8", 4))
    assert found.log.machine_nodes == 2
    assert not [each for each in found.remarks if "asked for" in each], (
        "one chunk per core of a host"
    )
    four = "+".join(f"h{k}/0*8" for k in range(4))
    packed = read(
        tmp_path, ended("1", T, T, T + 100, "h1/0-3,5", 4) + ended("2", T, T, T + 100, four, 512)
    )
    assert totals(packed) == (2, 2, 0, 0)
    assert packed.log.machine_nodes == 4
    assert [
        each
        for each in packed.remarks
        if each.startswith("2 jobs held another number of nodes (exec_host)")
    ]


def test_an_exec_host_that_is_no_node_leaves_the_request(tmp_path: Path) -> None:
    """As in CEA Curie's log: a number of another meaning. The first jobs could have been on the
    node of that number.
    """
    jobs = [("1", "3", 1), ("2", "10", 2048), ("3", "7", 16)]
    found = read(
        tmp_path, "".join(ended(job, T, T, T + 90_000, place, nodes) for job, place, nodes in jobs)
    )
    assert totals(found) == (3, 3, 0, 0)
    assert found.log.machine_nodes == 2065
    assert [
        each for each in found.remarks if "something else than nodes (10 for 2,048 nodes)" in each
    ]


def test_what_a_pbs_log_lacks_is_said_in_the_words_of_pbs(tmp_path: Path) -> None:
    """A job of two nodes waits while one is idle; the log has no time limits."""
    waits = ended("2", T, T + 500, T + 600, "h1/0+h2/0", 2)
    window = cut(read(tmp_path, ended("1", T, T, T + 500, "h1/0", 1) + waits + LAST).log)
    found = idle_causes(window)
    assert "queues (queue)" not in found.not_judged
    assert "time limits (Resource_List.walltime)" in found.not_judged
    assert found.text(IdleCause.PARTITION) == "the jobs that wait are for other queues"
    said = " ".join(
        (*explained(found, 10), *headings(words_of(window)[0]), *map(found.text, IdleCause))
    )
    assert (
        re.findall(r"(?i)TimelimitRaw|ReqTRES|\(Reason|\(Constraints|partition|sacct", said) == []
    )


def test_no_format_but_slurms_has_columns_of_sacct() -> None:
    foreign = [each.dialect for each in FORMATS if not each.dialect.slurm]
    assert len(foreign) == 5
    words = {dialect.name(fact) for dialect in foreign for fact in JobFact}
    assert not [name for name in words for place in SACCT.places.values() if f"({place})" in name]
    assert all("(" in name for name in words)


def test_wired_blocks_of_mira_have_the_midplanes_at_their_corners() -> None:
    """Cobalt's own tests name this block; 32,768 of the 49,152 nodes in its box are its own."""
    nodes = set(nodes_of_block("MIR-00000-7BFF1-0100-32768"))
    assert len(nodes) == 32768
    assert {name[5] for name in nodes} == set("012389AB")
    assert len(nodes_of_block("MIR-04000-7BFF1-32768")) == 32768


ARRAY = [
    entry("Q", "4[].srv", "queue=workq"),
    entry(
        "S",
        "4[].srv",
        f"ctime={T} start={T} array_indices=1-2 Resource_List.nodect=1 Resource_List.ncpus=1",
    ),
    ended("4[1].srv", T, T, T + 7200, "n1/0", 1),
    ended("4[2].srv", T, T, T + 10800, "n2/0", 1),
    entry(
        "E",
        "4[].srv",
        f"ctime={T} start={T} Resource_List.nodect=1 session=0 end={T + 10801} run_count=0",
    ),
]


@pytest.mark.parametrize("start", ["started", "never started"])
def test_a_whole_array_is_no_job(tmp_path: Path, start: str) -> None:
    """Older servers write start=0."""
    lines = (
        ARRAY
        if start == "started"
        else [ARRAY[0], *ARRAY[2:4], ARRAY[4].replace(f"start={T} ", "start=0 ")]
    )
    found = read(tmp_path, "".join(lines))
    assert "2 jobs: 2 started, 0 of them still running; 0 never started" in found.remarks
    assert "of whole arrays, which hold no node" in found.totals[0]


@pytest.mark.data
@pytest.mark.parametrize("name", ["started", "zero"])
def test_samples_of_arrays(name: str) -> None:
    opened = open_log(data_file(f"../samples/reports-2026-11/pbs-array-parent/{name}.txt"), PLAIN)
    assert "2 jobs: 2 started, 0 of them still running; 0 never started" in opened.remarks
    window = cut(opened.log)
    assert characterize(window).node_hours == pytest.approx(1.0, abs=0.01)
