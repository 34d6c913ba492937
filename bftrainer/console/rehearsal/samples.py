"""Whether samples are counted once: per step, and when training falls back to a checkpoint.
Pure.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter

from bftrainer.console.rehearsal.finding import RehearsalCheck, RehearsalFinding
from bftrainer.console.rehearsal.record import Record, Stretch, boundaries, is_whole, stretches
from bftrainer.scaling import Batches, Scaling

_CHECK = RehearsalCheck("samples", "samples are counted once")
_REMEDY = (
    "save samples and steps together in the checkpoint; add the global batch once per "
    "step, on rank 0"
)


def judge(record: Record, scaling: Scaling, global_batch: int | None) -> RehearsalFinding:
    """Check the samples per step at every size, and the sample counts on both sides of every
    change.
    """
    has_counts = any(_counts_samples(part) for part in stretches(record.lines))
    per_step = batches(record)
    if not has_counts or not per_step:
        return _CHECK.undecided(
            "no samples are reported", "report samples, summed over all workers"
        )
    problems = [
        *_sizes(per_step, scaling, global_batch),
        *_steps(record, per_step),
        *_boundaries(record, per_step),
    ]
    if problems:
        return _CHECK.failed(problems[0], _REMEDY)
    seen = ", ".join(
        f"{count:g} per step with {size} worker{'s' * (size != 1)}"
        for size, count in sorted(per_step.items())
    )
    note = ""
    if len(set(per_step.values())) == 1 < len(per_step) and scaling is Scaling.WEAK:
        note = (
            "; the batch does not grow with the size: the trainer file should have scaling "
            '= "strong"'
        )
    return _CHECK.passed(seen + note)


def batches(record: Record) -> dict[int, float]:
    """Return the samples of most steps, by world size; the last of an epoch may have fewer."""
    seen: dict[int, Counter[float]] = {}
    for part in stretches(record.lines):
        for old, new in itertools.pairwise(part.lines):
            steps = new["step"] - old["step"]
            if steps > 0 and is_whole(new.get("samples")) and is_whole(old.get("samples")):
                seen.setdefault(part.world_size, Counter())[
                    (new["samples"] - old["samples"]) / steps
                ] += 1
    return {size: counter.most_common(1)[0][0] for size, counter in seen.items()}


def _counts_samples(part: Stretch) -> bool:
    return all(is_whole(line.get("samples")) for line in part.lines)


def _sizes(per_step: dict[int, float], scaling: Scaling, global_batch: int | None) -> list[str]:
    """Return what is wrong with the samples per step at each size, by the scaling or against the
    smallest size.
    """
    small = min(per_step)
    problems = []
    for size, count in sorted(per_step.items()):
        if global_batch is not None:
            wanted = Batches(scaling, global_batch).total(size)
            if count > wanted:
                problems.append(
                    f"{count:g} samples per step with {size} workers; the trainer file's batch "
                    f"gives {wanted}"
                )
        elif count > max(1.001 * per_step[small] * size / small, per_step[small]):
            problems.append(
                f"{count:g} samples per step with {size} workers, {per_step[small]:g} with "
                f"{small}: more than {size} batches"
            )
    return problems


def _steps(record: Record, per_step: dict[int, float]) -> list[str]:
    """Return what is wrong if more samples were counted between two lines than the steps have."""
    for part in stretches(record.lines):
        for old, new in itertools.pairwise(part.lines):
            if (
                not (is_whole(new.get("samples")) and is_whole(old.get("samples")))
                or part.world_size not in per_step
            ):
                continue
            steps, more = new["step"] - old["step"], new["samples"] - old["samples"]
            if steps >= 0 and more > per_step[part.world_size] * steps:
                return [
                    f"{more} samples from step {old['step']} to {new['step']}; a step has "
                    f"{per_step[part.world_size]:g}"
                ]
    return []


def _boundaries(record: Record, per_step: dict[int, float]) -> list[str]:
    """Return what is wrong with the sample counts after changes: samples that were counted twice,
    or lost.

    A repeated step must have the same count as before. ``counts`` has the steps that count, with
    their samples.
    """
    counts: list[tuple[int, int]] = []
    parts = stretches(record.lines)
    acts = {id(boundary.after): boundary.act for boundary in boundaries(record)}
    size = 0
    for part in parts:
        first = part.first
        batch = max(per_step.get(size, 0.0), per_step.get(part.world_size, max(per_step.values())))
        size = part.world_size
        if counts and is_whole(first.get("samples")):
            step, samples = int(first["step"]), int(first["samples"])
            at = bisect_right(counts, (step, 1 << 62)) - 1
            # Training reports the saved step again, or the step after it, perhaps on another size
            # than the first time.
            base = (
                at
                if at >= 0 and counts[at] == (step, samples)
                else bisect_right(counts, (step - 1, 1 << 62)) - 1
            )
            if base >= 0:
                old_step, old_samples = counts[base]
                largest = old_samples + (step - old_step) * batch
                if not old_samples <= samples <= largest:
                    how = "counted twice" if samples > largest else "lost"
                    act = acts.get(id(first), "a change")
                    apart = samples - largest if samples > largest else old_samples - samples
                    return [f"after {act}: step {step} has {samples} samples: {apart:g} were {how}"]
            del counts[at + 1 :]
        counts += [
            (int(line["step"]), int(line["samples"]))
            for line in part.lines
            if is_whole(line.get("samples"))
        ]
        counts.sort()
    return []
