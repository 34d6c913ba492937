"""The process of the audit: ``python -m bftrainer.pilot.audit.process STATE_DIR SHARE RESTRICTED``.

It reads a problem per line from standard input, solves each as the paper's MILP, and appends a line
to the audit's file. It has the lowest priority and takes at most SHARE of a core on average. It
ends when its input ends, so it outlives no pilot; whatever kills it costs nothing but comparisons.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bftrainer.decide.allocation.audit import AuditVerdict
    from bftrainer.decide.domain.ports import Allocator
    from bftrainer.pilot.audit.totals import AuditTotals

SOLVE_S = 10.0
"""Time limit of each MILP solver."""
LOG_BYTES = 8 << 20
_MAX_PROBLEM_FILES = 20  # files kept for bug reports
NO_TIME = "no time within decisions.audit_share"


@dataclass(slots=True)
class AuditBook:
    """Compares problems one by one and writes the results. ``totals`` start with those of the
    audit's file.
    """

    state_dir: Path
    solver: Allocator
    totals: AuditTotals
    now_s: Callable[[], float] = field(default=time.time)

    def compare(self, message: dict[str, Any]) -> None:
        """Compare the answer of one problem with the MILP's optimum, and append the result to the
        audit's file.

        ``message`` is a line of the pilot, as ``Auditor._problem_line`` writes it. A problem that
        cannot be read counts as skipped.
        """
        from bftrainer.config.problem_file import problem_of
        from bftrainer.decide.allocation.audit import AuditResult, AuditVerdict, audited
        from bftrainer.errors import InputFileError

        start_s = time.perf_counter()
        try:
            problem = problem_of(message["problem"], "the pilot's problem")
            verdict = audited(problem, message["value"], self.solver, SOLVE_S)
        except InputFileError as error:
            print(f"decision {message['decision']}: {error}", file=sys.stderr, flush=True)
            verdict = AuditVerdict(AuditResult.SKIPPED, reason="beyond the bounds of a file")
        self._count_verdict(verdict, message.get("dropped", 0))
        line: dict[str, object] = {
            "at_s": self.now_s(),
            "decision": message["decision"],
            "place": message["place"],
            "result": verdict.result.value,
            "solver": verdict.solver,
            "value": message["value"],
            "optimum": verdict.optimum,
            "reason": verdict.reason,
            "took_s": round(time.perf_counter() - start_s, 4),
        }
        if verdict.result.value == "differs":
            line["problem"] = self._save_problem(message)
        self._append_line(line)

    def _count_verdict(self, verdict: AuditVerdict, dropped: int) -> None:
        """Add the outcome of one comparison to the totals, and ``dropped`` answers that the pilot
        did not send for lack of time.
        """
        match verdict.result.value:
            case "equal":
                self.totals = replace(self.totals, equal=self.totals.equal + 1)
            case "differs":
                self.totals = replace(self.totals, differing=self.totals.differing + 1)
            case _:
                self.totals = replace(self.totals, skipped=self.totals.plus_skipped(verdict.reason))
        if dropped:
            self.totals = replace(self.totals, skipped=self.totals.plus_skipped(NO_TIME, dropped))

    def _save_problem(self, message: dict[str, Any]) -> str:
        """Write the problem of a ``message`` to a file for a bug report. Returns its path; empty if
        there are enough such files.
        """
        from bftrainer.pilot.audit.totals import PROBLEMS
        from bftrainer.system.files import write_atomically

        folder = self.state_dir / PROBLEMS
        if folder.is_dir() and len(list(folder.glob("*.json"))) >= _MAX_PROBLEM_FILES:
            return ""
        path = folder / f"decision-{message['decision']}-{message['place']}.json"
        write_atomically(path, json.dumps(message["problem"], indent=1).encode(), 0o600)
        return str(path)

    def _append_line(self, line: dict[str, object]) -> None:
        from bftrainer.pilot.audit.totals import AUDIT_LOG
        from bftrainer.wires.append import append_line

        text = json.dumps({**line, "totals": self.totals.as_dict()})
        append_line(self.state_dir / AUDIT_LOG, text, LOG_BYTES, "a line of the audit")


def pause_s(cpu_s: float, wall_s: float, share: float) -> float:
    """Return the seconds to pause after ``wall_s`` seconds in which ``cpu_s`` CPU seconds were
    used, so that on average ``share`` of a core is used.
    """
    return max(cpu_s / share - wall_s, 0.0)


def main(arguments: list[str]) -> None:
    """Compare the problems on standard input, one per line, until the input ends or the pilot that
    started this process has ended.

    ``arguments``: the state directory, the share of a CPU core, and "1" if the license that the
    package gurobipy contains may be used.
    """
    os.nice(19)  # before the imports below, which take most of the first second
    state_dir, share, restricted = Path(arguments[0]), float(arguments[1]), arguments[2] == "1"
    from bftrainer.decide.allocation.audit import audit_solver
    from bftrainer.pilot.audit.totals import AuditTotals, read_totals

    totals = read_totals(state_dir) or AuditTotals()
    book = AuditBook(state_dir, audit_solver(SOLVE_S, restricted), totals)
    pilot_pid = os.getppid()
    cpu_s, wall_s = 0.0, time.monotonic()  # the start counts as well
    while line := sys.stdin.buffer.readline():
        book.compare(json.loads(line))
        used_cpu_s = time.process_time() - cpu_s
        idle_s = pause_s(used_cpu_s, time.monotonic() - wall_s, share)
        # Another parent than at the start: the pilot has ended.
        if is_input_closed_within(idle_s) or os.getppid() != pilot_pid:
            return
        cpu_s, wall_s = time.process_time(), time.monotonic()


def is_input_closed_within(seconds: float) -> bool:
    """Wait for ``seconds``, or until the writer of standard input has closed it. Returns whether
    it has.
    """
    poll = select.poll()
    poll.register(0, 0)  # POLLHUP and POLLERR are always reported
    return bool(poll.poll(1000 * seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
