"""The pilot's trainers: between the registry (what was submitted), the core (its allocation) and
drivers (what happens).

The registry holds the target of every trainer, and each step leads its driver there. So a new pilot
and one that comes back do the same: read the registry, look at the drivers, take the next step.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from bftrainer.config.in_effect import ConfigCell
from bftrainer.decide.domain.events import LengthSeen, Measured
from bftrainer.decide.domain.sizes import sizes_of
from bftrainer.decide.domain.state import Nodes
from bftrainer.errors import UserError
from bftrainer.fragment_names import id_of, node_of
from bftrainer.pilot.memo import Memoized
from bftrainer.pilot.nodes.classifier import NodeClassifier, PoolDemand
from bftrainer.pilot.persistence.registry import TrainerRecord, TrainerStatus
from bftrainer.pilot.persistence.registry_writer import TrainerChange
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.pilot.trainers.for_core import (
    smallest_of,
    spec_to_start,
    trainer_limits,
    trainers_for_core,
)
from bftrainer.pilot.trainers.launcher import Launcher
from bftrainer.pilot.trainers.managed import ManagedTrainer, Occupancy
from bftrainer.pilot.trainers.outcomes import (
    LONGEST_RETRY_S,
    Outcome,
    after_failure,
    after_kill,
    after_view,
    counted_only,
)
from bftrainer.pilot.trainers.remarks import disagreement_text, refused_text, repeat_text
from bftrainer.pilot.trainers.steps import (
    AskToStop,
    ChangeHosts,
    Kill,
    StartDriver,
    Step,
    TargetState,
    TrainerState,
    apply_step,
    next_step,
    occupied_nodes,
    runs_as_desired,
)
from bftrainer.pilot.trainers.stopping import EarlyStops
from bftrainer.slots import Slot, slot_of
from bftrainer.times import HostS, PilotS
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.reports import DriverView, Ending
from bftrainer.wires.worker_times import TrainingTimes

NO_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})


UNREPORTED_PROGRESS_S = 3600.0
"""Workers that ran for so long on their nodes have made progress, even if their script reports
none.
"""


@dataclass(frozen=True, slots=True)
class KilledWorker:
    """A worker that was ended by SIGKILL, not by its driver. ``ran_s``: since its group began."""

    trainer: str
    incarnation: int
    ran_s: float


@dataclass(eq=False)
class TrainerManager:
    """Leads all trainers that are not final, and final ones whose driver still runs."""

    _config: ConfigCell
    _recorder: Recorder
    _launcher: Launcher
    _classes: NodeClassifier
    _clock: SteadyClock

    def __post_init__(self) -> None:
        """Read all unfinished trainers from the registry, and adopt drivers that run."""
        self._to_host = self._clock.to_host
        self._trainers: dict[str, ManagedTrainer] = {}
        self._for_core = Memoized(trainers_for_core)
        self._limits = Memoized(trainer_limits)
        self._smallest = Memoized(smallest_of)
        self._occupancy = Occupancy(self._trainers)
        self._measurements: list[Measured] = []
        self._early_stops = EarlyStops(self._recorder)
        self._accounted_s = self._clock.now_s()
        self._is_draining = False
        self._urgent = Nodes()
        self._killed: dict[str, KilledWorker] = {}
        self._next_number = 0
        self.reload_registry(self._clock.now_s())

    def reload_registry(self, now_s: PilotS) -> None:
        """Add the trainers that are new in the registry at ``now_s``, and adopt drivers that run.

        Trainers that have ended are added only while the end of their driver is not registered (no
        ``finished_s``).
        """
        for record in self._recorder.registry.trainers_from(self._next_number):
            self._next_number = record.number + 1
            if record.name in self._trainers or (
                record.status.is_final and record.finished_s is not None
            ):
                continue
            # Another pilot wrote not_before_s, and the clock may have been set back since.
            retry_s = min(record.not_before_s - self._to_host(now_s), LONGEST_RETRY_S)
            state = TrainerState(
                sizes_of(record.spec.trainer())[0],
                record.spec.stop_s,
                not_before_s=PilotS(now_s + retry_s),
            )
            state.view = self._launcher.look(record.name)
            self._recorder.driver_reported(record.name, TrainingTimes(), state.view.times)
            state.desired_s = state.ordered_s = now_s
            state.ordered_host_s = self._to_host(now_s)
            self._trainers[record.name] = trainer = ManagedTrainer(record, state)
            # To run or to stop, by the status in the registry.
            self._set_target(trainer)
            self._note_refused(trainer, 0)

    def record(self, name: str) -> TrainerRecord | None:
        """Return the record of a trainer; None if it is unknown or over."""
        trainer = self._trainers.get(name)
        return None if trainer is None else trainer.record

    def for_core(self, now_s: PilotS) -> Mapping[str, TrainerRecord]:
        """Return the trainers for the core, in order of submission: neither final nor paused nor
        waiting for a retry.
        """
        trainers = self._trainers.values()
        retry_later = frozenset(
            [trainer.name for trainer in trainers if trainer.state.not_before_s > now_s]
        )
        return self._for_core(tuple([trainer.record for trainer in trainers]), retry_later)

    def demand(self, now_s: PilotS, count: int | None) -> PoolDemand:
        """Return how many nodes trainers could use, for the search for idle nodes.

        It counts the first ``count`` trainers that the core gets (None: all), and all pools that
        fill. The costs of rescaling are those in their files.
        """
        core = self.for_core(now_s)
        growth_s, min_size = self._smallest(core)
        return PoolDemand(
            trainer_limits=self._limits(
                core, count, tuple(self._trainers), self._occupancy.classes()
            ),
            rescale_s=growth_s,
            min_size=min_size,
            move_costs=self._move_costs(),
        )

    def _move_costs(self) -> tuple[tuple[Nodes, float], ...]:
        """Return, for each trainer with nodes, these nodes and the node-seconds that it costs to
        shrink and grow again on them, by the costs in its file.
        """
        assignments = (
            (trainer.state.desired, trainer.record.spec)
            for trainer in self._trainers.values()
            if trainer.state.desired
        )
        return tuple(
            (nodes, len(nodes) * (spec.scale_down_s + spec.scale_up_s))
            for nodes, spec in assignments
        )

    def samples_done(self) -> tuple[tuple[str, float], ...]:
        """(name, samples) of trainers that have made progress."""
        return tuple(
            (name, done)
            for name, trainer in self._trainers.items()
            if (done := trainer.samples) > 0
        )

    def losses(self) -> tuple[tuple[str, float], ...]:
        """(name, loss) of trainers that report it."""
        views = ((name, trainer.state.view.loss) for name, trainer in self._trainers.items())
        return tuple((name, loss) for name, loss in views if loss is not None)

    def measured(self, takes: Callable[[Measured], bool]) -> tuple[Measured, ...]:
        """Return the measurements since the last call that ``takes`` selects; the others are
        dropped.
        """
        measured, self._measurements = self._measurements, []
        return tuple(filter(takes, measured))

    def assign(self, name: str, nodes: Nodes, now_s: PilotS) -> None:
        """Adopt the core's allocation for one trainer."""
        if (trainer := self._trainers.get(name)) is not None:
            trainer.state.assign(nodes, self._class_of(nodes), now_s)

    def adopt_orders(self, name: str, nodes: Nodes, pool: Nodes, now_s: PilotS) -> None:
        """Take over what the previous pilot had decided for a trainer, and the last order to its
        driver if the driver runs.

        Called once for each trainer with nodes, before the first step. ``nodes`` are those that the
        trainer was given, ``pool`` was the previous pilot's pool.
        """
        if (trainer := self._trainers.get(name)) is not None:
            state = trainer.state
            state.desired, state.desired_s = nodes, now_s
            state.desired_class = self._class_of(nodes)
            if state.view.alive:
                # Its hosts file may be older than the plan: with no order remembered the next step
                # writes the file again, and nodes that the driver still uses are not free before it
                # says so.
                state.ordered = frozenset()
                state.started_class = state.desired_class
                state.ordered_s, state.ordered_host_s = now_s, self._to_host(now_s)
                state.leaving = nodes | {
                    name for name in pool if id_of(name) in state.view.occupied
                }

    def mark_admitted(self, names: Iterable[str], now_s: PilotS) -> None:
        """Mark trainers that the core has admitted as waiting for nodes. One that waits for a retry
        stays queued until then.
        """
        for name in names:
            trainer = self._trainers.get(name)
            if (
                trainer is not None
                and trainer.record.status is TrainerStatus.QUEUED
                and trainer.state.not_before_s <= now_s
            ):
                self.change(name, TrainerChange(status=TrainerStatus.WAITING))

    def quarantine(self, name: str, why: str) -> None:
        """Pause a trainer with which no decision can be made, until its user resumes it."""
        record = self.record(name)
        if (
            record is not None
            and not record.status.is_final
            and record.status is not TrainerStatus.PAUSED
        ):
            self._recorder.note(
                "quarantine", name, f"paused, since no decision can be made with it: {why}"
            )
            reason = f"quarantined, since no decision can be made with it: {why}"
            self.change(name, TrainerChange(status=TrainerStatus.PAUSED, reason=reason))

    def change(self, name: str, change: TrainerChange) -> None:
        """Change one trainer in the registry and here."""
        trainer = self._trainers[name]
        trainer.record = self._recorder.trainer(trainer.record, change)
        if change.retry_s is not None:
            trainer.state.not_before_s = PilotS(self._clock.now_s() + change.retry_s)
        self._set_target(trainer)

    def look(self, now_s: PilotS) -> frozenset[str]:
        """Read what all drivers say, and write what follows from it. Returns the ids of fragments
        (held nodes) that drivers will not use again, since workers there were killed.
        """
        withheld: set[str] = set()
        self._killed = {}
        host_s = self._to_host(now_s)
        for name, trainer in list(self._trainers.items()):
            state, previous_view = trainer.state, trainer.state.view
            if not previous_view.alive and (
                trainer.record.status is TrainerStatus.QUEUED
                or (
                    trainer.record.status is TrainerStatus.WAITING
                    and previous_view.incarnation <= trainer.record.ended_incarnation
                )
            ):
                continue  # no driver before this pilot starts one, and thousands may wait
            state.view = view = self._launcher.look(name)
            if (
                view is previous_view
                and trainer.judged_record is trainer.record
                and view.alive
                and view.rank_0_reported_s
            ):
                # Neither the report nor the record is new. Before rank 0's first report, the remark
                # on the trainer may change with time alone.
                continue
            trainer.judged_record = trainer.record
            if view is not previous_view and view != previous_view:
                self._process_report(trainer, previous_view, now_s)
                self._recorder.driver_reported(name, previous_view.times, view.times)
                withheld |= self._newly_withheld(trainer, previous_view, host_s)
            self._write_outcome(
                trainer,
                after_view(
                    trainer.record,
                    was=previous_view,
                    view=view,
                    target=state.target,
                    fault=trainer.fault,
                    nodes=state.ordered,
                    now_s=host_s,
                    ran=trainer.trained_sizes,
                    certain=trainer.certain_nodes,
                ),
            )
        return frozenset(withheld)

    def _newly_withheld(
        self, trainer: ManagedTrainer, was: DriverView, host_s: HostS
    ) -> frozenset[str]:
        """Return the ids of the trainer's fragments (held nodes) that its driver will not use
        again, since the report before (``was``).

        Workers that were killed there are added to :attr:`killed_workers`, but for those of pools
        of tasks.
        """
        state, view = trainer.state, trainer.state.view
        withheld = view.withheld - was.withheld
        if not withheld:
            return withheld
        # Only of this trainer's fragments: a report may name any id.
        withheld &= {id_of(name) for name in state.ordered | state.leaving | state.desired}
        if not trainer.record.spec.is_pool:
            kill = KilledWorker(trainer.name, view.incarnation, host_s - was.driver_reported_s)
            self._killed |= dict.fromkeys(withheld & view.killed, kill)
        return withheld

    @property
    def killed_workers(self) -> Mapping[str, KilledWorker]:
        """By the id of the fragment, workers that were found to be killed when drivers were read
        last.
        """
        return self._killed

    def count_kill(self, kill: KilledWorker, node: str) -> None:
        """Count a worker that was killed, on a ``node`` that was not lost, as a failure of its
        trainer: once for all workers of an incarnation (one run of the workers), unless there was
        progress in between.
        """
        trainer = self._trainers.get(kill.trainer)
        if trainer is None or trainer.record.status.is_final or kill.ran_s > UNREPORTED_PROGRESS_S:
            return
        furthest = trainer.record.samples_at_failure
        # Progress since the last failure: earlier kills do not count any more.
        if furthest is None or trainer.samples > furthest:
            trainer.killed_nodes = ()
        elif kill.incarnation == trainer.killed_incarnation:
            return
        trainer.killed_incarnation = kill.incarnation
        trainer.killed_nodes = (*trainer.killed_nodes, node)
        outcome = after_kill(trainer.record, trainer.samples, trainer.killed_nodes)
        if not trainer.state.view.alive:
            self._write_outcome(trainer, outcome)
        elif outcome.is_over and outcome.change is not None:
            # Its driver still runs, and has to end before the trainer can.
            self._give_up(trainer, outcome.change.reason or "")
        else:
            self._write_outcome(trainer, counted_only(outcome))

    def _write_outcome(self, trainer: ManagedTrainer, outcome: Outcome) -> None:
        """Carry out an :class:`Outcome`, what follows from a driver's report: write usage, notes
        and the change, and forget a trainer that is over.
        """
        if outcome.is_certain:
            trainer.certain_nodes = (*trainer.certain_nodes, trainer.state.ordered)
        if outcome.driver_ended:
            # A program that ended well without a report is one that never reports: it has trained.
            # With a fault, the pilot itself has ended the driver of a trainer that cannot go on.
            ended_well = trainer.state.view.ending in (Ending.DONE, Ending.STOPPED)
            trainer.classify_unreported(has_trained=ended_well and not trainer.fault)
            trainer.fault = ""
            trainer.state.ordered = trainer.state.leaving = frozenset()
            # Before the change, so that subscribers know all usage of the trainer at its end.
            self._write_usage_of(trainer)
        for kind, text in outcome.notes:
            self._recorder.note(kind, trainer.name, text)
        if outcome.change is not None:
            self.change(trainer.name, outcome.change)
        if outcome.is_over:
            # The trainer is forgotten: write what it has used if no driver has ended just now, as
            # when a trainer that waits is canceled. Otherwise there is nothing left to write.
            self._write_usage_of(trainer)
            del self._trainers[trainer.name]

    def _process_report(self, trainer: ManagedTrainer, was: DriverView, now_s: PilotS) -> None:
        """Process a driver's new report: measure it, note values that cannot be used and work that
        is repeated, and end a trainer that one of its ``stop_when`` rules stops.

        ``was`` is the report before.
        """
        state, view = trainer.state, trainer.state.view
        if view.ranks_disagree and not was.ranks_disagree:
            self._recorder.note("report", trainer.name, disagreement_text(view.ranks_disagree))
        try:
            self._measure_report(trainer, now_s)
        except Exception as error:  # an error by one trainer's report concerns this trainer only
            self._give_up(
                trainer, f"its reports cannot be measured: {type(error).__name__}: {error}"
            )
        self._note_refused(trainer, len(was.refused))
        self._note_length(trainer)
        if (samples := view.repeated - was.repeated) > 0:
            trainer.repeated_samples += samples
            self._recorder.note(
                "repeat",
                trainer.name,
                repeat_text(samples, len(state.lost), loaded=not view.unloaded[0]),
            )
        if not trainer.record.status.is_final and (
            why := self._early_stops.hear(trainer.record, view)
        ):
            self._recorder.note("stop", trainer.name, why)
            self.change(trainer.name, TrainerChange(status=TrainerStatus.CANCELED, reason=why))
        if view.trains and view.on:
            trainer.trained_sizes |= {len(view.on)}
        # It trains again: nodes lost before do not explain what happens from now on.
        if view.trains and not was.trains:
            state.lost = frozenset()

    def _measure_report(self, trainer: ManagedTrainer, now_s: PilotS) -> None:
        """Measure the throughput and stalls in a trainer's latest report, at ``now_s``.

        The time of the decision counts only if the trainer trains on the nodes of that decision.
        """
        state, view = trainer.state, trainer.state.view
        is_on_desired = view.on == {id_of(fragment) for fragment in state.desired}
        decided_s = self._to_host(state.desired_s) if is_on_desired else None
        window_s = self._config.now.learning.window_s
        measurements, warning = trainer.meter.hear(
            trainer.name, view, window_s, self._to_host(now_s), decided_s
        )
        self._measurements += measurements
        if warning:
            self._recorder.note("clock", trainer.name, warning)

    def _note_refused(self, trainer: ManagedTrainer, noted_count: int) -> None:
        """Record the values in a trainer's reports that cannot be used, but for the first
        ``noted_count`` ones, which were noted before.
        """
        for key, problem in trainer.state.view.refused[noted_count:]:
            self._recorder.note("report", trainer.name, refused_text(key, problem))

    def _note_length(self, trainer: ManagedTrainer) -> None:
        """Send the core the number of samples of a training, if its script reports one and the
        submission has none.
        """
        total = trainer.new_length()
        if total is None:
            return
        trainer.sent_total = total
        self._measurements.append(LengthSeen(trainer.name, total))
        if total != trainer.record.reported_total:
            self.change(trainer.name, TrainerChange(reported_total=total))

    def _give_up(self, trainer: ManagedTrainer, reason: str) -> None:
        """End the driver of a trainer that cannot go on; once it has ended, this counts as a
        failure of the trainer.
        """
        trainer.fault = reason
        self._launcher.kill(trainer.name)

    def step(self, now_s: PilotS, pool: Nodes | None = None) -> None:
        """Tell each driver what to do next, on nodes of the ``pool`` only (None: on all that its
        trainer was given).

        Trainers that do not grow come first, so that their nodes may be free for the others.
        """
        if pool is not None:
            self._occupancy.keep_within(pool)
        is_disjoint = self._occupancy.occupied(now_s).is_disjoint
        # Where no two trainers share a node, one that runs as desired has no step to take.
        names = [
            name
            for name, trainer in self._trainers.items()
            if (trainer.state.view.alive or trainer.state.desired)
            and not (is_disjoint and runs_as_desired(trainer.state))
        ]
        if not names:
            return
        occupied_by = dict(
            zip(self._trainers, self._occupancy.occupied_by_trainer(now_s), strict=True)
        )
        states = {name: self._trainers[name].state for name in names}
        is_growing = {
            name: len(state.desired) > len(state.ordered) for name, state in states.items()
        }
        for name in sorted(names, key=is_growing.__getitem__):
            state = states[name]
            others = occupied_by.items() if state.desired else ()
            # Nodes of this trainer on which others still have processes.
            conflicts = (
                nodes
                for other, nodes in others
                if other != name and not state.desired.isdisjoint(nodes)
            )
            step = next_step(state, frozenset().union(*conflicts), now_s)
            if step is not None and self._carry_out(self._trainers[name], step):
                apply_step(state, step, now_s, self._to_host(now_s))
                occupied_by[name] = occupied_nodes(state, now_s)

    def _carry_out(self, trainer: ManagedTrainer, step: Step) -> bool:
        """Carry out a step of a trainer. Returns whether that was possible: if not, the trainer has
        failed, or its driver is being killed. Raises ``OSError`` where the disk fails, which is no
        fault of the trainer.
        """
        name, state = trainer.name, trainer.state
        match step:
            case StartDriver(nodes):
                state.started_class = state.desired_class
                try:
                    spec = spec_to_start(trainer.record.spec, trainer.record.unfit)
                    self._launcher.start(
                        spec, self._host_lines(trainer, nodes), self._network_interface(nodes)
                    )
                except (OSError, UserError) as error:
                    if isinstance(error, OSError) and error.errno in NO_DISK:
                        raise  # not a failure of the trainer
                    text = f"the driver cannot be started: {error}"
                    self._write_outcome(
                        trainer,
                        after_failure(
                            trainer.record,
                            trainer.samples,
                            text,
                            (),
                            TrainerChange(),
                            certain=trainer.certain_nodes,
                        ),
                    )
                    return False
                # Until the driver reports, it has no workers.
                state.view = replace(
                    state.view, alive=True, ending=None, on=frozenset(), with_workers=frozenset()
                )
            case Kill():
                self._launcher.kill(name)
            # Both write a file of the trainer directory.
            case ChangeHosts() | AskToStop():
                try:
                    if isinstance(step, ChangeHosts):
                        urgent = self._urgent_among(state.ordered - step.nodes)
                        self._launcher.order(name, self._host_lines(trainer, step.nodes), urgent)
                    else:
                        self._launcher.ask_to_stop(name)
                except OSError as error:
                    if error.errno in NO_DISK:
                        raise
                    self._give_up(trainer, f"its driver cannot be told its nodes: {error}")
                    return False
        return True

    def note_urgent(self, fragments: Nodes) -> None:
        """Record which fragments trainers have to leave within seconds: main jobs wait for them."""
        self._urgent = fragments

    def _urgent_among(self, nodes: Nodes) -> list[str]:
        """Return which of these nodes (or GPUs) have to be left within seconds because main jobs
        wait for them, by the names that drivers use.
        """
        if self._config.now.nodes.unit.divides_nodes:
            slots = map(slot_of, sorted(nodes))
            return [slot.id for slot in slots if slot.fragment in self._urgent]
        return [id_of(name) for name in sorted(nodes & self._urgent)]

    def held(self, now_s: PilotS) -> Nodes:
        """Return the fragments on which trainers have processes."""
        return self._occupancy.occupied(now_s).nodes

    def used(self, now_s: PilotS) -> Nodes:
        """Fragments that were given to trainers, or that trainers occupy."""
        return self._occupancy.used(now_s)

    def any_driver_alive(self) -> bool:
        return any(trainer.state.view.alive for trainer in self._trainers.values())

    def drain(self) -> None:
        """Let all trainers checkpoint and stop; the registry stays as it is."""
        self._is_draining = True
        for trainer in self._trainers.values():
            self._set_target(trainer)

    def kill_all(self) -> None:
        """Kill every driver that still runs."""
        for name, trainer in self._trainers.items():
            if trainer.state.view.alive:
                self._launcher.kill(name)

    def account(self, now_s: PilotS) -> None:
        """Count the node-seconds since the last call."""
        passed_s = max(now_s - self._accounted_s, 0.0)
        self._accounted_s = now_s
        for trainer in self._trainers.values():
            trainer.account(passed_s)

    def write_usage(self) -> None:
        """Write the counted node-seconds to the registry, with the heartbeat."""
        self._recorder.usage(
            tuple(
                used
                for trainer in self._trainers.values()
                if (used := trainer.take_usage()) is not None
            )
        )

    def _write_usage_of(self, trainer: ManagedTrainer) -> None:
        """Write what one trainer has used since the last heartbeat to the registry."""
        if (used := trainer.take_usage()) is not None:
            self._recorder.usage((used,))

    def _host_lines(self, trainer: ManagedTrainer, nodes: Nodes) -> list[HostSlots]:
        """Return the lines of the hosts file for these fragments (held nodes) or GPUs.

        The number of slots of a node comes from the trainer, else from the table of its node class,
        else from the configuration of nodes.
        """
        # Each GPU is a host of one slot.
        if self._config.now.nodes.unit.divides_nodes:
            gpus = sorted(map(slot_of, nodes), key=_by_fragment)
            return [HostSlots(gpu.node, 1, gpu.id, True) for gpu in gpus]
        configured = self._classes.configured(self._class_of(nodes))
        slots = (
            trainer.record.spec.slots
            or (configured and configured.slots)
            or self._config.now.nodes.slots
        )
        return [HostSlots(node_of(f), slots, id_of(f)) for f in sorted(nodes)]

    def _network_interface(self, nodes: Nodes) -> str | None:
        configured = self._classes.configured(self._class_of(nodes))
        return configured.interface if configured else None

    def _class_of(self, nodes: Nodes) -> str | None:
        """Return the class of nodes, which are all of one class; None if there are none."""
        return self._classes.of(min(nodes)) if nodes else None

    def _set_target(self, trainer: ManagedTrainer) -> None:
        """Set whether a trainer is to run or to stop: to stop if it has ended or is paused, or
        while the pilot drains (releases all).
        """
        status = trainer.record.status
        runs = not status.is_final and status is not TrainerStatus.PAUSED and not self._is_draining
        trainer.state.target = TargetState.RUN if runs else TargetState.STOP


def _by_fragment(slot: Slot) -> tuple[str, int]:
    """Return the sort key that gives the order of GPUs in a hosts file."""
    return slot.fragment, -1 if slot.gpu is None else slot.gpu
