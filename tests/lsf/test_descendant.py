"""Outputs of a real batch system that descends from LSF (tests/recorded/lsf-descendant-2.2), as the
adapter reads them.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system.command import Output, failure
from bftrainer_clusters.lsf import preempt as lsf_preempt
from bftrainer_clusters.lsf import queue as lsf_queue
from bftrainer_clusters.lsf import text as lsf_text
from bftrainer_clusters.lsf.pilot_job import parse_job, parse_waiting
from bftrainer_replay.logs.open import open_log

FOLDER = Path(__file__).parents[1] / "recorded" / "lsf-descendant-2.2"


def recorded(name: str) -> Output:
    text = (FOLDER / f"{name}.txt").read_text()
    found = re.fullmatch(r"\$ [^\n]*\n(.*?)--- stderr\n(.*?)--- status (\d+)\n", text, re.DOTALL)
    assert found, name
    return Output(found[1], found[2], int(found[3]))


def answer(name: str) -> str:
    text = lsf_text.answer_of(recorded(name))
    assert text is not None, name
    return text


def test_jobs_in_a_document_that_is_indented_by_tabs() -> None:
    found = lsf_text.records(answer("bjobs-json"), "jobs")
    assert Counter(item["STAT"] for item in found) == {"RUN": 1, "PEND": 2}


def test_a_document_without_records_is_an_answer_at_status_255() -> None:
    """Nothing is on stderr."""
    assert lsf_text.records(answer("bjobs-none-json"), "jobs") == []
    assert lsf_text.parse_pending(answer("bjobs-none-json"), 4) == ()
    assert parse_waiting(answer("bjobs-none-json")) == []


def test_nothing_found_at_status_254() -> None:
    assert lsf_text.says_nothing(answer("bjobs-none"))


@pytest.mark.parametrize("name", ["bjobs-unknown-json", "bjobs-unknown"])
def test_an_unknown_job(name: str) -> None:
    assert lsf_text.unknown_jobs(answer(name)) == {"999"}
    assert parse_job(answer(name)) is None


def test_an_unknown_job_is_no_empty_queue() -> None:
    with pytest.raises(SchedulerError, match="Job <999> is not found"):
        lsf_text.parse_pending(answer("bjobs-unknown-json"), 4)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "bjobs-p-json",
            r"exit status 99: <NREQ_SLOT> in the format string is not a valid field name\.",
        ),
        ("bhosts-o-json", "exit status 255: bhosts: invalid option -- 'o' / "),
        ("mbatchd-gone-bjobs-json", "batch system daemon not responding"),
        ("bqueues-l-none", "nosuch: No such queue"),
    ],
)
def test_a_failure_is_told_with_its_first_line(name: str, words: str) -> None:
    assert lsf_text.answer_of(recorded(name)) is None
    error = failure(["bjobs"], recorded(name))
    assert isinstance(error, CommandError)
    assert re.search(words, str(error))


def against(name: str) -> str:
    queue = lsf_queue.parse_queue(answer(f"bqueues-l-{name}"), name.partition("-")[0])
    params = lsf_queue.ParamFacts(frozenset({"BACKFILL", "EXCLUSIVE"}), frozenset(), {}, 10.0)
    return "; ".join(lsf_preempt.reasons_against(queue, lsf_queue.AppFacts(), params, False, False))


def test_queues() -> None:
    # It knows no preemption between queues, so each is refused for that.
    every = {name: against(name) for name in ("idle", "idlectl", "idle-load", "susp", "normal")}
    assert all("is not preemptable" in reasons for reasons in every.values())
    assert "suspends preempted jobs" not in every["idlectl"], "SUSPEND[TERMINATE]"
    assert "suspends preempted jobs" in every["idle"], "TERMINATE_WHEN without PREEMPT"
    assert "loadStop" not in every["idle-load"], "TERMINATE_WHEN has LOAD"
    for word in ("reruns jobs", "loadStop, STOP_COND", "RUN_WINDOW"):
        assert word in every["susp"]


def test_the_version() -> None:
    assert lsf_text.parse_version(answer("lsid")) == "volclava project 2.2, Nov 22 2026"


def test_its_accounting_has_versions_without_a_dot() -> None:
    assert '"JOB_FINISH" "22" ' in (FOLDER / "lsb.acct").read_text()
    opened = open_log(FOLDER / "lsb.acct")
    assert opened.log.events


def test_a_queue_that_requeues_preempted_jobs_is_refused() -> None:
    """IBM's manuals recommend this action; LSF would start the holder again, where no pilot knows
    of it.
    """
    text = answer("bqueues-l-idlectl").replace(
        "SUSPEND:     [TERMINATE]", "SUSPEND:     [brequeue $LSB_JOBID]"
    )
    queue = lsf_queue.parse_queue(text, "idlectl")
    params = lsf_queue.ParamFacts(frozenset({"BACKFILL"}), frozenset(), {}, 10.0)
    reasons = lsf_preempt.reasons_against(queue, lsf_queue.AppFacts(), params, False, False)
    assert any("its SUSPEND action is 'brequeue $LSB_JOBID'" in reason for reason in reasons)


def test_a_first_line_of_digits_shows_no_version() -> None:
    """A line of a million digits: it would take a pattern that tries each beginning minutes."""
    with pytest.raises(SchedulerError, match="shows no version"):
        lsf_text.parse_version("7" * 1_000_000)
