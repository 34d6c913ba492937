"""``bftrainer rehearse``: test on this host how a training script copes with what the pilot does,
and report a verdict.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.console.cli.choices import DIR, FILE, NumberRange
from bftrainer.console.cli.output import say
from bftrainer.console.cli.state import set_option
from bftrainer.console.cli.tables import output_width

if TYPE_CHECKING:
    from bftrainer.config.trainer_file import TrainerSpec
    from bftrainer.console.rehearsal.finding import CheckVerdict, RehearsalFinding
    from bftrainer.console.rehearsal.player import Options
    from bftrainer.console.rehearsal.record import Record
    from bftrainer.console.rehearsal.rehearse import Costs

WIDTH = 110


@click.command()
@click.argument("file", type=FILE, metavar="FILE.toml|SCRIPT.py")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS...]")
@set_option
@click.option("--quick", is_flag=True, help="Run only the start, stop, grow and kill -9 steps.")
@click.option(
    "--in-place",
    is_flag=True,
    help="Run in the training's own working directory, with its real checkpoint.",
)
@click.option(
    "--slots",
    type=click.IntRange(1),
    metavar="N",
    help="Workers per node.  [default: slots in the file, or 1]",
)
@click.option(
    "--steps",
    type=click.IntRange(3),
    default=5,
    metavar="N",
    help="Steps to wait for after each change.",
)
@click.option(
    "--patience-s",
    type=NumberRange(1),
    default=150.0,
    metavar="S",
    help="Timeout for one step.",
)
@click.option(
    "--copy-mb",
    type=click.IntRange(1),
    default=1000,
    metavar="MB",
    help="Largest working directory to copy.",
)
@click.option(
    "--window-s",
    type=NumberRange(0.1),
    default=1.0,
    metavar="S",
    help="Duration of a speed measurement.",
)
@click.option(
    "--allow-stock-horovodrun", is_flag=True, help="Allow stock horovodrun; see the security page."
)
@click.option(
    "--state",
    type=DIR,
    help="State directory in which to record a pass, for workers.require_rehearsal.",
)
@click.option(
    "--curves",
    type=FILE,
    metavar="CSV",
    help=(
        "Curves file to which the measured speed is written, for `bftrainer replay report "
        "--curves`."
    ),
)
@click.option(
    "--node-type",
    metavar="TEXT",
    help="Type of this node, for that file.  [default: name and processors]",
)
@click.option("--keep", is_flag=True, help="Keep the scratch directory: logs, events, progress.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def rehearse(
    file: Path,
    arguments: tuple[str, ...],
    assignments: tuple[str, ...],
    slots: int | None,
    copy_mb: int,
    state: Path | None,
    curves: Path | None,
    node_type: str | None,
    keep: bool,
    as_json: bool,
    **play_options: Any,
) -> None:
    """Test a training on this host with stop requests, growth, moves, loss of all nodes and kill -9
    of workers, then print a verdict.

    Nodes are simulated; workers are local processes in a copy of the working directory. The exit
    status is 0 if the rehearsal ran to completion and no check failed, 2 if the trainer file is
    invalid, 1 otherwise. The verdict "cannot tell" is not a failure.

    SCRIPT.py runs with its arguments on 1 to 4 nodes, and its launcher is guessed from its text, as
    by `bftrainer submit`.

    \b
    Example:
      bftrainer rehearse train.py -- --lr 0.1
      bftrainer rehearse digits.toml
      bftrainer rehearse digits.toml --quick --json
      bftrainer rehearse digits.toml --quick --curves curves.csv --node-type "4 A100 GPUs"
      bftrainer rehearse digits.toml --set 'command=["python", "train.py", "--epochs", "1000"]'
    """
    from bftrainer.console.rehearsal.player import Options
    from bftrainer.console.rehearsal.rehearse import costs
    from bftrainer.console.rehearsal.speed import add_curve, speeds, this_node
    from bftrainer.pilot.persistence.spool import open_state_dir

    spec = _trainer_to_rehearse(file, arguments, assignments)
    folder = None if state is None else open_state_dir(state)
    options = Options(
        slots=slots or spec.slots or 1, copy_bytes=copy_mb * 1_000_000, **play_options
    )
    with _scratch_directory(keep) as scratch:
        outcome = _rehearsal_outcome(spec, options, str(file), folder, scratch)
    measured_speeds = speeds(outcome.record, options.slots)
    measured_costs = costs(outcome.record)
    if curves is not None and measured_speeds:
        add_curve(curves, spec.name, node_type or this_node(), measured_speeds)
    if as_json:
        kept_folder = scratch if keep else None
        report = _as_dict(spec, outcome, measured_costs, measured_speeds, kept_folder)
        say(json.dumps(report))
    else:
        _show_report(spec, outcome, measured_costs)
        if curves is not None:
            say(_speed_line(measured_speeds, curves))
        if keep:
            say(f"kept: {scratch}")
    if not outcome.passed:
        raise click.exceptions.Exit(1)


def passes(spec: TrainerSpec, where: str, folder: Path) -> bool:
    """Rehearse with the default options, print the report, and record a pass in the state directory
    ``folder``. Return whether the rehearsal has passed.
    """
    from bftrainer.console.rehearsal.player import Options
    from bftrainer.console.rehearsal.rehearse import costs

    with _scratch_directory(keep=False) as scratch:
        outcome = _rehearsal_outcome(spec, Options(slots=spec.slots or 1), where, folder, scratch)
    _show_report(spec, outcome, costs(outcome.record))
    return outcome.passed


@dataclasses.dataclass(frozen=True, slots=True)
class _RehearsalOutcome:
    """A rehearsal with its findings.

    ``outside_paths`` are the paths outside the copy that the script used, ``written_paths`` those
    of them that it wrote.
    """

    record: Record
    findings: list[RehearsalFinding]
    passed: bool
    outside_paths: list[Path]
    written_paths: list[Path]


def _rehearsal_outcome(
    spec: TrainerSpec, options: Options, where: str, folder: Path | None, scratch: Path
) -> _RehearsalOutcome:
    """Rehearse the trainer in the directory ``scratch`` and judge the record; a pass is recorded in
    the state directory ``folder``, if there is one.

    ``where`` names the trainer file or the script in errors.
    """
    from bftrainer.console.rehearsal.copies import outside, written_since
    from bftrainer.console.rehearsal.rehearse import rehearse as play
    from bftrainer.console.rehearsal.stamp import note
    from bftrainer.console.rehearsal.verdicts import has_passed, judge

    outside_paths, start_s = outside(spec), time.time()
    with _ended_by_signals(), _status_line() as show_act:
        record = play(spec, options, scratch, show_act, where)
    findings = judge(record, spec)
    passed = has_passed(findings)
    if passed and folder is not None:
        note(folder, spec)
    return _RehearsalOutcome(
        record=record,
        findings=findings,
        passed=passed,
        outside_paths=outside_paths,
        written_paths=written_since(outside_paths, start_s),
    )


def _trainer_to_rehearse(
    file: Path, arguments: tuple[str, ...], assignments: tuple[str, ...]
) -> TrainerSpec:
    """Return the validated trainer to rehearse, of a trainer file or of a script without one.

    ``arguments`` are those of the script; a trainer file has its own (else ``UserError``).
    """
    from bftrainer.console.client.gate import checked, draft, script_draft
    from bftrainer.errors import UserError

    if file.suffix == ".py":
        trainer_draft = script_draft(file, arguments, {"max_nodes": 4}, assignments)
    elif arguments:
        raise UserError(
            f"rehearse: {file}: arguments are for a script; expected `command` in the file or "
            "by --set"
        )
    else:
        trainer_draft = draft(file, {}, assignments)
    return checked(dataclasses.replace(trainer_draft, where=str(file)), os.environ)


@contextmanager
def _scratch_directory(keep: bool) -> Iterator[Path]:
    """Create a scratch directory; delete it at the end, unless ``keep``."""
    from bftrainer.console.rehearsal.copies import SCRATCH

    folder = Path(tempfile.mkdtemp(prefix=SCRATCH))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP act as Ctrl-C: otherwise the driver would outlive the command, as it
    outlives a pilot.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous_handlers = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


@contextmanager
def _status_line() -> Iterator[Callable[[str], None]]:
    """Return a function that shows the current act on a terminal, and does nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("copying the working directory") as status:
        yield lambda text: status.update(f"rehearsing: {text}")


def _show_report(spec: TrainerSpec, outcome: _RehearsalOutcome, costs: Costs) -> None:
    """Print the report: the acts, the findings, the measured costs, and the verdict."""
    acts = ", ".join(str(played.act) for played in outcome.record.played)
    say(_wrapped_text(f"{spec.name}, launcher {spec.launcher}: {acts}", "") + "\n")
    _show_findings(outcome.findings)
    say()
    _show_costs(costs)
    _show_outside_paths(outcome)
    say(_verdict_text(outcome))


def _show_findings(findings: Sequence[RehearsalFinding]) -> None:
    """Print the findings with their remedies.

    Where a check has failed, the failed ones come first, then the passed ones, and the undecided
    ones are listed by their titles alone.
    """
    from bftrainer.console.rehearsal.finding import CheckVerdict

    is_narrow = _text_width() < WIDTH
    longest_title = max((len(finding.title) for finding in findings), default=0)
    indent = 13 if is_narrow else longest_title + 15
    failed = _with_verdict(findings, CheckVerdict.FAIL)
    if not failed:
        for finding in findings:
            _show_finding(finding, indent, is_narrow)
        return
    for finding in (*failed, *_with_verdict(findings, CheckVerdict.PASS)):
        _show_finding(finding, indent, is_narrow)
    undecided = _with_verdict(findings, CheckVerdict.CANNOT_TELL)
    if undecided:
        titles = "; ".join(finding.title for finding in undecided)
        say(_wrapped_text(f"{CheckVerdict.CANNOT_TELL.value:<11}  {titles}", " " * 13))


def _with_verdict(
    findings: Sequence[RehearsalFinding], verdict: CheckVerdict
) -> list[RehearsalFinding]:
    return [finding for finding in findings if finding.verdict is verdict]


def _show_finding(finding: RehearsalFinding, indent: int, is_narrow: bool) -> None:
    """Print a finding: verdict, title and text in columns, or on a narrow terminal the text below
    the title, ``indent`` blanks to the right. A remedy follows, unless the check has passed.
    """
    from bftrainer.console.rehearsal.finding import CheckVerdict

    verdict, blanks = finding.verdict.value, " " * indent
    if is_narrow:
        say(_wrapped_text(f"{verdict:<11}  {finding.title}:", blanks))
        say(_wrapped_text(f"{blanks}{finding.seen}", blanks))
    else:
        say(_wrapped_text(f"{verdict:<11}  {finding.title:<{indent - 15}}  {finding.seen}", blanks))
    if finding.verdict is not CheckVerdict.PASS and finding.remedy:
        say(_wrapped_text(f"{blanks}-> {finding.remedy}", f"{blanks}   "))


def _show_costs(costs: Costs) -> None:
    """Print the stalls, and the lines that the trainer file may take over."""
    if costs.stalls:
        stalls = ", ".join(f"{act} {seconds:.1f}" for act, seconds in costs.stalls)
        say(_wrapped_text(f"stalls, seconds: {stalls}", "  "))
    lines = _trainer_file_lines(costs)
    if lines:
        say("measured on this host, for the trainer file:\n  " + "\n  ".join(lines))


def _show_outside_paths(outcome: _RehearsalOutcome) -> None:
    """Print the paths outside the copy that the script used or wrote."""
    if outcome.outside_paths:
        paths = ", ".join(map(str, outcome.outside_paths))
        say(_wrapped_text(f"not copied (the script used the originals): {paths}", "  "))
    if outcome.written_paths:
        paths = ", ".join(map(str, outcome.written_paths))
        say(_wrapped_text(f"WRITTEN outside the copy: {paths}", "  "))


def _verdict_text(outcome: _RehearsalOutcome) -> str:
    """Return the verdict of the rehearsal, the last line of the report."""
    from bftrainer.console.rehearsal.finding import CheckVerdict

    failed = _with_verdict(outcome.findings, CheckVerdict.FAIL)
    undecided = _with_verdict(outcome.findings, CheckVerdict.CANNOT_TELL)
    if failed:
        verdict = f"FAIL: {len(failed)} of {len(outcome.findings)} checks"
    elif outcome.passed:
        verdict = "pass"
    else:
        verdict = "not passed: the rehearsal did not run to completion"
    return f"{verdict}, {len(undecided)} undecided" if undecided else verdict


def _speed_line(speeds: Mapping[int, float], curves: Path) -> str:
    """Say what was written to the curves file: samples per second, by number of nodes."""
    if not speeds:
        return f"{curves}: nothing written: no samples are reported, so no speed was measured"
    rates = ", ".join(
        f"{rate:,.4g} on {nodes} node{'s' * (nodes != 1)}" for nodes, rate in speeds.items()
    )
    return _wrapped_text(
        f"{curves}: samples per second: {rates}; all nodes share this host, so add columns "
        "measured on real ones",
        "  ",
    )


def _trainer_file_lines(costs: Costs) -> list[str]:
    """Return the measured costs as lines of a trainer file."""
    values = (("scale_up_s", costs.up_s), ("scale_down_s", costs.down_s))
    return [f"{key} = {seconds:.1f}" for key, seconds in values if seconds is not None]


def _wrapped_text(text: str, indent: str) -> str:
    """Wrap a text to the width of the report; further lines begin with ``indent``."""
    return textwrap.fill(
        text,
        _text_width(),
        subsequent_indent=indent,
        replace_whitespace=False,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _text_width() -> int:
    """The width of the verdict: the terminal's, at most ``WIDTH``."""
    return min(output_width() or WIDTH, WIDTH)


def _as_dict(
    spec: TrainerSpec,
    outcome: _RehearsalOutcome,
    costs: Costs,
    speeds: Mapping[int, float],
    scratch: Path | None,
) -> dict[str, object]:
    """Return the report as an object for JSON.

    ``speeds`` are samples per second by number of nodes, ``scratch`` is the scratch directory if it
    was kept.
    """
    checks = [
        {**dataclasses.asdict(finding), "verdict": finding.verdict.value}
        for finding in outcome.findings
    ]
    return {
        "trainer": spec.name,
        "launcher": spec.launcher,
        "passed": outcome.passed,
        "checks": checks,
        "scale_up_s": costs.up_s,
        "scale_down_s": costs.down_s,
        "stalls": [{"act": act, "seconds": round(seconds, 3)} for act, seconds in costs.stalls],
        "samples_per_s": {str(nodes): round(rate, 3) for nodes, rate in speeds.items()},
        "not_copied": [str(path) for path in outcome.outside_paths],
        "written_outside": [str(path) for path in outcome.written_paths],
        "kept": None if scratch is None else str(scratch),
    }
