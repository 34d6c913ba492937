"""The NodeHolder port on a batch scheduler: preemptible jobs, and a payload on each of their nodes.

The state of a fragment comes from three sources: the payload's marks (at every poll), the
scheduler's list of holders (every ``poll_s``; more often while a fragment starts or leaves), and
the requests. A job that is not listed is not necessarily gone: ended jobs are listed as well, and
the scheduler is asked by id for a job that it no longer lists.

Facts are gathered and steps carried out here; :mod:`~bftrainer_clusters.holding.decisions` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic

from bftrainer.cluster.model import (
    Acquired,
    Fragment,
    FragmentPhase,
    HoldingPermit,
    NodeRequest,
    Refusal,
)
from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.errors import CommandError, PostponedError, SchedulerError
from bftrainer.fragment_names import (
    fragment_name,
    id_in_job,
    is_one_of_several,
    job_of,
    node_of,
)
from bftrainer.system.clock import Clock
from bftrainer_clusters.holding import decisions
from bftrainer_clusters.holding.batches import (
    alike_together,
    limit_of,
    next_batch,
    with_usable_window,
)
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.holding.decisions import HoldingSteps, ListAnswer
from bftrainer_clusters.holding.fragment_table import FragmentTable
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_fragment import HolderFragment, Marks, OwnSubmission
from bftrainer_clusters.holding.holder_jobs import HolderJobs, HolderRules, ListedJob, SettingsT
from bftrainer_clusters.holding.list_times import ListTimes
from bftrainer_clusters.holding.node_times import read_times, save_times
from bftrainer_clusters.holding.submission_history import (
    HolderFailed,
    HolderOutcome,
    SubmissionHistory,
)

_MARKS_AT_ONCE = 125
"""Marks of holders at rest that one poll reads, in turn: with 500 holders, each is read every 0.8
s.
"""
_MARKS_S = 0.05
"""How long one poll reads these marks: each is an ``open``, which asks the server of a network file
system.
"""
_ROUND_S = 2.0
"""No submission begins this long after the first one of a round: a tick of the pilot must not wait
for 16 slow commands.
"""
_FIRST = 2
"""The first jobs of a round tell whether the scheduler takes any: the next batch is twice as large,
up to the trait.
"""


class JobHolder(Generic[SettingsT]):
    """Holds nodes for one pilot by a scheduler's jobs."""

    def __init__(
        self,
        jobs: HolderJobs[SettingsT],
        settings: SettingsT,
        files: HolderFiles,
        clock: Clock,
        poll_s: float,
    ) -> None:
        self._jobs = jobs
        self._traits = jobs.traits
        self._settings = settings
        self._files = files
        self._clock = clock
        self._poll_s = poll_s
        self._table = FragmentTable()
        self._lists = ListTimes(clock.elapsed_s())
        self._history = SubmissionHistory(read_times(files.root))
        self._saved = self._history.times

    @property
    def holders(self) -> Path:
        """The folder with one folder per fragment."""
        return self._files.root

    @property
    def _holder_rules(self) -> HolderRules:
        """Return the rules of the present configuration for submitting and ending holders."""
        jobs = self._jobs
        return HolderRules(
            self._settings,
            self._traits,
            jobs.turn_s,
            jobs.is_limit,
            jobs.nodes_per_job,
            self._poll_s,
        )

    def reconfigure(self, settings: SettingsT, poll_s: float) -> None:
        """Use these settings for new holders; existing ones keep their options."""
        self._settings, self._poll_s = settings, poll_s
        self._jobs.reconfigure(settings)

    def acquire(self, requests: tuple[NodeRequest, ...]) -> Acquired:
        """Submit jobs for the requests, some at a time, until too many in a row have failed or the
        round is over; the rest is for the next call.

        The holder of a requested node may have been released and not have ended yet: the new job
        starts when that one ends.
        """
        began_s = self._clock.elapsed_s()
        fragments: list[Fragment] = []
        refusals: list[Refusal] = []
        failed, at_once = 0, min(_FIRST, self._jobs.submissions_at_once)
        rules = self._holder_rules
        rest = alike_together(requests, self._history, rules)
        why_none, retry_s = self._why_none() if requests else ("", 0.0)
        while (
            rest
            and self._clock.elapsed_s() - began_s < _ROUND_S
            and not self._jobs.wait_s(CallKind.SUBMIT)
        ):
            if why_none:
                refusals += [Refusal(request.node, why_none, retry_s) for request in rest]
                break
            table = self._table.by_name.values()
            held = frozenset(fragment.node for fragment in table if not fragment.is_released)
            pending = len({fragment.job for fragment in table if fragment.is_pending})
            now_s, sent_s = self._clock.elapsed_s(), self._clock.now_s()
            batch = next_batch(rest, at_once, held, pending, self._history, rules, now_s)
            rest, refusals = batch.rest, [*refusals, *batch.refusals]
            for together, job in zip(batch.jobs, self._submit_all(batch.jobs), strict=True):
                if isinstance(job, str):
                    self._history, failed = self._history.sent(1, now_s), 0
                    fragments += self._add_fragments(together, job, sent_s, rules)
                elif isinstance(job, PostponedError):
                    rest = ()  # calls are limited: the node is not to blame
                else:
                    failed += 1
                    refusals += [self._refusal_of(request.node, str(job)) for request in together]
                    if failed >= self._traits.failures_in_a_row:
                        why_none = f"not tried: {self._traits.submit} has just failed"
                        retry_s = self._settings.back_off_s
            at_once = min(2 * at_once, self._jobs.submissions_at_once)
        return Acquired(tuple(fragments), tuple(refusals))

    def permit(self) -> HoldingPermit:
        """Return whether the site allows holders. Before the first list nothing is known of the
        site, and nothing is submitted.
        """
        return self._jobs.permit() if self._lists.has_listed else HoldingPermit()

    def _why_none(self) -> tuple[str, float]:
        """Return why nothing may be submitted on any node, and for how long no request needs to ask
        again; an empty reason if holders may be submitted.
        """
        if not self._lists.has_listed:
            why = f": {self._lists.failure}" if self._lists.failure else ""
            return f"{self._traits.name} has not listed the existing holders yet{why}", 0.0
        back_off_s = self._settings.back_off_s
        try:
            return self._jobs.why_no_holder(), back_off_s
        except (CommandError, SchedulerError) as error:
            return f"cannot determine whether holders would be preempted: {error}", back_off_s

    def _submit_all(self, jobs: Sequence[Sequence[NodeRequest]]) -> list[str | Exception]:
        """Submit these jobs at the same time; return for each its id, or the error. Each is a
        command that waits for the scheduler, and a release waits for all of them.
        """
        if len(jobs) < 2:
            return [self._submit_job(together) for together in jobs]
        with ThreadPoolExecutor(len(jobs), "submit") as pool:
            return list(pool.map(self._submit_job, jobs))

    def _submit_job(self, together: Sequence[NodeRequest]) -> str | Exception:
        """Submit one job and return its id, or the error. It runs in a thread, and changes nothing
        here.
        """
        first, *others = (with_usable_window(request, self._history) for request in together)
        window_s = min(request.window_s for request in (first, *others))
        try:
            return self._jobs.submit(
                replace(first, window_s=window_s), tuple(request.node for request in others)
            )
        except (CommandError, SchedulerError) as error:  # PostponedError is one of them
            return error

    def _add_fragments(
        self, together: Sequence[NodeRequest], job: str, sent_s: float, rules: HolderRules
    ) -> list[Fragment]:
        """Record the fragments of a submitted job, and give this pilot their leases."""
        now_s = self._clock.elapsed_s()
        added = {}
        for request in together:
            name = fragment_name(
                request.node, id_in_job(job, request.node) if len(together) > 1 else job
            )
            self._files.hold(name)
            release_s = self._history.times.end_s(request.node_class)
            fragment = Fragment(
                name,
                FragmentPhase.PENDING,
                release_s=release_s,
                reached=((NodeStage.SUBMITTED, sent_s),),
                gpus=tuple(range(request.gpus)),
                is_part=request.cpus > 0,
            )
            submission = OwnSubmission(
                now_s, 60.0 * limit_of(request, self._history, rules), request.node_class
            )
            added[name] = HolderFragment(
                fragment, now_s, submission, has_begun=not self._traits.log_at_start
            )
        self._table.put(added)
        return [held.fragment for held in added.values()]

    def _refusal_of(self, node: str, reason: str) -> Refusal:
        failed = HolderFailed(node, reason)
        self._apply_outcome(failed)
        wait_s = self._history.wait_s(failed, self._holder_rules, self._clock.elapsed_s())
        return Refusal(node, reason, wait_s)

    def _apply_outcome(self, outcome: HolderOutcome) -> None:
        self._history = self._history.after(outcome, self._holder_rules, self._clock.elapsed_s())

    def poll(self) -> tuple[Fragment, ...]:
        """Read the payloads' marks, and the scheduler's list if it is time; return all fragments.
        Without a change the result is the same object as before.
        """
        now_s = self._clock.elapsed_s()
        marks = {name: self._fragment_marks(name) for name in self._table.moving}
        for name in self._table.in_turn(_MARKS_AT_ONCE):
            if (leaving := self._files.leaving(name)) is not None:
                marks[name] = Marks(leaving=leaving)
            if self._clock.elapsed_s() - now_s >= _MARKS_S:
                break
        fragments = self._table.whole_jobs(marks)
        ends_again = self._traits.cancels_ended
        self._carry_out(decisions.after_marks(fragments, marks, now_s, ends_again))
        moving = (self._table.by_name[name] for name in self._table.moving)
        if self._lists.is_due(moving, self._holder_rules, now_s) and not self._jobs.wait_s(
            CallKind.LIST
        ):
            self._list_jobs(now_s)
        self._end_broken_jobs(now_s)
        shown, departed = self._table.show()
        for name in departed:
            self._files.remove(name)
        return shown

    def observed(self, without_a_job: frozenset[str]) -> None:
        """Suspect a holder at rest on one of these nodes until the next list."""
        self._history = self._history.observed(without_a_job)
        if not self._lists.suspects and self._table.rests_on(without_a_job):
            self._lists = replace(self._lists, suspects=True)

    def release(self, names: frozenset[str]) -> None:
        """End the workers and holders of these fragments. The leases say it as well, in case the
        scheduler does not answer.
        """
        now_s, own = self._clock.elapsed_s(), self._table.by_name.keys() & names
        self._carry_out(decisions.released(self._table.whole_jobs(own), own, now_s))
        self._end_broken_jobs(now_s)

    def shorten(self, names: frozenset[str], seconds: float) -> None:
        """Let the jobs of these fragments, as far as they run, end after so many seconds at the
        latest. If the scheduler does not answer, nothing happens.
        """
        fragments = self._table.by_name
        running = [name for name in names if name in fragments and fragments[name].has_run]
        jobs = {fragments[name].job for name in running}
        if jobs and not self._jobs.wait_s(CallKind.TIDY):
            with suppress(CommandError, SchedulerError):
                self._jobs.shorten(sorted(jobs), seconds)

    def clear(self, names: frozenset[str]) -> None:
        """End all workers, but not the payloads."""
        fragments = self._table.by_name
        if running := [
            name for name in sorted(names) if name in fragments and not fragments[name].is_pending
        ]:
            self._jobs.end_workers(running)

    def renew(self) -> None:
        """Rewrite the one file that renews all leases."""
        self._files.renew()

    def _fragment_marks(self, name: str) -> Marks:
        leaving = self._files.leaving(name)
        return Marks(
            self._files.ready(name) if self._table.by_name[name].is_pending else "", leaving
        )

    def _list_jobs(self, now_s: float) -> None:
        """Ask the scheduler for the pilot's jobs, and take over what has changed; the first list
        shows the holders of a predecessor.
        """
        try:
            if not self._lists.has_listed:
                self._jobs.begin()
            listed = self._jobs.listed()
        except (CommandError, SchedulerError) as error:
            self._lists = self._lists.failed(
                str(error), self._poll_s, now_s, self._clock.elapsed_s()
            )
            return
        if not self._lists.has_listed:
            self._take_over(decisions.adopted(listed, now_s))
        self._lists = self._lists.answered(self._poll_s, now_s)
        missing = decisions.to_ask_for(self._table.by_name, listed)
        unknown: frozenset[str] = frozenset()
        if missing:
            with suppress(CommandError, SchedulerError):
                unknown = self._jobs.unknown(missing)
        answer = ListAnswer(
            listed, unknown, self._marks_after(listed), now_s - self._jobs.list_age_s
        )
        self._carry_out(
            decisions.after_list(self._table.by_name, answer, self._holder_rules, now_s)
        )
        if self._history.times != self._saved:
            self._saved = self._history.times
            save_times(self._files.root, self._saved)

    def _marks_after(self, listed: Mapping[str, ListedJob]) -> dict[str, Marks]:
        """Read the marks of the fragments that have to be looked at after a list of jobs."""
        fragments = self._table.by_name.items()
        return {
            name: self._marks_and_log(name, held.is_pending)
            for name, held in fragments
            if decisions.to_look_at(held, listed.get(held.job))
        }

    def _marks_and_log(self, name: str, is_pending: bool) -> Marks:
        """Read the marks of a fragment, and of a pending one also the end of its log."""
        log = self._files.log_end(name) if is_pending else None
        return Marks(self._files.ready(name), self._files.leaving(name), log)

    def _take_over(self, adopted: HoldingSteps) -> None:
        """Adopt a predecessor's holders, and delete the folders of those that are over."""
        for name in adopted.changed:
            self._files.hold(name)
        for name in self._files.names():
            if name not in adopted.changed:
                self._files.remove(name)
        self._carry_out(adopted)

    def _end_broken_jobs(self, now_s: float) -> None:
        """End jobs of several nodes of which a payload has ended (:func:`.settled`)."""
        several = [name for name in self._table.moving if is_one_of_several(name)]
        if several:
            self._carry_out(decisions.settled(self._table.whole_jobs(several), now_s))

    def _carry_out(self, steps: HoldingSteps) -> None:
        """Carry out the steps of a decision, in their order."""
        for name in steps.mark_released:
            self._files.mark_released(name)
        self._table.put(steps.changed)
        for outcome in steps.outcomes:
            self._apply_outcome(outcome)
        taken: dict[str, list[str]] = {}
        for name in steps.taken:
            taken.setdefault(job_of(name), []).append(node_of(name))
        for job, nodes in taken.items():
            self._jobs.release_nodes(job, nodes)
        if steps.leave:
            self._jobs.leave(list(steps.leave))
        if steps.end:
            self._jobs.end(list(steps.end))
