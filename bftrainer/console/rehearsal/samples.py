"""Whether samples are counted once: per step, and when training falls back to a checkpoint.
Pure.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter

from bftrainer.console.rehearsal.finding import RehearsalCheck, RehearsalFinding
from bftrainer.console.rehearsal.record import Line, Record, boundaries, is_whole, stretches
from bftrainer.scaling import Batches, Scaling

_CHECK = RehearsalCheck("samples", "samples are counted once")
_REMEDY = (
    "save samples and steps together in the checkpoint; add the global batch once per "
    "step, on rank 0"
)


def judge(record: Record, scaling: Scaling, global_batch: int | None) -> RehearsalFinding:
    """Check the samples per step at every size, and the sample counts on both sides of every
    change. ``global_batch`` is that of the trainer file, if it has one.
    """
    has_counts = any(all(map(_has_samples, part.lines)) for part in stretches(record.lines))
    per_step = batches(record)
    if not has_counts or not per_step:
        return _CHECK.undecided(
            "no samples are reported", "report samples, summed over all workers"
        )
    problems = [
        *_size_problems(per_step, scaling, global_batch),
        *_step_problems(record, per_step),
        *_boundary_problems(record, per_step),
    ]
    if problems:
        return _CHECK.failed(problems[0], _REMEDY)
    text = ", ".join(
        f"{count:g} per step with {size} worker{'s' * (size != 1)}"
        for size, count in sorted(per_step.items())
    )
    if scaling is Scaling.WEAK and scaling_of(record) is Scaling.STRONG:
        text += (
            "; the batch does not grow with the size: the trainer file should have scaling "
            '= "strong"'
        )
    return _CHECK.passed(text)


def scaling_of(record: Record) -> Scaling:
    """Return how the global batch followed the number of workers: strong scaling only if it was the
    same at two sizes or more.
    """
    per_step = batches(record)
    is_constant = len(per_step) > 1 and len(set(per_step.values())) == 1
    return Scaling.STRONG if is_constant else Scaling.WEAK


def batches(record: Record) -> dict[int, float]:
    """Return the usual number of samples per step, by world size; the last step of an epoch may
    have fewer.
    """
    counters: dict[int, Counter[float]] = {}
    for part in stretches(record.lines):
        counter = counters.setdefault(part.world_size, Counter())
        for old, new in itertools.pairwise(part.lines):
            steps = new["step"] - old["step"]
            if steps > 0 and _has_samples(new) and _has_samples(old):
                counter[(new["samples"] - old["samples"]) / steps] += 1
    return {size: counter.most_common(1)[0][0] for size, counter in counters.items() if counter}


def _has_samples(line: Line) -> bool:
    return is_whole(line.get("samples"))


def _size_problems(
    per_step: dict[int, float], scaling: Scaling, global_batch: int | None
) -> list[str]:
    """Return the sizes with too many samples per step, in words: more than the global batch of the
    trainer file gives, or without one, more per worker than at the smallest size.
    """
    smallest = min(per_step)
    base_count = per_step[smallest]
    problems = []
    for size, count in sorted(per_step.items()):
        if global_batch is not None:
            expected = Batches(scaling, global_batch).total(size)
            if count > expected:
                problems.append(
                    f"{count:g} samples per step with {size} workers; the trainer file's batch "
                    f"gives {expected}"
                )
        elif count > max(1.001 * base_count * size / smallest, base_count):
            problems.append(
                f"{count:g} samples per step with {size} workers, {base_count:g} with "
                f"{smallest}: more than {size} batches"
            )
    return problems


def _step_problems(record: Record, per_step: dict[int, float]) -> list[str]:
    """Return the first two lines of a stretch between which more samples were counted than their
    steps have, in words; empty if there are none.
    """
    for part in stretches(record.lines):
        if part.world_size not in per_step:
            continue
        batch = per_step[part.world_size]
        for old, new in itertools.pairwise(part.lines):
            if not (_has_samples(new) and _has_samples(old)):
                continue
            steps = new["step"] - old["step"]
            samples = new["samples"] - old["samples"]
            if steps >= 0 and samples > batch * steps:
                return [
                    f"{samples} samples from step {old['step']} to {new['step']}; a step has "
                    f"{batch:g}"
                ]
    return []


def _boundary_problems(record: Record, per_step: dict[int, float]) -> list[str]:
    """Return the first change after which samples were counted twice or lost, in words; empty if
    there is none.

    A repeated step must have the same count as before.
    """
    # The steps of which work was kept, with the samples counted until then, sorted.
    counts: list[tuple[int, int]] = []
    acts = {id(boundary.after): boundary.act for boundary in boundaries(record)}
    previous_size = 0
    for part in stretches(record.lines):
        first_line = part.first_line
        # The first step after a change may have been made at either size.
        batch = max(
            per_step.get(previous_size, 0.0),
            per_step.get(part.world_size, max(per_step.values())),
        )
        previous_size = part.world_size
        if counts and _has_samples(first_line):
            step, samples = int(first_line["step"]), int(first_line["samples"])
            problem = _count_problem(counts, step, samples, batch)
            if problem:
                act = acts.get(id(first_line), "a change")
                return [f"after {act}: step {step} has {samples} samples: {problem}"]
            # Later steps are repeated from here.
            del counts[_index_until(counts, step) + 1 :]
        counts += [
            (int(line["step"]), int(line["samples"])) for line in part.lines if _has_samples(line)
        ]
        counts.sort()
    return []


def _count_problem(
    counts: list[tuple[int, int]], step: int, samples: int, batch: float
) -> str | None:
    """Say how many samples were counted twice or lost at the first step after a change; None if the
    count follows from the earlier ``counts``, with at most ``batch`` samples a step.

    Training reports the saved step again, or the step after it.
    """
    index = _index_until(counts, step)
    if index >= 0 and counts[index] == (step, samples):
        return None
    index = _index_until(counts, step - 1)
    if index < 0:
        return None
    old_step, old_samples = counts[index]
    largest = old_samples + (step - old_step) * batch
    if samples > largest:
        return f"{samples - largest:g} were counted twice"
    if samples < old_samples:
        return f"{old_samples - samples:g} were lost"
    return None


def _index_until(counts: list[tuple[int, int]], step: int) -> int:
    """Return the index of the last entry up to a step; -1 if there is none."""
    return bisect_right(counts, (step, 1 << 62)) - 1
