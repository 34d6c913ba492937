"""The figures at the top of a report, which are also its report.json: what the next month's report
is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bftrainer.counted import counted
from bftrainer.errors import InputFileError
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.doubts import IdleDoubts
from bftrainer_replay.analysis.plain_jobs import PlainJobs
from bftrainer_replay.report.used_nodes import UsedNodes, preemptions, used_spread, work_share
from bftrainer_replay.sweep.results import SweepRow

MONTH_H = 30 * 24.0
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Origin:
    """What makes a page again: the log's file and its SHA-256, the command, the day (ISO 8601), the
    version.
    """

    log: str
    sha256: str
    command: str
    day: str
    version: str


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """Shares of use are of the idle node-hours; work is in one-node hours. A month is 30 days.

    ``left_out``: the time and nodes that ``idle_share`` leaves out on both sides. ``nodes_each`` is
    the largest size of a training. ``plain`` are numbers of plain one-node jobs, the first as many
    as trainings. ``spread`` is twice the standard error of ``held_share``, 0 if all of the log was
    replayed. ``pool_share``: the work of a pool beside the trainings. ``by_model``: the
    ``work_share`` if all trainings were of this model. ``idle_range``: the least and the largest
    idle share over all readings of the log; ``lacks_jobs``: a sentence, if the log seems to.
    """

    origin: Origin
    dates: str
    machine_nodes: int
    idle_share: float
    mean_idle_nodes: float
    left_out: str
    trainings: int
    nodes_each: int
    held_share: float
    work_share: float
    spread: float
    preemptions_a_month: float
    plain: tuple[PlainJobs, ...]
    fillable_share: float | None
    pool_share: float | None
    by_model: tuple[tuple[str, float], ...]
    idle_range: tuple[float, float]
    lacks_jobs: str

    @property
    def idle_node_h_a_month(self) -> float:
        """Idle node-hours in 30 days."""
        return self.mean_idle_nodes * MONTH_H

    @property
    def plain_alike(self) -> PlainJobs:
        """The result of as many plain jobs as there are trainings."""
        return next(plain for plain in self.plain if plain.jobs == self.trainings)

    def since(self, last: ReportFigures) -> str:
        """Return a sentence on what has changed since an earlier report."""
        pairs = [
            ("idle", last.idle_share, self.idle_share),
            ("turned into work by trainings", last.work_share, self.work_share),
            ("by as many plain jobs", last.plain_alike.share, self.plain_alike.share),
        ]
        changes = "; ".join(
            f"{name} {then_share:.1%} then, {now_share:.1%} now"
            for name, then_share, now_share in pairs
        )
        trainings = ""
        if last.trainings != self.trainings:
            trainings = f" (then {counted(last.trainings, 'training')}, now {self.trainings})"
        return f"{last.dates}: {changes}{trainings}."


def figures_of(
    characteristics: Characteristics,
    base: SweepRow,
    nodes_each: int,
    plain: tuple[PlainJobs, ...],
    dates: str,
    origin: Origin,
    models: Mapping[str, SweepRow],
    doubts: IdleDoubts,
) -> ReportFigures:
    """Return the figures at the top of the report.

    They come from the log (``characteristics``), the replay of ``base``, the calculated ``plain``
    jobs, and replays with trainings of one model each (``models``).
    """
    used = UsedNodes.of(base)
    pool_share = None
    if base.pool_node_h is not None:
        # The pool uses the same part of the nodes left by trainings in the whole log as in the
        # pieces.
        left_node_h = used.idle_node_h * (1 - used.replayed_share)
        pool_share = base.pool_node_h / (left_node_h or 1.0) * (1 - used.share)
    idle_while = characteristics.idle_while
    preemption_count = preemptions(base, characteristics.node_hours)
    return ReportFigures(
        origin=origin,
        dates=dates,
        machine_nodes=characteristics.machine_nodes,
        idle_share=characteristics.idle_share,
        mean_idle_nodes=characteristics.eq_nodes,
        left_out=characteristics.left_out,
        trainings=base.cell.max_parallel,
        nodes_each=nodes_each,
        held_share=used.share,
        work_share=work_share(base),
        spread=used_spread(base),
        preemptions_a_month=preemption_count * MONTH_H / characteristics.span_h,
        plain=plain,
        fillable_share=None if idle_while is None else idle_while.fillable_share,
        pool_share=pool_share,
        by_model=tuple((model, work_share(row)) for model, row in models.items()),
        idle_range=(doubts.least, doubts.most),
        lacks_jobs=doubts.lacks_jobs,
    )


def as_json(figures: ReportFigures) -> dict[str, object]:
    """Return the content of report.json."""
    return {**asdict(figures), "idle_node_h_a_month": figures.idle_node_h_a_month}


def read_figures(path: Path) -> ReportFigures:
    """Read the report.json that an earlier report wrote; raises :class:`InputFileError`."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES)
        return TypeAdapter(ReportFigures).validate_json(text)
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InputFileError(
            str(path),
            f"{where}: {first['msg']}; expected the report.json that an earlier report wrote",
        ) from error
