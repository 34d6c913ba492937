"""The audit of decisions: a process beside the pilot, which may die at any time."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support import random_problems
from support.command_line import bftrainer
from support.live_house import house, spec
from support.patience import PATIENCE

from bftrainer.config.pilot import DecisionsConfig
from bftrainer.config.problem_file import document_of, read_problem
from bftrainer.console.cli.doctor.pilot_checks import examine_audit
from bftrainer.decide.allocation.audit import audit_solver
from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.recording import Solved
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.pilot.audit.auditor import Auditor, NoAudit
from bftrainer.pilot.audit.process import AuditBook, pause_s
from bftrainer.pilot.audit.totals import AUDIT_LOG, AuditTotals, read_totals
from bftrainer.pilot.persistence.journal import entries
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.system.clock import SystemClock

ALWAYS = DecisionsConfig(audit_share=1.0)
OFF = DecisionsConfig(audit_share=0.0)


def solved(seed: int, factor: float = 1.0) -> Solved:
    """A problem and its optimum, worth ``factor`` times what it is."""
    problem = random_problems.like_table_2(random.Random(seed), 5, 40)
    answer = Exact().solve(problem)
    return problem, replace(answer, objective_value=factor * answer.objective_value)


def message(decision: int, factor: float = 1.0, dropped: int = 0) -> dict[str, object]:
    problem, answer = solved(decision, factor)
    text = json.dumps(document_of(problem))
    return {
        "decision": decision,
        "place": 0,
        "value": answer.objective_value,
        "dropped": dropped,
        "problem": json.loads(text),
    }


def test_every_comparison_is_a_line_with_the_totals(tmp_path: Path) -> None:
    book = AuditBook(tmp_path, audit_solver(10.0, restricted_license=False), AuditTotals())
    book.compare(message(1))
    book.compare(message(2, factor=0.99))
    book.compare(message(3, dropped=4))
    lines = [json.loads(line) for line in (tmp_path / AUDIT_LOG).read_text().splitlines()]
    results = [(line["decision"], line["result"], line["solver"]) for line in lines]
    assert results == [(1, "equal", "highs"), (2, "differs", "highs"), (3, "equal", "highs")]
    assert lines[0]["optimum"] == pytest.approx(lines[0]["value"], rel=1e-9)
    totals = read_totals(tmp_path)
    assert str(totals) == ("audited: 2 of 3 equal, 4 skipped: no time within decisions.audit_share")


def test_the_problem_of_a_difference_is_kept_for_a_bug_report(tmp_path: Path) -> None:
    book = AuditBook(tmp_path, audit_solver(10.0, restricted_license=False), AuditTotals())
    for decision in range(22):
        book.compare(message(decision, factor=1.01))
    files = sorted((tmp_path / "audit").iterdir())
    assert len(files) == 20, "a solver that is always wrong does not fill the disk"
    path = tmp_path / "audit" / "decision-3-0.json"
    assert read_problem(path.read_text(), "a file") == solved(3)[0]
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", '{"totals": {"equal": -1}}\n', "[]\n", "\0\n"])
def test_a_damaged_file_has_no_totals(tmp_path: Path, text: str) -> None:
    assert read_totals(tmp_path) is None
    (tmp_path / AUDIT_LOG).write_text(text)
    assert read_totals(tmp_path) is None


def test_a_torn_last_line_leaves_the_totals_before_it(tmp_path: Path) -> None:
    book = AuditBook(tmp_path, audit_solver(10.0, restricted_license=False), AuditTotals())
    book.compare(message(1))
    with (tmp_path / AUDIT_LOG).open("a") as file:
        file.write('{"totals": {"equal": 9')
    assert read_totals(tmp_path) == AuditTotals(equal=1)


class RecordedAudit(NoAudit):
    """An audit in memory, which finds a difference once."""

    def __init__(self) -> None:
        self.values: dict[int, list[float]] = {}
        self.alarms = ["decision 1: made up"]

    def decided(self, number: int, solved: Iterable[Solved]) -> None:
        for problem, answer in solved:
            assert Exact().solve(problem).counts == answer.counts
            self.values.setdefault(number, []).append(answer.objective_value)

    def tick(self, config: DecisionsConfig) -> list[str]:
        alarms, self.alarms = self.alarms, []
        return alarms


def test_a_pilot_offers_every_answer_of_its_journal(tmp_path: Path) -> None:
    home = house(tmp_path / "state", decisions={"solver": "auto"})
    home.audit = audit = RecordedAudit()
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a", 2), spec("b", 4))
    home.pilot(20)
    with closing(home.store()) as store:
        journaled = {
            entry.number: [answer.objective_value for answer in entry.answers]
            for entry in entries(store)
        }
        alarms = [note for note in Registry(store).notes(1000) if note.kind == "audit"]
    assert any(journaled.values())
    assert audit.values == {number: values for number, values in journaled.items() if values}
    assert [note.text for note in alarms] == ["decision 1: made up"]
    before = bftrainer("replay", "journal", home.path)
    assert (before.status, "audited" in before.out) == (0, False)
    AuditBook(home.path, audit_solver(10.0, restricted_license=False), AuditTotals()).compare(
        message(1)
    )
    verified = bftrainer("replay", "journal", home.path)
    assert verified.out.splitlines()[-1] == "audited: 1 of 1 equal"
    report = json.loads(bftrainer("replay", "journal", home.path, "--json").out)
    assert report["audit"] == {"equal": 1, "differing": 0, "skipped": {}}


def test_doctor_says_how_many_were_audited(tmp_path: Path) -> None:
    config = DecisionsConfig()
    assert "no decision yet" in examine_audit(tmp_path, config).detail
    assert "off" in examine_audit(tmp_path, OFF).detail
    book = AuditBook(tmp_path, audit_solver(10.0, restricted_license=False), AuditTotals())
    book.compare(message(1))
    check = examine_audit(tmp_path, config)
    assert (check.state, check.detail) == (CheckStatus.OK, "audited: 1 of 1 equal")
    book.compare(message(2, factor=0.9))
    check = examine_audit(tmp_path, config)
    assert check.state is CheckStatus.WARNING
    assert f"{tmp_path}/audit" in check.remedy


def test_pauses_keep_the_share() -> None:
    assert pause_s(cpu_s=1.0, wall_s=1.0, share=0.02) == pytest.approx(49.0)
    assert pause_s(cpu_s=0.1, wall_s=9.0, share=0.02) == 0.0
    assert pause_s(cpu_s=1.0, wall_s=1.0, share=1.0) == 0.0


@pytest.fixture
def auditor(tmp_path: Path) -> Iterator[Auditor]:
    auditor = Auditor(tmp_path, SystemClock(), start_after_s=0.0)
    yield auditor
    auditor.close()


def ticked(auditor: Auditor, is_over: Callable[[list[str]], object]) -> list[str]:
    """Tick until ``is_over`` of the lines so far."""
    notes: list[str] = []
    until_s = time.monotonic() + 60 * PATIENCE
    while not is_over(notes) and time.monotonic() < until_s:
        notes += auditor.tick(ALWAYS)
        time.sleep(0.01)
    assert is_over(notes), notes
    return notes


def pid_of(auditor: Auditor) -> int:
    process = auditor._process
    assert process is not None
    return process.pid


def test_the_process_compares_and_what_differs_is_an_alarm(
    auditor: Auditor, tmp_path: Path
) -> None:
    auditor.decided(7, [solved(1), solved(2, factor=0.99)])
    auditor.decided(8, [solved(3)])
    (alarm,) = ticked(auditor, lambda _: (read_totals(tmp_path) or AuditTotals()).equal == 2)
    assert alarm.startswith("decision 7: the decision is worth ")
    assert alarm.endswith(f"the problem is in {tmp_path}/audit/decision-7-1.json")
    assert os.getpriority(os.PRIO_PROCESS, pid_of(auditor)) == 19
    pid = pid_of(auditor)
    auditor.close()
    assert not Path(f"/proc/{pid}").exists()


def test_a_killed_process_is_a_line_and_the_pilot_goes_on(auditor: Auditor, tmp_path: Path) -> None:
    auditor.decided(1, [solved(1)])
    ticked(auditor, lambda _: read_totals(tmp_path))
    os.kill(pid_of(auditor), signal.SIGKILL)
    (line,) = ticked(auditor, lambda notes: notes)
    assert "stopped for 10 minutes: its process ended with status -9" in line
    auditor.decided(2, [solved(2)])
    assert auditor.tick(ALWAYS) == []


def test_it_ends_with_its_pilot(auditor: Auditor, tmp_path: Path) -> None:
    """A pilot that is killed closes the pipe, which ends a process that pauses, too."""
    slow = DecisionsConfig(audit_share=1e-4)
    auditor.decided(1, [solved(1)])
    until_s = time.monotonic() + 60 * PATIENCE
    while read_totals(tmp_path) is None and time.monotonic() < until_s:
        auditor.tick(slow)
        time.sleep(0.01)
    process = auditor._process
    assert process is not None
    assert process.stdin is not None
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(60 * PATIENCE) == 0


def test_without_a_share_there_is_no_process(auditor: Auditor) -> None:
    auditor.decided(1, [solved(1)])
    assert auditor.tick(OFF) == ()
    assert auditor._process is None


def test_a_reload_ends_it(auditor: Auditor, tmp_path: Path) -> None:
    auditor.decided(1, [solved(1)])
    auditor.tick(ALWAYS)
    pid = pid_of(auditor)
    auditor.tick(OFF)
    assert auditor._process is None
    assert not Path(f"/proc/{pid}").exists()


def test_what_does_not_fit_is_counted(auditor: Auditor, tmp_path: Path) -> None:
    for number in range(205):
        auditor.decided(number, [solved(1)])
    ticked(auditor, lambda _: read_totals(tmp_path))
    totals = read_totals(tmp_path)
    assert totals is not None
    assert sum(totals.skipped.values()) == 5
