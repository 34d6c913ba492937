"""The recorder: the only writer of a running pilot's database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.decide.domain.problem import Answer
from bftrainer.decide.domain.state import Plan, State
from bftrainer.fragment_names import node_of
from bftrainer.pilot.facts import (
    DecisionMade,
    FragmentChanged,
    FragmentEvent,
    FragmentTimed,
    MainJobDelayed,
    NoteAdded,
    PilotFact,
    Subscriber,
    TickStage,
    TickTook,
    TrainerChanged,
    UsageAdded,
)
from bftrainer.pilot.persistence.journal import JournalWriter, Settings
from bftrainer.pilot.persistence.registry import (
    Registry,
    Rung,
    Submission,
    TrainerRecord,
    TrainerStatus,
    Usage,
)
from bftrainer.pilot.persistence.registry_writer import RegistryWriter, TrainerChange
from bftrainer.pilot.persistence.store import Store
from bftrainer.pilot.persistence.time_lines import time_lines
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.pilot.time_lines import TimeLineBook
from bftrainer.times import HostS, PilotS
from bftrainer.wires.worker_times import TrainingTimes


class Recorder:
    """Writes what has happened, then tells the ``subscribers``.

    Callers give times of the pilot's clock, which is never set. Here, and only here, they become
    times of the host's clock, which users and other hosts read. What carries no time has happened
    now.
    """

    def __init__(
        self, store: Store, clock: SteadyClock, subscribers: Iterable[Subscriber] = ()
    ) -> None:
        """Write to ``store``, and convert times by ``clock``. The instants of nodes that are still
        held are read back from the store.
        """
        self.registry = Registry(store)
        self._writer = RegistryWriter(store)
        self._journal = JournalWriter(store)
        self._clock = clock
        self._subscribers = tuple(subscribers)
        self._lines = TimeLineBook(time_lines(self.registry, open_only=True), self._tell_times)

    def settings(self, settings: Settings) -> None:
        """Write the settings with which decisions are made from now on."""
        self._journal.begin(settings, self._clock.host_s())

    def decision(
        self, event: Event, state: State, plan: Plan, answers: tuple[Answer, ...], took_s: float
    ) -> int:
        """Write the ``plan`` for an ``event`` to the journal. Returns its number there.

        It was decided on ``state`` in ``took_s`` seconds, by these ``answers`` of solvers.
        """
        number = self._journal.record(event, state, plan, answers, took_s)
        at_s = self._clock.to_host(PilotS(event.at_s))
        self._lines.add_decision(state, plan, HostS(at_s + took_s))
        self._pass_on(DecisionMade(at_s, event, state, plan, took_s))
        return number

    def note(self, kind: str, subject: str, text: str) -> None:
        """Write a line of the event log. ``subject`` is what it is about."""
        at_s = self._clock.host_s()
        self._writer.note(at_s, kind, subject, text)
        self._pass_on(NoteAdded(at_s, kind, subject, text))

    def main_job_delayed(self, job: str, delay_s: float) -> None:
        """Tell the subscribers how long a main job has waited for held nodes, at most. It is not
        written.
        """
        self._pass_on(MainJobDelayed(self._clock.host_s(), job, delay_s))

    def tick(self, stages: tuple[tuple[TickStage, float], ...]) -> TickTook:
        """Tell the subscribers how long a tick of the loop took. It is not written."""
        took = TickTook(self._clock.host_s(), stages)
        self._pass_on(took)
        return took

    def submissions(self, submissions: Sequence[Submission]) -> tuple[bool, ...]:
        """Register submitted trainers in one commit. Returns for each whether it is registered now:
        its name was free, or it had been registered before.
        """
        at_s = self._clock.host_s()
        added = self._writer.add_all(submissions, at_s)
        for submission, is_added in zip(submissions, added, strict=True):
            if is_added:
                status: TrainerStatus = self.registry.trainer(submission.spec.name).status
                self._pass_on(
                    TrainerChanged(at_s, submission.spec.name, TrainerChange(status=status))
                )
        return added

    def command(self, spool_name: str) -> None:
        """Write that a command was carried out, so that it is not carried out twice."""
        self._writer.add_command(spool_name, self._clock.host_s())

    def trainer(self, record: TrainerRecord, change: TrainerChange) -> TrainerRecord:
        """Write a change of a trainer. Returns its record after that."""
        at_s = self._clock.host_s()
        after = self._writer.change(record, change, at_s)
        self._pass_on(TrainerChanged(at_s, record.name, change))
        return after

    def rung(self, rung: Rung) -> None:
        """Write the value that a trainer had reported at a rung (a number of samples) of a rule."""
        self._writer.rung(rung)

    def usage(self, usage: tuple[Usage, ...]) -> None:
        """Write what trainers have used since the last call, with the heartbeat and the stages that
        held nodes have reached meanwhile.
        """
        at_s = self._clock.host_s()
        self._writer.add_usage(usage, at_s)
        for entry in usage:
            self._pass_on(UsageAdded(at_s, entry))
        self._writer.add_stages(self._lines.take_unwritten())

    def write_fragment_event(
        self, name: str, event: FragmentEvent, at_s: PilotS, reason: str = ""
    ) -> None:
        """Write a step in the life of a fragment (a held node) to the table of fragments: it was
        requested, taken, asked back (preempted or given up) or released.

        The stages between an idle node and training, which are timed as well, have these steps
        under other names: ``ASKED`` is the stage ``DECIDED``, ``TAKEN`` is ``OFFERED``,
        ``ASKED_BACK`` is ``NOTICE``, and ``RELEASED`` is ``RELEASED``.
        """
        host_s = self._clock.to_host(at_s)
        match event:
            case FragmentEvent.ASKED:
                self._writer.fragment_asked(name, node_of(name), host_s)
                self._lines.begin(name, host_s)
            case FragmentEvent.TAKEN:
                self._writer.fragment_taken(name, host_s)
                self._lines.add_audited(name, NodeStage.OFFERED, host_s)
            case FragmentEvent.ASKED_BACK:
                self._writer.fragment_asked_back(name, host_s, reason)
                self._lines.add_audited(name, NodeStage.NOTICE, host_s)
            case FragmentEvent.RELEASED:
                self._writer.fragment_released(name, host_s, reason)
        self._pass_on(FragmentChanged(host_s, name, event, reason))
        # Last, because it tells the seconds of all stages (FragmentTimed): subscribers hear of the
        # release first.
        if event is FragmentEvent.RELEASED:
            self._lines.end(name, host_s)

    def fragment_reached(self, name: str, instants: Iterable[tuple[NodeStage, HostS]]) -> None:
        """Keep the times at which a fragment (a held node) reached stages that its holder job
        knows, such as the start of its payload.

        They are written with the next heartbeat: no commit more for each node.
        """
        for stage, at_s in instants:
            self._lines.add_instant(name, stage, at_s)

    def fragment_seen(self, name: str, instants: Mapping[NodeStage, PilotS]) -> None:
        """Keep the times at which a node reached stages before it was requested: when it became
        idle, and when the pilot saw that.
        """
        self.fragment_reached(
            name, [(stage, self._clock.to_host(at_s)) for stage, at_s in instants.items()]
        )

    def driver_reported(self, trainer: str, previous: TrainingTimes, latest: TrainingTimes) -> None:
        """Keep the times at which the nodes of a driver came to train: those in its ``latest``
        report that were not in the one before (``previous``).
        """
        self._lines.add_report(trainer, previous, latest)

    def _tell_times(self, fragment: str, seconds: dict[NodeStage, float]) -> None:
        self._pass_on(FragmentTimed(self._clock.host_s(), fragment, tuple(seconds.items())))

    def _pass_on(self, fact: PilotFact) -> None:
        for subscriber in self._subscribers:
            subscriber(fact)
