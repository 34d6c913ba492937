"""Tables that other programs wrote: pandas, MySQL; headers of SWF that hold more than a number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.data import data_file
from support.log_examples import EXAMPLES
from support.reading_logs import PLAIN, changes, read, totals

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.open import open_log

COLUMNS = "start=start_time,end=end_time,nodes=nodes,submit=submit_time"
PANDAS = (
    "job_id,submit_time,start_time,end_time,nodes\n"
    "1,2024-01-05 00:00:00,2024-01-05 00:00:10,2024-01-05 04:00:10,2.0\n"
    "2,2024-01-05 00:00:00,2024-01-05 04:00:20,2024-01-05 09:00:10,2.0\n"
)


@pytest.mark.parametrize("missing", ["NaT", "nan", "NaN", "<NA>", "NULL", "\\N", ""])
def test_numbers_and_missing_times_of_pandas(tmp_path: Path, missing: str) -> None:
    found = read(
        tmp_path,
        PANDAS + f"3,2024-01-05 00:00:00,{missing},2024-01-05 09:00:10,2.0\n",
        columns=COLUMNS,
    )
    assert totals(found) == (3, 3, 0, 0)
    assert "3 jobs: 2 started, 0 of them still running; 1 never started" in found.remarks
    assert found.log.machine_nodes == 2


def test_a_part_of_a_node_is_no_number_of_nodes(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"'2\.5' is not a number of nodes"):
        read(tmp_path, PANDAS.replace("2.0", "2.5"), columns=COLUMNS)


@pytest.mark.data
def test_the_sample_of_pandas() -> None:
    sample = data_file("../samples/reports-2026-11/table-from-pandas/jobs.csv")
    opened = open_log(sample, replace(PLAIN, columns=COLUMNS))
    assert totals(opened) == (3, 3, 0, 0)
    assert "3 jobs: 2 started, 0 of them still running; 1 never started" in opened.remarks


@pytest.mark.parametrize(
    ("value", "nodes"),
    [
        ("4", 4),
        ("4.0", 4),
        ("4 (and 2 for logins)", 4),
        ("1,152", 1152),
        ("1'152", 1152),
        ("4;", 4),
        ("4e0", 4),
        ("+4", 4),
    ],
)
def test_a_header_of_swf_begins_with_its_number(tmp_path: Path, value: str, nodes: int) -> None:
    swf = EXAMPLES["swf"].decode().replace("MaxProcs: 8", f"MaxProcs: {2 * nodes}")
    assert (
        read(tmp_path, swf.replace("MaxNodes: 4", f"MaxNodes: {value}")).log.machine_nodes == nodes
    )


@pytest.mark.parametrize("value", ["", "unknown", "-1", "N/A"])
def test_a_header_of_swf_may_not_know(tmp_path: Path, value: str) -> None:
    swf = EXAMPLES["swf"].decode()
    found = read(tmp_path, swf.replace("MaxNodes: 4", f"MaxNodes: {value}"), processors_per_node=2)
    plain = read(tmp_path, swf.replace("; MaxNodes: 4\n", ""), processors_per_node=2)
    assert changes(found) == changes(plain)


@pytest.mark.parametrize("value", ["four", "4.5", "12x", "10000000000000", "-7"])
def test_other_headers_of_swf_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(
        InputFileError, match=r"log:3: MaxNodes is .*, expected a (?:whole )?number"
    ):
        read(tmp_path, EXAMPLES["swf"].decode().replace("MaxNodes: 4", f"MaxNodes: {value}"))


SLURMDBD = (
    "id_job\tnodelist\tnodes_alloc\tstate\ttime_submit\ttime_start\ttime_end\ttimelimit\n"
    "1\tn[1-2]\t2\t3\t1700000000\t1700000000\t1700003600\t60\n"
    "2\tn[1-2]\t2\t1024\t1700000000\t1700003600\t1700007200\tNULL\n"
    "2\tn1\t1\t3\t1700007200\t1700010800\t1700014400\t60\n"
    "3\tNone assigned\t1\t0\t1700000000\t0\t0\t60\n"
)


def test_a_table_of_slurmdbd(tmp_path: Path) -> None:
    """As ``mysql -B`` prints the table of jobs: states are numbers, and 0 is no time."""
    columns = (
        "job=id_job,nodelist=nodelist,nodes=nodes_alloc,state=state,submit=time_submit,start=time_start,end=time_end,"
        "limit=timelimit"
    )
    found = read(tmp_path, SLURMDBD, columns=columns)
    assert totals(found) == (4, 4, 0, 0)
    assert "4 jobs: 3 started, 0 of them still running; 1 never started" in found.remarks
    with pytest.raises(InputFileError, match="job state '77' is unknown"):
        read(tmp_path, SLURMDBD.replace("1024", "77"), columns=columns)


def test_half_a_processor_is_a_node(tmp_path: Path) -> None:
    """Found by the fuzzer: a job with a count below one was on no node."""
    header = b"; MaxNodes: 4\n; MaxProcs: 8\n; UnixStartTime: 1600000000\n"
    job = b"1 0 0 10 0.5 -1 -1 0.5 60 -1 1 1 1 1 1 1 -1 -1\n"
    assert totals(read(tmp_path, header + job + job.replace(b"1 0 0", b"2 9 0")))[0] == 2
