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
    """What up to ``places`` trainings at once did with one kind of pool: GPU-hours of the pool,
    one-GPU hours of work.
    """

    name: str
    places: int
    pool_gpu_h: float
    work_gpu_h: float
    preemptions: int


def by_node(trainer: Trainer, gpus: int) -> Trainer:
    """Return the same training for a pilot that gives it whole nodes of ``gpus`` GPUs."""
    first, last = (-(-count // gpus) for count in (trainer.min_nodes, trainer.max_nodes))
    sizes = (
        None
        if trainer.sizes is None
        else tuple(sorted({-(-count // gpus) for count in trainer.sizes}))
    )
    nodes = tuple(range(first, last + 1))
    curve = Curve(nodes, tuple(trainer.curve.at(largest_legal(trainer, n * gpus)) for n in nodes))
    requested = trainer.requested_nodes and -(-trainer.requested_nodes // gpus)
    return replace(
        trainer,
        curve=curve,
        min_nodes=first,
        max_nodes=last,
        sizes=sizes,
        requested_nodes=requested,
    )


def source_by_node(source: SweepWorkload, gpus: int) -> SweepWorkload:
    """Return the workload for a pilot by node: its trainers get whole nodes of ``gpus`` GPUs, and
    there are as many as outlast the window.
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
    """The number of GPUs of most nodes."""
    assert window.gpus is not None
    return statistics.mode(window.gpus.per_node.values())


def pool_results(
    held: LogWindow, span: LogWindow, source: SweepWorkload, base: Cell
) -> tuple[PoolResult, ...]:
    """Replay the same trainers on three pools: whole idle nodes, the GPUs of idle nodes, and all
    idle GPUs.

    ``held`` is the log of all idle GPUs, from which the other two pools are derived. Of ``span``
    only the start and the end count: all pools are cut to this time.

    The workload is made twice: the first trainers only tell how many must train at once to fill
    the largest pool, and as many are then made for the replays.

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
    per_gpu = {
        a.trainer.id: a.trainer.curve.at(a.trainer.min_nodes or 1) / (a.trainer.min_nodes or 1)
        for a in arrivals
    }
    results, ends = [], []
    for name, window in zip(
        ("idle nodes, by node", "idle nodes, by GPU", "all idle GPUs"), windows, strict=True
    ):
        is_by_node = window is windows[0]
        pool_arrivals = (
            tuple(replace(a, trainer=by_node(a.trainer, gpus)) for a in arrivals)
            if is_by_node
            else arrivals
        )
        scenario = Scenario(window, pool_arrivals, places, CostModel(base.cost_model))
        outcome = play(scenario, policy_of(base), keep_entries=False)
        ends.append(ran_out_s(outcome, scenario))
        work_h = sum(run.samples / per_gpu[run.trainer.id] for run in outcome.runs) / 3600
        pool_h = pool_sizes_of(window).node_hours() * (gpus if is_by_node else 1)
        results.append(
            PoolResult(name, places, pool_h, work_h, sum(run.preemptions for run in outcome.runs))
        )
    if not source.has_times:
        check_work_lasted(None if end_s is None else format_time(end_s) for end_s in ends)
    return tuple(results)


def gpu_chapter(
    held: LogWindow, span: LogWindow, source: SweepWorkload, base: Cell
) -> tuple[Chapter, str]:
    """Build the chapter that compares pilots by node and by GPU, and its sentence for the top of
    the report.
    """
    hours, results = gpu_hours(held), pool_results(held, span, source, base)
    idle = PageTable(
        "idle-gpus",
        "Idle GPU-hours",
        "Read: a part is what main jobs leave of a node. GPUs without enough cores beside them "
        "cannot be held (--part-cpus).",
        ("idle GPUs", "GPU-hours", "share"),
        tuple((name, f"{h:,.0f}", f"{h / (hours.idle_h or 1.0):.1%}") for name, h in hours.rows()),
    )
    times = [result.work_gpu_h / (results[0].work_gpu_h or 1.0) for result in results]
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
                r.name,
                f"{r.pool_gpu_h:,.0f}",
                f"{r.work_gpu_h:,.0f}",
                f"{k:.2f}",
                f"{r.preemptions:,}",
            )
            for r, k in zip(results, times, strict=True)
        ),
        main=2,
    )
    lead = (
        f"{hours.sentence()} **With idle GPUs instead of idle nodes, trainings would do "
        f"{times[1]:.1f} times as much on idle "
        f"nodes alone, and {times[2]:.1f} times as much with those of partly used nodes** "
        "(simulated, nodes.unit)."
    )
    return Chapter("GPUs", hours.sentence(), (idle, pools)), lead if results[
        0
    ].work_gpu_h else hours.sentence()
