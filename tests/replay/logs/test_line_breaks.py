"""Names, comments and reasons with line breaks: what they hold is no record, however it looks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.data import data_file
from support.reading_logs import PLAIN, changes, read, totals

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.open import open_log

DAY = "2026-01-05T"
TIMES = {
    "1": ("00:00:00", "00:00:10", "04:00:10"),
    "2": ("01:00:00", "04:10:10", "09:00:10"),
    "3": ("01:00:00", "09:10:10", "10:00:10"),
}


def table(place: int, text: str) -> str:
    """Three jobs on two nodes; the second has this text in a column at this place."""
    lines = []
    head = ["JobID", "Submit", "Start", "End", "NNodes", "NodeList", "State"]
    head.insert(place, "JobName")
    for job, times in TIMES.items():
        fields = [job, *(DAY + clock for clock in times), "2", "n[1-2]", "COMPLETED"]
        fields.insert(place, text if job == "2" else "plain")
        lines.append("|".join(fields))
    return "\n".join(("|".join(head), *lines)) + "\n"


FORGED = f"99|{DAY}00:00:00|{DAY}00:00:00|{DAY}09:00:00|8|x[1-8]|COMPLETED|y"


@pytest.mark.parametrize("place", [1, 4, 7])
@pytest.mark.parametrize("text", ["my\njob", "my\n\njob\n", "\n#job", "a && \nb"])
def test_lines_are_joined_until_a_record_has_its_fields(
    tmp_path: Path, place: int, text: str
) -> None:
    found, plain = read(tmp_path, table(place, text)), read(tmp_path, table(place, "one"))
    assert changes(found) == changes(plain)
    assert totals(found)[1] == 3
    assert totals(found)[3] == 0


@pytest.mark.parametrize("place", [1, 4])
def test_a_name_forges_no_job(tmp_path: Path, place: int) -> None:
    for skip_bad in (False, True):
        with pytest.raises(
            InputFileError, match=r"log:3: .* write the table without the column jobname"
        ):
            read(tmp_path, table(place, f"my\n{FORGED}\njob"), skip_bad=skip_bad, most_bad=1.0)


@pytest.mark.parametrize("forged_id", ["2", "2_7", "3"])
def test_a_name_that_ends_its_record_and_begins_another_is_counted(
    tmp_path: Path, forged_id: str
) -> None:
    """Each line is a whole record; but an id that Slurm gave to no other job is in one record."""
    rest = f"{DAY}01:00:00|{DAY}04:10:10|{DAY}09:00:00|2|n[1-2]|COMPLETED"
    found = read(tmp_path, table(1, f"x|{rest}\n{forged_id}|y"))
    assert totals(found)[1] == 4
    assert "the id of another job without a requeue: text of users (column jobname)" in (
        found.log.note
    )


def test_runs_of_a_requeued_job_are_no_forged_records(tmp_path: Path) -> None:
    run = f"2|x|{DAY}00:30:00|{DAY}04:10:10|{DAY}04:20:00|2|n[1-2]|REQUEUED\n2|plain|{DAY}01"
    text = table(1, "plain").replace(f"2|plain|{DAY}01", run)
    assert totals(read(tmp_path, text))[1] == 4
    assert "without a requeue" not in read(tmp_path, text).log.note


def test_a_table_with_text_of_users_says_so(tmp_path: Path) -> None:
    assert any(
        "without it, no user can write into the log" in text
        for text in read(tmp_path, table(1, "a")).remarks
    )


def test_quoted_line_breaks_of_a_csv_file(tmp_path: Path) -> None:
    rows = [
        ",".join(
            f'"{field}"' if "\n" in field or "," in field else field for field in record.split("|")
        )
        for record in table(1, "my, or@his\nname").replace("@his\nname", "@").splitlines()
    ]
    text = "\n".join(rows).replace('"my, or@"', '"my, or\nhis"') + "\n"
    assert changes(read(tmp_path, text)) == changes(read(tmp_path, table(1, "a")))


@pytest.mark.data
@pytest.mark.parametrize("name", ["job-name", "submit-line"])
def test_samples(name: str) -> None:
    opened = open_log(
        data_file(f"../samples/reports-2026-11/sacct-line-break-in-name/{name}.txt"), PLAIN
    )
    assert totals(opened) == (4, 3, 1, 0)


JOBCOMP = (
    "JobId={job} UserId=u(1) GroupId=g(1) Name={name} JobState=COMPLETED Partition=main "
    "TimeLimit=6 StartTime={start} "
    "EndTime={end} NodeList=n[1-2] NodeCnt=2 ProcCnt=2 WorkDir={folder} ReservationName= "
    "Tres=cpu=1 Account= QOS= "
    "WcKey= Cluster=c SubmitTime={submit} EligibleTime={submit} DerivedExitCode=0:0 ExitCode=0:0 \n"
)


def jobcomp(name: str, folder: str = "/h") -> str:
    return "".join(
        JOBCOMP.format(
            job=job,
            submit=DAY + times[0],
            start=DAY + times[1],
            end=DAY + times[2],
            name=name if job == "2" else "plain",
            folder=folder if job == "2" else "/h",
        )
        for job, times in TIMES.items()
    )


@pytest.mark.parametrize("name", ["my\njob", "\n\n#a\n", "a JobState=x\nStartTime=y"])
def test_jobcomp_joins_the_lines_of_a_name(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, jobcomp(name))
    assert changes(found) == changes(read(tmp_path, jobcomp("plain")))
    assert totals(found)[1] == 3
    assert totals(found)[3] == 0


def test_jobcomp_joins_the_lines_of_a_folder(tmp_path: Path) -> None:
    found = read(tmp_path, jobcomp("plain", "/a\nb"))
    assert changes(found) == changes(read(tmp_path, jobcomp("plain")))
    assert totals(found) == (4, 3, 1, 0)


def test_jobcomp_with_a_job_in_a_name_is_refused(tmp_path: Path) -> None:
    forged = JOBCOMP.format(
        job=99,
        submit=DAY + "00:00:00",
        start=DAY + "00:00:00",
        end=DAY + "09:00:00",
        name="x",
        folder="/h",
    ).replace("n[1-2]", "x[1-2]")
    for skip_bad in (False, True):
        with pytest.raises(InputFileError):
            read(tmp_path, jobcomp(f"my\n{forged}job"), skip_bad=skip_bad, most_bad=1.0)


EVENTS = (
    "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
    f"c|n1|{DAY}00:00:00|{DAY}00:00:10|DOWN|{{reason}}|root(0)\n"
    f"c|n2|{DAY}09:00:10|{DAY}09:10:10|DOWN|plain|root(0)\n"
)


def test_reasons_of_node_events_may_have_line_breaks(tmp_path: Path) -> None:
    events, log = tmp_path / "events", table(1, "a")
    found = []
    for reason in ("plain", "two\nlines", f"\n{DAY}\n"):
        events.write_text(EVENTS.format(reason=reason))
        found.append(changes(read(tmp_path, log, node_events=events)))
    assert found[0] == found[1] == found[2]
    events.write_text(
        EVENTS.format(reason=f"x\nc|n1|{DAY}04:00:10|{DAY}04:10:10|DOWN|forged|root(0)\nb")
    )
    with pytest.raises(InputFileError, match=r"events:2: .* without the column reason"):
        read(tmp_path, log, node_events=events)
