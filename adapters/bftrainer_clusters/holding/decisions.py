"""The next steps of a holder: fragments, marks, the scheduler's list, settings and the time in,
steps out. No clock, no I/O.

Each function returns the fragments that have changed, and the steps to take. Fragments come with
the others of their jobs.

A holder job of several nodes is preempted as a whole. It is released as a whole too, but for nodes
that the scheduler can take from a running job (PBS: ``pbs_release_nodes``): once the payload there
has left, its node is given back, and the others are kept. Slurm could shrink a job to some of its
nodes, but loses sight of the others: see slurm/several_nodes.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from bftrainer.cluster.model import FragmentPhase
from bftrainer.fragment_names import is_one_of_several
from bftrainer_clusters.holding.holder_fragment import RELEASED, HolderFragment, Marks, ready_since
from bftrainer_clusters.holding.holder_jobs import HolderRules, JobPhase, ListedJob
from bftrainer_clusters.holding.submission_history import (
    HolderEnded,
    HolderFailed,
    HolderOutcome,
    HolderStarted,
)

PAYLOAD_ENDS_S = 5.0
"""A payload reads its lease once a second."""
_END_AGAIN_S = 5.0
_RELEASE_ALONE_S = 20.0
"""A job of which a node has not been given back so long after its release ends as a whole."""

FragmentsByName = Mapping[str, HolderFragment]


@dataclass(frozen=True, slots=True)
class HoldingSteps:
    """What follows from a decision: the ``changed`` fragments, and steps in the order in which they
    are taken: leases of ``mark_released`` fragments, fragments whose nodes are ``taken`` from their
    jobs, jobs whose payloads are told to ``leave``, jobs to ``end``.
    """

    changed: FragmentsByName = field(default_factory=dict)
    mark_released: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    outcomes: tuple[HolderOutcome, ...] = ()


class _JobsDraft:
    """Collects the changes and steps of one decision."""

    def __init__(
        self, fragments: FragmentsByName, now_s: float, cancels_ended: bool = False
    ) -> None:
        self.before, self.now_s, self.cancels_ended = fragments, now_s, cancels_ended
        self.after = dict(fragments)
        self.marked: dict[str, None] = {}
        self.taken: dict[str, None] = {}
        self.leaving: dict[str, None] = {}
        self.ended: dict[str, None] = {}
        self.outcomes: list[HolderOutcome] = []
        self.jobs: dict[str, list[str]] = {}
        for name, held in fragments.items():
            if is_one_of_several(name):
                self.jobs.setdefault(held.job, []).append(name)

    def members(self, job: str) -> list[HolderFragment]:
        """The fragments of a job for several nodes that are not gone."""
        return [held for name in self.jobs.get(job, ()) if not (held := self.after[name]).is_gone]

    def put(self, held: HolderFragment) -> HolderFragment:
        self.after[held.name] = held
        return held

    def release(self, held: HolderFragment) -> HolderFragment:
        self.marked[held.name] = None
        return self.put(held.released(self.now_s))

    def leaves_alone(self, held: HolderFragment) -> bool:
        """Whether the node of a released fragment is given back by its job, which goes on. A
        preempted job does not: all its payloads leave.
        """
        if not held.is_released or not held.fragment.is_separable:
            return False
        return any(
            not other.is_released and other.phase is not FragmentPhase.LEAVING
            for other in self.members(held.job)
        )

    def take(self, held: HolderFragment) -> None:
        """Take the node of a fragment that leaves alone from its job, once its payload has left or
        does not; end the job where that has failed for too long.
        """
        waited_s = self.now_s - held.since_s
        if waited_s > _RELEASE_ALONE_S:
            self.end_whole(self.members(held.job), f"{held.node} could not be given back alone")
        elif held.payload_left or waited_s > _END_AGAIN_S:
            self.taken[held.name] = None

    def end(self, fragments: Iterable[HolderFragment]) -> None:
        """End the jobs of released fragments; a job for several nodes only once all its fragments
        are released.
        """
        for held in fragments:
            if held.is_released and all(other.is_released for other in self.members(held.job)):
                self.ended[held.job] = None

    def leave(self, fragments: Iterable[HolderFragment]) -> None:
        """End jobs that are released as a whole: their payloads are told to leave where these
        run. A node that is given back alone needs no more than its lease.
        """
        for held in fragments:
            if self.leaves_alone(held):
                continue
            (self.ended if held.is_pending else self.leaving)[held.job] = None

    def end_whole(self, members: list[HolderFragment], why: str) -> None:
        """Release all fragments of a job, for the reason ``why``, and end the job."""
        for held in members:
            if not held.is_released:
                self.release(held.with_why(held.fragment.why or f"{RELEASED}: {why}"))
        self.ended[members[0].job] = None

    def release_with(self, cause: HolderFragment) -> list[HolderFragment]:
        """Release the other fragments of a job, since ``cause`` is released. Returns them."""
        why = f"{RELEASED} with {cause.node} of the same job"
        others = [held for held in self.members(cause.job) if not held.is_released]
        return [self.release(held.with_why(held.fragment.why or why)) for held in others]

    def look(self, name: str, marks: Marks) -> HolderFragment:
        """Apply a payload's marks: the fragment is ready or leaving, and with it the others of
        its job if the job is preempted. Return the fragment as it is now.
        """
        held = self.after[name]
        if marks.leaving is not None and not held.is_gone:
            had_left = held.payload_left
            held = self.put(held.left(marks.leaving, self.now_s))
            if held.payload_left and not had_left:
                self._payload_left(held)
            # It left unasked: the whole job is preempted, or about to end.
            if is_one_of_several(name) and not held.is_released:
                for other in self.members(held.job):
                    if other is not held:
                        self.put(other.left_with(held, self.now_s))
        elif marks.ready and held.is_pending and not held.is_released:
            took_s = None if held.submission is None else self.now_s - held.submission.at_s
            self.outcomes.append(HolderStarted(held.node, held.node_class, took_s))
            held = held.become(FragmentPhase.READY, self.now_s)
            held = self.put(held.reaching(*ready_since(marks.ready)).with_gpus(marks.ready))
        return held

    def _payload_left(self, held: HolderFragment) -> None:
        """Take note that a payload has just ended: its node is given back, or its job is ended once
        more, as soon as no payload of the job is left.
        """
        if self.leaves_alone(held):
            self.take(held)
        elif self.cancels_ended and all(o.payload_left for o in self.members(held.job)):
            self.ended[held.job] = None

    def steps(self) -> HoldingSteps:
        """Return the steps of the draft, with the fragments that have really changed."""
        before = self.before
        changed = {
            n: held
            for n, held in self.after.items()
            if held is not before.get(n) and held != before.get(n)
        }
        taken = tuple(name for name in self.taken if self.after[name].job not in self.ended)
        jobs = tuple(self.leaving), tuple(self.ended)
        return HoldingSteps(changed, tuple(self.marked), taken, *jobs, tuple(self.outcomes))


def after_marks(
    fragments: FragmentsByName,
    marks: Mapping[str, Marks],
    now_s: float,
    cancels_ended: bool = False,
) -> HoldingSteps:
    """Return the steps after the marks of some fragments were read. ``cancels_ended`` as in
    :class:`.SchedulerTraits`.
    """
    draft = _JobsDraft(fragments, now_s, cancels_ended)
    for name, fragment_marks in marks.items():
        draft.look(name, fragment_marks)
    return draft.steps()


def released(fragments: FragmentsByName, names: Collection[str], now_s: float) -> HoldingSteps:
    """Return the steps to give up the nodes of ``names``, which the pilot no longer
    wants.

    A payload ends the workers, and its job; it needs no command if it is preempted. The other nodes
    of a job for several are released with it, unless the job can give it back alone.
    """
    draft = _JobsDraft(fragments, now_s)
    ending = [draft.release(fragments[name]) for name in sorted(names)]
    for cause in tuple(ending):
        if not cause.fragment.is_separable:
            ending += draft.release_with(cause)
    draft.leave(held for held in ending if not held.payload_left)
    return draft.steps()


def adopted(listed: Mapping[str, ListedJob], now_s: float) -> HoldingSteps:
    """Return fragments for the holders in the first list: a predecessor with the same name has left
    them.
    """
    names = (
        name for job in listed.values() if job.phase is not JobPhase.OVER for name in job.fragments
    )
    return HoldingSteps({name: HolderFragment.adopted(name, now_s) for name in names})


def to_look_at(held: HolderFragment, job: ListedJob | None) -> bool:
    """Return whether a fragment's marks are read once more after a list: it may have begun
    meanwhile, or have left with a better reason than the list shows.
    """
    return (
        held.is_pending
        or job is None
        or job.phase is not JobPhase.RUNS
        or held.name not in job.fragments
    )


def to_ask_for(fragments: FragmentsByName, listed: Mapping[str, ListedJob]) -> list[str]:
    """Return the jobs that two lists in a row lack: the scheduler is asked for each by its id,
    since a job is over only if that is unknown as well.
    """
    return sorted(
        {held.job for held in fragments.values() if held.is_unlisted and held.job not in listed}
    )


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """A list of the pilot's jobs, those of the missing ones that are ``unknown``, and marks that
    were read after it. The list shows the jobs as of ``at_s`` or later (elapsed seconds).
    """

    listed: Mapping[str, ListedJob]
    unknown: frozenset[str]
    marks: Mapping[str, Marks]
    at_s: float


def after_list(
    fragments: FragmentsByName, answer: ListAnswer, rules: HolderRules, now_s: float
) -> HoldingSteps:
    """Return the steps after the scheduler has listed the pilot's jobs. ``fragments`` are all of
    the pilot's, as they were when it was asked.
    """
    draft = _JobsDraft(fragments, now_s, rules.traits.cancels_ended)
    jobs = {held.job for held in fragments.values()}
    strays = {
        id_
        for id_, job in answer.listed.items()
        if id_ not in jobs and job.phase is not JobPhase.OVER
    }
    draft.ended |= dict.fromkeys(sorted(strays))  # submissions that never returned their id
    for name, held in fragments.items():
        job = answer.listed.get(held.job)
        is_same = (
            job is not None and job.phase is JobPhase.RUNS and held.listed_as(job, now_s) is held
        )
        if is_same and held.is_at_rest:
            continue
        _note_job_changes(draft, name, job, answer, rules)
    moving = [held for held in draft.after.values() if not held.is_at_rest]
    for held in moving:
        if held.is_pending and held.is_released and not held.fragment.is_separable:
            draft.release_with(held)  # its payload has not started, and no node is held without one
        if not held.is_gone and draft.leaves_alone(held):
            draft.take(held)
    # Try again where it had no effect: a command failed, or a payload hangs.
    draft.end(held for held in moving if held.is_pending or now_s - held.since_s > _END_AGAIN_S)
    return draft.steps()


def _note_job_changes(
    draft: _JobsDraft, name: str, job: ListedJob | None, answer: ListAnswer, rules: HolderRules
) -> None:
    """Compare one fragment with its job in the list (None: not listed), and note what has
    changed.
    """
    before, now_s = draft.before[name], draft.now_s
    marks = answer.marks.get(name, Marks())
    held = draft.look(name, marks)
    left_s = held.since_s if held.phase is FragmentPhase.LEAVING else None
    if job is None:
        if before.is_unlisted and held.job in answer.unknown:
            held, left_s = (
                held.become(FragmentPhase.GONE, now_s, f"unknown to {rules.traits.name}"),
                None,
            )
        held = replace(held, is_unlisted=True)
    else:
        held = held.listed_as(job, now_s)
        # A job that is pending in a list that is older than its start has not been requeued.
        waits_again = (
            job.phase is JobPhase.WAITS and before.has_run and before.since_s <= answer.at_s
        )
        requeued = "preempted and requeued" if waits_again else ""
        if why := requeued or _must_end(job):
            held = draft.release(held.with_why(held.fragment.why or why))
            draft.end([held])
    if held.is_gone and left_s is not None:
        draft.outcomes.append(HolderEnded(held.node_class, now_s - left_s))
    if held.is_gone and not held.is_released and not marks.ready:
        draft.outcomes.append(HolderFailed(held.node, ""))
        held = held.with_why(held.fragment.why + (f": {marks.log}" if marks.log else ""))
    draft.put(held)
    if held.is_late(rules.settings, answer.at_s, rules.turn_s(held.reason)):
        _give_up(draft, held, marks, rules)


def _must_end(job: ListedJob) -> str:
    """Return why a job has to end, whatever it does; empty for most."""
    match job.phase:
        case JobPhase.SUSPENDED:
            return f"suspended ({job.state})"
        case JobPhase.BLOCKS:
            return f"not preempted for main jobs: {job.state}"
        case _:
            return ""


def _give_up(draft: _JobsDraft, held: HolderFragment, marks: Marks, rules: HolderRules) -> None:
    """Release a holder that has not started in time, unless its script has only just begun."""
    if held.runs and not held.has_begun and marks.log is not None:
        held = draft.put(replace(held, has_begun=True, since_s=draft.now_s))
    why = held.why_given_up(rules.settings, draft.now_s, rules.turn_s(held.reason))
    if why and not held.is_released:
        held = held.with_why(why)
        draft.outcomes.append(HolderFailed(held.node, "" if held.runs else held.reason))
    if why:
        draft.release(held)


def settled(fragments: FragmentsByName, now_s: float) -> HoldingSteps:
    """Return the steps for jobs of several nodes of which a payload has ended: the whole job
    ends.
    """
    draft = _JobsDraft(fragments, now_s)
    for job in sorted(draft.jobs):
        members = draft.members(job)
        if any(_is_stuck(held, now_s) for held in members):
            draft.end_whole(members, "its payload has ended")
    return draft.steps()


def _is_stuck(held: HolderFragment, now_s: float) -> bool:
    """Return whether a payload has ended while its job goes on: if the job were preempted, Slurm
    would have ended it by now.
    """
    is_left = held.phase is FragmentPhase.LEAVING and not held.is_released
    return is_left and now_s - held.since_s > PAYLOAD_ENDS_S
