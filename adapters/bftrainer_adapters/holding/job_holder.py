"""The NodeHolder port on a batch scheduler: preemptible jobs, and a payload on each of their nodes.

The state of a fragment comes from three sources: the payload's marks (at every poll), the scheduler's list of holders (every
``poll_s``; more often while a fragment starts or leaves), and the requests. A job that is not listed is not necessarily gone:
ended jobs are listed, too, and the scheduler is asked by id for a job that it no longer lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from bftrainer.domain.cluster import Acquired, Fragment, FragmentPhase, NodeRequest
from bftrainer.domain.ports import Clock
from bftrainer.errors import CommandError, SchedulerError
from bftrainer_adapters.holding.acquiring import Acquiring
from bftrainer_adapters.holding.admission import HolderAdmission
from bftrainer_adapters.holding.call_budget import CallKind
from bftrainer_adapters.holding.held import HolderJobState, JobPhase, ListedJob, ready_since
from bftrainer_adapters.holding.held_jobs import HeldJobs
from bftrainer_adapters.holding.holder_files import HolderFiles
from bftrainer_adapters.holding.holder_jobs import HolderJobs, HolderSettings
from bftrainer_adapters.holding.node_times import NodeTimes
from bftrainer_adapters.holding.shared_jobs import SharedJobs

_END_AGAIN_S = 5.0
_MARKS_AT_ONCE = 125
"""Marks of holders at rest that one poll reads, in turn: with 500 holders, each is read every 0.8 s."""
_MARKS_S = 0.05
"""How long one poll reads these marks: each is an ``open``, which asks the server of a network file system."""


class JobHolder:
    """Holds nodes for one pilot by a scheduler's jobs."""

    def __init__(
        self,
        jobs: HolderJobs,
        settings: HolderSettings,
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
        self._held = HeldJobs()
        self._found_old = False
        self._next_ask_s: float = clock.elapsed_s()
        self._failed_asks = 0
        self._times = NodeTimes(files.root)
        self._admission = HolderAdmission(settings, self._traits.table, jobs.is_limit, self._times)
        self._acquiring = Acquiring(jobs, files, clock, self._held, self._admission, self._times)
        self._shared = SharedJobs(jobs, self._held, self._release)
        self._ask_failure = ""
        self._is_one_suspected = False

    @property
    def holders(self) -> Path:
        """The folder with one folder per fragment."""
        return self._files.root

    def reconfigure(self, settings: HolderSettings, poll_s: float) -> None:
        self._settings, self._poll_s = settings, poll_s
        self._admission.settings = settings

    def acquire(self, requests: tuple[NodeRequest, ...]) -> Acquired:
        """A job per node, or for several nodes that are alike (:mod:`~bftrainer_adapters.holding.acquiring`)."""
        why = f": {self._ask_failure}" if self._ask_failure else ""
        unlisted = None if self._found_old else f"{self._traits.name} has not listed the existing holders yet{why}"
        return self._acquiring.acquire(requests, unlisted)

    def poll(self) -> tuple[Fragment, ...]:
        """Read the marks, then ask the scheduler if it is time. Without a change the result is the same object as before."""
        now_s = self._clock.elapsed_s()
        for held in self._held.moving.values():
            self._look_at_marks(held, now_s)
        for held in self._held.at_rest(_MARKS_AT_ONCE):
            if self._files.leaving(held.name) is not None:
                self._look_at_marks(held, now_s)
                self._held.move(held)
            if self._clock.elapsed_s() - now_s >= _MARKS_S:
                break
        if self._is_time_to_ask(now_s) and not self._jobs.wait_s(CallKind.LIST):
            self._ask(now_s)
        self._shared.settle(now_s)
        shown, gone = self._held.show()
        for name in gone:
            self._files.remove(name)
        return shown

    def observed(self, without_a_job: frozenset[str]) -> None:
        """Suspect a holder at rest on one of these nodes until the next list."""
        self._is_one_suspected = self._is_one_suspected or self._held.rests_on(without_a_job)

    def _is_time_to_ask(self, now_s: float) -> bool:
        """At rest, marks tell what happens; lists, of a node that fails, are asked for less often or when one has no job."""
        if self._failed_asks or not self._found_old:
            return now_s >= self._next_ask_s
        if self._is_change_near(now_s):
            return True
        rests = 0 if self._held.moving or self._is_one_suspected else self._traits.polls_at_rest - 1
        return now_s >= self._next_ask_s + rests * self._poll_s

    def release(self, names: frozenset[str]) -> None:
        """End workers, then holders. The leases say it, too, in case the scheduler does not answer."""
        now_s = self._clock.elapsed_s()
        ending = [self._held.by_name[name] for name in sorted(names) if name in self._held.by_name]
        for held in ending:
            self._release(held, now_s)
        if not self._jobs.wait_s(CallKind.TIDY):
            with suppress(CommandError, SchedulerError):  # the payload's sweep ends them, too
                self._end_workers(ending)
        self._end_jobs(ending)
        self._shared.settle(now_s)

    def clear(self, names: frozenset[str]) -> None:
        """End all workers, but not the payloads."""
        self._end_workers([self._held.by_name[name] for name in sorted(names) if name in self._held.by_name])

    def renew(self) -> None:
        """Rewrite the one file that renews all leases."""
        self._files.renew()

    def _look_at_marks(self, held: HolderJobState, now_s: float) -> None:
        why = self._files.leaving(held.name)
        if why is not None and held.phase is not FragmentPhase.GONE:
            held.leave(why, now_s)
            self._shared.payload_left(held, now_s)
        elif held.phase is FragmentPhase.PENDING and not held.released and (mark := self._files.ready(held.name)):
            held.become(FragmentPhase.READY, now_s)
            held.reached += ready_since(mark)
            took_s = None if held.asked_s is None else now_s - held.asked_s
            self._admission.ready(held.node, took_s, held.node_class)

    def _is_change_near(self, now_s: float) -> bool:
        """Whether to ask the scheduler more often for a while."""
        if now_s < self._next_ask_s - self._poll_s + self._traits.min_interval_s:
            return False
        return any(held.is_about_to_change(self._settings, now_s) for held in self._held.moving.values())

    def _ask(self, now_s: float) -> None:
        # The list may be older than a mark: a job that is pending in it has not necessarily been requeued.
        has_not_run = {name for name, held in self._held.moving.items() if not held.has_run}
        try:
            if not self._found_old:
                self._jobs.begin()
            listed = self._jobs.listed()
        except (CommandError, SchedulerError) as error:
            # The states stay as they are. The Scheduler port may not meet the same error, so refusals quote it.
            self._ask_failure = str(error)
            self._failed_asks += 1
            if self._found_old:
                self._next_ask_s = now_s + self._poll_s * min(2.0 ** (self._failed_asks - 1), 6.0)
            else:
                # After two polls with answers, the caller takes a list that has not come for an empty one. From the end of
                # this try, so that a scheduler that hangs leaves the caller as much time as it takes.
                self._next_ask_s = self._clock.elapsed_s() + self._poll_s
            return
        self._failed_asks, self._next_ask_s, self._is_one_suspected = 0, now_s + self._poll_s, False
        if not self._found_old:
            self._take_over(listed, now_s)
            has_not_run = set(self._held.by_name)
        self._end_strays(listed)
        self._held.disturb(listed, now_s)
        self._look_for([held for held in self._held.moving.values() if held.job not in listed], now_s)
        for held in self._held.moving.values():
            job = listed.get(held.job)
            if job is None or job.phase is not JobPhase.RUNS:
                self._look_at_marks(held, now_s)  # it may have left since, with a better reason
            left_s = held.since_s if held.phase is FragmentPhase.LEAVING else None
            self._compare(held, job, held.name not in has_not_run, now_s)
            if held.phase is FragmentPhase.GONE and left_s is not None:
                self._times.ended(held.node_class, now_s - left_s)
            if held.phase is FragmentPhase.GONE:
                self._explain(held, now_s)
            elif held.is_late(self._settings, now_s, self._jobs.turn_s(held.reason)):
                self._give_up(held, now_s)
        self._times.save()
        # Try again where it had no effect: a command failed, or a payload hangs.
        moving = self._held.moving.values()
        self._end_jobs(h for h in moving if h.phase is FragmentPhase.PENDING or now_s - h.since_s > _END_AGAIN_S)

    def _compare(self, held: HolderJobState, job: ListedJob | None, has_run: bool, now_s: float) -> None:
        if job is None:
            return
        held.compare(job, now_s)
        why = ""
        if job.phase is JobPhase.WAITS and has_run:
            why = "preempted and requeued"
        elif job.phase is JobPhase.SUSPENDED:
            why = f"suspended ({job.state})"
        if why:
            held.why = held.why or why
            self._release(held, now_s)
            self._end_jobs([held])

    def _take_over(self, listed: Mapping[str, ListedJob], now_s: float) -> None:
        """Adopt the holders of a predecessor with the same name, and delete the folders of those that are over."""
        for job in listed.values():
            for name in job.fragments if job.phase is not JobPhase.OVER else ():
                if name not in self._held.by_name:
                    self._held.add(name, now_s)
                    self._files.hold(name)
        for name in self._files.names():
            if name not in self._held.by_name:
                self._files.remove(name)
        self._found_old = True

    def _end_strays(self, listed: Mapping[str, ListedJob]) -> None:
        """End holders whose submission never returned their id."""
        unknown = sorted(listed.keys() - self._held.by_job.keys())
        strays = [job for job in unknown if listed[job].phase is not JobPhase.OVER]
        if strays:
            self._jobs.end(strays)

    def _look_for(self, missing: list[HolderJobState], now_s: float) -> None:
        """A job that is missing in two lists is over if its id is unknown, too. One command asks for all of them."""
        again = [held for held in missing if held.unlisted]
        if again:
            with suppress(CommandError, SchedulerError):
                unknown = self._jobs.unknown(sorted({held.job for held in again}))
                for held in again:
                    if held.job in unknown:
                        self._look_at_marks(held, now_s)  # it may have left since, with a better reason
                        held.become(FragmentPhase.GONE, now_s, f"unknown to {self._traits.name}")
        for held in missing:
            held.unlisted = True

    def _explain(self, held: HolderJobState, now_s: float) -> None:
        """Add the end of its output to the reason of a holder that ended before its payload started."""
        if held.released or self._files.ready(held.name):
            return
        self._admission.failed(held.node, "", now_s)
        words = self._files.last_words(held.name)
        held.why += f": {words}" if words else ""

    def _give_up(self, held: HolderJobState, now_s: float) -> None:
        """Release a holder that is too late."""
        if held.runs and not held.has_begun and self._files.has_log(held.name):
            held.begin(now_s)
        why = held.why_given_up(self._settings, now_s, self._jobs.turn_s(held.reason))
        if not why:
            return
        if not held.released:
            held.why = why
            self._admission.failed(held.node, "" if held.runs else held.reason, now_s)
        self._release(held, now_s)

    def _release(self, held: HolderJobState, now_s: float) -> None:
        self._files.mark_released(held.name)
        held.release(now_s)
        self._held.move(held)

    def _end_workers(self, held: list[HolderJobState]) -> None:
        running = [h.name for h in held if h.phase is not FragmentPhase.PENDING]
        if running:
            self._jobs.end_workers(running)

    def _end_jobs(self, held: Iterable[HolderJobState]) -> None:
        """End those that were released and are not over; one of several nodes once all of them were released."""
        due = {h.job: None for h in held if h.is_due_to_end and all(o.released for o in self._held.beside(h))}
        if due:
            self._jobs.end(list(due))
