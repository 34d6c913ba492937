"""Files of sacct with and without a header, and what the messages ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import bftrainer
from support.log_examples import SACCT
from support.reading_logs import changes, read, totals

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.slurm_columns import SACCT_COLUMNS, SACCT_COMMAND

DOCS = Path(__file__).parents[3] / "docs"
TEXT = SACCT.decode()
DAY = "2026-02-01T0"
FULL = "".join(
    f"{k}|c|u{k}|a|{DAY}0:00:00|{DAY}0:00:00|{DAY}{k}:00:00|{DAY}{k + 1}:00:00|3600|60|1|n1|COMPLETED|p|q|None|cpu=1|cpu=2|"
    "|SchedMain\n"
    for k in range(3)
)
# Slurm 22.05.8, without -P.
PRINTED = """\
JobID                     Submit            Eligible               Start                 End ElapsedRaw   NNodes        NodeList
------------ ------------------- ------------------- ------------------- ------------------- ---------- -------- ---------------
20801000     2026-11-22T20:54:15 2026-11-22T20:54:15 2026-11-22T20:54:16 2026-11-22T20:54:18          2        1          node01
"""


def test_one_command_is_documented() -> None:
    for page in ("site-logs.md", "site-replay.md"):
        assert f"{SACCT_COMMAND} > sacct.txt" in (DOCS / page).read_text(encoding="utf-8"), page
    shown = bftrainer("replay", "convert", "--help").out
    assert SACCT_COLUMNS in "".join(shown.replace("\\\n", "").split())


def test_the_columns_of_the_command_are_known_without_a_header(tmp_path: Path) -> None:
    found = read(tmp_path, FULL)
    assert totals(found) == (3, 3, 0, 0)
    assert any(
        remark.startswith("no header: assuming the columns of the documented command")
        for remark in found.remarks
    )


def test_other_columns_without_a_header_have_to_be_named(tmp_path: Path) -> None:
    without = TEXT.partition("\n")[2]
    with pytest.raises(
        InputFileError,
        match=r"is not a header .* run sacct without -n, or name the columns with --columns",
    ):
        read(tmp_path, without)
    named = read(
        tmp_path, without, columns="JobID,Submit,Eligible,Start,End,NNodes,NodeList,State,JobName"
    )
    assert changes(named) == changes(read(tmp_path, TEXT))


def test_columns_imply_sacct(tmp_path: Path) -> None:
    rows = "n1|1600000000|1600000000|1600000100|1\nn1|1600000200|1600000200|1600000300|1\n"
    assert totals(read(tmp_path, rows, columns="NodeList,Submit,Start,End,NNodes")) == (2, 2, 0, 0)


def test_output_for_people_is_refused_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="without --parsable2") as caught:
        read(tmp_path, PRINTED)
    assert SACCT_COMMAND in str(caught.value)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_other_delimiters(tmp_path: Path, delimiter: str) -> None:
    lines = [
        delimiter.join(f'"{f}"' if delimiter in f else f for f in line.split("|"))
        for line in TEXT.splitlines()
    ]
    assert changes(read(tmp_path, "\n".join(lines) + "\n")) == changes(read(tmp_path, TEXT))


def test_commas_in_values_need_quotes(tmp_path: Path) -> None:
    lines = [TEXT.splitlines()[0], TEXT.splitlines()[2].replace("cn[2-3]", "cn[2,3]")]
    with pytest.raises(
        InputFileError, match="values hold commas, so run sacct with -P and no --delimiter"
    ):
        read(tmp_path, "\n".join(lines).replace("|", ",") + "\n")


@pytest.mark.parametrize("columns", [26, 24])
def test_xdmods_files(tmp_path: Path, columns: int) -> None:
    """The shredder's columns, and those before it asked for TRES."""
    line = (
        "1|1|c|p|q|a|g|1|u|1|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T01:00:00|01:00:00|0:0|"
        "COMPLETED|1|8|8|1Mn|cpu=8,node=1|cpu=8,node=1|02:00:00|n1|a|name"
    )
    fields = line.split("|")
    if columns == 24:
        del fields[21:23]
    found = read(tmp_path, "|".join(fields) + "\n")
    assert totals(found) == (1, 1, 0, 0)
    assert any("assuming XDMoD's columns" in remark for remark in found.remarks)


def test_a_wrong_time_zone_contradicts_the_elapsed_time(tmp_path: Path) -> None:
    """Clocks in Zurich went back at 3:00 on 25 October 2026: by its times, the job ran an hour less
    than it did.
    """
    log = (
        "JobID|Submit|Start|End|ElapsedRaw|NNodes|NodeList\n"
        "1|2026-10-24T20:00:00|2026-10-24T20:00:00|2026-10-25T05:00:00|36000|1|n1\n"
        "2|2026-10-25T06:00:00|2026-10-25T06:00:00|2026-10-25T07:00:00|3600|1|n1\n"
    )
    what = (
        "1 job ran exactly an hour (or half of one) longer or shorter than their elapsed time says"
    )
    unset = [remark for remark in read(tmp_path, log).remarks if remark.startswith(what)]
    assert len(unset) == 1
    assert unset[0].endswith("specify the site's zone with --timezone")
    wrong = read(tmp_path, log, timezone="America/New_York").remarks
    assert any(
        remark.startswith(what) and remark.endswith("check --timezone America/New_York")
        for remark in wrong
    )
    assert not [
        remark
        for remark in read(tmp_path, log, timezone="Europe/Zurich").remarks
        if remark.startswith(what)
    ]
