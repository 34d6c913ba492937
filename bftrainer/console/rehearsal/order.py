"""Whether each sample of an epoch is used once, over all stops, restarts and losses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from bftrainer.console.rehearsal.finding import RehearsalCheck, RehearsalFinding
from bftrainer.console.rehearsal.record import Record
from bftrainer.counted import counted
from bftrainer.wires.rank_line import RankLine

_CHECK = RehearsalCheck("order", "each sample of an epoch is used once")
_SAVE = "save sampler.state_dict() with the weights, and load it at the start"
_SET_EPOCH = "call sampler.set_epoch at the end of an epoch: at its start it discards the position"

_SEED_SPLIT = (
    "split and shuffle the data with a fixed seed, such as "
    "random_split(data, sizes, torch.Generator().manual_seed(0))"
)


Sample = tuple[int, int]
"""A sample of the data, as (epoch, index)."""


@dataclass(slots=True)
class _StepSamples:
    """One step of a group of workers, with the samples of all its ranks.

    ``line`` is the line of one of its ``ranks``. ``is_first`` marks the first step of the group: it
    undoes all earlier steps with its number or a higher one.
    """

    line: RankLine
    ranks: tuple[int, ...]
    samples: list[Sample]
    is_first: bool


def judge(record: Record) -> RehearsalFinding:
    """Check that each sample is used once an epoch.

    Only the steps that count are compared: a step that is repeated after a loss replaces the
    earlier one.
    """
    if not any(line.indices is not None for line in record.ranks):
        return _CHECK.undecided(
            "the order of the data is not known",
            "progress.Sampler, with report.watch(sampler=sampler) or keep=[sampler]",
        )
    problem = _restart_problem(record)
    if problem is not None:
        return _CHECK.failed(problem, _SET_EPOCH)
    problem = _data_problem(record)
    if problem is not None:
        return _CHECK.failed(problem, _SEED_SPLIT)
    users: dict[Sample, _StepSamples] = {}  # the first step that used each sample
    steps: list[_StepSamples] = []  # those that count
    for step in _steps_with_samples(record.ranks):
        while step.is_first and steps and steps[-1].line.step >= step.line.step:
            _remove_step(steps.pop(), users)
        repeated = []
        for sample in step.samples:
            if sample in users:
                repeated.append(sample)
            users.setdefault(sample, step)
        # Horovod's sampler fills up the last batches of a pass: at most one sample per worker.
        allowed_count = step.line.world_size if step.line.sampler == "ElasticSampler" else 0
        if len(repeated) > allowed_count:
            return _repetition_finding(record, step, repeated, users[repeated[0]])
        steps.append(step)
    unused = _never_used(record, users) if _are_complete(steps) else None
    return unused or _CHECK.passed(
        f"{counted(len(users), 'sample')} in {counted(len(steps), 'step')}, none repeated"
    )


def _remove_step(step: _StepSamples, users: dict[Sample, _StepSamples]) -> None:
    """Remove a step from the first users of samples, since it is repeated."""
    for sample in step.samples:
        if users.get(sample) is step:
            del users[sample]


def _repetition_finding(
    record: Record, step: _StepSamples, repeated: list[Sample], first_user: _StepSamples
) -> RehearsalFinding:
    """Return the finding on a step with samples that were used before, by ``first_user``, or by
    another worker in the same step.
    """
    act = record.act_at(step.line.at_s) or "the start"
    text = (
        f"after {act}: step {step.line.step} uses {counted(len(repeated), 'sample')} of "
        f"epoch {repeated[0][0]}"
    )
    if first_user is step:
        remedy = "give each worker its own share of the batch"
        return _CHECK.failed(f"{text} on two workers", remedy)
    return _CHECK.failed(f"{text} that step {first_user.line.step} had used", _SAVE)


def _are_complete(steps: list[_StepSamples]) -> bool:
    """Whether all ranks have reported each step, without a gap, so that a sample that no step has
    was never used.

    A worker that was killed after its part of a step, which the others have saved, has not reported
    that step. A script of Horovod reports the steps that it commits.
    """
    numbers = {step.line.step for step in steps if len(step.ranks) == step.line.world_size}
    span = max(numbers, default=0) - min(numbers, default=0)
    return span < len(numbers) and len(numbers) == len(steps)


def _steps_with_samples(lines: tuple[RankLine, ...]) -> Iterator[_StepSamples]:
    """Yield all steps with samples, in order of groups and steps."""
    # The lines by group, step and rank; of each rank, the last line counts.
    groups: dict[tuple[int, int, int], dict[int, dict[int, RankLine]]] = {}
    for line in lines:
        groups.setdefault(line.group, {}).setdefault(line.step, {})[line.rank] = line
    for steps in groups.values():
        is_first = True
        for number in sorted(steps):
            lines_by_rank = steps[number]
            samples: list[Sample] = []
            for line in lines_by_rank.values():
                for epoch, indices in line.indices or ():
                    samples += [(epoch, index) for index in indices]
            if samples:
                first_line = next(iter(lines_by_rank.values()))
                yield _StepSamples(first_line, tuple(lines_by_rank), samples, is_first)
                is_first = False


def _data_problem(record: Record) -> str | None:
    """Return what is wrong if a rank or a start has another data set than the first one; None if
    none has. The same indices would then be other samples.
    """
    lines = [line for line in record.ranks if line.data is not None]
    for line in lines:
        first = lines[0]
        difference = first.data.difference(line.data) if first.data and line.data else None
        if difference is None:
            continue
        act = record.act_at(line.at_s) or "the start"
        if line.group == first.group:
            return f"rank {line.rank} has another data set than rank {first.rank}: {difference}"
        return f"after {act}: rank {line.rank} has another data set than before: {difference}"
    return None


def _restart_problem(record: Record) -> str | None:
    """Say where Horovod's sampler began a pass over the data again within the pass; None if it
    never did.

    Its position in the pass had been restored (``restored_at``), and the script then called
    ``set_epoch``.
    """
    for line in record.ranks:
        is_first_step = line.step == line.since_step
        if is_first_step and line.restored_at and (line.pass_at or 0) < line.restored_at:
            act = record.act_at(line.at_s) or "the start"
            return (
                f"after {act}: the sampler was at sample {line.restored_at} of the epoch, and "
                "began again at "
                f"{line.pass_at}: sampler.set_epoch was called within the epoch"
            )
    return None


def _never_used(record: Record, used_samples: Collection[Sample]) -> RehearsalFinding | None:
    """Return the finding on the first epoch with samples that were never used; None if there is
    none, or the size of the data is not known.

    Only epochs that began and ended within the rehearsal are checked.
    """
    size = next((line.data_size for line in record.ranks if line.data_size), None)
    if size is None or size < 1 or any(line.sampler == "ElasticSampler" for line in record.ranks):
        return None
    counts = Counter(epoch for epoch, _ in used_samples)
    for epoch in sorted(counts)[1:-1]:
        unused_count = size - counts[epoch]
        if unused_count:
            return _CHECK.failed(
                f"{unused_count} of {size} samples of epoch {epoch} were never used", _SAVE
            )
    return None
