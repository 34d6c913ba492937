"""One log in the forms in which sites have it: all say the same of the idle nodes."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import bftrainer
from support.log_examples import EXAMPLES
from support.log_sums import seconds
from support.ran import python
from support.reading_logs import PLAIN, changes, read, totals

from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.open import OpenedLog, open_log

HEAD = "JobID|User|Submit|Start|End|ElapsedRaw|NNodes|NodeList|State|AllocTRES\n"


def job(number: int, state: str = "COMPLETED") -> str:
    start, end = (f"2026-02-{number + late:02d}T06:00:00" for late in (0, 2))
    start, end = (
        ("Unknown" if state == "PENDING" else start),
        ("Unknown" if state != "COMPLETED" else end),
    )
    nodes = "None assigned" if state == "PENDING" else f"n{number % 4}"
    tres = "cpu=8,gres/gpu=1,node=1"
    return f"{number}|u{number % 3}|2026-02-{number:02d}T00:00:00|{start}|{end}||1|{nodes}|{state}|{tres}\n"


MONTH = [job(number) for number in range(1, 26)]
WHOLE = HEAD + "".join(MONTH)
COLUMNS = "job,queued,began,finished,hosts,n"
TABLE = "".join(
    f"{k},{fields[2]},{fields[3]},{fields[4]},n{k % 4},1\n"
    for k, fields in enumerate((row.split("|") for row in MONTH), 1)
)


def opened(folder: Path, *texts: str) -> OpenedLog:
    paths = [folder / f"log{place}" for place in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return open_log(paths[0], replace(PLAIN, more_files=tuple(paths[1:])))


@pytest.mark.parametrize(
    "files",
    [
        (MONTH[:12], MONTH[12:]),
        (MONTH[:12], MONTH[8:]),
        ([*MONTH[:12], job(13, "RUNNING")], MONTH[12:]),
        ([*MONTH[:12], job(13, "PENDING")], MONTH[12:]),
        (MONTH, MONTH),
    ],
    ids=[
        "months",
        "overlap",
        "running at the end of a month",
        "waiting at the end of a month",
        "twice",
    ],
)
def test_several_files_are_one_log(tmp_path: Path, files: tuple[list[str], ...]) -> None:
    found, whole = (
        opened(tmp_path, *(HEAD + "".join(rows) for rows in files)),
        read(tmp_path, WHOLE),
    )
    assert changes(found) == changes(whole)
    queue, expected = found.log.queue, whole.log.queue
    until_s = [
        min(end, start) if start == start else end
        for start, end in zip(queue.start_s[:], queue.end_s[:], strict=True)
    ]
    waited = sum(until - since for until, since in zip(until_s, queue.eligible_s[:], strict=True))
    assert waited == (expected.start_s[:] - expected.eligible_s[:]).sum()


@pytest.mark.parametrize("form", ["sacct", "sacct-json", "swf", "events"])
def test_every_byte_of_all_files_is_counted_while_they_are_read(tmp_path: Path, form: str) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(EXAMPLES[form])
    packed.write_bytes(gzip.compress(EXAMPLES[form]))
    for path in (plain, packed):
        sizes: list[int] = []
        open_log(path, PLAIN, sizes.append)
        assert path.stat().st_size - 8 <= sum(sizes) <= path.stat().st_size  # less what names it
    if form == "sacct":
        sizes = []
        open_log(plain, replace(PLAIN, more_files=(packed,)), sizes.append)
        assert sum(sizes) > plain.stat().st_size


def test_what_is_wrong_is_told_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"log1:2: .*is not a"):
        opened(tmp_path, WHOLE, HEAD + "99|u|x|x|x||1|n1|COMPLETED|\n")
    with pytest.raises(UserError, match=r"log1: is a log of format events, but .*log0 is sacct"):
        opened(tmp_path, WHOLE, "time,joined,left\n")
    with pytest.raises(UserError, match="only one file of format events is read at a time, got 2"):
        opened(tmp_path, "time,joined,left\n", "time,joined,left\n")


def test_standard_input(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(WHOLE)
    file = bftrainer("replay", "characterize", tmp_path / "log", "--json")
    command = ("-m", "bftrainer", "replay", "characterize", "-", "--json")
    piped = python(*command, input=WHOLE)
    assert piped.returncode == 0, piped
    assert piped.stdout.split('"end"')[1] == file.out.split('"end"')[1]
    assert json.loads(piped.stdout)["log"] == "standard input"
    assert "note: standard input is sacct --parsable2: 25 records read" in piped.stderr
    bad = HEAD + "99|u|x|x|x||1|n1|COMPLETED|\n"
    piped = python(*command, input=bad)
    assert (piped.returncode, "standard input:2: " in piped.stderr) == (2, True), piped


def test_a_named_pipe_is_refused_before_its_reader_waits_forever(tmp_path: Path) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)
    with pytest.raises(InputFileError, match="is a named pipe, expected a file"):
        open_log(log)


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_any_table_with_named_columns(tmp_path: Path, delimiter: str) -> None:
    text = f"{COLUMNS}\n{TABLE}".replace(",", delimiter)
    found = read(
        tmp_path, text, columns="start=began,end=finished,submit=queued,nodelist=hosts,job=job"
    )
    assert changes(found) == changes(read(tmp_path, WHOLE))
    counted = read(tmp_path, text, columns="start=began, end=finished, nodes=n")
    assert [(at, len(joined), len(left)) for at, joined, left in changes(counted)]
    assert counted.log.queue is None  # nobody waited: there is no time of submission


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            "start=began,end=finished",
            "lacks start .or submit and wait., end .or run., or one of nodes",
        ),
        ("start=begun,end=finished,nodes=n", "has no column 'begun'; its columns are job, queued"),
        ("begin=began", "expected NAME=COLUMN with NAME one of start, end, nodes"),
    ],
)
def test_columns_that_are_not_there(tmp_path: Path, columns: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        read(tmp_path, f"{COLUMNS}\n{TABLE}", columns=columns)


def test_a_file_that_is_there_twice_in_every_format_with_job_ids(tmp_path: Path) -> None:
    swf = "; MaxProcs: 4\n; MaxNodes: 4\n" + "".join(
        f"{k} {k * 100} 0 250 1 -1 -1 1 300 -1 1 1 1 1 1 -1 -1 -1\n" for k in range(1, 30)
    )
    pbs = "".join(
        f"02/01/2026 00:{k:02d}:00;E;{k}.s;user=a queue=q ctime={k * 60} qtime={k * 60} "
        f"etime={k * 60} start={k * 60} "
        f"exec_host=n{k % 3}/0 Resource_List.nodect=1 end={k * 60 + 100}\n"
        for k in range(1, 30)
    )
    bhist = "".join(
        f"\nJob <{k}>, User <u>\nTue Feb 10 10:{k:02d}:00: Submitted from host <l>;\n"
        f"Tue Feb 10 10:{k:02d}:00: Started on <n{k % 3}>;\nTue Feb 10 10:{k + 2:02d}:00: Done "
        "successfully.;\n"
        for k in range(1, 30)
    )
    for text in (swf, pbs, bhist):
        once, twice = read(tmp_path, text), read(tmp_path, text + text)
        assert changes(once) == changes(twice)
        assert totals(twice) == (58, 29, 29, 0)


@pytest.mark.parametrize("running", [3, 1], ids=["as many as usual", "one, months after the log"])
def test_a_log_goes_on_while_its_jobs_run(tmp_path: Path, running: int) -> None:
    """Elapsed times tell when sacct ran; of a log of last year, hardly a job still runs."""
    row = "{0}|u{0}|2026-02-01T00:00:00|2026-02-0{0}T06:00:00|{1}|{2}|1|n{0}|{3}|\n"
    ended = [row.format(k, "2026-02-08T00:00:00", "", "COMPLETED") for k in range(1, 8 - running)]
    still = [row.format(k, "Unknown", (20 - k) * 86400, "RUNNING") for k in range(8 - running, 8)]
    *_, (last_s, _, _) = changes(read(tmp_path, HEAD + "".join((*ended, *still, job(1)))))
    assert last_s == (
        seconds("2026-02-20T06:00:00") if running == 3 else seconds("2026-02-08T00:00:00")
    ) - seconds("2026-02-03T06:00:00")


NODE = "NodeName=n{} CPUTot=16\n   Gres=gpu:a100:8(S:0-1)\n   CfgTRES=cpu=16,mem=1G{}\n"


@pytest.mark.parametrize("tres", ["", ",gres/gpu=8"], ids=["from Gres", "from CfgTRES"])
def test_what_nodes_have_and_never_used(tmp_path: Path, tres: str) -> None:
    (tmp_path / "nodes").write_text("".join(NODE.format(number, tres) for number in range(4)))
    guessed, told = (
        read(tmp_path, WHOLE).log.site.nodes,
        read(tmp_path, WHOLE, node_info=tmp_path / "nodes").log.site.nodes,
    )
    assert (guessed.devices["gpu"].tolist(), guessed.is_told) == ([1.0] * 4, False)
    assert (told.devices["gpu"].tolist(), told.cores.tolist(), told.is_told) == (
        [8.0] * 4,
        [16.0] * 4,
        True,
    )
    (tmp_path / "nodes").write_text(NODE.format(9, tres))
    with pytest.raises(UserError, match="none of the nodes in --node-info"):
        read(tmp_path, WHOLE, node_info=tmp_path / "nodes")


def test_jobs_that_start_after_the_end_of_the_span_share_no_node(tmp_path: Path) -> None:
    """They counted as jobs that end before they start: half a job a busy node."""
    late = "".join(
        job(number).replace(f"2026-02-{number:02d}T00:00:00", "2026-02-05T00:00:00")
        for number in range(6, 26)
    )
    facts = read(tmp_path, HEAD + "".join(MONTH[:5]) + late).log.site.nodes
    assert facts.jobs_per_busy_node == pytest.approx(1.0)


def test_the_jobs_of_one_user_are_no_picture_of_the_cluster(tmp_path: Path) -> None:
    found = read(
        tmp_path, WHOLE.replace("|u0|", "|ann|").replace("|u1|", "|ann|").replace("|u2|", "|ann|")
    )
    assert "all jobs belong to user ann: nodes with jobs of others count as idle" in found.log.note
    assert [each for each in found.remarks if each.startswith("all jobs belong to user ann")]
    assert found.log.site.only_user == "ann"
    assert read(tmp_path, WHOLE).log.site.only_user == ""
