"""Verdicts on made-up records, without processes; how files are watched and copied."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import check_table
from bftrainer.console.rehearsal.copies import copy_folder, missing, moved, outside, written_since
from bftrainer.console.rehearsal.finding import CheckVerdict, RehearsalFinding
from bftrainer.console.rehearsal.record import Played, Record, Saved, Trial, TrialOutcome
from bftrainer.console.rehearsal.resumed import compare
from bftrainer.console.rehearsal.scenario import Act, ActKind, scenario, sizes_of
from bftrainer.console.rehearsal.verdicts import judge
from bftrainer.console.rehearsal.writes import Writes
from bftrainer.pilot.trainers.remarks import last_words
from bftrainer.wires.data_summary import DataSummary
from bftrainer.wires.rank_line import RankLine
from bftrainer.wires.stacks import hung_at, output_before_stack


def spec(**keys: Any) -> TrainerSpec:
    return check_table(
        {"name": "t", "command": ["python", "t.py"], "max_nodes": 4, **keys}, TrainerSpec, "test"
    )


class Story:
    """A record, act by act; a step takes one second."""

    def __init__(self) -> None:
        self.now_s, self.incarnation = 100.0, 0
        self.played: list[Played] = []
        self.lines: list[dict[str, Any]] = []

    def act(
        self,
        kind: ActKind,
        steps: range = range(0),
        size: int = 1,
        per_step: int = 32,
        samples: int = 0,
    ) -> Story:
        """``samples`` is the count before the first of these steps."""
        at_s = self.now_s
        self.incarnation += kind not in (ActKind.STOP, ActKind.EMPTY)
        for step in steps:
            self.now_s += 1
            samples += per_step
            self.line("running", step, samples, size)
        self.now_s += 1
        self.played.append(Played(Act(kind, size), at_s, self.now_s, TrialOutcome.OK))
        return self

    def saved(self, step: int) -> Story:
        self.line("checkpointed", step, 0, 1)
        return self

    def line(self, phase: str, step: int, samples: int, size: int) -> None:
        common = {
            "time": self.now_s,
            "phase": phase,
            "incarnation": self.incarnation,
            "world_size": size,
        }
        self.lines.append({**common, "step": step, "samples": samples, "loss": None})

    def findings(self, **keys: Any) -> dict[str, RehearsalFinding]:
        acts = tuple(played.act for played in self.played)
        record = Record(acts, tuple(self.played), tuple(self.lines), ())
        return {finding.check: finding for finding in judge(record, spec(**keys))}


def begun() -> Story:
    return Story().act(ActKind.START, range(1, 11)).saved(10).act(ActKind.STOP)


def test_a_start_that_follows_its_checkpoint_passes() -> None:
    found = begun().act(ActKind.START, range(11, 21), samples=320).findings()
    assert (
        found["checkpoint"].verdict
        is found["contiguous"].verdict
        is found["samples"].verdict
        is CheckVerdict.PASS
    )


@pytest.mark.parametrize(
    ("total", "verdict"), [(None, "FAIL"), (32_000, "FAIL"), (320, "cannot tell")]
)
def test_a_start_that_ends_without_a_step_fails_unless_all_is_done(
    total: int | None, verdict: str
) -> None:
    story = begun().act(ActKind.START)
    for line in story.lines:
        line["samples_total"] = total
    story.played[-1] = replace(story.played[-1], outcome=TrialOutcome.DONE)
    story.line("done", 10, 320, 1)
    found = story.findings()["starts"]
    assert found.verdict.value == verdict
    assert ("ends with status 0 after a resume, without one step" in found.seen) == (
        verdict == "FAIL"
    )
    assert ("Save and load its position" in found.remedy) == (verdict == "FAIL")


@pytest.mark.parametrize(
    ("total", "verdict"), [(None, "cannot tell"), (32_000, "FAIL"), (355, "cannot tell")]
)
def test_a_start_that_ends_before_its_samples_total_fails(total: int | None, verdict: str) -> None:
    """A loader that drops its last batch gives a little less than the total."""
    story = begun().act(ActKind.START, range(11, 12), samples=320)
    for line in story.lines:
        line["samples_total"] = total
    story.played[-1] = replace(story.played[-1], outcome=TrialOutcome.DONE)
    found = story.findings()["starts"]
    assert found.verdict.value == verdict
    early = "ends with status 0 at step 11, after 352 of 32,000 samples"
    assert (early in found.seen) == (verdict == "FAIL")


def test_counts_of_one_are_singular() -> None:
    once = Story().act(ActKind.START, range(1, 2)).findings()
    assert once["starts"].seen.startswith("1 time; the first step ")
    assert once["contiguous"].seen == "1 line in 1 stretch, none missing or repeated"


def test_a_first_start_that_completes_cannot_be_judged() -> None:
    story = Story().act(ActKind.START, range(1, 11))
    story.played[-1] = replace(story.played[-1], outcome=TrialOutcome.DONE)
    assert story.findings()["starts"].verdict is CheckVerdict.CANNOT_TELL


STACK = """loading data
Fatal Python error: Aborted

Thread 0x00007f6bb0c39b81 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f6bb0c39b80 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2169 in _new_process_group_helper
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 1899 in init_process_group
  File "/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/tmp/work/train.py", line 5 in <module>

Extension modules: numpy._core._multiarray_umath, torch._C (total: 2)
"""


def test_a_stack_in_a_log_is_told_by_the_line_of_the_script(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(STACK)
    assert hung_at([log]) == "train.py:5 in init_process_group, _new_process_group_helper"
    assert output_before_stack(log) == ["loading data"]
    log.write_text("loading data\n")
    assert hung_at([log, tmp_path / "missing.log"]) == ""


def test_a_hang_in_a_group_is_no_missing_report() -> None:
    story = Story().act(ActKind.START)
    where = "train.py:5 in init_process_group"
    story.played[-1] = replace(
        story.played[-1],
        outcome=TrialOutcome.TIMEOUT,
        reason="timed out",
        hung_at=where,
        tail=("loading data",),
    )
    found = story.findings()["starts"]
    assert (
        found.seen
        == f"start on 1 node: timed out; a worker is at {where}; its log ends: loading data"
    )
    assert "waits for the other workers" in found.remedy
    assert "report.step" not in found.remedy


def test_a_state_that_is_reported_again_after_a_start_is_not_counted_twice() -> None:
    found = begun().act(ActKind.START, range(10, 21), samples=288).findings()
    assert found["checkpoint"].verdict is found["samples"].verdict is CheckVerdict.PASS


@pytest.mark.parametrize(("step", "word"), [(1, "all work was lost"), (5, "lost"), (15, "skipped")])
def test_a_start_that_does_not_resume_at_the_checkpoint_fails(step: int, word: str) -> None:
    found = (
        begun()
        .act(ActKind.START, range(step, step + 10), samples=32 * (step - 1))
        .findings()["checkpoint"]
    )
    assert found.verdict is CheckVerdict.FAIL
    assert word in found.seen


def test_a_step_that_is_missing_or_twice_within_a_run_fails() -> None:
    story = Story().act(ActKind.START, range(1, 11))
    story.lines[4]["step"] = 4
    assert story.findings()["contiguous"].verdict is CheckVerdict.FAIL
    story.lines[4]["step"] = 5
    assert story.findings()["contiguous"].verdict is CheckVerdict.PASS
    del story.lines[4]
    assert story.findings()["contiguous"].verdict is CheckVerdict.FAIL
    for line in story.lines:
        line["step"] = 3 * line["step"] + line["step"] % 2
    assert story.findings()["contiguous"].verdict is CheckVerdict.CANNOT_TELL, (
        "one line for 3 steps or so"
    )


def test_work_made_again_after_a_kill_is_fine_and_counting_it_twice_is_not() -> None:
    story = Story().act(ActKind.START, range(1, 11)).saved(10)
    story.act(ActKind.GROW, range(11, 21), size=2, per_step=64, samples=320).saved(20)
    for samples, verdict in (
        (960, CheckVerdict.PASS),
        (960 + 5 * 64, CheckVerdict.FAIL),
        (320, CheckVerdict.FAIL),
    ):
        other = Story()
        other.now_s, other.incarnation = story.now_s, story.incarnation
        other.played, other.lines = list(story.played), list(story.lines)
        other.act(ActKind.MOVE, range(21, 26), size=2, per_step=64, samples=960)
        other.act(ActKind.KILL, range(21, 31), samples=samples)
        found = other.findings()
        assert found["kill"].verdict is CheckVerdict.PASS
        assert found["samples"].verdict is verdict, samples


def test_a_kill_that_costs_more_than_since_the_last_checkpoint_fails() -> None:
    story = (
        Story()
        .act(ActKind.START, range(1, 11))
        .saved(10)
        .act(ActKind.MOVE, range(11, 21), samples=320)
        .saved(20)
    )
    assert (
        story.act(ActKind.KILL, range(11, 21), samples=320).findings()["kill"].verdict
        is CheckVerdict.FAIL
    )


@pytest.mark.parametrize(
    ("per_step", "keys", "verdict"),
    [
        (64, {}, CheckVerdict.PASS),
        (32, {}, CheckVerdict.PASS),
        (128, {}, CheckVerdict.FAIL),
        (32, {"scaling": "strong", "global_batch": 32}, CheckVerdict.PASS),
        (64, {"scaling": "strong", "global_batch": 32}, CheckVerdict.FAIL),
        (64, {"global_batch": 16}, CheckVerdict.FAIL),
    ],
)
def test_the_batch_of_two_workers(
    per_step: int, keys: dict[str, Any], verdict: CheckVerdict
) -> None:
    story = (
        Story().act(ActKind.START, range(1, 11)).act(ActKind.GROW, range(11, 21), 2, per_step, 320)
    )
    assert story.findings(**keys)["samples"].verdict is verdict


def test_half_a_checkpoint() -> None:
    story = begun().act(ActKind.START, range(11, 21), samples=320)
    record = Record((), tuple(story.played), tuple(story.lines), ())

    def verdict(trials: tuple[Trial, ...] | None, saved: Saved) -> CheckVerdict:
        found = judge(
            Record((), record.played, record.lines, (), saved=saved, trials=trials), spec()
        )
        return next(finding.verdict for finding in found if finding.check == "atomic")

    place = Saved(in_place=("c.pt",))
    assert verdict(None, place) is CheckVerdict.CANNOT_TELL
    assert verdict((), Saved()) is CheckVerdict.CANNOT_TELL
    assert verdict((), Saved(renamed=("c.pt",))) is CheckVerdict.PASS
    assert verdict((Trial("c.pt", TrialOutcome.OK, 15),), place) is CheckVerdict.PASS, (
        "an older one was found"
    )
    assert verdict((Trial("c.pt", TrialOutcome.OK, 1),), place) is CheckVerdict.FAIL
    assert (
        verdict((Trial("c.pt", TrialOutcome.FAILED, None, "status 1"),), place) is CheckVerdict.FAIL
    )


def losses(steps: range, loss: Callable[[int], float]) -> list[dict[str, Any]]:
    return [{"step": step, "loss": loss(step)} for step in steps]


def falling(step: int) -> float:
    return math.exp(-step / 30) * (1 + 0.01 * math.sin(7 * step))


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (falling, CheckVerdict.PASS),
        (lambda step: falling(step) * (1 + 1e-7 * (step - 29)), CheckVerdict.PASS),
        (lambda step: falling(step) * (1 + (step - 31) * 1e-4), CheckVerdict.FAIL),
        (lambda step: falling(step - 31), CheckVerdict.FAIL),
        (lambda step: falling(step) * (1.01 if step % 2 else 0.99), CheckVerdict.CANNOT_TELL),
    ],
    ids=["the same", "rounded", "optimizer lost", "weights lost", "other data"],
)
def test_a_run_that_was_stopped_against_one_that_was_not(
    after: Callable[[int], float], verdict: CheckVerdict
) -> None:
    found = compare(
        losses(range(1, 61), falling), losses(range(1, 31), falling), losses(range(31, 61), after)
    )
    assert found.verdict is verdict, found


def test_where_two_runs_differ_anyhow_only_a_fall_back_is_told() -> None:
    def noisy(step: int) -> float:
        return falling(step) * (1 + 0.02 * math.cos(11 * step))

    before, plain = losses(range(1, 31), noisy), losses(range(1, 61), falling)
    assert compare(plain, before, losses(range(31, 61), noisy)).verdict is CheckVerdict.CANNOT_TELL
    assert (
        compare(plain, before, losses(range(31, 61), lambda s: noisy(s - 31))).verdict
        is CheckVerdict.FAIL
    )
    assert compare([], before, before).verdict is CheckVerdict.CANNOT_TELL


def test_a_checksum_of_the_weights_is_compared_too() -> None:
    plain = [{**line, "checksum": 5.0} for line in losses(range(1, 61), falling)]
    after = [
        {**line, "checksum": 5.0 + (line["step"] - 31)} for line in losses(range(31, 61), falling)
    ]
    assert compare(plain, plain[:30], after).verdict is CheckVerdict.FAIL


def test_every_act_leads_to_a_size_that_the_trainer_can_run_on() -> None:
    assert sizes_of(spec()) == (1, 2)
    assert sizes_of(spec(sizes=[2, 4], min_nodes=2)) == (2, 4)
    assert sizes_of(spec(min_nodes=4)) == (4, None)
    for small, large in ((1, 2), (2, 4), (4, None), (1, None)):
        for quick in (False, True):
            acts = scenario(small, large, quick)
            assert acts[-1].kind is ActKind.STOP
            assert {act.nodes for act in acts} <= {0, small, large}
            assert ActKind.KILL_ALL in {act.kind for act in acts}


def test_files_written_in_place_are_told_from_renamed_ones(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    with Writes(tmp_path) as writes:
        (tmp_path / "old").write_text("before")
        writes.forget()
        (tmp_path / "sub").mkdir()
        assert writes.saved() == Saved()
        (tmp_path / "sub/c.part").write_text("y")
        (tmp_path / "sub/c.part").replace(tmp_path / "sub/c")
        (tmp_path / "old").write_text("z")
        (tmp_path / "gone").write_text("z")
        (tmp_path / "gone").unlink()
        assert writes.saved() == Saved(in_place=("old",), renamed=("sub/c",))
        (tmp_path / "sub/c").write_text("now in place")
        assert writes.saved().in_place == ("sub/c", "old")


def test_a_copy_has_the_files_and_the_command_that_names_them_follows(tmp_path: Path) -> None:
    home, copy = tmp_path / "home", tmp_path / "scratch/work"
    (home / "env/bin").mkdir(parents=True)
    (home / "env/pyvenv.cfg").touch()
    (home / "sub").mkdir()
    (home / "sub/c.pt").write_text("real")
    (home / "link").symlink_to("sub/c.pt")
    copy_folder(home, copy, 1000, "t")
    (copy / "sub/c.pt").write_text("rehearsed")
    assert (home / "sub/c.pt").read_text() == "real"
    assert (copy / "env").readlink() == home / "env"
    assert (copy / "link").read_text() == "rehearsed", (
        "a link within the folder stays within its copy"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    command = [f"{home}/env/bin/python", f"{home}/sub/c.pt", f"--c={home}/sub/c.pt", str(elsewhere)]
    here = spec(
        command=command, cwd=str(home), env={"DATA": f"{home}/sub", "PATH": f"{home}/env/bin"}
    )
    there = moved(here, home, copy)
    assert there.command == (command[0], f"{copy}/sub/c.pt", f"--c={copy}/sub/c.pt", str(elsewhere))
    assert there.env == {"DATA": f"{copy}/sub", "PATH": f"{home}/env/bin"}
    assert outside(here) == [elsewhere]
    (home / "data").symlink_to(tmp_path / "data")
    (tmp_path / "data").mkdir()
    assert outside(here) == [elsewhere, tmp_path / "data"]
    later_s = (tmp_path / "data").stat().st_mtime + 10
    assert written_since([elsewhere, tmp_path / "data"], later_s) == []
    (tmp_path / "data/c.pt").touch()
    os.utime(tmp_path / "data/c.pt", (later_s, later_s))
    assert written_since([elsewhere, tmp_path / "data"], later_s) == [tmp_path / "data"]


def ranked(step: int, rank: int = 0, **facts: Any) -> RankLine:
    """A rank's line at second ``step``: by default the first group, with one worker."""
    place = {"incarnation": 1, "world_size": 1, "since_step": 1} | {
        key: facts.pop(key) for key in ("incarnation", "world_size", "since_step") if key in facts
    }
    return RankLine(at_s=100.0 + step, rank=rank, step=step, **place, **facts)


def judged(
    check: str, lines: list[RankLine], story: Story | None = None, **keys: Any
) -> RehearsalFinding:
    told = story or begun()
    record = Record((), tuple(told.played), tuple(told.lines), (), ranks=tuple(lines))
    return {finding.check: finding for finding in judge(record, spec(**keys))}[check]


def test_ranks_that_differ_fail_with_both_values() -> None:
    two = {"world_size": 2, "since_step": 5}
    lines = [
        ranked(5, rank, **two, weights=f"d{rank}", level=700.0 + rank, rate=0.02)
        for rank in range(2)
    ]
    found = judged("ranks", lines)
    assert found.verdict is CheckVerdict.FAIL
    assert "weights differ at step 5: rank 0 has 700, rank 1 has 701" in found.seen
    found = judged("ranks", [line._replace(rate=0.04 / (1 + line.rank)) for line in lines])
    assert "learning rates differ at step 5: rank 0 has 0.04, rank 1 has 0.02" in found.seen
    assert "reset callback" in found.remedy
    assert (
        judged("ranks", [line._replace(weights="d") for line in lines]).verdict is CheckVerdict.PASS
    )
    assert judged("ranks", lines[:1]).verdict is CheckVerdict.CANNOT_TELL
    assert judged("ranks", []).verdict is CheckVerdict.CANNOT_TELL


def test_weights_that_differ_below_the_precision_of_the_sum_are_shown_as_digests() -> None:
    lines = [ranked(5, rank, world_size=2, weights=f"d{rank}", level=700.0) for rank in range(2)]
    assert "rank 0 has digest d0, rank 1 has digest d1" in judged("ranks", lines).seen


def test_groups_are_not_compared_with_each_other() -> None:
    """After a loss, the same step is made again by another group: it may have other weights."""
    lines = [
        ranked(5, 0, world_size=2, weights="a"),
        ranked(5, 1, world_size=2, since_step=4, weights="b"),
    ]
    assert judged("ranks", lines).verdict is CheckVerdict.CANNOT_TELL


def test_the_rate_of_the_old_size_that_a_checkpoint_brought_back_fails() -> None:
    old = ranked(5, rate=0.02, made_with=0.02, wanted=0.02)
    new = ranked(6, rate=0.02, made_with=0.04, wanted=0.04, incarnation=2, world_size=2)
    found = judged("rate", [old, new])
    assert found.verdict is CheckVerdict.FAIL
    assert "still 0.02, that of 1 worker, instead of 0.04" in found.seen
    found = judged("rate", [line._replace(wanted=None) for line in (old, new)])
    assert found.verdict is CheckVerdict.FAIL
    assert "constructed with the rate 0.04, and trains with 0.02" in found.seen
    followed = [old, new._replace(rate=0.04)]
    assert judged("rate", followed).verdict is CheckVerdict.PASS
    constant = [line._replace(made_with=0.02, wanted=None) for line in (old, new)]
    assert "does not follow the global batch" in judged("rate", constant).seen
    assert judged("rate", constant).verdict is CheckVerdict.CANNOT_TELL
    assert "does not follow" not in judged("rate", constant, scaling="strong", global_batch=32).seen
    assert judged("rate", []).verdict is judged("rate", [old]).verdict is CheckVerdict.CANNOT_TELL


def drawing(step: int, *states: str, rank: int = 0, **facts: Any) -> list[RankLine]:
    """The lines of a rank from a step on, with torch's states after each step."""
    return [
        ranked(step + number, rank, random=(("torch", state),), **facts)
        for number, state in enumerate(states)
    ]


def test_random_numbers_that_a_restart_repeats_fail() -> None:
    resumed_lines = {"incarnation": 2, "since_step": 21}
    lines = drawing(1, *"abcdefgh")
    found = judged("random", [*lines, *drawing(21, *"abcd", **resumed_lines)])
    assert found.verdict is CheckVerdict.FAIL
    assert "torch's random numbers at step 23 are those of step 3 again" in found.seen
    assert "seed_step" in found.remedy
    found = judged("random", [*lines, *drawing(21, *"mnop", **resumed_lines)])
    assert found.verdict is CheckVerdict.PASS
    assert "none repeated in 8 steps" in found.seen


def test_steps_that_are_made_again_may_draw_the_same_numbers() -> None:
    again = drawing(3, *"cdef", incarnation=2, since_step=3)
    assert judged("random", [*drawing(1, *"abcdef"), *again]).verdict is CheckVerdict.PASS


def test_random_numbers_that_are_equal_on_two_ranks_decide_nothing() -> None:
    """Ranks may draw one batch on purpose, and take their shares of it."""
    two = {"world_size": 2}
    ranks = [drawing(1, *"abcd", rank=rank, **two) for rank in range(2)]
    found = judged("random", [line for step in zip(*ranks, strict=True) for line in step])
    assert found.verdict is CheckVerdict.CANNOT_TELL
    assert "torch's random numbers at step 3 are equal on ranks 0 and 1" in found.seen
    lines = [line for step in zip(*ranks, strict=True) for line in step]
    repeated = [
        *lines,
        *drawing(21, *"abcd", rank=1, incarnation=2, since_step=21, **two),
    ]
    assert judged("random", repeated).verdict is CheckVerdict.FAIL


def test_a_generator_that_only_epochs_draw_from_is_not_judged() -> None:
    """A DataLoader draws one number per epoch, with which no step does anything."""
    lines = [*drawing(1, *"aabbccaa"), *drawing(21, *"aabb", incarnation=2, since_step=21)]
    found = judged("random", lines)
    assert found.verdict is CheckVerdict.PASS
    assert "draw from no generator" in found.seen
    assert judged("random", [ranked(5)]).verdict is CheckVerdict.CANNOT_TELL


def ordered(step: int, *numbers: int, epoch: int = 0, **facts: Any) -> RankLine:
    return ranked(
        step, indices=((epoch, numbers),), data_size=6, sampler="progress.Sampler", **facts
    )


def test_samples_that_are_used_twice_fail_and_a_repeated_step_does_not() -> None:
    before = [ordered(1, 0, 1), ordered(2, 2, 3), ordered(3, 4, 5)]
    again = {"incarnation": 2, "since_step": 3}
    assert judged("order", [*before, ordered(3, 5, 4, **again)]).verdict is CheckVerdict.PASS, (
        "step 3 is made again"
    )
    found = judged("order", [*before[:2], ordered(3, 0, 1, **again)])
    assert found.verdict is CheckVerdict.FAIL
    assert "step 3 uses 2 samples of epoch 0 that step 1 had used" in found.seen
    shared = [ordered(4, rank, 5, rank=rank, world_size=2, since_step=4) for rank in range(2)]
    assert judged("order", shared).verdict is CheckVerdict.FAIL, "both ranks use sample 5"
    assert judged("order", []).verdict is CheckVerdict.CANNOT_TELL


def test_an_unseeded_split_fails() -> None:
    split = {"data": DataSummary(360, 17)}
    lines = [ordered(step, step, **split) for step in range(1, 5)]
    assert judged("order", lines).verdict is CheckVerdict.PASS
    other = {"data": DataSummary(360, 18)}
    found = judged("order", [*lines, ordered(5, 5, incarnation=2, since_step=5, **other)])
    assert found.verdict is CheckVerdict.FAIL
    assert "rank 0 has another data set than before: 360 samples, but others" in found.seen
    assert "random_split" in found.remedy
    found = judged("order", [*lines, ordered(5, 6, rank=1, **other)])
    assert "rank 1 has another data set than rank 0" in found.seen


def test_samples_that_a_whole_epoch_leaves_out_fail() -> None:
    lines = [
        ordered(n + 1, *range(6 - (epoch == 1)), epoch=epoch) for n, epoch in enumerate((0, 1, 2))
    ]
    sparse = [line._replace(step=20 * line.step) for line in lines]
    assert judged("order", sparse).verdict is CheckVerdict.PASS, (
        "the steps between commits are not reported"
    )
    assert (
        judged("order", [line._replace(indices=()) for line in lines]).verdict is CheckVerdict.PASS
    ), "none is known"
    found = judged("order", lines)
    assert found.verdict is CheckVerdict.FAIL
    assert "1 of 6 samples of epoch 1 were never used" in found.seen


def test_a_sampler_that_set_epoch_has_set_back_fails() -> None:
    line = ordered(3, 4, since_step=3, restored_at=4, pass_at=0)._replace(sampler="ElasticSampler")
    found = judged("order", [line])
    assert found.verdict is CheckVerdict.FAIL
    assert (
        "the sampler was at sample 4 of the epoch, and began again at 0: sampler.set_epoch"
        in found.seen
    )
    assert judged("order", [line._replace(pass_at=4)]).verdict is CheckVerdict.PASS
    padded = [ordered(n, 1, 2, since_step=3)._replace(sampler="ElasticSampler") for n in (3, 4)]
    assert judged("order", padded).verdict is CheckVerdict.FAIL, (
        "more than it may repeat to fill up a pass"
    )


@pytest.mark.parametrize(
    ("loaded", "words"),
    [("d10", ""), ("d7", "of step 10 holds the weights of step 7"), ("d0", "initial"), ("x", "")],
)
def test_a_checkpoint_with_the_weights_of_another_step_fails(loaded: str, words: str) -> None:
    """Weights that no step had are no proof: a checkpoint may be rounded."""
    story = begun().act(ActKind.START, range(11, 21), samples=320)
    lines = [ranked(step, weights=f"d{step}", begun="d0") for step in range(1, 11)]
    lines += [
        ranked(step + 1, incarnation=2, since_step=11, weights=f"d{step}", begun=loaded)._replace(
            step=step
        )
        for step in range(11, 21)
    ]
    found = judged("state", lines, story)
    assert (words in found.seen) if words else (found.verdict is not CheckVerdict.FAIL)
    assert (found.verdict is CheckVerdict.FAIL) is bool(words)


@pytest.mark.parametrize(
    ("loaded", "fails"),
    [
        ("d10", False),
        ("d20", False),
        ("d23", False),
        ("d14", True),
        ("d10 again", False),
        ("d0", False),
    ],
    ids=[
        "older whole one",
        "last",
        "newer than reported",
        "another",
        "the process stays",
        "not known",
    ],
)
def test_after_a_kill_the_checkpoint_of_any_save_may_be_loaded_but_no_other_weights(
    loaded: str, fails: bool
) -> None:
    story = begun().act(ActKind.START, range(11, 21), samples=320).saved(20)
    story.act(ActKind.KILL_ALL, range(21, 25), samples=640).act(
        ActKind.KILL, range(21, 31), samples=640
    )
    begins = {
        1: "d0",
        2: "d10",
        3: "d10" if loaded.endswith("again") else "d20",
        4: loaded.split()[0],
    }
    steps = {1: range(1, 11), 2: range(11, 21), 3: range(21, 25), 4: range(21, 31)}
    at_s = {
        (line["incarnation"], line["step"]): line["time"]
        for line in story.lines
        if line["phase"] == "running"
    }
    incarnations = sorted({incarnation for incarnation, _ in at_s})
    lines = [
        ranked(
            step,
            incarnation=incarnation,
            since_step=steps[number][0],
            weights=f"d{step}",
            begun=begins[number],
        )._replace(at_s=at_s[incarnation, step])
        for number, incarnation in enumerate(incarnations, 1)
        for step in steps[number]
    ]
    found = judged("state", lines, story)
    assert (found.verdict is CheckVerdict.FAIL) is fails, found
    if fails:
        assert (
            "after kill -9 of a worker: the checkpoint of step 20 holds the weights of step 14"
            in found.seen
        )


def leaving(worker_s: float, driver_s: float, tail: tuple[str, ...] = ()) -> Record:
    """Asked to stop at 100, the driver passes it on at 105."""
    played = [Played(Act(ActKind.START, 1), 90.0, 100.0, TrialOutcome.OK)]
    played.append(Played(Act(ActKind.STOP, 0), 100.0, driver_s, TrialOutcome.OK, tail=tail))
    events = [{"event": "stopping", "time": 105.0}]
    events += [{"event": "worker_exited", "time": worker_s, "status": 83, "planned": True}]
    return Record((), tuple(played), (), tuple(events))


def test_the_time_to_leave_is_the_one_that_stop_s_limits() -> None:
    """It was the time until the driver had ended: "within 25.8 s (stop_s = 20)" passed, and nobody
    could say why.
    """
    found = {finding.check: finding for finding in judge(leaving(108.0, 125.8), spec(stop_s=20))}[
        "stops"
    ]
    assert found.seen == (
        "1 of 1 times; the slowest worker left 3.0 s after it was asked to (after stop_s = 20 "
        "s it would have been killed); "
        "25.8 s until its driver had ended as well"
    )


def failing(tail: tuple[str, ...], missing: tuple[str, ...] = (), **keys: Any) -> RehearsalFinding:
    played = Played(Act(ActKind.START, 1), 100.0, 101.0, TrialOutcome.FAILED, "status 1", tail)
    return {
        x.check: x for x in judge(Record((), (played,), (), (), missing=missing), spec(**keys))
    }["starts"]


def test_the_last_words_of_a_log_are_never_empty() -> None:
    assert (
        failing(("ValueError: no data", "", "  ")).seen
        == "start on 1 node: status 1; its log ends: ValueError: no data"
    )
    assert failing(("", " ")).seen == failing(()).seen == "start on 1 node: status 1"


def test_a_notice_of_srun_is_no_last_word() -> None:
    assert last_words(["srun: cluster configuration lacks support for cpu binding", ""]) == ""


def test_the_last_words_are_the_script_s_and_not_those_of_srun() -> None:
    trailer = "srun: error: node01: task 0: Exited with exit code 2"
    usage = "train.py: error: unrecognized arguments: --epoch"
    for tail in (
        (usage, trailer),
        ("ValueError: boom", "slurmstepd: error: x", trailer),
        (trailer,),
    ):
        assert last_words(tail) == tail[0]


def test_data_beside_the_working_directory_are_named() -> None:
    assert (
        "../data/train.bin: outside the working directory"
        in failing(("x",), ("../data/train.bin",)).remedy
    )


@pytest.mark.parametrize(
    ("launcher", "words"),
    [("horovod", "must have the attribute step"), ("restart", r"report.step(step=")],
)
def test_a_script_without_steps_is_told_what_its_state_must_have(launcher: str, words: str) -> None:
    played = Played(
        Act(ActKind.START, 1), 100.0, 101.0, TrialOutcome.TIMEOUT, "timed out after 1 s"
    )
    found = {x.check: x for x in judge(Record((), (played,), (), ()), spec(launcher=launcher))}[
        "starts"
    ]
    assert words in found.remedy


def test_what_a_script_misses_in_the_copy_is_found_beside_the_original(tmp_path: Path) -> None:
    home, work = tmp_path / "user/project", tmp_path / "scratch/work"
    for folder in (home, work, tmp_path / "user/data"):
        folder.mkdir(parents=True)
    (tmp_path / "user/data/train.bin").write_text("x")
    absolute = tmp_path / "scratch/data/train.bin"
    tail = [
        "Traceback",
        "FileNotFoundError: No such file or directory: '../data/train.bin'",
        f"open({absolute})",
    ]
    assert missing(tail, home, work) == ("../data/train.bin",)
    assert missing(["no such file: ../data/other.bin", "see /etc/hosts"], home, work) == ()
    told = moved(
        spec(cwd=str(home), command=["python", "t.py", "--data=../data", "../nowhere"]), home, work
    )
    assert told.command[2:] == (f"--data={tmp_path / 'user/data'}", "../nowhere")
    assert outside(spec(cwd=str(home), command=["python", "t.py", "../data"])) == [
        tmp_path / "user/data"
    ]


def test_a_checkpoint_that_is_a_folder_counts_as_saved(tmp_path: Path) -> None:
    """Written under another name and renamed as a whole: nothing was seen of it before."""
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt/model.bin").write_text("old")
    with Writes(tmp_path) as writes:
        for turn in range(2):
            new = tmp_path / "ckpt.new"
            (new / "shards").mkdir(parents=True)
            (new / "model.bin").write_text(f"{turn}")
            (new / "shards/0.bin").write_text("y")
            (tmp_path / "ckpt").rename(tmp_path / f"old{turn}")
            new.rename(tmp_path / "ckpt")
            (tmp_path / "log.txt").write_text("in place")
            saved = writes.saved()
            assert saved.renamed == ("ckpt/",), turn
            assert saved.in_place == ("log.txt",)
            writes.forget()
        (tmp_path / "ckpt/shards/0.bin").write_text("now in place")
        assert writes.saved() == Saved(("ckpt/shards/0.bin",), ())


def test_a_loss_that_is_no_number_is_not_restored() -> None:
    story = (
        Story()
        .act(ActKind.START, range(1, 11))
        .act(ActKind.STOP)
        .act(ActKind.START, range(11, 21), samples=320)
    )
    for line in story.lines:
        line["loss"] = math.nan if line["step"] > 4 else 1.0
    found = story.findings()["state"]
    assert (found.verdict, found.seen) == (CheckVerdict.FAIL, "the loss is NaN at step 5")
