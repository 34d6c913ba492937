"""The sentences of a page and of ``replay delays``: what a pilot would harvest, whom it would
delay.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from replay.commands import executed
from replay.main_queue.logs_by_hand import busy_log, window_from
from replay.windows import window
from support.command_line import bftrainer, complaint

from bftrainer_replay.main_queue.backfill import Easy
from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.outcome import Delays, QueueOutcome, outcome_of
from bftrainer_replay.main_queue.ways import rules_of
from bftrainer_replay.report.delay_words import seconds_text, sentence_of, share_of_jobs
from bftrainer_replay.report.main_jobs import (
    delay_claim,
    effect_of,
    main_jobs_chapter,
    main_jobs_row,
    wait_box,
)


def outcome(*ways: str) -> QueueOutcome:
    """Of 100 jobs on 2 nodes, 99 of one node and then one of two; only the last one is blocked."""
    count = 99
    jobs = MainJobs(
        (*(100.0 * k for k in range(count)), 20_000.0),
        (10.0,) * (count + 1),
        (10.0,) * (count + 1),
        (*[1] * count, 2),
        2,
    )
    every_rules = [rules_of(way, settled_s=20_000.0 if way == "none" else 0.0) for way in ways]
    return outcome_of(jobs, Easy(), every_rules, random_runs=2)


def test_figures_of_a_queue_by_hand() -> None:
    result = outcome("yield", "site")
    way = result.way("yield")
    assert result.jobs == 100
    assert result.days == pytest.approx(20_000 / 86400)
    assert result.idle_share == pytest.approx(1 - 99 * 10 / 40_000)
    assert way.delays.longest_s == 3.0
    assert (way.delays.late, way.delays.very_late) == (0.0, 0.0)
    assert way.delays.mean_s <= way.delays.longest_s
    assert result.way("site").waits == result.plain
    low, high = result.random_range
    assert low.mean_s <= result.plain.mean_s <= high.mean_s
    assert high.mean_s <= result.plain.mean_s + 8.0
    assert result.noise_s == 3.0


def test_a_mean_by_node_hours_weighs_large_jobs() -> None:
    """Of 1,000 s of delay in a hundred jobs, those of ten with ten nodes count ten times."""
    delay_s, nodes = np.array([100.0] * 10 + [0.0] * 90), np.array([10.0] * 10 + [1.0] * 90)
    delays = Delays.of(delay_s, nodes)
    assert delays.mean_s == 10.0
    assert delays.by_node_s == pytest.approx(100 * 100 / 190)
    assert (delays.late, delays.very_late, delays.delayed) == (0.1, 0.0, 0.1)
    assert (delays.p90_s, delays.p99_s) == (100.0, 100.0)


def test_sentences_say_who_frees_nodes_and_who_waits() -> None:
    result = outcome("site", "yield", "life:600", "keep")
    site, yields, life, keep = map(sentence_of, result.ways)
    assert site.startswith("The scheduler preempts held nodes at once: the pilot would hold ")
    assert site.endswith(
        "No main job would wait for a held node, apart from the time that preemption takes."
    )
    assert (
        "99 of 100 main jobs would start at most 3 s later, none more than a minute late" in yields
    )
    assert life.startswith("The scheduler preempts held nodes after 10 min, and the pilot does not")
    assert keep.startswith("Nobody frees held nodes before their time limit of 24 h")
    assert re.search(r"\d+\.\d\d% of all more than a minute late", keep)


def test_words_for_seconds_and_shares() -> None:
    assert [seconds_text(s) for s in (4.0, 6.512, 119.0, 600.0, 7200.0)] == [
        "4 s",
        "6.51 s",
        "119 s",
        "10 min",
        "2 h",
    ]
    assert [share_of_jobs(s) for s in (0.0, 4e-5, 6e-5, 0.1158)] == [
        "none",
        "none",
        "0.01%",
        "11.58%",
    ]


@pytest.mark.parametrize(
    ("site", "row", "box"),
    [
        ("site", "The scheduler preempts held nodes at once", "If the scheduler preempts at once"),
        ("yield", "The scheduler does not preempt, and", "If the scheduler does not preempt"),
        ("blind", "The queue is hidden, and", "If the queue is hidden"),
        (
            "life:600",
            "The scheduler guarantees held nodes 10 min, so the pilot yields",
            "With 10 min of guaranteed run time, the pilot yields",
        ),
        (
            "life:7200",
            "The scheduler guarantees held nodes 2 h, so the pilot yields",
            "With 2 h of guaranteed run time, the pilot yields",
        ),
    ],
)
def test_the_page_says_what_holds_at_this_site(
    tmp_path: Path, site: str, row: str, box: str
) -> None:
    effect = effect_of(window_from(busy_log(tmp_path / "log.swf")), site)
    assert main_jobs_row(effect).startswith(row)
    if site.startswith("life"):
        assert 'If it left that to the scheduler (nodes.give_way = "site")' in main_jobs_row(effect)
    shown = wait_box(effect)
    assert shown is not None
    assert (shown.origin, shown.fine.startswith(box)) == ("simulated", True)
    assert "in a simulation, delay" in delay_claim(effect)
    chapter = main_jobs_chapter(effect)
    sentences, figures = chapter.items
    assert [cells[0] for cells in figures.rows] == [cells[0] for cells in sentences.rows]
    assert {"site", "yield", "blind", "life:600", "life:7200", "keep"} == {
        cells[0] for cells in figures.rows
    }
    assert "first come, first served, with EASY backfill" in chapter.text


def test_a_log_that_does_not_tell_has_no_invented_figure() -> None:
    effect = effect_of(window(1000.0, "ab", (10.0, "a")), "yield")
    assert wait_box(effect) is None
    assert delay_claim(effect) == ""
    for text in (main_jobs_row(effect), main_jobs_chapter(effect).text):
        assert "cannot be told: the log has no times of submission" in text
    assert main_jobs_chapter(effect).items == ()


def test_the_command_prints_what_json_has(tmp_path: Path) -> None:
    log = busy_log(tmp_path / "log.swf")
    options = ("--give-way", "yield", "--give-way", "keep", "--random-runs", 1, "--settled", 0)
    text = executed("replay", "delays", log, *options).out
    (line,) = executed("replay", "delays", log, *options, "--json").out.splitlines()
    figures = json.loads(line)
    yields, keep = figures["ways"]["yield"], figures["ways"]["keep"]
    assert yields["delays"]["p99_s"] <= 3.0 < keep["delays"]["p99_s"]
    assert yields["rules"]["settled_s"] == 0.0
    assert f"{yields['harvest']:.1%}" in text
    assert f"{keep['delays']['late']:.2%}" in text
    assert f"Simulated: {figures['jobs']} main jobs" in text
    part = executed("replay", "delays", log, "--jobs", 150, "--give-way", "site").out
    assert f"the first of {figures['jobs']}" in part


def test_the_command_refuses_what_it_cannot_tell(tmp_path: Path) -> None:
    log = busy_log(tmp_path / "log.swf", limits=False)
    refused = executed("replay", "delays", log, status=2)
    assert refused.out == ""
    assert "100% of the jobs have no time limit" in refused.err.splitlines()[-1]
    for command in ("delays", "report"):
        words = complaint(bftrainer("replay", command, log, "--give-way", "x"))
        assert "expected site, yield" in words
