"""Which requests become holder jobs next: a job per node, or for several nodes that are alike.
Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from bftrainer.cluster.model import NodeRequest, Refusal
from bftrainer_clusters.holding.holder_jobs import HolderRules, limit_minutes
from bftrainer_clusters.holding.submission_history import SubmissionHistory


@dataclass(frozen=True, slots=True)
class Batch:
    """A decision on some requests: holder jobs to submit at the same time, and refusals."""

    jobs: tuple[tuple[NodeRequest, ...], ...]
    """For each holder job, the requests of its nodes."""
    refusals: tuple[Refusal, ...]
    rest: tuple[NodeRequest, ...]
    """The requests for which a later batch decides."""


def with_usable_window(request: NodeRequest, history: SubmissionHistory) -> NodeRequest:
    """Return the request with its window shortened by the time that a node of its class needs to
    become idle: a holder that lasts for this window leaves the node idle at the end of the
    request's own.
    """
    return replace(request, window_s=request.window_s - history.times.end_s(request.node_class))


def limit_of(request: NodeRequest, history: SubmissionHistory, rules: HolderRules) -> int:
    """Return the time limit of a request's holder, in minutes."""
    return limit_minutes(with_usable_window(request, history).window_s, rules.settings.longest_s)


def alike_together(
    requests: Iterable[NodeRequest], history: SubmissionHistory, rules: HolderRules
) -> tuple[NodeRequest, ...]:
    """Reorder requests so that requests that may share a job follow each other, as
    :func:`next_batch` expects; groups, and requests in a group, keep their order.
    """
    if rules.nodes_per_job == 1:
        return tuple(requests)
    groups: dict[Hashable, list[NodeRequest]] = {}
    for request in requests:
        groups.setdefault(_job_kind(request, history, rules), []).append(request)
    return tuple(request for group in groups.values() for request in group)


def next_batch(
    requests: tuple[NodeRequest, ...],
    max_jobs: int,
    held_nodes: frozenset[str],
    n_pending_jobs: int,
    history: SubmissionHistory,
    rules: HolderRules,
    now_s: float,
) -> Batch:
    """Choose which holders to submit at the same time, at most ``max_jobs``, from the first
    requests on; the others are refused or left for later (:class:`Batch`). Requests share a job
    only with their neighbors: see :func:`alike_together`.

    ``held_nodes`` are the nodes with a holder, ``n_pending_jobs`` is the number of holder jobs that
    have not started.
    """
    jobs: list[list[NodeRequest]] = []
    refusals: list[Refusal] = []
    occupied_nodes = set(held_nodes)
    for index, request in enumerate(requests):
        joins_last_job = bool(jobs) and _may_join(jobs[-1], request, history, rules)
        if not joins_last_job and len(jobs) == max_jobs:
            return Batch(tuple(map(tuple, jobs)), tuple(refusals), requests[index:])
        refusal: Refusal | None = None
        if request.node in occupied_nodes:
            refusal = Refusal(request.node, "already held")
        elif not joins_last_job:  # the limits on the number of jobs count one more only then
            refusal = history.why_no_other(request.node, rules, n_pending_jobs, len(jobs), now_s)
        if refusal is None:
            refusal = history.why_not(request, rules.settings, now_s)
        if refusal is not None:
            refusals.append(refusal)
            continue
        occupied_nodes.add(request.node)
        if joins_last_job:
            jobs[-1].append(request)
        else:
            jobs.append([request])
    return Batch(tuple(map(tuple, jobs)), tuple(refusals), ())


def _job_kind(request: NodeRequest, history: SubmissionHistory, rules: HolderRules) -> Hashable:
    """Return what all nodes of a job must have in common: class, GPUs and time limit."""
    return request.node_class, request.gpus, limit_of(request, history, rules)


def _may_join(
    job_requests: list[NodeRequest],
    request: NodeRequest,
    history: SubmissionHistory,
    rules: HolderRules,
) -> bool:
    """Return whether a request may share the holder job of ``job_requests`` (at least one). A node
    whose latest holder has failed gets a job of its own.
    """
    first_request = job_requests[0]
    if len(job_requests) >= rules.nodes_per_job:
        return False
    if first_request.node in history.backoffs or request.node in history.backoffs:
        return False
    return _job_kind(first_request, history, rules) == _job_kind(request, history, rules)
