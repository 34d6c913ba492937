"""The next steps of a driver: (state, news, time) -> (state, steps). Pure, and the same for all
launchers.

A launcher differs by its ``Terms``, and by how it starts, announces and ends workers
(``common.run``). Starting and recovering are one path: a new driver knows nothing but the files,
and its first group begins as every other one.
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
    """By the pilot: checkpoint and leave."""


@dataclass(frozen=True, slots=True)
class EndNow:
    """The driver is to end at once, in this way."""

    outcome: DriverOutcome


@dataclass(frozen=True, slots=True)
class Reported:
    """A line of this incarnation's progress."""

    line: ProgressLine


@dataclass(frozen=True, slots=True)
class Warmed:
    """All workers of a member wait for their ranks; or it has none that could (``is_cold``)."""

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
    """By a worker of this member."""

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
    """Nothing else."""


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
    """A driver between two things that it hears; ``outcome`` is set when it ends."""

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
    """Why its workers count as hung."""
    unreported_s: float | None = None
    since_s: float | None = None
    """Since when workers have run from which no report has come."""
    outcome: DriverOutcome | None = None

    @property
    def checkpointed(self) -> bool:
        """Whether the script has saved after the request; or before this driver read it, as its
        last line says.
        """
        return self.saved or self.phase in _SAVED

    @classmethod
    def first(cls, terms: Terms, longest_silence_s: float = 0.0) -> RunState:
        """Before anything was heard."""
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
    """The state after something was heard, and what is to be done."""
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


def _heard(it: RunState, heard: Heard, now_s: float) -> list[DriverStep]:
    match heard:
        case HostsListed(hosts, preempted):
            it.preempted = preempted
            steps = _ordered(it, it.membership.order(hosts, now_s), now_s)
            if not it.terms.elastic and any(
                member.host.fragment in preempted for member in it.membership.group
            ):
                steps += _leave(
                    it, "a node is preempted", now_s, is_final=False
                )  # no time for imports ahead
            return steps
        case StopRequested():
            return _leave(it, "stop requested", now_s)
        case EndNow(outcome):
            it.outcome = outcome
        case Reported(line):
            return _reported(it, line, now_s)
        case Warmed(member, is_cold):
            it.membership.warmed(member, now_s)
            return [] if is_cold else [Report(Warm(member.host.node, member.host.fragment))]
        case Joined():
            it.joined.append(heard)
            if it.since_s is None and it.silence.heard_s is None:
                it.since_s = now_s
        case WaitingEnded(member, exit):
            return _waiting_ended(it, member, exit, now_s)
        case WorkerEnded(member, exit):
            return _worker_ended(it, member, exit, now_s)
        case Excused(member):
            it.membership.excused(member)
            return [Announce(it.membership.announced)]
        case TaskFinished(member):
            it.retries.succeeded(member)
        case GroupFormed(labels):
            it.membership.formed(labels)
            if not it.terms.independent:
                it.exits.clear()  # workers that ended before this group do not explain its end
            it.errors.formed(now_s)
            return _formed(it, now_s)
        case GroupOver():
            return _over(it, now_s)
        case TimePassed():
            return _passed(it, now_s)
    return []


def _ordered(it: RunState, actions: list[Action], now_s: float) -> list[DriverStep]:
    """The steps of the membership's actions. Where a change needs new workers, the first group
    begins at once.
    """
    if it.terms.elastic or it.membership.group:
        steps: list[DriverStep] = []
        for action in actions:
            match action:
                case Leave(reason, is_short):
                    failed = [end for end in it.exits if is_short and end.failed]
                    steps += _leave(it, reason, now_s)
                    if it.leaving is not None and it.terms.elastic and failed:
                        it.leaving = replace(it.leaving, failure=cause(failed))
                case Announce(members) if not it.terms.elastic:
                    steps += _leave(it, "other nodes", now_s, is_final=False) if members else []
                case Drop(Member(host=host)):
                    steps += [Report(WarmingCanceled(host.node, host.fragment)), action]
                case _:
                    steps.append(action)
        return steps
    return _begin(it, now_s)


def _begin(it: RunState, now_s: float) -> list[DriverStep]:
    """The next incarnation: what was heard of the last one is over."""
    if not it.membership.usable():
        present = len(it.membership.present())
        it.outcome = DriverOutcome(Ending.STOPPED, it.terms.sizes.shortage(present))
        return []
    drops: list[DriverStep] = [drop for drop in it.membership.begin() if isinstance(drop, Drop)]
    it.exits.clear()
    it.leaving = it.phase = it.crashed_s = None
    it.taken = it.killed = it.saved = False
    it.silence.heard_s = it.since_s = None  # the first step may take a while
    return [*drops, Begin(it.membership.group), *_formed(it, now_s)]


def _formed(it: RunState, now_s: float) -> list[DriverStep]:
    it.silence.begun(now_s)
    it.unreported_s = now_s
    return [] if it.terms.confirmed else _running(it)


def _running(it: RunState) -> list[DriverStep]:
    """The group trains: reported once, and only after all workers of members that were dismissed
    have ended.
    """
    group, announced = it.membership.group, it.membership.announced
    dismissed = any(each.member not in group and each.member not in announced for each in it.joined)
    stands_in = it.terms.elastic and any(
        member.host.fragment in it.membership.withheld for member in group
    )
    if (
        it.unreported_s is None or dismissed or stands_in
    ):  # a stand-in trains until the rescale that follows
        return []
    it.unreported_s = None
    return [Report(Running(_size(it), tuple(sorted(member.host.fragment for member in group))))]


def _size(it: RunState) -> int:
    return sum(member.host.slots for member in it.membership.group)


def _leave(it: RunState, reason: str, now_s: float, *, is_final: bool = True) -> list[DriverStep]:
    if it.leaving is not None:
        if is_final and not it.leaving.is_final:
            it.membership.leaving = True
            it.leaving = replace(it.leaving, reason=reason, is_final=True)
        return []
    it.leaving = Leaving(reason, now_s, is_final)
    it.retries.waiting.clear()  # a worker may hear of a stop before this driver does
    it.membership.leaving = is_final
    if not it.joined:
        it.outcome = DriverOutcome(Ending.STOPPED, reason)
    return [AskWorkersToStop(reason)]


def _reported(it: RunState, line: ProgressLine, now_s: float) -> list[DriverStep]:
    it.silence.heard(now_s)
    it.since_s = None
    if line.phase is not Phase.BUSY:
        it.phase = line.phase
    it.samples = it.samples if line.samples is None else line.samples
    it.saved |= it.leaving is not None and line.phase in _SAVED
    return _running(it) if it.terms.confirmed and line.world_size == _size(it) else []


def _withhold(it: RunState, member: Member, why: str) -> list[DriverStep]:
    is_first = it.membership.lost(member)
    steps: list[DriverStep] = (
        [Drop(member), Announce(it.membership.announced)] if it.terms.elastic else []
    )
    return [
        *steps,
        *([Report(Withheld(member.host.node, member.host.fragment, why))] if is_first else []),
    ]


def _waiting_ended(it: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    if end.planned:
        return []
    if not it.terms.elastic and not was_taken(end.status):
        it.membership.warmed(member, now_s)  # it will fail again, and shows why after a cold start
        return []
    steps = _withhold(it, member, f"a worker {end.told}")
    everywhere = not (
        it.membership.group or it.membership.warming or it.membership.warm or it.joined
    )
    if end.status in CANNOT_START:
        it.outcome = _cannot_start(end)
    elif everywhere and end.failed and not it.membership.announced:
        it.outcome = DriverOutcome(
            Ending.FAILED, f"every worker {end} while it started", end.status, end.log
        )
    return steps


def _cannot_start(end: Exit) -> DriverOutcome:
    return DriverOutcome(
        Ending.FAILED, f"the command cannot be started: a worker {end}", end.status, end.log
    )


def _worker_ended(it: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    if (of := next((each for each in it.joined if each.member == member), None)) is not None:
        it.joined.remove(of)
    steps = _ended(it, member, end, now_s)
    if member.host.fragment in it.preempted and not any(
        each.member == member for each in it.joined
    ):
        steps += _withhold(
            it, member, "its node is preempted"
        )  # only now: the pilot releases the node at once
    return steps


def _ended(it: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    terms = it.terms
    if terms.independent:
        return _independent_ended(it, member, end, now_s)
    if not terms.elastic and it.leaving is not None:
        by_request = end.status == -terms.stop_signal
        end = replace(end, planned=True)
    else:
        by_request = end.planned and end.status == -terms.stop_signal
    it.exits.append(end)
    if end.status in CANNOT_START and not end.planned:
        it.outcome = _cannot_start(end)
        return []
    if not terms.elastic:
        if end.status not in (0, STOPPED_STATUS) and not end.planned and it.crashed_s is None:
            it.crashed_s = now_s
        # Killed while it was exiting, and not by this driver: its node was taken as well.
        if was_taken(end.status) and not (it.killed or by_request or end.out_of_memory):
            it.taken = True
            return _withhold(it, member, f"a worker {end}")
        return []
    if end.status == 0 and not end.planned:
        it.membership.leaving = True  # the training is complete: no worker joins
    of_last = member in it.membership.last_group and member not in it.membership.group
    if it.leaving is None and it.errors.ended(end, now_s, of_last=of_last):
        reason = f"workers of {MOST_ERRORS} groups in succession failed; the last one {end}"
        it.outcome = DriverOutcome(Ending.FAILED, reason, end.status, end.log)
    steps = _withhold(it, member, f"a worker {end.told}") if end.lost or end.failed else []
    return [*steps, *([] if terms.confirmed else _running(it))]


def _independent_ended(it: RunState, member: Member, end: Exit, now_s: float) -> list[DriverStep]:
    if end.planned or it.leaving is not None or end.status == 0:
        it.exits += [] if end.planned else [end]
        return _running(it)
    if end.status in CANNOT_START:
        it.outcome = _cannot_start(end)
        return []
    it.retries.failed(member, end, now_s)
    if it.retries.in_succession >= MOST_ERRORS:
        reason = (
            f"{MOST_ERRORS} workers in succession failed, and no task was finished; the "
            f"last one {end.told}"
        )
        it.outcome = DriverOutcome(Ending.FAILED, reason, end.status, end.log)
    elif it.retries.is_bad(member) and len(it.membership.announced) > 1:
        it.retries.forget(member)
        return [*_withhold(it, member, f"a worker {end.told}"), *_running(it)]
    return _running(it)


def _over(it: RunState, now_s: float) -> list[DriverStep]:
    it.outcome = _verdict(it)
    return _begin(it, now_s) if it.outcome is None else []


def _verdict(it: RunState) -> DriverOutcome | None:
    final = it.leaving.reason if it.leaving is not None and it.leaving.is_final else None
    left = it.leaving is not None
    hung = it.hung or None
    complete = it.terms.samples is not None and it.samples >= it.terms.samples
    says_done = it.phase is Phase.DONE or (complete and {end.status for end in it.exits} == {0})
    outcome = verdict(
        Ended(
            tuple(it.exits),
            it.terms.elastic,
            it.terms.collective,
            final,
            left,
            says_done,
            it.taken,
            hung,
        )
    )
    failure = None if it.leaving is None else it.leaving.failure
    is_stopped = outcome is not None and outcome.ending is Ending.STOPPED
    return failure if is_stopped and failure is not None else outcome


def _passed(it: RunState, now_s: float) -> list[DriverStep]:
    steps = (
        _ordered(it, it.membership.tick(now_s), now_s)
        if it.membership.group or it.terms.elastic
        else []
    )
    leaving, terms = it.leaving, it.terms
    here = {*it.membership.announced, *it.membership.group}
    steps += [Retry(member, slot) for member, slot in it.retries.due(now_s) if member in here]
    if leaving is not None and now_s - leaving.since_s >= terms.stop_s:
        if leaving.is_final:
            reason = f"{leaving.reason}; {LATE} {terms.stop_s:g} s (stop_s)"
            it.outcome = leaving.failure or DriverOutcome(Ending.STOPPED, reason)
        else:
            steps += _kill(it)
    elif leaving is None and (reason := _hang(it, now_s)):
        it.hung = reason
        for each in dict.fromkeys(each.member.host for each in it.joined):
            steps.append(Report(Hung(each.node, each.fragment, round(_silent_s(it, now_s), 1))))
        log = it.joined[0].log if it.joined else None
        ended = _verdict(it)
        it.outcome = ended if ended is None or ended.log is not None else replace(ended, log=log)
    elif (
        it.crashed_s is not None
        and now_s - it.crashed_s > GATHER_S
        and (leaving is None or terms.collective)
    ):
        steps += _kill(it)  # workers that need no peers may still save
    if (
        it.silence.heard_s is None
        and it.unreported_s is not None
        and now_s - it.unreported_s > UNREPORTED_S
    ):
        steps += _running(it)
    return steps


def _hang(it: RunState, now_s: float) -> str:
    """Why the workers count as hung; empty if they do not."""
    if it.silence.is_hung(now_s):
        return it.silence.reason
    limit_s = it.terms.first_step_s
    if it.joined and it.since_s is not None and now_s - it.since_s >= limit_s:
        return f"no step within {limit_s:g} s of its start (first_step_s)"
    return ""


def _silent_s(it: RunState, now_s: float) -> float:
    return it.silence.seconds(now_s) if it.since_s is None else now_s - it.since_s


def _kill(it: RunState) -> list[DriverStep]:
    first, it.killed = not it.killed, True
    return [KillGroup()] if first else []
