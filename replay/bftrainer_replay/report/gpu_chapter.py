"""The chapter on GPUs: where they are idle, and what trainings would do with idle nodes, their
GPUs, and all idle GPUs.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.sizes import largest_legal
from bftrainer_replay.analysis.gpu_hours import gpu_hours
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.gpus import on_idle_nodes
from bftrainer_replay.logs.model import LogWindow, piece
from bftrainer_replay.report.page import Chapter, PageTable
from bftrainer_replay.simulation.play import Scenario, enough_trainers, play, ran_out_s
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.compute import policy_of
from bftrainer_replay.sweep.inputs import SweepWorkload
from bftrainer_replay.sweep.results import check_work_lasted


@dataclass(frozen=True, slots=True)
class PoolResult:
    """The result of up to ``places`` trainings at once on one kind of pool: GPU-hours of the pool,
    one-GPU hours of work.
    """

    name: str
    places: int
    pool_gpu_h: float
    work_gpu_h: float
    preemptions: int


def by_node(trainer: Trainer, gpus: int) -> Trainer:
    """Return the same training for a pilot that gives it whole nodes of ``gpus`` GPUs.

    The sizes of ``trainer`` are numbers of GPUs, those of the result numbers of nodes, rounded up.
    On n nodes it trains at the rate of the most GPUs of these that it can use.
    """

    def whole_nodes(gpu_count: int) -> int:
        """Return the nodes that so many GPUs take, rounded up."""
        return -(-gpu_count // gpus)

    min_nodes, max_nodes = whole_nodes(trainer.min_nodes), whole_nodes(trainer.max_nodes)
    sizes = None
    if trainer.sizes is not None:
        sizes = tuple(sorted({whole_nodes(count) for count in trainer.sizes}))
    nodes = tuple(range(min_nodes, max_nodes + 1))
    curve = Curve(nodes, tuple(trainer.curve.at(largest_legal(trainer, n * gpus)) for n in nodes))
    requested_nodes = trainer.requested_nodes and whole_nodes(trainer.requested_nodes)
    return replace(
        trainer,
        curve=curve,
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        sizes=sizes,
        requested_nodes=requested_nodes,
    )


def source_by_node(source: SweepWorkload, gpus: int) -> SweepWorkload:
    """Return the workload for a pilot by node: its trainers get whole nodes of ``gpus`` GPUs.

    There are as many of them as outlast the window.
    """

    def make(
        window: LogWindow, seed: int, *, places: int = 0, units: int = 1
    ) -> tuple[Arrival, ...]:
        arrivals = source.make(window, seed, places=places, units=gpus * units)
        return tuple(
            replace(arrival, trainer=by_node(arrival.trainer, gpus)) for arrival in arrivals
        )

    return replace(source, make=make)


def usual_gpus(window: LogWindow) -> int:
    """Return the number of GPUs of most nodes."""
    assert window.gpus is not None
    return statistics.mode(window.gpus.per_node.values())


def pool_results(
    held: LogWindow, span: LogWindow, source: SweepWorkload, base: Cell
) -> tuple[PoolResult, ...]:
    """Return what the same trainers do on three pools: idle nodes, their GPUs, and all idle GPUs.

    ``held`` is the log of all idle GPUs, from which the other two pools are derived. Of ``span``
    only the start and the end count: all pools are cut to this time.

    The workload is made twice: the first trainers only tell how many must train at once to fill the
    largest pool, and as many are then made for the replays.

    Raises ``WorkRanOutError`` if generated trainers are done before the end of a replay.
    """
    assert held.gpus is not None
    gpus = usual_gpus(held)
    windows = [
        piece(pool, span.start_s, span.end_s)
        for pool in (held.gpus.by_node, on_idle_nodes(held), held)
    ]
    sample = source.make(windows[-1], base.seed)
    places = enough_trainers(windows[-1], [arrival.trainer for arrival in sample])
    arrivals = source.make(windows[-1], base.seed, places=places)
    # The samples per second of one GPU, at the smallest size: the unit of work on all three pools.
    per_gpu = {}
    for arrival in arrivals:
        smallest = arrival.trainer.min_nodes or 1
        per_gpu[arrival.trainer.id] = arrival.trainer.curve.at(smallest) / smallest
    arrivals_by_node = tuple(
        replace(arrival, trainer=by_node(arrival.trainer, gpus)) for arrival in arrivals
    )
    # For each pool: its name, its trainers, and the GPUs of one unit of its log.
    pools = (
        ("idle nodes, by node", arrivals_by_node, gpus),
        ("idle nodes, by GPU", arrivals, 1),
        ("all idle GPUs", arrivals, 1),
    )
    results, ends_s = [], []
    for window, (name, pool_arrivals, unit_gpus) in zip(windows, pools, strict=True):
        scenario = Scenario(window, pool_arrivals, places, CostModel(base.cost_model))
        outcome = play(scenario, policy_of(base), keep_entries=False)
        ends_s.append(ran_out_s(outcome, scenario))
        work_gpu_s = sum(run.samples / per_gpu[run.trainer.id] for run in outcome.runs)
        results.append(
            PoolResult(
                name=name,
                places=places,
                pool_gpu_h=pool_sizes_of(window).node_hours() * unit_gpus,
                work_gpu_h=work_gpu_s / 3600,
                preemptions=sum(run.preemptions for run in outcome.runs),
            )
        )
    if not source.has_times:  # generated trainers, which are to outlast the log
        check_work_lasted(None if end_s is None else format_time(end_s) for end_s in ends_s)
    return tuple(results)


def gpu_chapter(
    held: LogWindow, span: LogWindow, source: SweepWorkload, base: Cell
) -> tuple[Chapter, str]:
    """Return the chapter that compares pilots by node and by GPU, and its sentence for the top.

    ``held`` is the log of idle GPUs as a pilot holds them, ``span`` the time that is replayed.
    """
    hours, results = gpu_hours(held), pool_results(held, span, source, base)
    idle = PageTable(
        "idle-gpus",
        "Idle GPU-hours",
        "Read: a part is what main jobs leave of a node. GPUs without enough cores beside them "
        "cannot be held (--part-cpus).",
        ("idle GPUs", "GPU-hours", "share"),
        tuple(
            (name, f"{part_h:,.0f}", f"{part_h / (hours.idle_h or 1.0):.1%}")
            for name, part_h in hours.rows()
        ),
    )
    times_by_pool = [result.work_gpu_h / (results[0].work_gpu_h or 1.0) for result in results]
    pools = PageTable(
        "gpu-pools",
        "What trainings would do",
        f"Read: the same trainings, up to {results[0].places} at once, on three pools from "
        f"{format_time(span.start_s, span.zone)} to {format_time(span.end_s, span.zone)}. Work "
        "is in one-GPU hours, the time "
        "that one GPU would need for the same samples. By node, each training has whole nodes. "
        "A main job that takes any GPU "
        "of a held part takes the part; the rest is held again after --back-s.",
        ("pool", "GPU-hours", "one-GPU hours", "times", "preempted"),
        tuple(
            (
                result.name,
                f"{result.pool_gpu_h:,.0f}",
                f"{result.work_gpu_h:,.0f}",
                f"{times_as_much:.2f}",
                f"{result.preemptions:,}",
            )
            for result, times_as_much in zip(results, times_by_pool, strict=True)
        ),
        main=2,
    )
    lead = (
        f"{hours.sentence()} **With idle GPUs instead of idle nodes, trainings would do "
        f"{times_by_pool[1]:.1f} times as much on idle "
        f"nodes alone, and {times_by_pool[2]:.1f} times as much with those of partly used nodes** "
        "(simulated, nodes.unit)."
    )
    if not results[0].work_gpu_h:  # nothing to compare with
        lead = hours.sentence()
    return Chapter("GPUs", hours.sentence(), (idle, pools)), lead
