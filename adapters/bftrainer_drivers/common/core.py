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
    MOST_ERRORS,
    DriverOutcome,
    Exit,
    ScriptErrors,
    was_taken,
)
from bftrainer_drivers.common.retries import Retries
from bftrainer_drivers.common.silence import ReportSilence
from bftrainer_drivers.common.verdict import Ended, cause, verdict

GATHER_S = 2.0
"""How long the other workers may take to end after one ended unexpectedly: this tells lost nodes
from lost peers.
"""
_SAVED = (Phase.CHECKPOINTED, Phase.DONE)
UNREPORTED_S = 10.0
"""After this time, a group of a script that reports nothing counts as training."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What does not change while a driver runs.

    ``sizes``: the node counts at which a group may train.

    ``elastic``: the group survives changes and losses of workers; else each of them needs a new
    incarnation. ``collective``: a worker can do nothing without the others, not even save.
    ``confirmed``: a group trains once the script has reported its size. ``stop_signal``: the signal
    that requests a stop, which kills a program without a handler; 0: none. ``samples``: a script
    that has reported this number and exits with status 0 is done, although it was asked to stop;
    None: unknown. ``first_step_s``: the longest time from a worker's start to the first report.
    ``independent``: workers form no group; one that fails is started again, and one
    that exits with status 0 has no work left.
    """

    elastic: bool
    sizes: LegalSizes
    stop_s: float
    hang_s: float
    collective: bool = True
    confirmed: bool = False
    stop_signal: int = 0
    samples: float | None = None
    independent: bool = False
    first_step_s: float = math.inf


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


Heard: TypeAlias = (
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
    """The script's own error that has cost the nodes without which no size is legal."""


@dataclass(slots=True)
class RunState:
    """What a driver knows between two pieces of news; ``outcome`` is set when it ends."""

    terms: Terms
    membership: Membership
    silence: ReportSilence
    errors: ScriptErrors
    retries: Retries = field(default_factory=Retries)
    preempted: frozenset[str] = frozenset()
    leaving: Leaving | None = None
    joined: list[Joined] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    phase: Phase | None = None
    samples: float = 0.0
    saved: bool = False
    crashed_s: float | None = None
    taken: bool = False
    killed: bool = False
    hung: str = ""
    """Why the trainer's workers count as hung; empty if they do not."""
    unreported_s: float | None = None
    since_s: float | None = None
    """Since when workers have run without a first report; None once one has come."""
    outcome: DriverOutcome | None = None

    @property
    def checkpointed(self) -> bool:
        """Whether the script has saved since it was asked to stop, or had just saved before this
        driver read the request, as its last line says.
        """
        return self.saved or self.phase in _SAVED

    @classmethod
    def first(cls, terms: Terms, longest_silence_s: float = 0.0) -> RunState:
        """Return the state of a driver that has heard nothing yet."""
        membership = Membership(not terms.elastic, terms.sizes, independent=terms.independent)
        if not terms.elastic:
            membership.straggler_s = 60.0  # a restart on warm workers is worth a wait
        return cls(
            terms,
            membership,
            ReportSilence(terms.hang_s, longest_silence_s),
            ScriptErrors(terms.hang_s),
        )


def after(state: RunState, heard: Heard, now_s: float) -> tuple[RunState, list[DriverStep]]:
    """Return the state after the driver heard something, and the steps that it takes now. Nothing
    follows once it has an outcome.
    """
    new = replace(
        state,
        membership=state.membership.copy(),
        silence=replace(state.silence),
        errors=replace(state.errors),
        retries=state.retries.copy(),
        joined=[*state.joined],
        exits=[*state.exits],
    )
    steps = [] if state.outcome is not None else _heard(new, heard, now_s)
    return new, steps


def _heard(state: RunState, heard: Heard, now_s: float) -> list[DriverStep]:
    """Change ``state`` by what was heard, and return the steps to take."""
    match heard:
        case HostsListed():
            return _hosts_listed(state, heard, now_s)
        case StopRequested():
            return _leave(state, "stop requested", now_s)
        case EndNow(outcome):
            state.outcome = outcome
        case Reported(line):
            return _reported(state, line, now_s)
        case Warmed(member, is_cold):
            state.membership.warmed(member, now_s)
            return [] if is_cold else [Report(Warm(member.host.node, member.host.fragment))]
        case Joined():
            _joined(state, heard, now_s)
        case WaitingEnded(member, exit):
            return _waiting_ended(state, member, exit, now_s)
        case WorkerEnded(member, exit):
            return _worker_ended(state, member, exit, now_s)
        case Excused(member):
            state.membership.excused(member)
            return [Announce(state.membership.announced)]
        case TaskFinished(member):
            state.retries.succeeded(member)
        case GroupFormed(labels):
            return _group_formed(state, labels, now_s)
        case GroupOver():
            return _over(state, now_s)
        case TimePassed():
            return _passed(state, now_s)
    return []


def _hosts_listed(state: RunState, listed: HostsListed, now_s: float) -> list[DriverStep]:
    """Take over a new content of ``hosts``. Where every change needs new workers, a group on a
    preempted node is asked to save at once.
    """
    state.preempted = listed.preempted
    steps = _ordered(state, state.membership.order(listed.hosts, now_s), now_s)
    fragments = {member.host.fragment for member in state.membership.group}
    if not state.terms.elastic and fragments & listed.preempted:  # no time for imports ahead
        steps += _leave(state, "a node is preempted", now_s, is_final=False)
    return steps


def _joined(state: RunState, joined: Joined, now_s: float) -> None:
    state.joined.append(joined)
    if state.since_s is None and state.silence.heard_s is None:
        state.since_s = now_s


def _group_formed(state: RunState, labels: tuple[str, ...], now_s: float) -> list[DriverStep]:
    """Note which members the new group has; report that it trains, unless the script must confirm
    that.
    """
    state.membership.formed(labels)
    if not state.terms.independent:
        state.exits.clear()  # workers that ended before this group do not explain its end
    state.errors.formed(now_s)
    return _formed(state, now_s)


def _ordered(state: RunState, actions: list[Action], now_s: float) -> list[DriverStep]:
    """Translate the actions of :class:`.Membership` into the driver's steps. If no group has begun
    yet and every change needs new workers, begin the first one instead.
    """
    if state.terms.elastic or state.membership.group:
        steps: list[DriverStep] = []
        for action in actions:
            match action:
                case Leave(reason, is_short):
                    failed = [end for end in state.exits if is_short and end.failed]
                    steps += _leave(state, reason, now_s)
                    if state.leaving is not None and state.terms.elastic and failed:
                        state.leaving = replace(state.leaving, failure=cause(failed))
                case Announce(members) if not state.terms.elastic:
                    steps += _leave(state, "other nodes", now_s, is_final=False) if members else []
                case Drop(Member(host=host)):
                    steps += [Report(WarmingCanceled(host.node, host.fragment)), action]
                case _:
                    steps.append(action)
        return steps
    return _begin(state, now_s)


def _begin(state: RunState, now_s: float) -> list[DriverStep]:
    """Begin the next incarnation on the usable members, and forget what was heard of the last one.
    With too few nodes the driver ends.
    """
    if not state.membership.usable():
        present = len(state.membership.present())
        state.outcome = DriverOutcome(Ending.STOPPED, state.terms.sizes.shortage(present))
        return []
    drops: list[DriverStep] = [drop for drop in state.membership.begin() if isinstance(drop, Drop)]
    state.exits.clear()
    state.leaving = state.phase = state.crashed_s = None
    state.taken = state.killed = state.saved = False
    state.silence.heard_s = state.since_s = None  # the first step may take a while
    return [*drops, Begin(state.membership.group), *_formed(state, now_s)]


def _formed(state: RunState, now_s: float) -> list[DriverStep]:
    """Start to wait for the new group's first report; a group that need not confirm itself is
    reported as running.
    """
    state.silence.begun(now_s)
    state.unreported_s = now_s
    return [] if state.terms.confirmed else _running(state)


def _running(state: RunState) -> list[DriverStep]:
    """Report that the group trains: once per group, and only after all workers of dismissed members
    have ended.
    """
    group, announced = state.membership.group, state.membership.announced
    dismissed = any(
        worker.member not in group and worker.member not in announced for worker in state.joined
    )
    stands_in = state.terms.elastic and any(
        member.host.fragment in state.membership.withheld for member in group
    )
    # A worker that stands in for a lost one trains only until the rescale that follows.
    if state.unreported_s is None or dismissed or stands_in:
        return []
    state.unreported_s = None
    return [Report(Running(_size(state), tuple(sorted(member.host.fragment for member in group))))]


def _size(state: RunState) -> int:
    return sum(member.host.slots for member in state.membership.group)


def _leave(
    state: RunState, reason: str, now_s: float, *, is_final: bool = True
) -> list[DriverStep]:
    """Ask all workers to save and leave, once. ``is_final``: the driver ends after them; otherwise
    another group follows.
    """
    if state.leaving is not None:
        if is_final and not state.leaving.is_final:
            state.membership.leaving = True
            state.leaving = replace(state.leaving, reason=reason, is_final=True)
        return []
    state.leaving = Leaving(reason, now_s, is_final)
    state.retries.waiting.clear()  # a worker may hear of a stop before this driver does
    state.membership.leaving = is_final
    if not state.joined:
        state.outcome = DriverOutcome(Ending.STOPPED, reason)
    return [AskWorkersToStop(reason)]


def _reported(state: RunState, line: ProgressLine, now_s: float) -> list[DriverStep]:
    """Take over a line of progress. A line with the new group's size confirms that it trains, where
    a launcher needs that (:attr:`Terms.confirmed`).
    """
    state.silence.heard(now_s)
    state.since_s = None
    if line.phase is not Phase.BUSY:
        state.phase = line.phase
    state.samples = state.samples if line.samples is None else line.samples
    state.saved |= state.leaving is not None and line.phase in _SAVED
    return _running(state) if state.terms.confirmed and line.world_size == _size(state) else []


def _withhold(state: RunState, member: Member, why: str) -> list[DriverStep]:
    """Give up a member's fragment after a worker there was lost or failed, and report that once."""
    is_first = state.membership.lost(member)
    steps: list[DriverStep] = (
        [Drop(member), Announce(state.membership.announced)] if state.terms.elastic else []
    )
    return [
        *steps,
        *([Report(Withheld(member.host.node, member.host.fragment, why))] if is_first else []),
    ]


def _waiting_ended(state: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    """Handle the end of a worker that was still waiting for its rank: its member is given up, or
    starts cold later to show why it fails.
    """
    if end.planned:
        return []
    if not state.terms.elastic and not was_taken(end.status):
        # It counts as warm: after a cold start it fails again, and its log shows why.
        state.membership.warmed(member, now_s)
        return []
    steps = _withhold(state, member, f"a worker {end.told}")
    everywhere = not (
        state.membership.group or state.membership.warming or state.membership.warm or state.joined
    )
    if end.status in CANNOT_START:
        state.outcome = _cannot_start(end)
    elif everywhere and end.failed and not state.membership.announced:
        state.outcome = DriverOutcome(
            Ending.FAILED, f"every worker {end} while it started", end.status, end.log
        )
    return steps


def _cannot_start(end: Exit) -> DriverOutcome:
    return DriverOutcome(
        Ending.FAILED, f"the command cannot be started: a worker {end}", end.status, end.log
    )


def _worker_ended(state: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    """Handle the end of a worker that had joined. Once the last one on a preempted node has ended,
    the node is given up.
    """
    if (
        of := next((worker for worker in state.joined if worker.member == member), None)
    ) is not None:
        state.joined.remove(of)
    steps = _ended(state, member, end, now_s)
    if member.host.fragment in state.preempted and not any(
        worker.member == member for worker in state.joined
    ):
        # Not before the last worker has ended: the pilot releases the node at once.
        steps += _withhold(state, member, "its node is preempted")
    return steps


def _ended(state: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    """Handle the end of a worker of an elastic group; the two other kinds of launchers have
    functions of their own.
    """
    if state.terms.independent:
        return _independent_ended(state, member, end, now_s)
    if not state.terms.elastic:
        return _restarting_ended(state, member, end, now_s)
    state.exits.append(end)
    if end.status in CANNOT_START and not end.planned:
        state.outcome = _cannot_start(end)
        return []
    if end.status == 0 and not end.planned:
        state.membership.leaving = True  # the training is complete: no worker joins
    of_last = member in state.membership.last_group and member not in state.membership.group
    if state.leaving is None and state.errors.ended(end, now_s, of_last=of_last):
        reason = f"workers of {MOST_ERRORS} groups in succession failed; the last one {end}"
        state.outcome = DriverOutcome(Ending.FAILED, reason, end.status, end.log)
    steps = _withhold(state, member, f"a worker {end.told}") if end.lost or end.failed else []
    return [*steps, *([] if state.terms.confirmed else _running(state))]


def _restarting_ended(state: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    """Handle the end of a worker under a launcher whose every change needs new workers
    (:mod:`.restarts`).
    """
    by_signal = end.status == -state.terms.stop_signal
    if state.leaving is not None:
        by_request = by_signal
        end = replace(end, planned=True)
    else:
        by_request = end.planned and by_signal
    state.exits.append(end)
    if end.status in CANNOT_START and not end.planned:
        state.outcome = _cannot_start(end)
        return []
    if end.status not in (0, STOPPED_STATUS) and not end.planned and state.crashed_s is None:
        state.crashed_s = now_s
    # Killed while it was exiting, and not by this driver: its node was taken as well.
    if was_taken(end.status) and not (state.killed or by_request or end.out_of_memory):
        state.taken = True
        return _withhold(state, member, f"a worker {end}")
    return []


def _independent_ended(
    state: RunState, member: Member, end: Exit, now_s: float
) -> list[DriverStep]:
    """Handle the end of a worker that needs no others: it is started again if it failed, and the
    trainer fails after :data:`MOST_ERRORS` failures without a finished task.
    """
    if end.planned or state.leaving is not None or end.status == 0:
        state.exits += [] if end.planned else [end]
        return _running(state)
    if end.status in CANNOT_START:
        state.outcome = _cannot_start(end)
        return []
    state.retries.failed(member, end, now_s)
    if state.retries.in_succession >= MOST_ERRORS:
        reason = (
            f"{MOST_ERRORS} workers in succession failed, and no task was finished; the "
            f"last one {end.told}"
        )
        state.outcome = DriverOutcome(Ending.FAILED, reason, end.status, end.log)
    elif state.retries.is_bad(member) and len(state.membership.announced) > 1:
        state.retries.forget(member)
        return [*_withhold(state, member, f"a worker {end.told}"), *_running(state)]
    return _running(state)


def _over(state: RunState, now_s: float) -> list[DriverStep]:
    """Decide what follows a group that has ended: an outcome, or the next group."""
    if not _was_broken_by_stranger(state):
        state.outcome = _verdict(state)
    return _begin(state, now_s) if state.outcome is None else []


def _was_broken_by_stranger(state: RunState) -> bool:
    """Whether the group ended while it connected, because a stranger took a worker's place
    (:mod:`.vouching`): that is no failure, and the trainer begins again.
    """
    is_new_group = state.phase is None and state.leaving is None and not state.terms.elastic
    return is_new_group and any(end.met_stranger for end in state.exits)


def _verdict(state: RunState) -> DriverOutcome | None:
    """Return how the driver ends (:func:`.verdict`), or the script's own error if that had cost the
    nodes for which it was stopped; None if another group follows.
    """
    final = state.leaving.reason if state.leaving is not None and state.leaving.is_final else None
    left = state.leaving is not None
    hung = state.hung or None
    complete = state.terms.samples is not None and state.samples >= state.terms.samples
    says_done = state.phase is Phase.DONE or (
        complete and {end.status for end in state.exits} == {0}
    )
    outcome = verdict(
        Ended(
            tuple(state.exits),
            state.terms.elastic,
            state.terms.collective,
            final,
            left,
            says_done,
            state.taken,
            hung,
        )
    )
    failure = None if state.leaving is None else state.leaving.failure
    is_stopped = outcome is not None and outcome.ending is Ending.STOPPED
    return failure if is_stopped and failure is not None else outcome


def _passed(state: RunState, now_s: float) -> list[DriverStep]:
    """Do what time has made due: changes of membership, retries, the end of workers that have not
    left in time or count as hung.
    """
    steps = (
        _ordered(state, state.membership.tick(now_s), now_s)
        if state.membership.group or state.terms.elastic
        else []
    )
    leaving = state.leaving
    here = {*state.membership.announced, *state.membership.group}
    steps += [Retry(member, slot) for member, slot in state.retries.due(now_s) if member in here]
    if leaving is not None and now_s - leaving.since_s >= state.terms.stop_s:
        steps += _left_too_late(state, leaving)
    elif leaving is None and (reason := _hang(state, now_s)):
        steps += _hung(state, reason, now_s)
    elif (
        state.crashed_s is not None
        and now_s - state.crashed_s > GATHER_S
        and (leaving is None or state.terms.collective)
    ):
        steps += _kill(state)  # workers that need no peers may still save
    if (
        state.silence.heard_s is None
        and state.unreported_s is not None
        and now_s - state.unreported_s > UNREPORTED_S
    ):
        steps += _running(state)
    return steps


def _left_too_late(state: RunState, leaving: Leaving) -> list[DriverStep]:
    """End workers that have not left within ``stop_s``: kill the group, or end the driver with
    it.
    """
    if not leaving.is_final:
        return _kill(state)
    reason = f"{leaving.reason}; {LATE} {state.terms.stop_s:g} s (stop_s)"
    state.outcome = leaving.failure or DriverOutcome(Ending.STOPPED, reason)
    return []


def _hung(state: RunState, reason: str, now_s: float) -> list[DriverStep]:
    """End the driver because its workers count as hung."""
    state.hung = reason
    silent_s = round(_silent_s(state, now_s), 1)
    log = state.joined[0].log if state.joined else None
    outcome = _verdict(state)
    if outcome is not None and outcome.log is None:
        outcome = replace(outcome, log=log)
    state.outcome = outcome
    hosts = dict.fromkeys(worker.member.host for worker in state.joined)
    return [Report(Hung(host.node, host.fragment, silent_s)) for host in hosts]


def _hang(state: RunState, now_s: float) -> str:
    """Return why the workers count as hung; empty if they do not."""
    if state.silence.is_hung(now_s):
        return state.silence.reason
    limit_s = state.terms.first_step_s
    if state.joined and state.since_s is not None and now_s - state.since_s >= limit_s:
        return f"no step within {limit_s:g} s of its start (first_step_s)"
    return ""


def _silent_s(state: RunState, now_s: float) -> float:
    """Return the seconds since the last report; before the first one, since the workers run."""
    return state.silence.seconds(now_s) if state.since_s is None else now_s - state.since_s


def _kill(state: RunState) -> list[DriverStep]:
    """Kill the group's workers; nothing if that was done before."""
    first, state.killed = not state.killed, True
    return [KillGroup()] if first else []
