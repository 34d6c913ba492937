"""Idle shares that a log does not tell for sure: shared nodes without names, unused and renamed
nodes, missing jobs.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from replay.commands import executed
from support.command_line import bftrainer, complaint
from support.data import data_file
from support.reading_logs import PLAIN, read

from bftrainer.errors import UserError
from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.analysis.doubts import IdleDoubts, doubts_of
from bftrainer_replay.logs.model import restricted_log
from bftrainer_replay.logs.open import OpenedLog, open_log

HOUR, DAY = 3600, 86400
HEADER = "JobID|Submit|Start|End|NNodes|NodeList|State\n"


def at(seconds: float) -> str:
    return (datetime(2026, 1, 1) + timedelta(seconds=seconds)).isoformat()


def days_of(nodes: int, days: int, renamed_after: float = 1e9) -> str:
    """A log of nodes that are idle for 11 minutes to two hours between jobs of hours; they may get
    other names.
    """
    chance, rows = random.Random(3), []
    for node in range(nodes):
        begin = 0
        while begin < days * DAY:
            end = begin + chance.randint(6 * HOUR, 20 * HOUR)
            name = f"{'n' if begin < renamed_after * DAY else 'cn'}{node:02d}"
            rows.append((begin, f"{at(begin)}|{at(begin)}|{at(end)}|1|{name}|COMPLETED\n"))
            begin = end + chance.randint(660, 2 * HOUR)
    texts = [row for _, row in sorted(rows)]
    texts[::50] = [text.replace("COMPLETED", "FAILED") for text in texts[::50]]
    return HEADER + "".join(f"{number}|{text}" for number, text in enumerate(texts))


def doubts(opened: OpenedLog) -> IdleDoubts:
    window = restricted_log(opened.log)
    return doubts_of(window, characterize(window))


def shown(path: Path, *options: object) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        executed("replay", "characterize", path, "--json", *options).out
    )
    return found


def test_nodes_that_never_ran_a_job_are_on_neither_side_of_the_share(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(days_of(40, 10))
    plain, larger = shown(log), shown(log, "--machine-nodes", 400)
    assert larger["idle_share"] == plain["idle_share"]
    assert larger["machine_nodes"] == 40
    remarks = bftrainer("replay", "characterize", log, "--machine-nodes", 400).err
    assert "360 of them never ran a job: shares are of the 40 others" in remarks


def test_nodes_with_other_names_from_one_day_on_are_the_same_nodes(tmp_path: Path) -> None:
    plain = read(tmp_path, days_of(40, 30))
    renamed = read(tmp_path, days_of(40, 30, renamed_after=15))
    share = characterize(restricted_log(plain.log)).idle_share
    found = doubts(renamed)
    assert found.least == pytest.approx(share, abs=0.005)
    assert found.most == pytest.approx((1 + share) / 2, abs=0.03)
    assert "40 nodes ran their last job before as many others ran their first" in renamed.log.note
    assert "ran no job for 48 hours or more were renamed" in " ".join(found.sentences())
    assert doubts(plain) == IdleDoubts(share, share)


def test_a_node_that_is_replaced_is_no_renamed_cluster(tmp_path: Path) -> None:
    one = days_of(40, 30).splitlines(keepends=True)
    text = "".join(
        line.replace("|n07|", "|x07|") if line[:400].count("2026-01-2") else line for line in one
    )
    assert "renamed" not in read(tmp_path, text).log.note


COUNTS = "id,submit,wait,run,nodes,cores,gpus\n"


def counts(cores: int, wait: str = "60", run: str = "3600.0") -> str:
    """Two jobs at a time, each on one node, for ten hours; the first jobs have all 8 cores of a
    node.
    """
    first = f"0,{at(0)},0,{run},1.0,8.0,4\n1,{at(0)},0,{run},1.0,8.0,4\n"
    return (
        COUNTS
        + first
        + "".join(
            f"{number},{at(HOUR * (number // 2))},{wait},{run},1.0,{cores},nan\n"
            for number in range(2, 20)
        )
    )


TABLE = "submit=submit,wait=wait,run=run,nodes=nodes,job=id,cores=cores,gpus=gpus"


def test_columns_of_waits_run_times_cores_and_gpus(tmp_path: Path) -> None:
    found = read(tmp_path, counts(8), columns=TABLE, machine_nodes=4)
    assert doubts(found).bounds == (), "each job has all cores of its node"
    share = characterize(restricted_log(found.log)).idle_share
    assert share == pytest.approx(0.5, abs=0.02)
    clocks = read(tmp_path, counts(8, "0:01:00", "01:00:00"), columns=TABLE, machine_nodes=4)
    assert characterize(restricted_log(clocks.log)).idle_share == share
    queue = found.log.queue
    assert queue is not None
    assert sorted(set((queue.start_s[:] - queue.eligible_s[:]).tolist())) == [0, 60]
    needs = {(each.cores, each.devices) for each in queue.all_needs}
    assert (8.0, (("gpu", 4.0),)) in needs


def test_jobs_that_share_nodes_make_a_range(tmp_path: Path) -> None:
    found = read(tmp_path, counts(5), columns=TABLE, machine_nodes=4)
    share = characterize(restricted_log(found.log)).idle_share
    (bound,) = found.log.site.bounds
    assert bound.condition.startswith("if jobs share nodes, of whose cores each uses 6")
    # Two busy nodes of four, of which five eighths are used.
    assert bound.idle_share == pytest.approx(1 - 0.5 * 5 / 8, abs=0.02)
    assert share == pytest.approx(0.5, abs=0.02)


def test_jobs_that_share_nodes_without_the_size_of_the_cluster_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"so they share nodes, and neither names nor the size .* or --machine-nodes",
    ):
        read(tmp_path, counts(1), columns=TABLE)


def test_more_nodes_at_once_than_there_are_is_a_warning(tmp_path: Path) -> None:
    text = counts(8).replace(",8.0,", ",,").replace(",8,", ",,")
    assert (
        "jobs had more nodes at once"
        in read(tmp_path, text, columns=TABLE, machine_nodes=1).log.note
    )
    assert (
        "jobs had more nodes at once"
        not in read(tmp_path, text, columns=TABLE, machine_nodes=2).log.note
    )


@pytest.mark.parametrize(
    "columns",
    [
        "submit=submit,run=run,nodes=nodes",
        "submit=submit,wait=wait,nodes=nodes",
        "wait=wait,run=run,nodes=nodes",
    ],
)
def test_half_of_the_times_is_not_enough(tmp_path: Path, columns: str) -> None:
    with pytest.raises(
        UserError, match=r"--columns lacks start \(or submit and wait\), end \(or run\)"
    ):
        read(tmp_path, counts(8), columns=columns)


@pytest.mark.parametrize("wait", ["-1", "soon", "1e99"])
def test_odd_durations_are_refused(tmp_path: Path, wait: str) -> None:
    with pytest.raises(
        UserError, match=r"log:4: wait is .*, expected seconds, or hours:minutes:seconds"
    ):
        read(tmp_path, counts(8, wait), columns=TABLE)


def test_processors_are_no_nodes(tmp_path: Path) -> None:
    rows = "".join(
        f"{k} {1600000000 + 100 * k} 0 100 4 -1 -1 4 9 -1 1 1 1 -1 1 -1 -1 -1\n" for k in range(9)
    )
    log = tmp_path / "log"
    log.write_text(f"; Version: 2.2\n; MaxProcs: 64\n{rows}")
    assert "specify --processors-per-node" in complaint(bftrainer("replay", "characterize", log))
    assert shown(log, "--processors-per-node", 4)["machine_nodes"] == 16


def test_a_log_that_lacks_jobs_seems_to(tmp_path: Path) -> None:
    """Four nodes; of two users who take turns, the jobs of one are missing, and those of the other
    wait.
    """
    whole, half = [HEADER], [HEADER]
    for turn in range(40):
        begin = 6 * HOUR * turn
        row = f"{turn}|{at(max(begin - 6 * HOUR, 0))}|{at(begin)}|{at(begin + 6 * HOUR)}|4|n[1-4]|COMPLETED\n"
        whole.append(row)
        half.append(row if turn % 2 else "")
    assert "seems to lack jobs" in " ".join(doubts(read(tmp_path, "".join(half))).sentences())
    assert not doubts(read(tmp_path, "".join(whole))).lacks_jobs


SELECTED = "JobID|Account|Submit|Start|End|NNodes|NodeList|State\n"


def selected(take: Callable[[int], bool], rows: int = 1000) -> str:
    """Of jobs of four accounts, every tenth of which fails, those that are taken."""
    lines = []
    for number in range(rows):
        begin, chance = HOUR * number, random.Random(number)
        if take(number):
            state = "FAILED" if chance.random() < 0.1 else "COMPLETED"
            times = f"{at(begin)}|{at(begin)}|{at(begin + 2 * HOUR)}"
            lines.append(f"{number}|a{number % 4}|{times}|1|n{number % 3}|{state}\n")
    return SELECTED + "".join(lines)


def test_a_selection_of_jobs_seems_to_lack_jobs(tmp_path: Path) -> None:
    whole = selected(lambda number: True)
    assert not doubts(read(tmp_path, whole)).lacks_jobs
    account = doubts(read(tmp_path, selected(lambda number: number % 4 == 1))).lacks_jobs
    assert "seems to lack jobs: all jobs belong to account a1; 75% of the job ids" in account
    others = doubts(read(tmp_path, selected(lambda number: number % 4 < 2))).lacks_jobs
    assert "seems to lack jobs: 50% of the job ids" in others
    completed = "".join(line for line in whole.splitlines(True) if "FAILED" not in line)
    assert "jobs have the state COMPLETED" in doubts(read(tmp_path, completed)).lacks_jobs
    few = doubts(read(tmp_path, selected(lambda number: True, rows=15)))
    assert not few.lacks_jobs, "a small cluster may have no failures"


def test_ids_that_are_missing_in_the_log_of_one_partition(tmp_path: Path) -> None:
    """A tenth of the jobs is in another partition: cut out of the log, the rest seems to lack it,
    and one partition with dense ids is a cluster.
    """
    rows = selected(lambda number: True).splitlines(keepends=True)
    names = [f"{'short' if number % 10 == 0 else 'main'}|" for number in range(len(rows) - 1)]
    lines = [name + row for name, row in zip(names, rows[1:], strict=True)]
    header = "Partition|" + rows[0]
    cut_out = header + "".join(line for line in lines if line.startswith("main"))
    assert (
        "all jobs are of partition main, and 11% of the job ids"
        in doubts(read(tmp_path, cut_out)).lacks_jobs
    )
    renamed = header + "".join(line.replace("short|", "main|") for line in lines)
    for whole in (header + "".join(lines), renamed):
        assert not doubts(read(tmp_path, whole)).lacks_jobs


@pytest.mark.data
@pytest.mark.parametrize(
    ("column", "value", "sign"),
    [
        (3, "black", "all jobs are of partition black, and"),
        (5, "calla", "all jobs belong to account calla"),
        (5, "taifl", "all jobs belong to account taifl"),
        (16, "COMPLETED", "jobs have the state COMPLETED"),
        (16, "FAILED", "jobs have the state FAILED"),
    ],
)
def test_a_real_log_cut_to_one_account_or_state(
    tmp_path: Path, column: int, value: str, sign: str
) -> None:
    with gzip.open(data_file("xdmod-sacct-nodelist/pozidriv.log.gz"), "rt") as lines:
        whole = lines.read()
    part = "".join(line for line in whole.splitlines(True) if line.split("|")[column] == value)
    assert sign in doubts(read(tmp_path, part)).lacks_jobs
    assert not doubts(read(tmp_path, whole)).lacks_jobs


def test_a_page_without_idle_nodes_has_whole_sentences(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "JobID|Submit|Start|End|NNodes|NodeList|State|ReqTRES|AllocTRES\n"
        f"1|{at(0)}|{at(10)}|{at(4 * HOUR)}|1|n1|COMPLETED|cpu=8,node=1|cpu=8,node=1\n"
    )
    out = bftrainer("replay", "characterize", log, "--warm-up-h", 0, "--cool-down-h", 0).out
    assert "can hold ." not in out
    assert "1.0 jobs share a busy node.)" in " ".join(out.split())


@pytest.mark.data
def test_a_real_log_of_shared_nodes_without_names(tmp_path: Path) -> None:
    """10.3 % of wagap's nodes are idle, by the nodes that its 19th field names; without it, the
    range holds this share.
    """
    whole = data_file("wagap-2013-nodeids/wagap-2013.swf.gz")
    named = characterize(restricted_log(open_log(whole, type(PLAIN)(skip_bad=True)).log)).idle_share
    log = tmp_path / "log.swf"
    with gzip.open(whole, "rt") as lines:
        log.write_text("".join(" ".join(line.split()[:18]) + "\n" for line in lines))
    found = shown(log, "--skip-bad", "--processors-per-node", 80, "--machine-nodes", 44)
    least, most = found["idle_share_range"]  # type: ignore[misc]  # two numbers of JSON
    assert least < named < most
    assert "specify --processors-per-node" in complaint(
        bftrainer("replay", "characterize", log, "--skip-bad")
    )
