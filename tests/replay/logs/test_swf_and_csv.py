"""SWF with and without node ids, ALCF's CSVs. Minimal examples by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.reading_logs import changes, read, totals

from bftrainer.errors import InputFileError

T = 1_600_000_000
HEADER = f"; Version: 2.2\n; UnixStartTime: {T}\n; MaxNodes: 4\n; MaxProcs: 8\n"


def row(job: int, submit: int, wait: int, run: float, processors: int, more: str = "") -> str:
    return (
        f"{job} {submit} {wait} {run} {processors} -1 -1 {processors} 3600 -1 1 1 1 -1 1 -1 -1 "
        f"-1 {more}".rstrip()
        + "\n"
    )


ROWS = (
    row(1, 0, 0, 100, 4) + row(2, 0, 10, 200, 3) + row(3, 150, 50, 60, 8) + row(4, 300, -1, 500, 2)
)


def test_processors_become_nodes_by_first_fit(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER + ROWS)
    sizes = [len(joined) - len(left) for _, joined, left in changes(found)]
    # 4 nodes: from 100 s jobs 2 (2 nodes) runs; at 200 job 3 wants 4 and gets the 2 there are; at
    # 210 job 2 ends.
    assert [at for at, _, _ in changes(found)] == [0, 100, 110, 160, 200]
    assert sizes == [2, -2, 2, 2, 0]
    assert found.log.machine_nodes == 4
    assert found.log.note
    assert found.log.events[0].at_s == T + 100
    assert any("1 job asked for more nodes than were free" in remark for remark in found.remarks)


def test_node_ids_in_a_nineteenth_field(tmp_path: Path) -> None:
    rows = (
        row(1, T, 0, 100, 4, "{7,7,8,8} q x")
        + row(2, T + 50, 100, 50, 2, "{7,7} q x")
        + row(3, T + 300, 0, 900, 1, "{9}")
    )
    found = read(tmp_path, rows)
    assert changes(found) == [
        (0, ["node7", "node8", "node9"], []),
        (50, [], ["node7"]),
        (100, ["node7"], []),
        (200, [], []),
    ]
    assert not found.log.note


def test_a_cleaned_log_says_so(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER + "; Note: THIS IS A CLEANED VERSION OF THE LOG!\n" + ROWS)
    assert any("cleaned" in remark for remark in found.remarks)


def test_rows_without_size_or_run_time(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER + ROWS + row(5, 10, 400, 0, 2) + row(6, 10, 0, 50, -1))
    assert totals(found) == (6, 5, 1, 0)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (row(5, 10, 0, -1359980000, 2), "run time"),
        (row(5, 10, -7, 50, 2), "wait time"),
        (row(5, -10, 0, 50, 2), "submit time"),
        ("5 10 0 50\n", "has 4 fields"),
        (row(5, 10, 0, 50, 2).replace("50", "abc", 1), "not a (finite )?number"),
        (row(5, 10, 0, 50, 2).replace("50", "nan", 1), "not a (finite )?number"),
        (row(5, 10, 0, 50, 2, "{7,7"), "list of nodes"),
        (row(5, 10, 0, 50, 2, "{7,,7}"), "not a node id"),
    ],
)
def test_bad_rows(tmp_path: Path, bad: str, problem: str) -> None:
    with pytest.raises(InputFileError, match=rf"log:9: .*{problem}"):
        read(tmp_path, HEADER + ROWS + bad)
    assert totals(read(tmp_path, HEADER + ROWS + bad, skip_bad=True)) == (5, 4, 0, 1)


def test_lumos(tmp_path: Path) -> None:
    text = (
        ",job,state,node_num,submit_time,wait_time,run_time,wall_time\n"
        f"0,1,0,2.0,{T},0,100.4,3600\n1,2,0,1.0,{T},0,150,3600\n2,3,0,2.0,{T + 50},250,100,3600\n3,4,0,1,{T + 300},0,9,9\n"
    )
    found = read(tmp_path, text, machine_nodes=3)
    assert [(at, len(j), len(k)) for at, j, k in changes(found)] == [
        (0, 2, 0),
        (50, 1, 0),
        (200, 0, 0),
    ]
    assert found.log.queue is not None
    with pytest.raises(InputFileError, match=r"log:3: node_num is '-1'"):
        read(tmp_path, text.replace("1,2,0,1.0", "1,2,0,-1"))
    with pytest.raises(InputFileError, match=r"log:2: has 7 fields, expected 8"):
        read(tmp_path, text.replace(",3600\n1,2", "\n1,2"))


def test_public_with_locations(tmp_path: Path) -> None:
    text = (
        "JOB_NAME,COBALT_JOBID,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,NODES_USED,LOCATION\n"
        '"a,b",1,2018-01-01 00:00:00.000000,2018-01-01 00:00:00.000000,2018-01-01 '
        "00:01:40.000000,2,MIR-00000-00001-2\n"
        "c,2,2018-01-01 00:01:00,2018-01-01 00:03:20,2018-01-01 00:05:00,1,MIR-00000-00000-1\n"
        "d,3,2018-01-01 00:04:00,2018-01-01 00:04:00,2018-01-01 00:05:00,1,MIR-00011-00011-1\n"
    )
    found = read(tmp_path, text)
    assert found.log.machine_nodes == 49152
    assert [(at, len(j), k) for at, j, k in changes(found)] == [
        (0, 49152, []),
        (100, 0, ["MIR-00000"]),
        (140, 0, []),
    ]
    for block, place in (
        ("MIR-00000-00001-2", '"0-1"'),
        ("MIR-00000-00000-1", "0"),
        ("MIR-00011-00011-1", "7"),
    ):
        text = text.replace(block, place)
    ranges = read(tmp_path, text)
    assert set(ranges.log.nodes()) == {"nid00000", "nid00001", "nid00007"}
