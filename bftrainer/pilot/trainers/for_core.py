"""Registered trainers as the core sees them, with the settings for learning their curves. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from bftrainer.config.pilot import LearningConfig
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.decide.domain.model import Learning, Trainer
from bftrainer.decide.domain.sizes import largest_of, sizes_of
from bftrainer.pilot.persistence.registry import TrainerRecord, TrainerStatus


def for_core(record: TrainerRecord, config: LearningConfig) -> Trainer:
    """Return a registered trainer as the core (the decision loop) sees it, with settings for
    learning if its speed is measured.

    A trainer without a curve is always measured, a pool that fills (independent workers on unused
    nodes) never. Measurements are kept by owner, model and node class; without a model they are the
    trainer's own.
    """
    spec = record.spec
    trainer = replace(
        with_fitting_sizes(spec.trainer(), record.unfit), samples_total=record.samples_total
    )
    if trainer.fill or not (config.measure or spec.is_blank):
        return trainer
    node_class = f" on {spec.node_class}" if spec.node_class else ""
    unit = " by GPU" if spec.grain.divides_nodes else ""
    key = f"model {spec.model} of {record.owner}{node_class}{unit}" if spec.model else ""
    settings = Learning(key, spec.is_blank, config.share, config.window_s, config.explore_after_s)
    return replace(trainer, learning=settings)


def fitting_sizes(trainer: Trainer, unfit: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the sizes at which a trainer's memory suffices: those in none of the ``unfit``
    ranges.
    """

    def is_unfit(n: int) -> bool:
        return any(smallest <= n <= largest for smallest, largest in unfit)

    return tuple(n for n in sizes_of(trainer) if not is_unfit(n))


def with_fitting_sizes(trainer: Trainer, unfit: Sequence[tuple[int, int]]) -> Trainer:
    """Return the trainer with only the sizes at which its memory suffices; unchanged if there are
    none, since it has failed then.

    ``unfit`` are ranges of sizes, from the least to the most nodes, that do not fit into memory.
    """
    if not unfit or not (sizes := fitting_sizes(trainer, unfit)):
        return trainer
    largest_fitting_request = trainer.requested_nodes and largest_of(sizes, trainer.requested_nodes)
    # Fewer sizes than from the smallest to the largest.
    has_gaps = len(sizes) <= sizes[-1] - sizes[0]
    return replace(
        trainer,
        min_nodes=sizes[0],
        max_nodes=sizes[-1],
        sizes=sizes if has_gaps else None,  # None: all sizes from min_nodes to max_nodes
        requested_nodes=largest_fitting_request or None,
    )


def spec_to_start(spec: TrainerSpec, unfit: Sequence[tuple[int, int]]) -> TrainerSpec:
    """Return the trainer file for a driver: without the sizes at which memory did not suffice, so
    that the driver does not choose one of them after a loss.
    """
    if not unfit:
        return spec
    return spec.model_copy(update={"sizes": sizes_of(with_fitting_sizes(spec.trainer(), unfit))})


def trainers_for_core(
    records: tuple[TrainerRecord, ...], retry_later: frozenset[str]
) -> Mapping[str, TrainerRecord]:
    """Return the trainers that the core (the decision loop) decides on, by name: neither final nor
    paused, and not among those that start again later (``retry_later``).
    """
    queued, waiting, running = TrainerStatus.QUEUED, TrainerStatus.WAITING, TrainerStatus.RUNNING
    active = (
        record
        for record in records
        if record.status is queued or record.status is waiting or record.status is running
    )
    return MappingProxyType(
        {
            admitted.spec.name: admitted
            for admitted in active
            if admitted.spec.name not in retry_later
        }
    )


def trainer_limits(
    core: Mapping[str, TrainerRecord],
    count: int | None,
    names: tuple[str, ...],
    classes: tuple[str | None, ...],
) -> tuple[tuple[int, str | None], ...]:
    """Return what trainers could use, as (``max_nodes``, node class; None: any) of each: of the
    first ``count`` trainers of ``core`` (None: of all), and of all pools that fill.

    ``classes`` are those of the nodes that the trainers ``names`` have now: a trainer with nodes
    wants others of their class.
    """
    class_of = dict(zip(names, classes, strict=True))
    fill_pools = [r for r in core.values() if r.spec.is_pool and r.spec.fill]
    trainers = [r for r in core.values() if r not in fill_pools]
    return tuple(
        (r.spec.max_nodes, r.spec.node_class or class_of[r.name])
        for r in (*trainers[:count], *fill_pools)
    )


def smallest_of(records: Mapping[str, TrainerRecord]) -> tuple[float, int]:
    """Return the shortest time in which one of these trainers grows (0 for none), and their
    smallest size.
    """
    specs = [record.spec for record in records.values()]
    shortest_s = min((spec.scale_up_s for spec in specs), default=0.0)
    return shortest_s, min((spec.min_nodes for spec in specs), default=1)
