"""Whether each sample of an epoch is used once, over all stops, restarts and losses. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class _StepSamples:
    """One step of all workers, with its samples as (epoch, index)."""

    line: RankLine
    ranks: tuple[int, ...] = ()
    samples: list[tuple[int, int]] = field(default_factory=list)


def judge(record: Record) -> RehearsalFinding:
    """Check that each sample is used once an epoch.

    Only the steps that count are compared: one that is repeated after a loss replaces the one
    before.
    """
    if not any(line.indices is not None for line in record.ranks):
        return _CHECK.undecided(
            "the order of the data is not known",
            "progress.Sampler, with report.watch(sampler=sampler) or keep=[sampler]",
        )
    if (wrong := _discarded(record)) is not None:
        return _CHECK.failed(wrong, _SET_EPOCH)
    if (wrong := _other_data(record)) is not None:
        return _CHECK.failed(wrong, _SEED_SPLIT)
    seen: dict[tuple[int, int], _StepSamples] = {}
    kept: list[_StepSamples] = []
    for step, again in _steps(record.ranks):
        while again and kept and kept[-1].line.step >= step.line.step:
            undone = kept.pop()
            for sample in undone.samples:
                if seen.get(sample) is undone:
                    del seen[sample]
        repeated = []
        for sample in step.samples:
            if sample in seen:
                repeated.append(sample)
            seen.setdefault(sample, step)
        # Horovod's sampler fills up the last batches of a pass: at most one sample per worker.
        if len(repeated) > (step.line.world_size if step.line.sampler == "ElasticSampler" else 0):
            first = seen[repeated[0]].line
            act = record.act_at(step.line.at_s) or "the start"
            seen_there = (
                f"after {act}: step {step.line.step} uses {counted(len(repeated), 'sample')} of "
                f"epoch {repeated[0][0]}"
            )
            if first is step.line:
                return _CHECK.failed(
                    f"{seen_there} on two workers", "give each worker its own share of the batch"
                )
            return _CHECK.failed(f"{seen_there} that step {first.step} had used", _SAVE)
        kept.append(step)
    # A worker that was killed after its part of a step, which the others have saved, has not
    # reported that step. A script of Horovod reports the steps that it commits.
    whole = {step.line.step for step in kept if len(step.ranks) == step.line.world_size}
    complete = max(whole, default=0) - min(whole, default=0) < len(whole) == len(kept)
    unused = _never_used(record, seen) if complete else None
    return unused or _CHECK.passed(
        f"{counted(len(seen), 'sample')} in {counted(len(kept), 'step')}, none repeated"
    )


def _steps(lines: tuple[RankLine, ...]) -> Iterator[tuple[_StepSamples, bool]]:
    """Yield all steps with samples in order, each with the samples of all its ranks.

    The flag marks the first step of a group of workers: it undoes all earlier steps with its number
    or a higher one.
    """
    groups: dict[tuple[int, int, int], dict[int, dict[int, RankLine]]] = {}
    for line in lines:
        groups.setdefault(line.group, {}).setdefault(line.step, {})[line.rank] = line
    for steps in groups.values():
        again = True
        for number in sorted(steps):
            ranks = list(steps[number].values())
            made = _StepSamples(ranks[0], tuple(steps[number]))
            for line in ranks:
                made.samples += [
                    (epoch, index) for epoch, numbers in line.indices or () for index in numbers
                ]
            if made.samples:
                yield made, again
                again = False


def _other_data(record: Record) -> str | None:
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


def _discarded(record: Record) -> str | None:
    """Return what is wrong if Horovod's sampler began a pass over the data again within it; None if
    it never did.

    Its position in the pass had been restored, and the script then called ``set_epoch``.
    """
    for line in record.ranks:
        if (
            line.step == line.since_step
            and line.restored_at
            and (line.pass_at or 0) < line.restored_at
        ):
            act = record.act_at(line.at_s) or "the start"
            return (
                f"after {act}: the sampler was at sample {line.restored_at} of the epoch, and "
                "began again at "
                f"{line.pass_at}: sampler.set_epoch was called within the epoch"
            )
    return None


def _never_used(
    record: Record, seen: dict[tuple[int, int], _StepSamples]
) -> RehearsalFinding | None:
    """Return the finding on samples that were never used; None if there are none, or it cannot be
    told.

    Only epochs that began and ended within the rehearsal are checked.
    """
    size = next((line.data_size for line in record.ranks if line.data_size), None)
    epochs = sorted({epoch for epoch, _ in seen})
    if size is None or size < 1 or any(line.sampler == "ElasticSampler" for line in record.ranks):
        return None
    for epoch in epochs[1:-1]:
        missing = size - sum(1 for other, _ in seen if other == epoch)
        if missing:
            return _CHECK.failed(
                f"{missing} of {size} samples of epoch {epoch} were never used", _SAVE
            )
    return None
