"""Submits holders for nodes that are requested: a job per node, or a job for several nodes that are alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from bftrainer.domain.cluster import Acquired, Fragment, FragmentPhase, NodeRequest, Refusal
from bftrainer.domain.fragments import fragment_name, id_in_job
from bftrainer.domain.node_stages import NodeStage
from bftrainer.domain.ports import Clock
from bftrainer.errors import CommandError, PostponedError, SchedulerError
from bftrainer_adapters.holding.admission import HolderAdmission
from bftrainer_adapters.holding.call_budget import CallKind
from bftrainer_adapters.holding.held import limit_minutes
from bftrainer_adapters.holding.held_jobs import HeldJobs
from bftrainer_adapters.holding.holder_files import HolderFiles
from bftrainer_adapters.holding.holder_jobs import HolderJobs
from bftrainer_adapters.holding.node_times import NodeTimes
from bftrainer_adapters.holding.submissions import FIRST, submit_all

ROUND_S = 2.0
"""No submission begins this long after the first one of a round: a tick of the pilot must not wait for 16 slow commands."""


@dataclass
class Acquiring:
    """The part of a :class:`~bftrainer_adapters.holding.job_holder.JobHolder` that submits. Adds to ``held``."""

    jobs: HolderJobs
    files: HolderFiles
    clock: Clock
    held: HeldJobs
    admission: HolderAdmission
    times: NodeTimes

    def acquire(self, requests: tuple[NodeRequest, ...], unlisted: str | None) -> Acquired:
        """Jobs for the requests, some at once, until too many in a row have failed, or ``ROUND_S`` are over: the rest is for
        the next call. ``unlisted``: why nothing may be submitted before the existing holders are known.
        """
        began_s = self.clock.elapsed_s()
        fragments: list[Fragment] = []
        refusals: list[Refusal] = []
        failed, at_once = 0, min(FIRST, self.jobs.submissions_at_once)
        taken = {held.node for held in self.held.by_name.values()} if requests else set()
        waiting = len({held.job for held in self.held.by_name.values() if held.phase is FragmentPhase.PENDING})
        rest = deque(self._alike_together(requests))
        why_none, retry_s = self._why_none(unlisted) if requests else ("", 0.0)
        while rest and self.clock.elapsed_s() - began_s < ROUND_S and not self.jobs.wait_s(CallKind.SUBMIT):
            if why_none:
                refusals += [Refusal(request.node, why_none, retry_s) for request in rest]
                break
            batch, refused = self._next_jobs(rest, at_once, taken, waiting)
            refusals += refused
            sent_s = self.clock.now_s()
            for together, job in zip(batch, submit_all(self._submit, batch), strict=True):
                if isinstance(job, str):
                    fragments += [self._submitted(request, job, len(together) > 1, sent_s) for request in together]
                    waiting, failed = waiting + 1, 0
                    continue
                self.admission.not_submitted()
                taken -= {request.node for request in together}
                if isinstance(job, PostponedError):
                    rest.clear()  # calls are limited: the node is not to blame
                    continue
                failed += 1
                for request in together:
                    wait_s = self.admission.failed(request.node, str(job), self.clock.elapsed_s())
                    refusals.append(Refusal(request.node, str(job), wait_s))
                if failed >= self.jobs.traits.failures_in_a_row:
                    why_none = f"not tried: {self.jobs.traits.submit} has just failed"
                    retry_s = self.admission.settings.back_off_s
            at_once = min(2 * at_once, self.jobs.submissions_at_once)
        return Acquired(tuple(fragments), tuple(refusals))

    def _next_jobs(
        self, rest: deque[NodeRequest], most: int, taken: set[str], waiting: int
    ) -> tuple[list[list[NodeRequest]], list[Refusal]]:
        """Requests for up to ``most`` jobs, taken from ``rest``, and refusals of others. Their nodes are ``taken`` then."""
        batch: list[list[NodeRequest]] = []
        refusals: list[Refusal] = []
        while rest:
            joins = bool(batch) and self._may_join(batch[-1], rest[0])
            if not joins and len(batch) == most:
                break
            request = rest.popleft()
            refusal = self.admission.reason_against(
                request, request.node in taken, None if joins else waiting + len(batch), self.clock.elapsed_s()
            )
            if refusal:
                refusals.append(refusal)
                continue
            taken.add(request.node)
            if joins:
                batch[-1].append(request)
                continue
            batch.append([request])
            self.admission.submitted(self.clock.elapsed_s())
        return batch, refusals

    def _why_none(self, unlisted: str | None) -> tuple[str, float]:
        """Why nothing may be submitted on any node, empty if it may, and for how long no request needs to ask again."""
        if unlisted is not None:
            return unlisted, 0.0
        back_off_s = self.admission.settings.back_off_s
        try:
            return self.jobs.why_no_holder(), back_off_s
        except (CommandError, SchedulerError) as error:
            return f"cannot determine whether holders would be preempted: {error}", back_off_s

    def _alike_together(self, requests: tuple[NodeRequest, ...]) -> Sequence[NodeRequest]:
        """In the order of the requests, but those that may share a job follow the first of them."""
        if self.jobs.nodes_per_job == 1:
            return requests
        found: dict[Hashable, list[NodeRequest]] = {}
        for request in requests:
            found.setdefault(self._kind(request), []).append(request)
        return [request for alike in found.values() for request in alike]

    def _kind(self, request: NodeRequest) -> Hashable:
        """What nodes of a job have in common: its request of each node, and its time limit."""
        return request.node_class, request.gpus, self._limit_minutes(request)

    def _may_join(self, together: list[NodeRequest], request: NodeRequest) -> bool:
        if len(together) >= self.jobs.nodes_per_job or self._kind(together[0]) != self._kind(request):
            return False
        return not any(self.admission.is_suspect(r.node) for r in (together[0], request))

    def _limit_minutes(self, request: NodeRequest) -> int:
        return limit_minutes(self._within_window(request).window_s, self.admission.settings.longest_s)

    def _submit(self, together: list[NodeRequest]) -> str:
        """In a thread: nothing here is changed."""
        first, *others = (self._within_window(request) for request in together)
        window_s = min(request.window_s for request in (first, *others))
        return self.jobs.submit(replace(first, window_s=window_s), tuple(request.node for request in others))

    def _within_window(self, request: NodeRequest) -> NodeRequest:
        return replace(request, window_s=request.window_s - self.times.end_s(request.node_class))

    def _submitted(self, request: NodeRequest, job: str, is_one_of_several: bool, sent_s: float) -> Fragment:
        now_s = self.clock.elapsed_s()
        name = fragment_name(request.node, id_in_job(job, request.node) if is_one_of_several else job)
        held = self.held.add(name, now_s)
        self.files.hold(name)
        held.limit_s = 60.0 * self._limit_minutes(request)
        held.reached = ((NodeStage.SUBMITTED, sent_s),)
        held.asked_s, held.has_begun = held.since_s, not self.jobs.traits.log_at_start
        held.node_class, held.release_s = request.node_class, self.times.end_s(request.node_class)
        return held.fragment
