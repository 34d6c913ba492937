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
    """Requests for holders that are submitted at the same time, refusals, and the ``rest`` of the
    requests.
    """

    jobs: tuple[tuple[NodeRequest, ...], ...]
    refusals: tuple[Refusal, ...]
    rest: tuple[NodeRequest, ...]


def within_window(request: NodeRequest, history: SubmissionHistory) -> NodeRequest:
    """Return the request with a shorter window, so that its node is idle again at the
    window's end.
    """
    return replace(request, window_s=request.window_s - history.times.end_s(request.node_class))


def limit_of(request: NodeRequest, history: SubmissionHistory, rules: HolderRules) -> int:
    """Return the time limit of a request's holder, in minutes."""
    return limit_minutes(within_window(request, history).window_s, rules.settings.longest_s)


def alike_together(
    requests: Iterable[NodeRequest], history: SubmissionHistory, rules: HolderRules
) -> tuple[NodeRequest, ...]:
    """Reorder requests so that those that may share a job follow the first of them; otherwise the
    order stays.
    """
    if rules.nodes_per_job == 1:
        return tuple(requests)
    groups: dict[Hashable, list[NodeRequest]] = {}
    for request in requests:
        groups.setdefault(_kind(request, history, rules), []).append(request)
    return tuple(request for alike in groups.values() for request in alike)


def next_batch(
    requests: tuple[NodeRequest, ...],
    max_jobs: int,
    held: frozenset[str],
    pending: int,
    history: SubmissionHistory,
    rules: HolderRules,
    now_s: float,
) -> Batch:
    """Choose which holders to submit at the same time, at most ``max_jobs``, from the first
    requests on; the others are refused or left for later (:class:`Batch`). ``held`` are nodes with
    a holder, ``pending`` is the number of holders that have not started.
    """
    jobs: list[list[NodeRequest]] = []
    refusals: list[Refusal] = []
    taken = set(held)
    for number, request in enumerate(requests):
        joins = bool(jobs) and _may_join(jobs[-1], request, history, rules)
        if not joins and len(jobs) == max_jobs:
            return Batch(tuple(map(tuple, jobs)), tuple(refusals), requests[number:])
        refusal = Refusal(request.node, "already held") if request.node in taken else None
        if refusal is None and not joins:
            refusal = history.why_no_other(request.node, rules, pending, len(jobs), now_s)
        if refusal := refusal or history.why_not(request, rules.settings, now_s):
            refusals.append(refusal)
            continue
        taken.add(request.node)
        if joins:
            jobs[-1].append(request)
        else:
            jobs.append([request])
    return Batch(tuple(map(tuple, jobs)), tuple(refusals), ())


def _kind(request: NodeRequest, history: SubmissionHistory, rules: HolderRules) -> Hashable:
    """Return what all nodes of a job must have in common: class, GPUs and time limit."""
    return request.node_class, request.gpus, limit_of(request, history, rules)


def _may_join(
    together: list[NodeRequest],
    request: NodeRequest,
    history: SubmissionHistory,
    rules: HolderRules,
) -> bool:
    """Return whether a request may share the job of the requests ``together``. A node whose latest
    holder has failed gets a job of its own.
    """
    if (
        len(together) >= rules.nodes_per_job
        or {together[0].node, request.node} & history.nodes.keys()
    ):
        return False
    return _kind(together[0], history, rules) == _kind(request, history, rules)
