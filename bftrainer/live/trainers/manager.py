"""The pilot's trainers: between the registry (what was submitted), the core (its allocation) and drivers (what happens).

The registry holds the target of every trainer, and each step leads its driver there. So a new pilot and one that comes back do
the same: read the registry, look at the drivers, take the next step.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from bftrainer.domain.events import Measured
from bftrainer.domain.fragments import id_of, node_of
from bftrainer.domain.state import Nodes
from bftrainer.domain.times import PilotS
from bftrainer.errors import UserError
from bftrainer.live.derived import Derived, Table
from bftrainer.live.recorder import Recorder
from bftrainer.live.reload import ConfigCell
from bftrainer.live.steady_clock import SteadyClock
from bftrainer.live.trainers.failures import LONGEST_RETRY_S, after_failure
from bftrainer.live.trainers.for_core import due, least_rescale_s, wanted_nodes
from bftrainer.live.trainers.meter import MeterBook
from bftrainer.live.trainers.occupancy import Occupancy
from bftrainer.live.trainers.ports import ClassLookup, Launcher
from bftrainer.live.trainers.remarks import closing_remark, disagreement_text, refused_text, remark, repeat_text
from bftrainer.live.trainers.steps import (
    AskToStop,
    ChangeHosts,
    Kill,
    StartDriver,
    Step,
    TargetState,
    TrainerState,
    carried_out,
    holds,
    next_step,
    runs_as_desired,
)
from bftrainer.live.trainers.usage import Reached, UsageBook
from bftrainer.persistence.registry import TrainerRecord, TrainerStatus
from bftrainer.persistence.registry_writer import TrainerChange
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.reports import DriverView, Ending
from bftrainer.protocol.worker_times import TrainingTimes

NO_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
_STARTED = (TrainerStatus.WAITING, TrainerStatus.RUNNING)


class TrainerManager:
    """All trainers that are not final, and final ones whose driver still runs."""

    def __init__(
        self,
        config: ConfigCell,
        recorder: Recorder,
        launcher: Launcher,
        classes: ClassLookup,
        clock: SteadyClock,
    ) -> None:
        self._config = config
        self._recorder = recorder
        self._launcher = launcher
        self._classes = classes
        self._clock = clock
        self._to_host = clock.to_host
        self._records: Table[TrainerRecord] = Table()
        self._for_core, self._wants = Derived(due), Derived(wanted_nodes)
        self._least_rescale_s = Derived(least_rescale_s)
        self._states: dict[str, TrainerState] = {}
        self._occupancy = Occupancy(self._states)
        self._usage = UsageBook(clock.now_s())
        self._meters = MeterBook()
        self._faults: dict[str, str] = {}  # why the drivers of trainers were killed by this pilot
        self._draining = False
        self._next_number = 0
        self.reload_registry(clock.now_s())

    def reload_registry(self, now_s: PilotS) -> None:
        """Add the trainers that are new in the registry, and adopt drivers that run."""
        for record in self._recorder.registry.trainers_from(self._next_number):
            self._next_number = record.number + 1
            if record.name in self._records or (record.status.is_final and record.finished_s is not None):
                continue
            # Another pilot wrote it, and the clock may have been set back since.
            retry_s = min(record.not_before_s - self._to_host(now_s), LONGEST_RETRY_S)
            state = TrainerState(record.spec.min_nodes, record.spec.stop_s, not_before_s=PilotS(now_s + retry_s))
            state.view = self._launcher.look(record.name)
            self._recorder.driver_reported(record.name, TrainingTimes(), state.view.times)
            state.desired_s = state.ordered_s = now_s
            state.told_s = self._to_host(now_s)
            self._records[record.name], self._states[record.name] = record, state
            self._set_target(record.name)
            self._note_refused(record.name, 0, now_s)

    def record(self, name: str) -> TrainerRecord | None:
        """One trainer, if it is here."""
        return self._records.get(name)

    def for_core(self, now_s: PilotS) -> Mapping[str, TrainerRecord]:
        """Trainers for the core, in order of submission: neither final nor paused nor waiting for a retry."""
        retry_later = frozenset([name for name, it in self._states.items() if it.not_before_s > now_s])
        return self._for_core(self._records.values(), retry_later)

    def wants(self, now_s: PilotS, most: int) -> tuple[tuple[int, str | None], ...]:
        """(``max_nodes``, its class; None: any) of the first ``most`` trainers for the core."""
        return self._wants(self.for_core(now_s), most, tuple(self._states), self._occupancy.classes())

    def least_rescale_s(self, now_s: PilotS) -> float:
        """What the quickest trainer for the core needs to grow, as submitted."""
        return self._least_rescale_s(self.for_core(now_s))

    def samples_done(self) -> tuple[tuple[str, float], ...]:
        """(name, samples) of trainers that have made progress."""
        return tuple((name, done) for name in self._records if (done := self._samples(name)) > 0)

    def losses(self) -> tuple[tuple[str, float], ...]:
        """(name, loss) of trainers that report it."""
        return tuple((name, it.view.loss) for name, it in self._states.items() if it.view.loss is not None)

    def measured(self, of: Callable[[str], bool]) -> tuple[Measured, ...]:
        """What was measured since the last call of the trainers that ``of`` selects."""
        return self._meters.taken(of)

    def desire(self, name: str, nodes: Nodes, now_s: PilotS) -> None:
        """Take over the core's allocation for one trainer."""
        if (it := self._states.get(name)) is not None:
            it.assign(nodes, self._class_of(nodes), now_s)

    def adopt_orders(self, name: str, nodes: Nodes, pool: Nodes, now_s: PilotS) -> None:
        """Take over what the previous pilot told, or should have told, a driver that runs."""
        if (it := self._states.get(name)) is not None:
            it.desired, it.desired_class, it.desired_s = nodes, self._class_of(nodes), now_s
            if it.view.alive:
                # Its hosts file may be older than the plan: with no order remembered the next step writes the file again,
                # and nodes that the driver still uses are not free before it says so.
                it.ordered, it.started_class = frozenset(), it.desired_class
                it.ordered_s, it.told_s = now_s, self._to_host(now_s)
                it.leaving = nodes | {name for name in pool if id_of(name) in it.view.occupied}

    def admitted(self, names: Iterable[str], now_s: PilotS) -> None:
        """The core has admitted these trainers. One that waits for a retry is queued until then."""
        for name in names:
            record = self._records.get(name)
            if record is None or record.status is not TrainerStatus.QUEUED:
                continue
            if self._states[name].not_before_s <= now_s:
                self.change(name, TrainerChange(status=TrainerStatus.WAITING))

    def quarantine(self, name: str, why: str) -> None:
        """Pause a trainer with which no decision can be made, until its user resumes it."""
        record = self._records.get(name)
        if record is not None and not record.status.is_final and record.status is not TrainerStatus.PAUSED:
            self._recorder.note("quarantine", name, f"paused, since no decision can be made with it: {why}")
            reason = f"quarantined, since no decision can be made with it: {why}"
            self.change(name, TrainerChange(status=TrainerStatus.PAUSED, reason=reason))

    def change(self, name: str, change: TrainerChange) -> None:
        """Change the registry, and what is known of it here."""
        self._records[name] = self._recorder.trainer(self._records[name], change)
        if change.retry_s is not None:
            self._states[name].not_before_s = PilotS(self._clock.now_s() + change.retry_s)
        self._set_target(name)

    def look(self, now_s: PilotS) -> frozenset[str]:
        """Read what all drivers say. Returns the ids of fragments that drivers withhold, since workers there were killed."""
        lost: set[str] = set()
        for name, it in list(self._states.items()):
            if self._records[name].status is TrainerStatus.QUEUED and not it.view.alive:
                continue  # no driver before this pilot starts one, and there may be thousands in the queue
            was, it.view = it.view, self._launcher.look(name)
            if it.view is not was and it.view != was:
                if it.view.ranks_disagree and not was.ranks_disagree:
                    self._recorder.note("report", name, disagreement_text(it.view.ranks_disagree))
                self._hear(name, now_s, len(was.refused))
                self._note_repeated(name, was)
                self._recorder.driver_reported(name, was.times, it.view.times)
                if fresh := it.view.withheld - was.withheld:
                    lost |= fresh & {id_of(fragment) for fragment in it.ordered | it.leaving | it.desired}
            record = self._records[name]
            if it.view.alive:
                if it.view.on and record.status is TrainerStatus.WAITING:
                    self.change(name, TrainerChange(status=TrainerStatus.RUNNING, reason=""))
                elif record.status in _STARTED:
                    self._remark(record, it.view, now_s)
            elif it.view.ending is not None and (was.alive or it.view.incarnation > record.ended_incarnation):
                self._ended(name, now_s, found_dead=not was.alive)
            elif record.status.is_final:
                self._close(name, now_s)
            elif record.status is TrainerStatus.RUNNING:
                self.change(name, TrainerChange(status=TrainerStatus.WAITING, reason=""))
        return frozenset(lost)

    def _remark(self, record: TrainerRecord, view: DriverView, now_s: PilotS) -> None:
        text = remark(view, self._to_host(now_s))
        if text != record.reason and (text or record.status is TrainerStatus.RUNNING):  # else why it waits stays
            self.change(record.name, TrainerChange(reason=text))

    def _hear(self, name: str, now_s: PilotS, refused_before: int) -> None:
        """Measure what a trainer has reported, and note what of it cannot be used."""
        try:
            it = self._states[name]
            is_there = it.view.on == {id_of(fragment) for fragment in it.desired}
            decided_s = self._to_host(it.desired_s) if is_there else None
            if text := self._meters.hear(
                name, it.view, self._config.now.learning.window_s, self._to_host(now_s), decided_s
            ):
                self._recorder.note("clock", name, text)
        except Exception as error:  # whatever one trainer reports, it concerns this trainer only
            self._give_up(name, f"its reports cannot be measured: {type(error).__name__}: {error}")
        self._note_refused(name, refused_before, now_s)

    def _note_refused(self, name: str, before: int, now_s: PilotS) -> None:
        for key, problem in self._states[name].view.refused[before:]:
            self._recorder.note("report", name, refused_text(key, problem))

    def _note_repeated(self, name: str, was: DriverView) -> None:
        it = self._states[name]
        if (samples := it.view.repeated - was.repeated) > 0:
            self._usage.repeated(name, samples)
            self._recorder.note("repeat", name, repeat_text(samples, len(it.lost), it.view.samples or 0.0))
        if it.view.trains and not was.trains:
            it.lost = frozenset()

    def _give_up(self, name: str, reason: str) -> None:
        """End the driver of a trainer that cannot go on; once it has ended, this counts as a failure of the trainer."""
        self._faults[name] = reason
        self._launcher.kill(name)

    def step(self, now_s: PilotS, pool: Nodes | None = None) -> None:
        """Take the next step of every trainer, those that shrink first, on nodes of the pool only."""
        if pool is not None:
            self._occupancy.keep_within(pool)
        disjoint = self._occupancy.held(now_s).disjoint
        todo = [
            name
            for name, it in self._states.items()
            if (it.view.alive or it.desired) and not (disjoint and runs_as_desired(it))
        ]
        if not todo:
            return
        holding = dict(zip(self._states, self._occupancy.holdings(now_s), strict=True))
        growing = {name: len(self._states[name].desired) > len(self._states[name].ordered) for name in todo}
        for name in sorted(todo, key=growing.__getitem__):
            it = self._states[name]
            others = (nodes for n, nodes in holding.items() if n != name and not it.desired.isdisjoint(nodes))
            step = next_step(it, frozenset().union(*others), now_s)
            if step is not None and self._carry_out(name, step, now_s):
                carried_out(it, step, now_s, self._to_host(now_s))
                holding[name] = holds(it, now_s)

    def _carry_out(self, name: str, step: Step, now_s: PilotS) -> bool:
        """Whether it could be done."""
        it = self._states[name]
        match step:
            case StartDriver(nodes):
                it.started_class = it.desired_class
                try:
                    self._launcher.start(self._records[name].spec, self._hosts(name, nodes), self._interface(nodes))
                except (OSError, UserError) as error:
                    if isinstance(error, OSError) and error.errno in NO_DISK:
                        raise  # not a failure of the trainer
                    self._failed(name, now_s, f"the driver cannot be started: {error}", (), TrainerChange())
                    return False
                it.view = replace(it.view, alive=True, ending=None, on=frozenset(), with_workers=frozenset())
            case Kill():
                self._launcher.kill(name)
            case ChangeHosts() | AskToStop():
                try:
                    self._tell(name, step)
                except OSError as error:
                    if error.errno in NO_DISK:
                        raise
                    self._give_up(name, f"its driver cannot be told its nodes: {error}")
                    return False
        return True

    def _tell(self, name: str, step: ChangeHosts | AskToStop) -> None:
        match step:
            case ChangeHosts(nodes):
                self._launcher.order(name, self._hosts(name, nodes))
            case AskToStop():
                self._launcher.ask_to_stop(name)

    def held(self, now_s: PilotS) -> Nodes:
        """Fragments on which trainers have processes."""
        return self._occupancy.held(now_s).nodes

    def desired(self) -> Nodes:
        """Fragments that the core gave to trainers."""
        return self._occupancy.desired()

    def used(self, now_s: PilotS) -> Nodes:
        """Fragments that were given to trainers, or that trainers occupy."""
        return self._occupancy.used(now_s)

    def anybody_alive(self) -> bool:
        """Whether any driver runs."""
        return any(it.view.alive for it in self._states.values())

    def drain(self) -> None:
        """Let all trainers checkpoint and stop; the registry stays as it is."""
        self._draining = True
        for name in self._states:
            self._set_target(name)

    def kill_all(self) -> None:
        """Kill every driver that still runs."""
        for name, it in self._states.items():
            if it.view.alive:
                self._launcher.kill(name)

    def account(self, now_s: PilotS) -> None:
        """Count the node-seconds since the last call."""
        self._usage.account(self._states, now_s)

    def write_usage(self) -> None:
        """Write the counted node-seconds to the registry, with the heartbeat."""
        self._recorder.usage(self._usage.taken({name: self._reached(name) for name in self._states}))

    def _reached(self, name: str) -> Reached:
        return Reached(self._samples(name), self._states[name].view.metrics)

    def _samples(self, name: str) -> float:
        samples = self._states[name].view.samples
        return self._records[name].samples_done if samples is None else samples

    def _hosts(self, name: str, nodes: Nodes) -> list[HostSlots]:
        configured = self._classes.configured(self._class_of(nodes))
        slots = self._records[name].spec.slots or (configured and configured.slots) or self._config.now.nodes.slots
        return [HostSlots(node_of(f), slots, id_of(f)) for f in sorted(nodes)]

    def _interface(self, nodes: Nodes) -> str | None:
        configured = self._classes.configured(self._class_of(nodes))
        return configured.interface if configured else None

    def _class_of(self, nodes: Nodes) -> str | None:
        """The class of nodes that are all of one class."""
        return self._classes.of(min(nodes)) if nodes else None

    def _set_target(self, name: str) -> None:
        status = self._records[name].status
        runs = not status.is_final and status is not TrainerStatus.PAUSED and not self._draining
        it = self._states[name]
        it.target = TargetState.RUN if runs else TargetState.STOP

    def _ended(self, name: str, now_s: PilotS, found_dead: bool) -> None:
        """Handle the end of a driver, once: its incarnation is remembered in the same commit.

        A driver that was dead when this pilot came, without a last word, died with the job of the previous pilot. That is no
        failure of the trainer: it starts again, at once and from its last checkpoint.
        """
        it, record = self._states[name], self._records[name]
        fault = self._faults.pop(name, "")
        change = TrainerChange(ended_incarnation=it.view.incarnation, samples_done=self._samples(name))
        nodes, it.ordered, it.leaving = it.ordered, frozenset(), frozenset()
        self._write_usage_of(name)  # first: listeners that hear of the end have heard of all its usage
        match it.view.ending:
            case Ending.DONE:
                reason = closing_remark(it.view, record.spec.samples_total)
                self.change(name, replace(change, status=TrainerStatus.DONE, reason=reason, finished=True))
                self._forget(name)
            case _ if record.status.is_final:
                self.change(name, replace(change, finished=True))
                self._forget(name)
            case _ if fault:
                self._failed(name, now_s, fault, (), change)
            case Ending.FAILED | Ending.KILLED as how if it.target is TargetState.RUN and (
                how is Ending.FAILED or not found_dead
            ):
                self._failed(name, now_s, it.view.reason or "the driver was killed", it.view.tail, change, nodes)
            case how:
                if how is Ending.KILLED and found_dead:
                    text = "was dead when this pilot started; the trainer resumes from its last checkpoint"
                    self._recorder.note("driver", name, text)
                if record.status is TrainerStatus.RUNNING:
                    change = replace(change, status=TrainerStatus.WAITING, reason="")
                self.change(name, change)

    def _failed(
        self, name: str, now_s: PilotS, reason: str, tail: tuple[str, ...], change: TrainerChange,
        nodes: Nodes = frozenset(),
    ) -> None:  # fmt: skip
        record, samples = self._records[name], self._samples(name)
        outcome = after_failure(record, samples, reason, tail, nodes)
        self._recorder.note("failure", name, outcome.note)
        self.change(name, outcome.added_to(change))
        if outcome.is_final:
            self._forget(name)

    def _close(self, name: str, now_s: PilotS) -> None:
        """Final, and no driver is left."""
        record = self._records[name]
        if record.finished_s is None:
            change = TrainerChange(finished=True)
            if record.status is TrainerStatus.FAILED:  # its row cannot be read any more, and does not say so itself
                change = replace(change, status=record.status, reason=record.reason)
            self.change(name, change)
        self._forget(name)

    def _write_usage_of(self, name: str) -> None:
        """Write what one trainer has used since the last heartbeat to the registry."""
        if usage := self._usage.taken({name: self._reached(name)}):
            self._recorder.usage(usage)

    def _forget(self, name: str) -> None:
        self._write_usage_of(name)
        del self._records[name], self._states[name]
        self._meters.forget(name)
        self._usage.forget(name)
