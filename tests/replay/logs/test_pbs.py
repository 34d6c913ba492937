"""PBS, Torque and Cobalt accounting lines. The texts are minimal examples by hand; those marked
``data`` are real.
"""

from __future__ import annotations

import gzip
import re
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
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
from bftrainer_replay.logs.model import restricted_log
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
    window = restricted_log(read(tmp_path, ended("1", T, T, T + 500, "h1/0", 1) + waits + LAST).log)
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
    window = restricted_log(opened.log)
    assert characterize(window).node_hours == pytest.approx(1.0, abs=0.01)


RECORDED = Path(__file__).parents[2] / "recorded" / "openpbs-23.06.06"
"""Accounting of a real OpenPBS of four nodes: arrays, suspended and resumed jobs, a job that
released a node, reservations. Provenance: README.md there.
"""


def at(seconds: int, kind: str, job: str, text: str = "") -> str:
    """An accounting line with its local time, which is UTC here."""
    moment = datetime.fromtimestamp(T + seconds, UTC).strftime("%m/%d/%Y %H:%M:%S")
    return f"{moment};{kind};{job};{text}\n"


def run(place: str, count: int = 1, end: int | None = None) -> str:
    text = (
        f"ctime={T} start={T} exec_host={place} Resource_List.nodect={count} Resource_List.ngpus=2"
    )
    return text if end is None else f"{text} end={T + end}"


def test_a_suspended_job_keeps_its_node_and_uses_nothing(tmp_path: Path) -> None:
    text = (
        at(0, "S", "1", run("h1/0"))
        + at(0, "S", "2", run("h2/0"))
        + at(50, "z", "1", "!\x01<")  # what PBS writes there may be garbage
        + at(50, "S", "3", run("h1/0").replace(f"start={T}", f"start={T + 50}"))
        + at(80, "E", "3", run("h1/0", 1, 80).replace(f"start={T}", f"start={T + 50}"))
        + at(90, "r", "1")
        + at(100, "E", "1", run("h1/0", 1, 100))
        + at(300, "E", "2", run("h2/0", 1, 300))
        + LAST
    )
    opened = read(tmp_path, text)
    # From 50 s on, the end of its first part: h1 is busy until the end of job 1.
    assert [(t, j, k) for t, j, k in changes(opened) if "h1" in (*j, *k)] == [(50, ["h1"], [])]
    assert set(opened.log.site.nodes.device_type()) == {"gpu x2", "no device"}
    assert "1 suspended job (z records)" in "\n".join(opened.remarks)


def test_a_node_that_a_job_released_is_idle_whatever_its_last_record_says(tmp_path: Path) -> None:
    text = (
        at(0, "S", "1", run("h1/0+h2/0", 2))
        + at(0, "S", "2", run("h3/0"))
        + at(10, "E", "2", run("h3/0", 1, 10))
        + at(50, "u", "1", run("h1/0+h2/0", 2))
        + at(50, "c", "1", run("h1/0"))
        + at(100, "e", "1", run("h1/0"))
        + at(100, "E", "1", run("h1/0+h2/0", 2, 100))
        + LAST
    )
    named = [(t, [n for n in j if n != "h9"], k) for t, j, k in changes(read(tmp_path, text)) if j]
    assert named[:3] == [(0, ["h3"], []), (40, ["h2"], []), (90, ["h1"], [])]


@pytest.mark.parametrize("kind", ["z", "r", "c"])
def test_changes_of_unknown_runs_are_ignored_and_odd_times_change_no_end(
    tmp_path: Path, kind: str
) -> None:
    """A file begins in the middle of a run; a zone that is wrong dates a record hours off."""
    text = (
        at(0, kind, "7", run("h7/0"))
        + at(0, "S", "1", run("h1/0"))
        + at(7200, kind, "1", run("h1/0"))
        + at(-7200, kind, "1", run("h1/0") + " ")
        + at(100, "E", "1", run("h1/0", 1, 100))
        + LAST
    )
    opened = read(tmp_path, text)
    assert changes(opened)[0] == (0, ["h1", "h9"], [])
    assert f"{kind} records without a known run" in opened.totals[0]


def test_an_independent_count_has_the_idle_share_of_the_recorded_log() -> None:
    """Union of the runs of each node. By E and R records alone it is 43.69 %: the last record of
    job 1651 names n3 again, which the job gave back by pbs_release_nodes three seconds earlier, as
    its records u (phase end) and c (next phase, without n3) say. The reader counts these three
    seconds as idle: 43.72 %.
    """
    window = restricted_log(open_log(RECORDED / "accounting.gz", PLAIN).log)
    span_s = window.end_s - window.start_s
    runs = list(_runs_by_hand(RECORDED / "accounting.gz"))
    assert sorted({node for node, _, _ in runs}) == ["n1", "n2", "n3", "n4"]
    by_last_records = _idle_share(runs, window.start_s, window.end_s)
    assert by_last_records == pytest.approx(0.4369, abs=0.00005)
    node, released_s, ended_s = _release_by_hand(RECORDED / "accounting.gz", "1651.head")
    assert (node, ended_s - released_s) == ("n3", 3)
    (run_of_n3,) = (run for run in runs if run[0] == node and run[2] == ended_s)
    runs[runs.index(run_of_n3)] = (node, run_of_n3[1], released_s)
    by_all_records = _idle_share(runs, window.start_s, window.end_s)
    assert by_all_records == pytest.approx(0.4372, abs=0.00005)
    found = characterize(window)
    assert found.node_hours / (4 * span_s / 3600) == pytest.approx(by_all_records, abs=1e-6)


def _idle_share(runs: list[tuple[str, int, int]], start_s: float, end_s: float) -> float:
    """The share of four nodes' time in which none of these runs is on them."""
    busy_s = 0.0
    for node in {name for name, _, _ in runs}:
        until = start_s
        for begin, end in sorted((b, e) for name, b, e in runs if name == node):
            busy_s += max(min(end, end_s) - max(begin, until), 0)
            until = max(until, min(end, end_s))
    return 1 - busy_s / (4 * (end_s - start_s))


def _runs_by_hand(path: Path) -> Iterator[tuple[str, int, int]]:
    """Each node of each run, its start and its end, by other means than the reader's."""
    with gzip.open(path, "rt", errors="replace") as file:
        for line in file:
            if line[20:21] not in "ER" or "exec_vnode=" not in line:
                continue
            (start,), (end,) = (re.findall(rf" {key}=(\d+)", line) for key in ("start", "end"))
            for node in _nodes_by_hand(line):
                yield node, int(start), int(end)


def _release_by_hand(path: Path, job: str) -> tuple[str, int, int]:
    """The node that a job gave back, when it did, and when the job ended."""
    with gzip.open(path, "rt", errors="replace") as file:
        lines = {line[20]: line for line in file if line[21:].startswith(f";{job};")}
    (node,) = _nodes_by_hand(lines["u"]) - _nodes_by_hand(lines["c"])
    moments = [datetime.strptime(lines[kind][:19], "%m/%d/%Y %H:%M:%S") for kind in "uE"]
    released, ended = (int(moment.replace(tzinfo=UTC).timestamp()) for moment in moments)
    return node, released, ended


def _nodes_by_hand(line: str) -> set[str]:
    return set(re.findall(r"\((n\d)", line.partition("exec_vnode=")[2].split()[0]))


def test_the_recorded_log_has_no_node_with_more_gpus_than_it_has() -> None:
    """A suspended job beside the one that preempted it made 3 GPUs of 2."""
    opened = open_log(RECORDED / "accounting.gz", PLAIN)
    assert set(opened.log.site.nodes.device_type()) == {"gpu x2"}


def test_reservations_come_from_the_accounting_file(tmp_path: Path) -> None:
    """R423 has n4 from 16:09:10 to 16:11:10; the others of the file never begin."""
    path = RECORDED / "accounting.gz"
    plain, reserved = (
        characterize(restricted_log(open_log(path, replace(PLAIN, reservations=file)).log))
        for file in (None, path)
    )
    assert plain.down_node_h == 0
    # Most of the two minutes: a job of the reservation ran there for seconds.
    assert 60 < 3600 * reserved.down_node_h < 120
    assert plain.node_hours - reserved.node_hours == pytest.approx(reserved.down_node_h)
    bad = tmp_path / "accounting"
    bad.write_text(at(0, "B", "R1", "start=1 nodes=(n1)"))
    with pytest.raises(InputFileError, match=r"accounting:1: the reservation has no start, end"):
        open_log(path, replace(PLAIN, reservations=bad))
