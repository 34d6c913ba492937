"""Cohorts of a window, the nodes that join together: how long until the next hit, by age, and the
constants of policy `cohort`.

A hit is an instant at which nodes of a cohort leave. Cohorts that were in the pool at the window's
start are left out, because their age is unknown. All times are in seconds.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from bftrainer.decide.policies.cohort_worth import CohortModel
from bftrainer_replay.logs.model import LogWindow

LEAST_HITS = 100
"""Number of hits below which no constants are fitted."""
_YOUNG_SHARE = 0.02
"""Share of the hits, those at the lowest ages, that the fit leaves out: a log has no idle periods
shorter than its debounce time, so hits are too rare at these ages.
"""
_EDGES_S = np.concatenate([[0.0], np.geomspace(15.0, 30 * 86400.0, 80)])
_FIRST_S = np.geomspace(10.0, 10_000.0, 31)
_KNEE_S = np.geomspace(300.0, 30_000.0, 21)
_LATE = np.linspace(0.0, 1.5, 31)
_AT_ONCE = np.geomspace(0.05, 10.0, 60)


@dataclass(frozen=True, slots=True)
class CohortHits:
    """Hits (events at which jobs take nodes of a cohort) and seconds at risk, by age of the cohort:
    bin i is the ages from ``edges_s[i]`` to ``edges_s[i + 1]``.

    ``at_risk_s`` and ``hits`` count cohorts, ``nodes_at_risk_s`` and ``node_hits`` their nodes.
    ``whole`` are pairs (k, hits) of the hits that took all of the k >= 2 nodes left of a cohort,
    ``partial`` of the hits that took fewer.
    """

    edges_s: NDArray[np.float64]
    at_risk_s: NDArray[np.float64]
    hits: NDArray[np.int64]
    nodes_at_risk_s: NDArray[np.float64]
    node_hits: NDArray[np.int64]
    whole: tuple[tuple[int, int], ...]
    partial: tuple[tuple[int, int], ...]


def cohort_hits(window: LogWindow) -> CohortHits:
    """Count by age how often jobs take nodes of a cohort, and the time in which they could.

    A cohort is the nodes that became idle together; a hit is an event at which a job takes at least
    one of them. Each cohort is followed from its join to its last node. Nodes that are idle at the
    window's start are of no cohort, as their age is unknown. Cost: linear in the nodes that join
    and leave, and in the ages.
    """
    together_s = CohortModel().together_s
    bins = len(_EDGES_S) - 1
    at_risk_s, nodes_at_risk_s = np.zeros(bins), np.zeros(bins)
    hits, node_hits = np.zeros(bins, dtype=np.int64), np.zeros(bins, dtype=np.int64)
    whole: Counter[int] = Counter()
    partial: Counter[int] = Counter()
    # By cohort: the time of its join, the time up to which it has been counted as at risk, and the
    # number of its nodes that are still in the pool.
    joined_s: list[float] = []
    counted_until_s: list[float] = []
    n_left: list[int] = []
    cohort_of: dict[str, int] = {}  # by node

    def pass_time(cohort: int, at_s: float) -> None:
        """Add the time since the last change of the cohort to the time at risk of each age."""
        from_age_s = counted_until_s[cohort] - joined_s[cohort]
        to_age_s = at_s - joined_s[cohort]
        first_edge, last_edge = np.searchsorted(_EDGES_S, (from_age_s, to_age_s), side="right")
        edges_s = np.clip(_EDGES_S[first_edge - 1 : last_edge + 1], from_age_s, to_age_s)
        spent_s = np.diff(edges_s)
        age_bins = slice(first_edge - 1, first_edge - 1 + len(spent_s))
        at_risk_s[age_bins] += spent_s
        nodes_at_risk_s[age_bins] += spent_s * n_left[cohort]
        counted_until_s[cohort] = at_s

    for event in window.events:
        taken = Counter(cohort_of.pop(node) for node in event.change.left if node in cohort_of)
        for cohort, count in sorted(taken.items()):
            pass_time(cohort, event.at_s)
            age_s = event.at_s - joined_s[cohort]
            age_bin = min(int(np.searchsorted(_EDGES_S, age_s, side="right")), bins) - 1
            hits[age_bin] += 1
            node_hits[age_bin] += count
            if n_left[cohort] > 1:  # a single node is taken whole or not at all
                (whole if count == n_left[cohort] else partial)[n_left[cohort]] += 1
            n_left[cohort] -= count
        if not event.change.joined:
            continue
        # Nodes that join within ``together_s`` of a cohort's start belong to it.
        if not joined_s or event.at_s - joined_s[-1] > together_s:
            joined_s.append(event.at_s)
            counted_until_s.append(event.at_s)
            n_left.append(0)
        newest = len(n_left) - 1
        # The time up to now was spent with fewer nodes.
        pass_time(newest, event.at_s)
        n_left[newest] += len(event.change.joined)
        cohort_of.update(dict.fromkeys(event.change.joined, newest))
    # Cohorts with nodes left at the window's end were at risk until then.
    for cohort, n_nodes in enumerate(n_left):
        if n_nodes:
            pass_time(cohort, window.end_s)
    return CohortHits(
        edges_s=_EDGES_S,
        at_risk_s=at_risk_s,
        hits=hits,
        nodes_at_risk_s=nodes_at_risk_s,
        node_hits=node_hits,
        whole=tuple(sorted(whole.items())),
        partial=tuple(sorted(partial.items())),
    )


def fitted(counts: CohortHits) -> CohortModel | None:
    """Return the cohort model whose constants make the counted hits most likely (maximum
    likelihood).

    The model says how long a cohort of age a lasts on average until the next hit,
    ``mean_to_hit_s(a)``; a single node is lost at that rate over ``outlast``. Constants that a log
    does not show keep their defaults. None below ``LEAST_HITS`` hits.
    """
    if counts.hits.sum() < LEAST_HITS:
        return None
    default = CohortModel()
    is_old = np.cumsum(counts.hits) > _YOUNG_SHARE * counts.hits.sum()
    # The geometric mean stands for all ages of a bin.
    age_s = np.sqrt(counts.edges_s[:-1] * counts.edges_s[1:])[is_old]
    hits, at_risk_s = counts.hits[is_old], counts.at_risk_s[is_old]
    best_likelihood = -math.inf
    constants = (default.first_s, default.knee_s, default.late)
    for knee_s, late in itertools.product(_KNEE_S, _LATE):
        # The mean time to a hit grows with the age: by one second per second up to the knee, and by
        # ``late`` seconds after it.
        growth_s = np.minimum(age_s, knee_s) + late * np.maximum(age_s - knee_s, 0.0)
        mean_s = _FIRST_S[:, None] + growth_s  # a row per value of first_s
        log_likelihood = -(hits * np.log(mean_s) + at_risk_s / mean_s).sum(axis=1)
        if log_likelihood.max() > best_likelihood:
            best_likelihood = float(log_likelihood.max())
            first_s = float(_FIRST_S[int(log_likelihood.argmax())])
            constants = (first_s, float(knee_s), float(late))
    # The constants are rounded to two digits.
    first_s, knee_s, late = (float(f"{constant:.2g}") for constant in constants)
    model = CohortModel(first_s, knee_s, late)
    mean_s = np.array([model.mean_to_hit_s(age) for age in age_s])
    expected_losses = float((counts.nodes_at_risk_s[is_old] / mean_s).sum())
    outlast = expected_losses / float(counts.node_hits[is_old].sum())
    return replace(model, outlast=float(f"{outlast:.2g}"), at_once=_at_once(counts))


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
    """Return the constant ``at_once``: how seldom a hit takes all k nodes left of a cohort.

    Of such hits, a share of 1 / (1 + at_once * ln k) takes all. The value is the most likely one;
    the default if the log has only hits of one of the two kinds.
    """
    if not counts.whole or not counts.partial:
        return CohortModel().at_once
    whole_logs, whole_hits = _hit_columns(counts.whole)
    partial_logs, partial_hits = _hit_columns(counts.partial)
    # Log-likelihoods, with a row per k and a column per value of at_once.
    of_whole = -np.log1p(_AT_ONCE * whole_logs) * whole_hits
    odds = _AT_ONCE * partial_logs
    of_partial = np.log(odds / (1.0 + odds)) * partial_hits
    best = int((of_whole.sum(axis=0) + of_partial.sum(axis=0)).argmax())
    return float(f"{_AT_ONCE[best]:.2g}")


def _hit_columns(
    hits_of_size: tuple[tuple[int, int], ...],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return ln k and the hits on k nodes, each as an array of one column."""
    table = np.array(hits_of_size)
    return np.log(table[:, :1]), table[:, 1:]
