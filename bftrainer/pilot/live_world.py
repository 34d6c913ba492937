"""LiveWorld: events of a real cluster for the loop, and the loop's decisions carried out.

An event is the difference between the facts (ready fragments, trainers in the registry) and what
the core has been told. The core's last state is in the journal. So a new pilot and one that comes
back do the same: find the facts, tell the difference.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from itertools import islice
from typing import Protocol

from bftrainer.config.in_effect import ConfigCell
from bftrainer.decide.domain.events import (
    Change,
    Event,
    LengthSeen,
    Measured,
    ParallelChanged,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.state import Nodes, Rescale, State
from bftrainer.decide.estimation.update import measurement_texts
from bftrainer.errors import BFTrainerError
from bftrainer.fragment_names import node_of
from bftrainer.pilot.decision_maker import DecisionMaker
from bftrainer.pilot.facts import TickStage
from bftrainer.pilot.heartbeat import Heartbeat
from bftrainer.pilot.memo import Memoized
from bftrainer.pilot.nodes.classifier import NodeClassifier
from bftrainer.pilot.nodes.manager import NodeManager
from bftrainer.pilot.persistence.registry import TrainerRecord
from bftrainer.pilot.persistence.spool import Request, RequestKind, Spool
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.pilot.ticks import TickTimer
from bftrainer.pilot.trainers.for_core import for_core
from bftrainer.pilot.trainers.manager import KilledWorker, TrainerManager
from bftrainer.pilot.trainers.spool_requests import carry_out, submit
from bftrainer.slots import slot_of
from bftrainer.times import ElapsedS, PilotS

REQUESTS_AT_ONCE = 40
REQUESTS_S = 0.05
"""Requests that a tick takes from the spool, and the seconds that it spends on them, at most."""
QUEUE_AHEAD = 100
"""Trainers of the queue that the core is told beyond the ones that it may admit (if all: two for
each node of the pool): its state is written at every decision.
"""


class Control(Protocol):
    """The orders that reach the pilot's process from outside: signals, the end of its job, a
    new configuration.
    """

    def tick(self) -> None:
        """Attend to it; called at the begin of each tick."""

    @property
    def must_end(self) -> bool:
        """Whether the pilot must drain and end."""


class SentToCore:
    """Remembers what was sent to the core, so that only changes are sent: the pool, the trainers
    and whether they are measured, the limit on admitted trainers.
    """

    def __init__(self, last_state: State) -> None:
        """Begin with what the core had in ``last_state``, the state after the last decision."""
        trainers = (*(admitted.trainer for admitted in last_state.active), *last_state.queue)
        self._trainers = {trainer.id: trainer.learning is not None for trainer in trainers}
        self._pool = last_state.pool
        self._max_parallel = last_state.max_parallel
        self._pool_change = Memoized(_pool_change)

    def __contains__(self, trainer: str) -> bool:
        return trainer in self._trainers

    def __len__(self) -> int:
        return len(self._trainers)

    def takes(self, seen: Measured) -> bool:
        """Whether the core learns from a measurement ``seen``: from any of a trainer whose curve it
        learns, and from the reported length of every trainer that it knows.
        """
        if isinstance(seen, LengthSeen):
            return seen.trainer_id in self._trainers
        return self._trainers.get(seen.trainer_id, False)

    def missing_from(self, records: Container[str]) -> list[str]:
        """Return the trainers that the core has and that are not among the ``records``."""
        return [name for name in self._trainers if name not in records]

    def pool_change(self, pool: Nodes) -> tuple[Nodes, Nodes]:
        """Return the fragments that joined the pool and those that left it since the core was
        told.
        """
        return self._pool_change(self._pool, pool)

    def parallel_change(self, max_parallel: int | None) -> tuple[ParallelChanged, ...]:
        return (ParallelChanged(max_parallel),) if max_parallel != self._max_parallel else ()

    def mark_sent(
        self,
        pool: Nodes,
        max_parallel: int | None,
        finished: Iterable[str],
        submitted: Iterable[Trainer],
    ) -> None:
        """Take note that these were sent to the core: the pool, the limit on admitted trainers, the
        names of ``finished`` trainers, and those ``submitted``.
        """
        self._pool, self._max_parallel = pool, max_parallel
        for name in finished:
            del self._trainers[name]
        self._trainers.update({trainer.id: trainer.learning is not None for trainer in submitted})


def _pool_change(before: Nodes, pool: Nodes) -> tuple[Nodes, Nodes]:
    return pool - before, before - pool


KILL_SETTLE_S = 3.0
"""A node that was taken shows it within this time after the end of a worker: by its payload's mark,
or by the end of its job.
"""
WITHHELD_REASON = "a worker there was killed"


@dataclass(eq=False)
class LiveWorld:
    """The ``World`` of the loop over the nodes and the trainers of a cluster."""

    _config: ConfigCell
    _recorder: Recorder
    _spool: Spool
    _nodes: NodeManager
    _trainers: TrainerManager
    _classes: NodeClassifier
    _clock: SteadyClock
    last_state: InitVar[State]
    _control: Control
    _heartbeat: Heartbeat
    _admission: DecisionMaker

    def __post_init__(self, last_state: State) -> None:
        """Begin with what the core had in ``last_state``, and adopt for each trainer the orders
        that the previous pilot gave its driver.
        """
        self._timer = TickTimer(self._clock, self._recorder)
        self._sent = SentToCore(last_state)
        self._next_beat = self._clock.elapsed_s()
        self._drains_since: ElapsedS | None = None
        self._sent_all_joined = True
        self._has_cleared = False
        self._lessons = measurement_texts(last_state)
        self._kills: dict[str, tuple[PilotS, KilledWorker]] = {}
        for active in last_state.active:
            self._trainers.adopt_orders(
                active.trainer.id, active.nodes, last_state.pool, self._clock.now_s()
            )

    def next_event(self, state: State) -> Event | None:
        """Wait until something has happened, and return it as one event for the core. None once the
        pilot was told to end and everything is released.

        ``state`` is the core's state after its last decision.
        """
        self._trainers.mark_admitted(
            (admitted.trainer.id for admitted in state.active), self._clock.now_s()
        )
        self._lessons = measurement_texts(state)
        # With these trainers the policy has raised an error.
        for name in state.blamed:
            self._trainers.quarantine(name, state.kept)
        timer = self._timer
        timer.passed(TickStage.DECISION)  # on the event before; with that its tick is over
        timer.ends()
        while True:
            self._run_round()
            if self._drains_since is not None:
                if self._is_drained():
                    return None
            elif self._nodes.settled:
                # Before, the holders of a previous pilot are not all known: their nodes would seem
                # to have left the pool.
                event = self._unsent_changes(state.wake_at_s)
                timer.passed(TickStage.EVENTS)
                if event is not None:
                    return event
            timer.ends()
            rest_s = self._config.now.times.file_poll_s
            self._clock.sleep(
                rest_s if self._drains_since is not None else min(rest_s, self._nodes.next_look_s)
            )
            timer.begins()

    def apply(self, steps: tuple[Rescale, ...]) -> None:
        """Carry out the rescales of a decision: pass each trainer its nodes, and take the steps
        that can be taken at once.
        """
        now_s = self._clock.now_s()
        for step in steps:
            self._trainers.assign(step.trainer_id, step.after, now_s)
        self._trainers.step(now_s)

    def _run_round(self) -> None:
        """Run one round of the loop: read what holders and drivers say, poll the scheduler if due,
        take and release nodes, and tell drivers their next steps.

        The time of each stage is recorded.
        """
        timer = self._timer
        self._control.tick()
        elapsed_s, now_s = self._clock.elapsed_s(), self._clock.now_s()
        self._write_heartbeat(elapsed_s, now_s)
        if self._control.must_end and self._drains_since is None:
            self._drains_since = elapsed_s
            self._recorder.note(
                "pilot", "", "shutting down: trainers checkpoint, then nodes are released"
            )
            self._trainers.drain()
        timer.passed(TickStage.JOURNAL)
        self._nodes.look()
        timer.passed(TickStage.HOLDERS)
        self._judge_kills(now_s)
        self._note_lost(self._trainers.look(now_s), now_s)
        timer.passed(TickStage.DRIVERS)
        # Before anything that may take long: released nodes do not wait for it.
        self._release_unused(now_s)
        timer.passed(TickStage.RELEASES)
        if self._drains_since is None:
            self._read_spool(now_s)
            timer.passed(TickStage.REQUESTS)
        if self._drains_since is None or not self._nodes.settled:
            self._nodes.poll_if_due()
        timer.passed(TickStage.POLLS)
        # Once, when all holders of a previous pilot are known.
        if self._nodes.settled and not self._has_cleared:
            self._has_cleared = True
            self._nodes.clear(self._trainers.held(now_s))
        if self._drains_since is None and self._nodes.settled:
            max_parallel = self._admission.max_parallel
            # A change of this set, such as a new trainer or a new measurement, means that unused
            # nodes may be used now.
            trainers_and_lessons = self._lessons.union(
                islice(self._trainers.for_core(now_s), max_parallel)
            )
            demand = self._trainers.demand(now_s, max_parallel)
            self._nodes.take_and_give(trainers_and_lessons, demand, self._trainers.used(now_s))
        self._trainers.note_urgent(self._nodes.urgent)
        timer.passed(TickStage.NODES)
        if self._nodes.settled:
            self._trainers.step(now_s, self._pool)
        elif self._drains_since is not None:
            # No trainer is started any more, so the pool does not matter.
            self._trainers.step(now_s)
        timer.passed(TickStage.STEPS)
        self._release_unused(now_s)
        timer.passed(TickStage.RELEASES)

    def _release_unused(self, now_s: PilotS) -> None:
        """End the holders that trainers have left; a pilot that drains requests no node again."""
        self._nodes.release(self._trainers.held(now_s), renews=self._drains_since is None)

    def _note_lost(self, fragment_ids: frozenset[str], now_s: PilotS) -> None:
        """Take fragments (held nodes) out of the pool on which drivers will run no workers again,
        because workers there were killed.

        This is done at once or, where SIGKILL ended a worker (and the trainer is no pool of tasks),
        once it is known whether its node was lost (:meth:`_judge_kills`).
        """
        for fragment_id in sorted(fragment_ids):
            if (name := self._nodes.name_of(fragment_id)) is None:
                continue
            kill = self._trainers.killed_workers.get(fragment_id)
            if kill is None:
                self._nodes.give_back([name], WITHHELD_REASON)
            else:
                self._kills[name] = now_s, kill

    def _judge_kills(self, now_s: PilotS) -> None:
        """Decide what to do about fragments (held nodes) on which workers were killed.

        If the node is still held after ``KILL_SETTLE_S``, the kill was not a preemption: it counts
        against the trainer, and the node is released. If the node was lost, the kill is forgotten.
        """
        if not self._kills:
            return
        ready = self._nodes.ready
        for name, (since_s, kill) in list(self._kills.items()):
            if name in ready and now_s - since_s < KILL_SETTLE_S:
                continue
            del self._kills[name]
            if name in ready:
                self._trainers.count_kill(kill, node_of(name))
                self._nodes.give_back([name], WITHHELD_REASON)

    @property
    def _pool(self) -> Nodes:
        """The pool without the fragments whose workers were just killed."""
        pool = self._nodes.pool
        if not self._kills:
            return pool
        return Nodes(name for name in pool if slot_of(name).fragment not in self._kills)

    def _write_heartbeat(self, elapsed: ElapsedS, now_s: PilotS) -> None:
        """Count node-seconds, write the heartbeat to the journal, and renew the holders' leases:
        they are renewed only while the journal can be written.
        """
        self._trainers.account(now_s)
        if elapsed >= self._next_beat:
            self._next_beat = ElapsedS(elapsed + self._heartbeat.interval_s)
            self._trainers.write_usage()
            self._heartbeat.mark_written()
        self._heartbeat.renew_if_due()

    def _unsent_changes(self, wake_at_s: float | None) -> Event | None:
        """Return all changes that the core was not told yet, as one event; None if there are none.

        ``wake_at_s`` is when the policy asked to decide again (None: not at all).
        """
        now_s, sent, pool = self._clock.now_s(), self._sent, self._pool
        max_parallel = self._admission.max_parallel
        changes: list[Change] = [*sent.parallel_change(max_parallel)]
        joined, left = sent.pool_change(pool)
        if joined or left:
            changes.append(PoolChanged(joined, left, self._classes.by_class(joined)))
        records = self._trainers.for_core(now_s)
        finished = sent.missing_from(records)
        changes += [TrainerFinished(name) for name in finished]
        admitted_limit = 2 * len(pool) if max_parallel is None else max_parallel
        room = max(admitted_limit + QUEUE_AHEAD - len(sent) + len(finished), 0)
        submitted = self._new_trainers(records, room)
        changes += [TrainerSubmitted(trainer) for trainer in submitted]
        all_joined = self._nodes.all_joined
        # A wait for other nodes (policies/gather.py) ends as soon as none is about to join.
        timer_early_s = 0.0
        if all_joined and not self._sent_all_joined:
            timer_early_s = self._config.now.decisions.gather_s
        if wake_at_s is not None and wake_at_s <= now_s + timer_early_s:
            changes.append(TimerDue())
        if not changes:
            return None
        sent.mark_sent(pool, max_parallel, finished, submitted)
        # A trainer that the core no longer has gets no decision that would take its nodes away.
        for name in finished:
            self._trainers.assign(name, frozenset(), now_s)
        # The core knows only trainers that were sent to it.
        samples = tuple(pair for pair in self._trainers.samples_done() if pair[0] in sent)
        losses = tuple(pair for pair in self._trainers.losses() if pair[0] in sent)
        measured = self._trainers.measured(sent.takes)
        self._sent_all_joined = all_joined
        return Event(
            now_s, tuple(changes), samples, losses, self._nodes.window_ends, measured, all_joined
        )

    def _new_trainers(self, records: Mapping[str, TrainerRecord], limit: int) -> list[Trainer]:
        """Return the first ``limit`` trainers that were not sent to the core yet."""
        new = (record for name, record in records.items() if name not in self._sent)
        return [for_core(record, self._config.now.learning) for record in islice(new, limit)]

    def _read_spool(self, now_s: PilotS) -> None:
        """Carry out requests of users from the spool (a directory of request files), in order. Each
        is in the registry before its file is removed, so that none is lost.

        However many there are, a round takes a few of them: no release waits for a bulk of
        submissions.
        """
        began_s = self._clock.elapsed_s()
        submissions: list[tuple[str, Request]] = []
        for received in self._spool.take(REQUESTS_AT_ONCE):
            if received.request is None:
                self._recorder.note(
                    "spool", received.name[:80], f"request rejected: {received.rejection}"
                )
                self._spool.put_aside(received.name)
            elif received.request.kind is RequestKind.SUBMIT:
                submissions.append((received.name, received.request))
            else:
                self._register_submissions(submissions, now_s)
                submissions = []
                self._carry_out(received.name, received.request)
            if self._clock.elapsed_s() - began_s >= REQUESTS_S:
                break
        self._register_submissions(submissions, now_s)

    def _register_submissions(
        self, submissions: Sequence[tuple[str, Request]], now_s: PilotS
    ) -> None:
        """Register submissions in one commit, note those that are rejected, and remove their
        files.
        """
        for name, why in submit(
            submissions, self._recorder, self._trainers, now_s, self._admission.refusal
        ):
            self._recorder.note("spool", name, why)
        self._spool.remove(*(spool_name for spool_name, _ in submissions))

    def _carry_out(self, spool_name: str, request: Request) -> None:
        """Carry out a request that is no submission (cancel, pause, resume), and remove its file.
        One that cannot be carried out is noted.
        """
        try:
            carry_out(spool_name, request, self._recorder, self._trainers)
        except BFTrainerError as error:
            # 2 is a mistake in the request; anything else, such as a full disk, concerns the pilot.
            if error.exit_status != 2:
                raise
            self._recorder.note("spool", request.trainer, str(error))
        self._spool.remove(spool_name)

    def _is_drained(self) -> bool:
        """Whether the pilot can end: all trainers have stopped and all holder jobs have ended, or
        ``times.shutdown_s`` is over.
        """
        assert self._drains_since is not None
        passed_s = self._clock.elapsed_s() - self._drains_since
        shutdown_s = self._config.now.times.shutdown_s
        if self._trainers.any_driver_alive():
            if passed_s > 0.8 * shutdown_s:
                self._trainers.kill_all()
            return passed_s > shutdown_s
        # Wait until the predecessor's holders are listed: they have to be released as well.
        if not self._nodes.settled and passed_s <= shutdown_s:
            return False
        self._nodes.give_back(self._nodes.ready, "the pilot ends")
        self._nodes.release(frozenset(), at_once=True, renews=False)
        if not self._nodes.empty and passed_s <= shutdown_s:
            return False
        self._trainers.write_usage()
        return True
