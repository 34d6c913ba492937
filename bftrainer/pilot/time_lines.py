"""When held fragments (nodes) reached each stage from idle to training and back to their release:
collected here, written with the heartbeat, and passed to the metrics once complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bftrainer.decide.domain.node_stages import TO_RELEASE, TO_TRAINING, NodeStage, stage_seconds
from bftrainer.decide.domain.state import Plan, State
from bftrainer.fragment_names import id_of, job_of
from bftrainer.pilot.persistence.registry import StageReached
from bftrainer.pilot.persistence.time_lines import TimeLine
from bftrainer.slots import slot_of
from bftrainer.times import HostS
from bftrainer.wires.worker_times import TrainingTimes, WorkerTimes

Complete = Callable[[str, dict[NodeStage, float]], None]
"""Called for each fragment that trains now, or that is released: with its name, and the seconds of
each stage up to there.
"""


class TimeLineBook:
    """Collects, for each held fragment (node), the times at which it reaches the stages from idle
    to training and from the notice to its release, by the host's clock.

    The first time at each stage counts. The end of the last worker counts on the way to the release
    only: workers also end where a trainer starts again.
    """

    def __init__(self, open_lines: Iterable[TimeLine], complete: Complete) -> None:
        """Begin with the stages of fragments that are still held (``open_lines``). ``complete`` is
        called with the seconds of each stage once a fragment trains, and once it is released.
        """
        self._instants: dict[str, dict[NodeStage, HostS]] = {
            line.fragment: dict(line.instants) for line in open_lines
        }
        self._names = {id_of(name): name for name in self._instants}
        self._allocated = {
            name for name, instants in self._instants.items() if NodeStage.GIVEN in instants
        }
        self._last_worker_ends: dict[str, tuple[HostS, str]] = {}
        """By fragment, since when no worker runs there, and the trainer of the last one."""
        self._unwritten: list[StageReached] = []
        self._complete = complete

    def begin(self, fragment: str, at_s: HostS) -> None:
        """Begin to collect the stages of a fragment that the pilot decides to hold at ``at_s``."""
        self._instants.setdefault(fragment, {NodeStage.DECIDED: at_s})
        self._names[id_of(fragment)] = fragment

    def add_audited(self, fragment: str, stage: NodeStage, at_s: HostS) -> None:
        """Add the time of a stage for which the table of fragments has a column: it is written
        there, so not here.
        """
        if (instants := self._instants.get(fragment)) is not None:
            instants.setdefault(stage, at_s)

    def add_instant(self, fragment: str, stage: NodeStage, at_s: HostS, trainer: str = "") -> None:
        """Add the time at which a fragment reached a stage that has no column in the table of
        fragments: the caller writes it later (:meth:`take_unwritten`).

        Only the first time at each stage is added. The first training step completes the stages to
        training, which are reported then. ``trainer`` is the one that it concerns.
        """
        instants = self._instants.get(fragment)
        if instants is None or stage in instants:
            return
        instants[stage] = at_s
        self._unwritten.append(StageReached(fragment, stage, at_s, trainer))
        if stage is NodeStage.FIRST_STEP:
            self._complete(fragment, stage_seconds(instants, TO_TRAINING))

    def add_decision(self, state: State, plan: Plan, at_s: HostS) -> None:
        """Add the time ``at_s`` of a decision, as the stage ``GIVEN``, to the fragments that it
        gives to a trainer for the first time.
        """
        for active, nodes in zip(state.active, plan.nodes, strict=True):
            for name in sorted({self._fragment_of(name) for name in nodes} - self._allocated):
                self._allocated.add(name)
                self.add_instant(name, NodeStage.GIVEN, at_s, active.trainer.id)

    def _fragment_of(self, name: str) -> str:
        """Return the fragment of a slot; a fragment is its own."""
        return name if name in self._instants else slot_of(name).fragment

    def add_report(self, trainer: str, previous: TrainingTimes, latest: TrainingTimes) -> None:
        """Add the times in a driver's report ``latest`` that were not in its last report
        ``previous``.

        Only a worker's first step and its end are looked for: the first step brings the times
        before it.
        """
        if latest is previous:
            return
        previous_times = {times.fragment: times for times in previous.fragments}
        for times in latest.fragments:
            before = previous_times.get(times.fragment)
            name = self._names.get(times.fragment) or self._names.get(job_of(times.fragment))
            if times is before or name is None:
                continue
            if times.stepped_s is not None and (before is None or before.stepped_s is None):
                self._add_first_step(name, trainer, times)
            if times.gone_s is not None:
                self._last_worker_ends[name] = HostS(times.gone_s), trainer
            else:
                self._last_worker_ends.pop(name, None)

    def _add_first_step(self, name: str, trainer: str, times: WorkerTimes) -> None:
        """Add the times of a worker that has made its first step: its start, its imports, and the
        change of the group to it. Those of earlier workers do not count.
        """
        columns = (
            (NodeStage.WORKER_STARTED, times.started_s),
            (NodeStage.IMPORTS_DONE, times.warm_s),
            (NodeStage.GROUP_SWITCHED, times.switched_s),
            (NodeStage.FIRST_STEP, times.stepped_s),
        )
        for stage, at_s in columns:
            if at_s is not None:
                self.add_instant(name, stage, HostS(at_s), trainer)

    def end(self, fragment: str, at_s: HostS) -> None:
        """End the record of a fragment whose holder job is over at ``at_s``, and report the seconds
        of the stages of its release.
        """
        if (end := self._last_worker_ends.pop(fragment, None)) is not None:
            end_s, trainer = end
            self.add_instant(fragment, NodeStage.WORKERS_GONE, end_s, trainer)
        instants = self._instants.pop(fragment, None)
        if instants is not None:
            self._allocated.discard(fragment)
            self._names.pop(id_of(fragment), None)
            instants[NodeStage.RELEASED] = at_s
            self._complete(fragment, stage_seconds(instants, TO_RELEASE))

    def take_unwritten(self) -> tuple[StageReached, ...]:
        """Return the instants that are not written yet, each of them once."""
        unwritten, self._unwritten = tuple(self._unwritten), []
        return unwritten
