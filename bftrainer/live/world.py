"""LiveWorld: what happens on a real cluster, as events for the loop; and the loop's answers, carried out.

An event is the difference between the facts (ready fragments, trainers in the registry) and what the core has been told. The
core's last state is in the journal; so a pilot that starts and one that comes back do the same: find the facts, tell the
difference.
"""

from __future__ import annotations

from collections.abc import Callable

from bftrainer.domain.events import (
    Change,
    Event,
    ParallelChanged,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.domain.model import Trainer
from bftrainer.domain.ports import Clock
from bftrainer.domain.state import Rescale, State
from bftrainer.errors import BFTrainerError
from bftrainer.live.nodes.classifier import PoolDemand
from bftrainer.live.nodes.manager import NodeManager
from bftrainer.live.trainers.for_core import for_core
from bftrainer.live.trainers.manager import TrainerManager
from bftrainer.live.trainers.requests import carry_out
from bftrainer.persistence.registry import Registry
from bftrainer.persistence.spool import Spool

BEAT_S = 5.0


class LiveWorld:
    """World over two desks: nodes and trainers. ``wants_to_end`` says whether the pilot has been told to end."""

    def __init__(
        self,
        registry: Registry,
        spool: Spool,
        nodes: NodeManager,
        trainers: TrainerManager,
        clock: Clock,
        told: State,
        wants_to_end: Callable[[], bool],
        at_tick: Callable[[], None] = lambda: None,
        refusal: Callable[[Trainer], str | None] = lambda _: None,
    ) -> None:
        self._registry = registry
        self._spool = spool
        self._nodes = nodes
        self._trainers = trainers
        self._clock = clock
        self._wants_to_end = wants_to_end
        self._at_tick = at_tick
        self._refusal = refusal  # why the policy cannot serve a trainer
        self._told_pool = told.pool
        self._told_trainers = {t.id: t.learning is not None for t in (*(a.trainer for a in told.active), *told.queue)}
        self.max_parallel = self._told_parallel = told.max_parallel  # the first may be set at any time
        self._next_beat = clock.elapsed_s()
        self._next_renewal = clock.elapsed_s()
        self._drains_since: float | None = None
        nodes.kinds.remember(told)
        trainers.kind_of, trainers.class_named = nodes.kinds.of, nodes.class_named
        for active in told.active:
            trainers.adopt_orders(active.trainer.id, active.nodes, told.pool, clock.now_s())
        self._has_cleared = False

    def next_event(self, wake_at_s: float | None) -> Event | None:
        """Wait until something has happened; None when the pilot has been told to end and everything is let go."""
        while True:
            self._tick()
            if self._drains_since is not None:
                if self._is_drained():
                    return None
            elif self._nodes.settled and (event := self._difference(wake_at_s)) is not None:
                return event
            self._clock.sleep(self._nodes.config.times.file_poll_s)

    def apply(self, steps: tuple[Rescale, ...]) -> None:
        """The core's words to the trainers; what can be done at once is."""
        now_s = self._clock.now_s()
        for step in steps:
            self._trainers.desire(step.trainer_id, step.after, now_s)
        self._trainers.step(now_s)

    def decided(self, state: State) -> None:
        """A decision is in the journal: note who has been admitted."""
        self._trainers.admitted((a.trainer.id for a in state.active), self._clock.now_s())

    def _tick(self) -> None:
        """Look at everything that is due, and take the next steps."""
        self._at_tick()
        elapsed, now_s = self._clock.elapsed_s(), self._clock.now_s()
        self._trainers.account(now_s)
        if elapsed >= self._next_beat:
            self._next_beat = elapsed + BEAT_S
            self._trainers.write_usage(now_s)
        # Holders live on the lease only while the journal can be written: the heartbeat above comes first.
        if elapsed >= self._next_renewal:
            self._next_renewal = elapsed + min(BEAT_S, self._nodes.config.times.lease_s / 6)
            self._nodes.renew()
        if self._wants_to_end() and self._drains_since is None:
            self._drains_since = elapsed
            self._registry.note(now_s, "pilot", "", "ends: trainers checkpoint, then nodes are released")
            self._trainers.drain()
        self._nodes.look()
        self._trainers.meters.window_s = self._nodes.config.learning.window_s
        lost = self._trainers.look(now_s)
        self._nodes.give_back(
            [name for i in sorted(lost) if (name := self._nodes.name_of(i))], "a worker there was killed"
        )
        if self._drains_since is None:
            self._read_spool(now_s)
            self._nodes.observe_if_due()
        if self._nodes.settled and not self._has_cleared:
            self._has_cleared = True
            self._nodes.clear(self._trainers.held(now_s))
        if self._drains_since is None and self._nodes.settled:
            core = frozenset(self._trainers.for_core(now_s))
            demand = PoolDemand(self._trainers.wants(now_s, self.max_parallel))
            self._nodes.take_and_give(core, demand, self._trainers.used(now_s))
        if self._nodes.settled:
            self._trainers.step(now_s, self._nodes.pool)
        elif self._drains_since is not None:  # nobody is started any more, so it does not matter where
            self._trainers.step(now_s)
        self._nodes.release(self._trainers.held(now_s))

    def _difference(self, wake_at_s: float | None) -> Event | None:
        """What the core has not been told yet, as one event."""
        now_s = self._clock.now_s()
        changes: list[Change] = []
        if self.max_parallel != self._told_parallel:
            changes.append(ParallelChanged(self.max_parallel))
        pool = self._nodes.pool
        if pool is not self._told_pool and pool != self._told_pool:
            joined, left = pool - self._told_pool, self._told_pool - pool
            changes.append(PoolChanged(joined, left, self._nodes.kinds.by_class(joined)))
        known = self._trainers.for_core(now_s)
        gone = [name for name in self._told_trainers if name not in known]
        changes += [TrainerFinished(name) for name in gone]
        new = [record for name, record in known.items() if name not in self._told_trainers]
        submitted = [for_core(record, self._nodes.config.learning) for record in new]
        changes += [TrainerSubmitted(trainer) for trainer in submitted]
        if wake_at_s is not None and wake_at_s <= now_s:
            changes.append(TimerDue())
        if not changes:
            return None
        self._told_pool, self._told_parallel = pool, self.max_parallel
        for name in gone:
            del self._told_trainers[name]
            self._trainers.desire(name, frozenset(), now_s)
        self._told_trainers.update({trainer.id: trainer.learning is not None for trainer in submitted})
        still = [pair for pair in self._trainers.samples_done() if pair[0] in self._told_trainers]
        losses = [pair for pair in self._trainers.losses() if pair[0] in self._told_trainers]
        measured = self._trainers.measured(lambda name: self._told_trainers.get(name, False))
        return Event(now_s, tuple(changes), tuple(still), tuple(losses), self._nodes.window_ends, measured)

    def _read_spool(self, now_s: float) -> None:
        """Registry first, then the file goes: a submission is always in one of the two."""
        for received in self._spool.pending():
            if received.request is None:
                self._registry.note(now_s, "spool", received.name[:80], f"put aside: {received.refused}")
                self._spool.put_aside(received.name)
                continue
            try:
                carry_out(received.name, received.request, self._registry, self._trainers, now_s, self._refusal)
            except BFTrainerError as error:
                if error.exit_status != 2:
                    raise
                self._registry.note(now_s, "spool", received.request.trainer, str(error))
            self._spool.take_away(received.name)

    def _is_drained(self) -> bool:
        """Trainers have let go (or time is up), and no holder is left (or time is up)."""
        assert self._drains_since is not None
        passed_s = self._clock.elapsed_s() - self._drains_since
        shutdown_s = self._nodes.config.times.shutdown_s
        if self._trainers.anybody_alive():
            if passed_s > 0.8 * shutdown_s:
                self._trainers.kill_all()
            return passed_s > shutdown_s
        self._nodes.give_back(self._nodes.ready, "the pilot ends")
        self._nodes.release(frozenset(), at_once=True)
        if not self._nodes.empty and passed_s <= shutdown_s:
            return False
        self._trainers.write_usage(self._clock.now_s())
        return True
