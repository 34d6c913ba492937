"""Remarks on a running trainer, in one line: the column ``remark`` of ``bftrainer list``. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from bftrainer.counted import counted
from bftrainer.times import HostS
from bftrainer.wires.progress_line import DIVERGED
from bftrainer.wires.reports import DriverView, Ending

REPORTS_WITHIN_S = 60.0
COMPLETE = 0.99
"""A trainer that is done has processed this share of ``samples_total``: the last batches may have
been dropped.
"""
NEVER_REPORTED = (
    "has run for a minute without reporting progress: it hangs, or does not "
    "report (docs/recipes.md)"
)
_CPU_BINDING_LINE = "srun: cluster configuration lacks support for cpu binding"
"""A line of every step where slurmd binds no tasks."""
_SRUN_LINE = re.compile(r"(srun|slurmstepd): .*")
"""A line of the launcher, which follows the script's own last line."""
_ERROR = re.compile(
    r"\s*(?:\[?rank ?\d+\]?:? *)?[\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b.*"
)
_CAUSES = {
    "the working directory is {cwd}": re.compile(
        r"FileNotFoundError: .*'[^/'][^']*'$|Parent directory [^/]"
    ),
    "the disk or the quota is full": re.compile(
        r"inline_container\.cc:\d+\] \. unexpected pos"
    ),  # torch.save, 2.13
    "workers have no standard input": re.compile(r"EOFError: EOF when reading a line"),
}
"""Likely causes that the line of an error does not name."""


def remark(view: DriverView, now_s: HostS) -> str:
    """Return the one-line remark on a running trainer at ``now_s``, about what seems to be wrong;
    empty if nothing is.
    """
    if (
        view.on
        and not view.rank_0_reported_s
        and now_s - view.driver_reported_s >= REPORTS_WITHIN_S
    ):
        return NEVER_REPORTED
    if view.ending is Ending.FAILED and view.alive:  # its driver is being killed, or cannot be
        return view.reason
    if view.ranks_disagree:
        return disagreement_text(view.ranks_disagree)
    remarks = []
    # (samples, incarnation): that run of the workers began again without these samples.
    if view.unloaded[0]:
        remarks.append(repeat_text(view.unloaded[0], 0, loaded=False))
    if view.refused:
        key, problem = view.refused[0]
        remarks.append(refused_text(key, problem))
    return "; ".join(remarks)


def closing_remark(view: DriverView, samples_total: float | None, *, is_pool: bool = False) -> str:
    """Return the remark that stays with a trainer whose program has ended with status 0; empty if
    there is none, as where it has processed ``samples_total`` (None: unknown). Pools of tasks
    (``is_pool``) make no steps.
    """
    # At that time no report is overdue: whether the program hung does not matter any more.
    if text := remark(view, HostS(-math.inf)):
        return text
    samples = view.samples or 0.0
    if samples_total and samples >= COMPLETE * samples_total:
        return ""
    of_total = f" of {samples_total:,.0f}" if samples_total else ""
    # Its last run of workers has reported no step, though samples were done before.
    if not is_pool and samples and view.stepped_in < view.incarnation:
        return (
            "ended with status 0 after a resume, without one step, at "
            f"{samples:,.0f}{of_total} samples (docs/recipes.md)"
        )
    if not samples_total:
        return ""
    return (
        f"ended with status 0 after {samples:,.0f}{of_total} samples; read its output (bftrainer "
        "logs), or correct samples_total"
    )


def disagreement_text(difference: str) -> str:
    """Say that ranks train different models: the result is worth nothing, though no process
    fails.
    """
    return f"training is wrong, {difference} (docs/training.md)"


def refused_text(key: str, problem: str) -> str:
    """Say why a value in the trainer's reports is not used."""
    if problem.endswith(DIVERGED):
        return f"the loss is {problem}"
    return f"report not used: {key}: {problem}"


def repeat_text(samples: float, lost_nodes: int, *, loaded: bool) -> str:
    """Say how many samples are processed again because they were not in the checkpoint from which a
    trainer resumes. ``lost_nodes``: how many nodes it lost before (0: it was only restarted).
    ``loaded``: it has loaded a checkpoint.
    """
    cause = f"lost {counted(lost_nodes, 'node')}" if lost_nodes else "restarted"
    if not loaded:
        return (
            f"{cause}: all {counted(samples, 'sample is', 'samples are')} repeated; it has "
            "loaded no "
            f"checkpoint (docs/recipes.md)"
        )
    return (
        f"{cause}: {counted(samples, 'sample is', 'samples are')} repeated, since the last "
        "checkpoint"
    )


_CERTAIN = re.compile(
    r"the command cannot be started: |the driver cannot be started: "
    r"|can't open file '.*': \[Errno 2\]|\b(SyntaxError|IndentationError|TabError): "
    r"|ModuleNotFoundError: No module named |\bImportError: cannot import name "
    r"|\b(NameError|InvalidValueError): "
    r"|\berror: (unrecognized arguments|the following arguments are required): "
    r"|\bno step within \S+ s of its start \(first_step_s\)"
)
"""Errors that come again on every node that has the same files, and hangs before the first step,
each of which holds nodes for ``first_step_s``.
"""
_WITHOUT_FILES = re.compile(
    r"the command cannot be started: |can't open file '.*': \[Errno 2\]"
    r"|ModuleNotFoundError: No module named "
)
"""Those of a node that does not have the files."""
_TOO_MANY_WORKERS = re.compile(
    r"\b(?P<workers>\d{1,9}) workers, but virtual_ranks=(?P<most>\d{1,9})\b"
    r"|\ba global batch of (?P<batch>\d{1,9}) cannot be divided among (?P<sharing>\d{1,9}) workers"
)
"""Errors of ``bftrainer.progress`` at a size that a training cannot have."""


def is_certain_error(text: str) -> bool:
    """Whether a failure will come again at every start: a program or module is missing, a script
    has an error or refuses its arguments, or it hangs before its first step.
    """
    return _CERTAIN.search(text) is not None


def lacks_files(text: str) -> bool:
    """Whether a failure may be one of a node that does not have the trainer's files."""
    return _WITHOUT_FILES.search(text) is not None


def most_nodes(lines: Sequence[str], count: int) -> int | None:
    """Return the largest number of nodes that does not have more workers than the script allows, by
    its error in ``lines``; None if there is no such error.

    ``count`` is the number of nodes whose workers were too many.
    """
    for line in lines:
        if match := _TOO_MANY_WORKERS.search(line):
            workers = int(match["workers"] or match["sharing"])
            limit = int(match["most"] or match["batch"])
            # workers / count of them are on each node; rounded down.
            return count * limit // workers if limit < workers else None
    return None


def last_words(tail: Sequence[str]) -> str:
    """Return the line at the end of a log (``tail``) that says most: the last one that names an
    error, else the last one; empty without any.

    Lines of srun and slurmstepd count only if there are no others.
    """
    stripped = [line.strip() for line in tail if re.search(r"\w", line)]
    lines = [line for line in stripped if line != _CPU_BINDING_LINE]
    lines = [line for line in lines if not _SRUN_LINE.fullmatch(line)] or lines
    for line in reversed(lines):
        if _ERROR.fullmatch(line):
            return line
    return lines[-1] if lines else ""


def cause(text: str, cwd: object) -> str:
    """Return the text of an error, with its likely cause where the error does not name it."""
    for likely_cause, pattern in _CAUSES.items():
        if pattern.search(text):
            return f"{text}; {likely_cause.format(cwd=cwd)}"
    return text
