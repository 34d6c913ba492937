"""Cohorts of a window, the nodes that join together: how long until the next hit, by age, and the
constants of policy `cohort`.

A hit is an instant at which nodes of a cohort leave. Cohorts that were in the pool at the window's
start are left out, because their age is unknown. All times are in seconds.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from bftrainer.decide.policies.cohort_worth import CohortModel
from bftrainer_replay.logs.model import LogWindow

LEAST_HITS = 100
"""Hits below which no constants are fitted."""
_TOO_YOUNG = 0.02
"""Below the age of the first hits, few are possible: a log has no idle periods shorter than its own
debounce.
"""
_EDGES_S = np.concatenate([[0.0], np.geomspace(15.0, 30 * 86400.0, 80)])
_FIRST_S = np.geomspace(10.0, 10_000.0, 31)
_KNEE_S = np.geomspace(300.0, 30_000.0, 21)
_LATE = np.linspace(0.0, 1.5, 31)
_AT_ONCE = np.geomspace(0.05, 10.0, 60)


@dataclass(frozen=True, slots=True)
class CohortHits:
    """Seconds at risk and hits by age, of cohorts and of their nodes; the ages are between
    ``edges_s``.

    ``whole`` and ``partial`` count the hits that took all that was left of a cohort of k >= 2
    nodes, or less: (k, hits).
    """

    edges_s: NDArray[np.float64]
    at_risk_s: NDArray[np.float64]
    hits: NDArray[np.int64]
    nodes_at_risk_s: NDArray[np.float64]
    node_hits: NDArray[np.int64]
    whole: tuple[tuple[int, int], ...]
    partial: tuple[tuple[int, int], ...]


def cohort_hits(window: LogWindow) -> CohortHits:
    """Count by age how often jobs take nodes of a cohort (the nodes that joined together),
    following each from its join to its last node. Cost: linear in the nodes that join and leave,
    and the ages.
    """
    together_s, bins = CohortModel().together_s, len(_EDGES_S) - 1
    at_risk, nodes_at_risk = np.zeros(bins), np.zeros(bins)
    hits, node_hits = np.zeros(bins, dtype=np.int64), np.zeros(bins, dtype=np.int64)
    whole: Counter[int] = Counter()
    partial: Counter[int] = Counter()
    joined_s: list[float] = []
    seen_s: list[float] = []
    left: list[int] = []  # nodes of each cohort that are still in the pool
    cohort_of: dict[str, int] = {}

    def pass_time(cohort: int, at_s: float) -> None:
        """Count the time since the last change of the cohort as time at risk."""
        from_s, to_s = seen_s[cohort] - joined_s[cohort], at_s - joined_s[cohort]
        first, last = np.searchsorted(_EDGES_S, (from_s, to_s), side="right")
        edges = _EDGES_S[first - 1 : last + 1]
        spent = np.clip(edges[1:], from_s, to_s) - np.clip(edges[:-1], from_s, to_s)
        at_risk[first - 1 : first - 1 + len(spent)] += spent
        nodes_at_risk[first - 1 : first - 1 + len(spent)] += spent * left[cohort]
        seen_s[cohort] = at_s

    for event in window.events:
        taken = Counter(cohort_of.pop(node) for node in event.change.left if node in cohort_of)
        for cohort, count in sorted(taken.items()):
            pass_time(cohort, event.at_s)
            age_s = event.at_s - joined_s[cohort]
            age_bin = min(int(np.searchsorted(_EDGES_S, age_s, side="right")), bins) - 1
            hits[age_bin] += 1
            node_hits[age_bin] += count
            if left[cohort] > 1:
                (whole if count == left[cohort] else partial)[left[cohort]] += 1
            left[cohort] -= count
        if not event.change.joined:
            continue
        if not joined_s or event.at_s - joined_s[-1] > together_s:
            joined_s.append(event.at_s)
            seen_s.append(event.at_s)
            left.append(0)
        pass_time(len(left) - 1, event.at_s)
        left[-1] += len(event.change.joined)
        cohort_of.update(dict.fromkeys(event.change.joined, len(left) - 1))
    for cohort, nodes in enumerate(left):
        if nodes:
            pass_time(cohort, window.end_s)
    sizes = tuple(sorted(whole.items())), tuple(sorted(partial.items()))
    return CohortHits(_EDGES_S, at_risk, hits, nodes_at_risk, node_hits, *sizes)


def fitted(counts: CohortHits) -> CohortModel | None:
    """Fit the constants of the cohort model by largest likelihood; those that no log shows are the
    defaults. None below ``LEAST_HITS`` hits.

    Hits on a cohort of age a come at the rate 1 / mean_to_hit_s(a), losses of a node at that rate
    over ``outlast``.
    """
    if counts.hits.sum() < LEAST_HITS:
        return None
    default = CohortModel()
    old = np.cumsum(counts.hits) > _TOO_YOUNG * counts.hits.sum()
    age_s = np.sqrt(counts.edges_s[:-1] * counts.edges_s[1:])[old]
    hits, at_risk_s = counts.hits[old], counts.at_risk_s[old]
    best, constants = -math.inf, (default.first_s, default.knee_s, default.late)
    for knee_s, late in itertools.product(_KNEE_S, _LATE):
        grown = np.minimum(age_s, knee_s) + late * np.maximum(age_s - knee_s, 0.0)
        mean_s = _FIRST_S[:, None] + grown
        likelihood = -(hits * np.log(mean_s) + at_risk_s / mean_s).sum(axis=1)
        if likelihood.max() > best:
            best = float(likelihood.max())
            constants = float(_FIRST_S[int(likelihood.argmax())]), float(knee_s), float(late)
    first_s, knee_s, late = (float(f"{constant:.2g}") for constant in constants)
    mean_s = np.array([CohortModel(first_s, knee_s, late).mean_to_hit_s(a) for a in age_s])
    outlast = float((counts.nodes_at_risk_s[old] / mean_s).sum() / counts.node_hits[old].sum())
    return CohortModel(
        first_s, knee_s, late, outlast=float(f"{outlast:.2g}"), at_once=_at_once(counts)
    )


def policy_name(model: CohortModel) -> str:
    """Return the name of the policy with its parameters, as ``--policy`` and ``decisions.policy``
    take it ("cohort?late=0.2").
    """
    default = CohortModel()
    names = (
        field.name
        for field in fields(model)
        if getattr(model, field.name) != getattr(default, field.name)
    )
    options = "&".join(f"{name}={getattr(model, name):g}" for name in names)
    return f"cohort?{options}" if options else "cohort"


def _at_once(counts: CohortHits) -> float:
    """Fit ``at_once``: of the hits on a cohort with k nodes left, a share of 1 / (1 + at_once * ln
    k) takes all.
    """
    if not counts.whole or not counts.partial:
        return CohortModel().at_once
    whole_logs, whole_hits = _columns(counts.whole)
    partial_logs, partial_hits = _columns(counts.partial)
    all_taken = -np.log1p(_AT_ONCE * whole_logs) * whole_hits
    partly = _AT_ONCE * partial_logs
    some_left = np.log(partly / (1.0 + partly)) * partial_hits
    return float(f"{_AT_ONCE[int((all_taken.sum(axis=0) + some_left.sum(axis=0)).argmax())]:.2g}")


def _columns(
    hits_of_size: tuple[tuple[int, int], ...],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """ln k and the hits on k nodes, as columns."""
    table = np.array(hits_of_size)
    return np.log(table[:, :1]), table[:, 1:]
