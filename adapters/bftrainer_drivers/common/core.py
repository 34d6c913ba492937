"""The next steps of a driver: (state, news, time) -> (state, steps). Pure, and the same for all
launchers.

A launcher differs by its ``Terms``, and by how it starts, announces and ends workers
(``common.run_loop``). Starting and recovering are one path: a new driver knows nothing but the
files, and its first group begins as every other one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from bftrainer.wires.control import STOPPED_STATUS
from bftrainer.wires.driver_events import (
    AnyDriverEvent,
    Hung,
    Running,
    Warm,
    WarmingCanceled,
    Withheld,
)
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.progress_line import Phase, ProgressLine
from bftrainer.wires.reports import LATE, Ending
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.common.membership import (
    Action,
    Announce,
    Drop,
    Leave,
    Member,
    Membership,
    StartWarming,
)
from bftrainer_drivers.common.outcome import (
    CANNOT_START,
    MAX_ERRORS,
    DriverOutcome,
    Exit,
    ScriptErrors,
    was_taken,
)
from bftrainer_drivers.common.retries import Retries
from bftrainer_drivers.common.silence import ReportSilence
from bftrainer_drivers.common.verdict import GroupEnd, cause, verdict

GATHER_S = 2.0
"""How long the other workers may take to end after one ended unexpectedly: this tells lost nodes
from lost peers.
"""
_SAVED = (Phase.CHECKPOINTED, Phase.DONE)
UNREPORTED_S = 10.0
"""After this time, a group of a script that reports nothing counts as training."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The facts about a trainer and its launcher that do not change while a driver runs."""

    is_elastic: bool
    """The group survives changes and losses of workers; else each of them needs a new
    incarnation.
    """
    sizes: LegalSizes
    """The node counts at which a group may train."""
    stop_s: float
    """How long workers may take to save and leave after a stop request."""
    hang_s: float
    """The silence after which a trainer that has reported counts as hung."""
    is_collective: bool = True
    """A worker can do nothing without the others, not even save."""
    needs_confirmation: bool = False
    """A group counts as training only once the script has reported its size."""
    stop_signal: int = 0
    """The signal that requests a stop, which kills a program without a handler; 0: none."""
    samples: float | None = None
    """A script that has reported this number and exits with status 0 is done, although it was asked
    to stop; None: unknown.
    """
    is_independent: bool = False
    """Workers form no group; one that fails is started again, and one that exits with status 0 has
    no work left.
    """
    first_step_s: float = math.inf
    """The longest time from a worker's start to the first report."""


@dataclass(frozen=True, slots=True)
class HostsListed:
    """The content of ``hosts``. ``preempted``: fragments that are not listed for that reason; their
    workers may still save.
    """

    hosts: tuple[HostSlots, ...]
    preempted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The pilot asks the trainer to checkpoint and leave."""


@dataclass(frozen=True, slots=True)
class EndNow:
    """The driver is to end at once, in this way."""

    outcome: DriverOutcome


@dataclass(frozen=True, slots=True)
class Reported:
    """The script has reported a line of progress of this incarnation."""

    line: ProgressLine


@dataclass(frozen=True, slots=True)
class Warmed:
    """All workers of a member wait for their ranks; or the member has none that could wait
    (``is_cold``).
    """

    member: Member
    is_cold: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """A worker of a member trains, or is about to."""

    member: Member
    log: Path


@dataclass(frozen=True, slots=True)
class WaitingEnded:
    """A worker ended before it was sent its rank."""

    member: Member
    exit: Exit


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker that had joined ended."""

    member: Member
    exit: Exit


@dataclass(frozen=True, slots=True)
class Excused:
    """A worker of this member is ended through no fault of its node."""

    member: Member


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """A worker of this member has finished a task."""

    member: Member


@dataclass(frozen=True, slots=True)
class GroupFormed:
    """The workers of the members with these labels train together."""

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupOver:
    """No worker of the group is left, and none follows on its own."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time has passed, and nothing else was heard."""


News: TypeAlias = (
    HostsListed
    | StopRequested
    | EndNow
    | Reported
    | Warmed
    | Joined
    | WaitingEnded
    | WorkerEnded
    | Excused
    | TaskFinished
    | GroupFormed
    | GroupOver
    | TimePassed
)


@dataclass(frozen=True, slots=True)
class Begin:
    """Start the workers of the next incarnation, on these members."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """Start another worker in the slot of one that failed."""

    member: Member
    slot: int


@dataclass(frozen=True, slots=True)
class AskWorkersToStop:
    """Request a checkpoint and the end of this incarnation's workers."""

    reason: str


@dataclass(frozen=True, slots=True)
class KillGroup:
    """Kill the workers of this incarnation."""


@dataclass(frozen=True, slots=True)
class Report:
    """Write an event."""

    event: AnyDriverEvent


DriverStep: TypeAlias = (
    StartWarming | Drop | Announce | Begin | Retry | AskWorkersToStop | KillGroup | Report
)


@dataclass(frozen=True, slots=True)
class Leaving:
    """Why and since when the workers have been asked to leave. ``is_final``: the driver ends after
    them.
    """

    reason: str
    since_s: float
    is_final: bool
    failure: DriverOutcome | None = None
    """The script's own error, if it has cost the nodes without which no size is legal: then this is
    the driver's outcome in place of the stop.
    """


@dataclass(slots=True)
class RunState:
    """What a driver knows between two pieces of news. Times are those of the driver's clock."""

    terms: Terms
    membership: Membership
    silence: ReportSilence
    errors: ScriptErrors
    retries: Retries = field(default_factory=Retries)
    preempted: frozenset[str] = frozenset()
    """Fragments that the scheduler has announced to preempt."""
    leaving: Leaving | None = None
    """Set from a request to leave until the next group begins."""
    joined: list[Joined] = field(default_factory=list)
    """The workers of the group that still run."""
    exits: list[Exit] = field(default_factory=list)
    """The ends of the group's workers, in the order in which they were noticed."""
    phase: Phase | None = None
    """The last phase that the script has reported in this incarnation, other than BUSY."""
    samples: float = 0.0
    """The samples that the script has reported last."""
    has_saved: bool = False
    """The script has reported a checkpoint since it was asked to leave."""
    crashed_s: float | None = None
    """When the first worker of the group failed, if every change needs new workers."""
    has_lost_node: bool = False
    """A node of the group was taken, if every change needs new workers."""
    is_killed: bool = False
    """This driver has killed the group."""
    hang_reason: str = ""
    """Why the trainer's workers count as hung; empty if they do not."""
    formed_s: float | None = None
    """When the group formed, until it is reported as running; then None."""
    unreported_since_s: float | None = None
    """Since when workers have run without a first report; None once one has come."""
    outcome: DriverOutcome | None = None
    """How the driver ends; None while it goes on."""

    @property
    def checkpointed(self) -> bool:
        """Whether the script has saved since it was asked to stop, or had just saved before this
        driver read the request, as its last line says.
        """
        return self.has_saved or self.phase in _SAVED

    @classmethod
    def initial(cls, terms: Terms, longest_silence_s: float = 0.0) -> RunState:
        """Return the state of a driver that has heard nothing yet."""
        membership = Membership(
            restarts=not terms.is_elastic, sizes=terms.sizes, is_independent=terms.is_independent
        )
        if not terms.is_elastic:
            membership.straggler_s = 60.0  # a restart on warm workers is worth a wait
        return cls(
            terms,
            membership,
            ReportSilence(terms.hang_s, longest_silence_s),
            ScriptErrors(terms.hang_s),
        )


def advance(state: RunState, news: News, now_s: float) -> tuple[RunState, list[DriverStep]]:
    """Return the state after a piece of news, and the steps that the driver takes now. ``state``
    itself stays as it is. Once the driver has an outcome, further news changes nothing.
    """
    new_state = replace(
        state,
        membership=state.membership.copy(),
        silence=replace(state.silence),
        errors=replace(state.errors),
        retries=state.retries.copy(),
        joined=[*state.joined],
        exits=[*state.exits],
    )
    steps = [] if state.outcome is not None else _steps_after(new_state, news, now_s)
    return new_state, steps


def _steps_after(state: RunState, news: News, now_s: float) -> list[DriverStep]:
    """Change ``state`` by the news, and return the steps to take."""
    match news:
        case HostsListed():
            return _handle_hosts(state, news, now_s)
        case StopRequested():
            return _ask_to_leave(state, "stop requested", now_s)
        case EndNow(outcome):
            state.outcome = outcome
        case Reported(line):
            return _handle_report(state, line, now_s)
        case Warmed(member, is_cold):
            state.membership.note_warm(member, now_s)
            return [] if is_cold else [Report(Warm(member.host.node, member.host.fragment))]
        case Joined():
            _handle_joined(state, news, now_s)
        case WaitingEnded(member, exit):
            return _handle_waiting_end(state, member, exit, now_s)
        case WorkerEnded(member, exit):
            return _handle_worker_end(state, member, exit, now_s)
        case Excused(member):
            state.membership.excuse(member)
            return [Announce(state.membership.announced)]
        case TaskFinished(member):
            state.retries.note_success(member)
        case GroupFormed(labels):
            return _handle_new_group(state, labels, now_s)
        case GroupOver():
            return _handle_group_end(state, now_s)
        case TimePassed():
            return _handle_time(state, now_s)
    return []


def _handle_hosts(state: RunState, listed: HostsListed, now_s: float) -> list[DriverStep]:
    """Apply a new content of ``hosts``. Where every change needs new workers, a group on a
    preempted node is asked to save at once.
    """
    state.preempted = listed.preempted
    steps = _steps_for(state, state.membership.order(listed.hosts, now_s), now_s)
    fragments = {member.host.fragment for member in state.membership.group}
    if not state.terms.is_elastic and fragments & listed.preempted:  # no time for imports ahead
        steps += _ask_to_leave(state, "a node is preempted", now_s, is_final=False)
    return steps


def _handle_joined(state: RunState, joined: Joined, now_s: float) -> None:
    """Record a worker of the group; the first one starts the wait for the first report."""
    state.joined.append(joined)
    if state.unreported_since_s is None and state.silence.last_report_s is None:
        state.unreported_since_s = now_s


def _handle_new_group(state: RunState, labels: tuple[str, ...], now_s: float) -> list[DriverStep]:
    """Record which members the new group has; report that it trains, unless the script must confirm
    that.
    """
    state.membership.note_group(labels)
    if not state.terms.is_independent:
        state.exits.clear()  # workers that ended before this group do not explain its end
    state.errors.note_group(now_s)
    return _await_report(state, now_s)


def _steps_for(state: RunState, actions: list[Action], now_s: float) -> list[DriverStep]:
    """Translate the actions of :class:`.Membership` into the driver's steps. If no group has begun
    yet and every change needs new workers, begin the first one instead.
    """
    if not (state.terms.is_elastic or state.membership.group):
        return _begin_incarnation(state, now_s)
    steps: list[DriverStep] = []
    for action in actions:
        match action:
            case Leave(reason, is_short):
                steps += _ask_to_leave(state, reason, now_s)
                if is_short:
                    _blame_script(state)
            case Announce(members) if not state.terms.is_elastic:
                # New workers are warm: the group makes way, and the next one begins with them.
                if members:
                    steps += _ask_to_leave(state, "other nodes", now_s, is_final=False)
            case Drop(Member(host=host)):
                steps += [Report(WarmingCanceled(host.node, host.fragment)), action]
            case _:
                steps.append(action)
    return steps


def _blame_script(state: RunState) -> None:
    """Record the script's error as the reason why an elastic group leaves with too few nodes, if
    workers have failed: each failure has cost a node.
    """
    failures = [end for end in state.exits if end.has_failed]
    if state.leaving is not None and state.terms.is_elastic and failures:
        state.leaving = replace(state.leaving, failure=cause(failures))


def _begin_incarnation(state: RunState, now_s: float) -> list[DriverStep]:
    """Begin the next incarnation on the usable hosts, and forget the news of the last one. With too
    few nodes the driver ends instead: ``outcome`` is set.
    """
    if not state.membership.usable_hosts():
        host_count = len(state.membership.listed_hosts())
        state.outcome = DriverOutcome(Ending.STOPPED, state.terms.sizes.shortage(host_count))
        return []
    drops: list[DriverStep] = [
        action for action in state.membership.begin_group() if isinstance(action, Drop)
    ]
    state.exits.clear()
    state.leaving = state.phase = state.crashed_s = None
    state.has_lost_node = state.is_killed = state.has_saved = False
    state.silence.last_report_s = state.unreported_since_s = None  # the first step may take a while
    return [*drops, Begin(state.membership.group), *_await_report(state, now_s)]


def _await_report(state: RunState, now_s: float) -> list[DriverStep]:
    """Start to wait for the new group's first report; a group that need not confirm itself is
    reported as running.
    """
    state.silence.note_group(now_s)
    state.formed_s = now_s
    return [] if state.terms.needs_confirmation else _report_running(state)


def _report_running(state: RunState) -> list[DriverStep]:
    """Report that the group trains: once per group (``formed_s`` is cleared), and only after all
    workers of dismissed members have ended.
    """
    group, announced = state.membership.group, state.membership.announced
    has_dismissed = any(
        worker.member not in group and worker.member not in announced for worker in state.joined
    )
    # A worker that stands in for a lost one trains only until the rescale that follows.
    has_stand_in = state.terms.is_elastic and any(
        member.host.fragment in state.membership.withheld for member in group
    )
    is_reported = state.formed_s is None
    if is_reported or has_dismissed or has_stand_in:
        return []
    state.formed_s = None
    return [
        Report(Running(_slot_count(state), tuple(sorted(member.host.fragment for member in group))))
    ]


def _slot_count(state: RunState) -> int:
    """Return the world size of the group when all of its workers run."""
    return sum(member.host.slots for member in state.membership.group)


def _ask_to_leave(
    state: RunState, reason: str, now_s: float, *, is_final: bool = True
) -> list[DriverStep]:
    """Ask all workers to save and leave, once. ``is_final``: the driver ends after them; otherwise
    another group follows. A final request after one that was not final is not sent again, but makes
    it final.
    """
    if state.leaving is not None:
        if is_final and not state.leaving.is_final:
            state.membership.leaving = True
            state.leaving = replace(state.leaving, reason=reason, is_final=True)
        return []
    state.leaving = Leaving(reason, now_s, is_final)
    state.retries.restart_s.clear()  # a worker may hear of a stop before this driver does
    state.membership.leaving = is_final
    if not state.joined:  # no worker's end would follow
        state.outcome = DriverOutcome(Ending.STOPPED, reason)
    return [AskWorkersToStop(reason)]


def _handle_report(state: RunState, line: ProgressLine, now_s: float) -> list[DriverStep]:
    """Apply a line of progress. A line with the new group's size confirms that it trains, where
    a launcher needs that (:attr:`Terms.needs_confirmation`).
    """
    state.silence.note_report(now_s)
    state.unreported_since_s = None
    if line.phase is not Phase.BUSY:
        state.phase = line.phase
    state.samples = state.samples if line.samples is None else line.samples
    state.has_saved |= state.leaving is not None and line.phase in _SAVED
    return (
        _report_running(state)
        if state.terms.needs_confirmation and line.world_size == _slot_count(state)
        else []
    )


def _withhold_fragment(state: RunState, member: Member, why: str) -> list[DriverStep]:
    """Give up a member's fragment after a worker there was lost or failed, and report that once."""
    was_usable = state.membership.withhold(member)
    steps: list[DriverStep] = (
        [Drop(member), Announce(state.membership.announced)] if state.terms.is_elastic else []
    )
    return [
        *steps,
        *([Report(Withheld(member.host.node, member.host.fragment, why))] if was_usable else []),
    ]


def _handle_waiting_end(
    state: RunState, member: Member, end: Exit, now_s: float
) -> list[DriverStep]:
    """Handle the end of a worker that was still waiting for its rank: its member is given up, or
    starts cold later to show why it fails.
    """
    if end.is_planned:
        return []
    if not state.terms.is_elastic and not was_taken(end.status):
        # It counts as warm: after a cold start it fails again, and its log shows why.
        state.membership.note_warm(member, now_s)
        return []
    steps = _withhold_fragment(state, member, f"a worker {end.description}")
    has_no_member = not (
        state.membership.group or state.membership.warming or state.membership.warm or state.joined
    )
    if end.status in CANNOT_START:
        state.outcome = _start_failure(end)
    elif has_no_member and end.has_failed and not state.membership.announced:
        state.outcome = DriverOutcome(
            Ending.FAILED, f"every worker {end} while it started", end.status, end.log
        )
    return steps


def _start_failure(end: Exit) -> DriverOutcome:
    """Return the outcome for a command that does not exist or cannot be executed."""
    return DriverOutcome(
        Ending.FAILED, f"the command cannot be started: a worker {end}", end.status, end.log
    )


def _handle_worker_end(
    state: RunState, member: Member, end: Exit, now_s: float
) -> list[DriverStep]:
    """Handle the end of a worker that had joined. Once the last one on a preempted node has ended,
    the node is given up.
    """
    # One entry of the member goes with each end, whichever of its workers has ended.
    for worker in state.joined:
        if worker.member == member:
            state.joined.remove(worker)
            break
    steps = _handle_exit(state, member, end, now_s)
    if member.host.fragment in state.preempted and not any(
        worker.member == member for worker in state.joined
    ):
        # Not before the last worker has ended: the pilot releases the node at once.
        steps += _withhold_fragment(state, member, "its node is preempted")
    return steps


def _handle_exit(state: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    """Handle the end of a worker that had joined, as the kind of launcher requires."""
    if state.terms.is_independent:
        return _handle_independent_exit(state, member, end, now_s)
    if not state.terms.is_elastic:
        return _handle_restart_exit(state, member, end, now_s)
    return _handle_elastic_exit(state, member, end, now_s)


def _handle_elastic_exit(
    state: RunState, member: Member, end: Exit, now_s: float
) -> list[DriverStep]:
    """Handle the end of a worker of an elastic group: the fragment of a lost or failed one is given
    up, and the driver ends when the script counts as failed.
    """
    state.exits.append(end)
    if end.status in CANNOT_START and not end.is_planned:
        state.outcome = _start_failure(end)
        return []
    if end.status == 0 and not end.is_planned:
        state.membership.leaving = True  # the training is complete: no worker joins
    is_of_previous_group = (
        member in state.membership.previous_group and member not in state.membership.group
    )
    if state.leaving is None and state.errors.note_exit(
        end, now_s, is_of_previous_group=is_of_previous_group
    ):
        reason = f"workers of {MAX_ERRORS} groups in succession failed; the last one {end}"
        state.outcome = DriverOutcome(Ending.FAILED, reason, end.status, end.log)
    steps = (
        _withhold_fragment(state, member, f"a worker {end.description}")
        if end.is_lost or end.has_failed
        else []
    )
    return [*steps, *([] if state.terms.needs_confirmation else _report_running(state))]


def _handle_restart_exit(
    state: RunState, member: Member, end: Exit, now_s: float
) -> list[DriverStep]:
    """Handle the end of a worker under a launcher whose every change needs new workers
    (:mod:`.restarts`).
    """
    is_stop_signal = end.status == -state.terms.stop_signal
    if state.leaving is not None:
        end = replace(end, is_planned=True)
    was_requested = end.is_planned and is_stop_signal
    state.exits.append(end)
    if end.status in CANNOT_START and not end.is_planned:
        state.outcome = _start_failure(end)
        return []
    if end.status not in (0, STOPPED_STATUS) and not end.is_planned and state.crashed_s is None:
        state.crashed_s = now_s
    # Killed while it was exiting, and not by this driver: its node was taken as well.
    if was_taken(end.status) and not (state.is_killed or was_requested or end.out_of_memory):
        state.has_lost_node = True
        return _withhold_fragment(state, member, f"a worker {end}")
    return []


def _handle_independent_exit(
    state: RunState, member: Member, end: Exit, now_s: float
) -> list[DriverStep]:
    """Handle the end of a worker that needs no others: it is started again if it failed, and the
    trainer fails after :data:`MAX_ERRORS` failures without a finished task.
    """
    if end.is_planned or state.leaving is not None or end.status == 0:
        state.exits += [] if end.is_planned else [end]
        return _report_running(state)
    if end.status in CANNOT_START:
        state.outcome = _start_failure(end)
        return []
    state.retries.note_failure(member, end, now_s)
    if state.retries.in_succession >= MAX_ERRORS:
        reason = (
            f"{MAX_ERRORS} workers in succession failed, and no task was finished; the "
            f"last one {end.description}"
        )
        state.outcome = DriverOutcome(Ending.FAILED, reason, end.status, end.log)
    elif state.retries.is_bad(member) and len(state.membership.announced) > 1:
        state.retries.forget(member)
        return [
            *_withhold_fragment(state, member, f"a worker {end.description}"),
            *_report_running(state),
        ]
    return _report_running(state)


def _handle_group_end(state: RunState, now_s: float) -> list[DriverStep]:
    """Decide what follows a group that has ended: an outcome, or the next group."""
    if not _was_broken_by_stranger(state):
        state.outcome = _group_outcome(state)
    return _begin_incarnation(state, now_s) if state.outcome is None else []


def _was_broken_by_stranger(state: RunState) -> bool:
    """Whether the group ended while it connected, because a stranger took a worker's place
    (:mod:`.vouching`): that is no failure, and the trainer begins again.
    """
    is_new_group = state.phase is None and state.leaving is None and not state.terms.is_elastic
    return is_new_group and any(end.met_stranger for end in state.exits)


def _group_outcome(state: RunState) -> DriverOutcome | None:
    """Return how the driver ends (:func:`.verdict`), or the script's own error if that had cost the
    nodes for which it was stopped; None if another group follows.
    """
    leaving = state.leaving
    is_complete = state.terms.samples is not None and state.samples >= state.terms.samples
    says_done = state.phase is Phase.DONE or (
        is_complete and {end.status for end in state.exits} == {0}
    )
    outcome = verdict(
        GroupEnd(
            exits=tuple(state.exits),
            is_elastic=state.terms.is_elastic,
            is_collective=state.terms.is_collective,
            leave_reason=leaving.reason if leaving is not None and leaving.is_final else None,
            was_asked_to_leave=leaving is not None,
            says_done=says_done,
            has_lost_node=state.has_lost_node,
            hang_reason=state.hang_reason or None,
        )
    )
    failure = None if leaving is None else leaving.failure
    is_stopped = outcome is not None and outcome.ending is Ending.STOPPED
    return failure if is_stopped and failure is not None else outcome


def _handle_time(state: RunState, now_s: float) -> list[DriverStep]:
    """Do what time has made due: changes of membership, retries, the end of workers that have not
    left in time or count as hung.
    """
    steps = (
        _steps_for(state, state.membership.tick(now_s), now_s)
        if state.membership.group or state.terms.is_elastic
        else []
    )
    leaving = state.leaving
    members = {*state.membership.announced, *state.membership.group}
    steps += [
        Retry(member, slot) for member, slot in state.retries.pop_due(now_s) if member in members
    ]
    if leaving is not None and now_s - leaving.since_s >= state.terms.stop_s:
        steps += _end_late_workers(state, leaving)
    elif leaving is None and (reason := _hang_reason(state, now_s)):
        steps += _end_hung(state, reason, now_s)
    elif (
        state.crashed_s is not None
        and now_s - state.crashed_s > GATHER_S
        and (leaving is None or state.terms.is_collective)
    ):
        steps += _kill_once(state)  # workers that need no peers may still save
    if (
        state.silence.last_report_s is None
        and state.formed_s is not None
        and now_s - state.formed_s > UNREPORTED_S
    ):
        steps += _report_running(state)
    return steps


def _end_late_workers(state: RunState, leaving: Leaving) -> list[DriverStep]:
    """End workers that have not left within ``stop_s``: kill the group, or end the driver with
    it.
    """
    if not leaving.is_final:
        return _kill_once(state)
    reason = f"{leaving.reason}; {LATE} {state.terms.stop_s:g} s (stop_s)"
    state.outcome = leaving.failure or DriverOutcome(Ending.STOPPED, reason)
    return []


def _end_hung(state: RunState, reason: str, now_s: float) -> list[DriverStep]:
    """End the driver because its workers count as hung."""
    state.hang_reason = reason
    silent_s = round(_silent_s(state, now_s), 1)
    log = state.joined[0].log if state.joined else None
    outcome = _group_outcome(state)
    if outcome is not None and outcome.log is None:
        outcome = replace(outcome, log=log)
    state.outcome = outcome
    hosts = dict.fromkeys(worker.member.host for worker in state.joined)
    return [Report(Hung(host.node, host.fragment, silent_s)) for host in hosts]


def _hang_reason(state: RunState, now_s: float) -> str:
    """Return why the workers count as hung; empty if they do not."""
    if state.silence.is_hung(now_s):
        return state.silence.reason
    limit_s = state.terms.first_step_s
    if (
        state.joined
        and state.unreported_since_s is not None
        and now_s - state.unreported_since_s >= limit_s
    ):
        return f"no step within {limit_s:g} s of its start (first_step_s)"
    return ""


def _silent_s(state: RunState, now_s: float) -> float:
    """Return the seconds since the last report; before the first one, since the workers run."""
    return (
        state.silence.seconds(now_s)
        if state.unreported_since_s is None
        else now_s - state.unreported_since_s
    )


def _kill_once(state: RunState) -> list[DriverStep]:
    """Kill the group's workers, unless this driver has already done so."""
    if state.is_killed:
        return []
    state.is_killed = True
    return [KillGroup()]
