"""``/metrics`` for Prometheus, with one gauge per state (``bftrainer_nodes_held``), as in Slurm
25.11.

All numbers are counted from facts (:mod:`~bftrainer.pilot.facts`), so a scrape costs the pilot only
the text of the page.
"""

from __future__ import annotations

import importlib.util
import threading
from collections import Counter as Tally
from functools import partial
from typing import Any

from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.errors import UserError
from bftrainer.pilot.facts import (
    DecisionMade,
    FragmentChanged,
    FragmentEvent,
    FragmentTimed,
    MainJobDelayed,
    NoteAdded,
    PilotFact,
    TickTook,
    TrainerChanged,
    UsageAdded,
)
from bftrainer.pilot.persistence.registry import Registry, TrainerStatus, Usage

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_STAGE = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_MAIN_DELAY = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 30.0, 60.0, 600.0)
_RELEASE = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


def without_client() -> str:
    """Return why the package prometheus-client cannot be used; empty if it can."""
    if importlib.util.find_spec("prometheus_client") is None:
        return "the package prometheus-client is not installed"
    try:
        importlib.import_module("prometheus_client")
    except Exception as error:  # an installation that is broken may raise anything
        return f"the package prometheus-client is broken: {type(error).__name__}: {error}"
    return ""


class Metrics:
    """Listens to facts and keeps the numbers. Their start values come from ``registry``."""

    def __init__(self, registry: Registry) -> None:
        """Declare all metrics, and take their start values from the ``registry``. Raises
        ``UserError`` if the package prometheus-client cannot be used.
        """
        if problem := without_client():
            raise UserError(f"metrics.port: {problem}; run pip install 'bftrainer[metrics]'")
        import prometheus_client as prometheus

        self.prometheus = prometheus.CollectorRegistry()
        self._lock = threading.Lock()

        def add_metric(kind: Any, name: str, text: str, *labels: str, **options: Any) -> Any:
            return kind(f"bftrainer_{name}", text, labels, registry=self.prometheus, **options)

        # Each makes a metric of its kind from a name, a help text and labels.
        gauge, counter, histogram = (
            partial(add_metric, kind)
            for kind in (prometheus.Gauge, prometheus.Counter, prometheus.Histogram)
        )

        self._trainers = {
            status: gauge(f"trainers_{status.value}", f"Trainers that are {status.value}.")
            for status in TrainerStatus
        }
        self._held = gauge(
            "nodes_held", "Nodes that are held, including those that are about to be released."
        )
        self._pending = gauge("nodes_pending", "Nodes that were requested and are not held yet.")
        self._training = gauge(
            "nodes_allocated", "Nodes that the last decision allocated to trainers."
        )
        self._pool = gauge("nodes_pool", "Nodes that the last decision could allocate.")
        self._trainer_nodes = gauge(
            "trainer_nodes", "Nodes of a trainer, by the last decision.", "trainer"
        )
        self._samples = gauge("trainer_samples", "Samples that a trainer has reported.", "trainer")
        self._repeated = counter("samples_repeated", "Samples processed again after restarts.")
        self._node_s = counter("node_seconds", "Node-seconds of trainers.", "use")
        self._decisions = counter("decisions", "Decisions.", "solver")
        self._fallbacks = counter(
            "solver_fallbacks", "Fallbacks to the next solver.", "solver", "reason"
        )
        self._decision_time = histogram(
            "decision_seconds", "Time to make a decision.", buckets=_SECONDS
        )
        self._takes = counter("fragments_taken", "Nodes taken.")
        self._returns = counter(
            "fragments_asked_back", "Nodes preempted, or released by the pilot.", "planned"
        )
        until_left = "Time from preemption until the payload has left."
        self._release = histogram("release_seconds", until_left, buckets=_RELEASE)
        by_instant = "Time of one stage of a node, by the instant that ends it."
        self._node_stages = histogram("node_stage_seconds", by_instant, "stage", buckets=_STAGE)
        self._main_delay = histogram(
            "main_delay_seconds",
            "Time that a main job waited for nodes of this pilot at most, until it started.",
            buckets=_MAIN_DELAY,
        )
        self._failures = counter("trainer_failures", "Failed starts and runs of trainers.")
        self._tick_time = histogram(
            "tick_seconds", "Time of one round of the pilot's loop.", buckets=_SECONDS
        )
        self._tick_stages = histogram(
            "tick_stage_seconds", "Time of one stage of a round.", "stage", buckets=_SECONDS
        )
        self._failed_polls = counter(
            "polls_failed", "Failed polls of the scheduler, the first of each outage."
        )
        self._refusals = counter("holders_refused", "Holders that the scheduler refused.")
        self._load_start_values(registry)

    def _load_start_values(self, registry: Registry) -> None:
        """Take the start values from the registry: the status of each trainer, and the nodes that
        are requested or held, with the times of their events.
        """
        self._status_of: dict[str, TrainerStatus] = {
            trainer.name: trainer.status for trainer in registry.trainers()
        }
        self._fragment_times: dict[str, dict[FragmentEvent, float]] = {}
        for fragment in registry.fragments(open_only=True):
            times = {
                FragmentEvent.TAKEN: fragment.taken_s,
                FragmentEvent.ASKED_BACK: fragment.asked_back_s,
            }
            self._fragment_times[fragment.name] = {
                event: at_s for event, at_s in times.items() if at_s is not None
            }
        self._held_count = sum(
            FragmentEvent.TAKEN in times for times in self._fragment_times.values()
        )
        self._status_counts = Tally(self._status_of.values())
        self._show_trainers()
        self._show_fragments()

    def hear(self, fact: PilotFact) -> None:
        """Count a fact, such as a decision or a node that was taken. Called for every fact that the
        pilot records.
        """
        with self._lock:
            match fact:
                case DecisionMade():
                    self._count_decision(fact)
                case TrainerChanged(_, name, change) if change.status is not None:
                    self._count_status(name, change.status)
                case UsageAdded(_, usage):
                    self._count_usage(usage)
                case FragmentChanged():
                    self._count_fragment(fact)
                case FragmentTimed(_, _, stages):
                    self._count_stages(dict(stages))
                case MainJobDelayed():
                    self._main_delay.observe(fact.delay_s)
                case TickTook():
                    self._tick_time.observe(fact.total_s)
                    for stage, seconds in fact.stages:
                        self._tick_stages.labels(stage.value).observe(seconds)
                case NoteAdded(_, kind):
                    # The notes of the event log that are counted, by kind.
                    counters = {
                        "failure": self._failures,
                        "poll failed": self._failed_polls,
                        "refused": self._refusals,
                    }
                    if (counter := counters.get(kind)) is not None:
                        counter.inc()

    def text(self) -> bytes:
        """The page, in OpenMetrics format."""
        from prometheus_client.openmetrics.exposition import generate_latest

        with self._lock:
            page: bytes = generate_latest(self.prometheus)  # type: ignore[no-untyped-call]
            return page

    def _count_stages(self, stages: dict[NodeStage, float]) -> None:
        """Count how long a held node took for each stage from idle to training, or from the notice
        to its release.

        ``stages`` has the seconds by the instant that ends the stage. The time of a release counts
        until the payload has left the node; where that instant is not known, until the pilot has
        seen the end of the holder job.
        """
        for stage, stage_s in stages.items():
            self._node_stages.labels(stage.value).observe(stage_s)
        if NodeStage.RELEASED in stages:
            until_left_s = sum(
                stage_s for stage, stage_s in stages.items() if stage is not NodeStage.RELEASED
            )
            if NodeStage.LEFT not in stages:
                until_left_s += stages[NodeStage.RELEASED]
            self._release.observe(until_left_s)

    def _count_decision(self, fact: DecisionMade) -> None:
        """Count a decision and the fallbacks of its solvers, and set the gauges of the nodes that
        it allocated.
        """
        counts, answer = fact.plan.decision.counts, fact.plan.decision.answer
        self._decisions.labels(answer.solver if answer is not None else "none").inc()
        for fallback in () if answer is None else answer.fallbacks:
            self._fallbacks.labels(fallback.solver, fallback.reason.value).inc()
        self._decision_time.observe(fact.took_s)
        self._pool.set(len(fact.state.pool))
        self._training.set(sum(counts))
        self._trainer_nodes.clear()
        for active, n in zip(fact.state.active, counts, strict=True):
            self._trainer_nodes.labels(active.trainer.id).set(n)

    def _count_status(self, name: str, status: TrainerStatus) -> None:
        """Move a trainer from the count of its old status to that of the new one. The samples of a
        trainer that has ended are no longer shown.
        """
        # Trainers are not counted again: there may be thousands, and as many changes in a second.
        if (old_status := self._status_of.get(name)) is not None:
            self._status_counts[old_status] -= 1
        self._status_of[name] = status
        self._status_counts[status] += 1
        if status.is_final and name in {labels[0] for labels in self._samples._metrics}:
            self._samples.remove(name)
        self._show_trainers()

    def _count_usage(self, usage: Usage) -> None:
        """Add the usage of a trainer since the last heartbeat. The samples of a trainer that has
        ended, or that is not in the registry, are not shown.
        """
        # A trainer that is not in the registry is looked up as DONE, which is final.
        if not self._status_of.get(usage.name, TrainerStatus.DONE).is_final:
            self._samples.labels(usage.name).set(usage.samples_done)
        self._repeated.inc(max(usage.repeated_samples, 0.0))
        for use, node_s in (
            ("held", usage.held_node_s),
            ("trained", usage.trained_node_s),
            ("stalled", usage.stalled_node_s),
        ):
            self._node_s.labels(use).inc(max(node_s, 0.0))

    def _count_fragment(self, fact: FragmentChanged) -> None:
        """Count an event of a fragment (a held node): that it was requested, taken, preempted or
        given back, or released.

        An event that is recorded again counts once.
        """
        times = self._fragment_times.setdefault(fact.name, {})
        is_new = fact.event not in times
        times[fact.event] = fact.at_s
        match fact.event:
            case FragmentEvent.TAKEN if is_new:
                self._takes.inc()
                self._held_count += 1
            # "planned" begins the reason of a release because a backfill window or a time limit
            # ends.
            case FragmentEvent.ASKED_BACK if is_new:
                self._returns.labels(fact.reason.startswith("planned")).inc()
            case FragmentEvent.RELEASED:
                # A request that is withdrawn before the node was taken is released as well.
                if FragmentEvent.TAKEN in times:
                    self._held_count -= 1
                del self._fragment_times[fact.name]
        self._show_fragments()

    def _show_trainers(self) -> None:
        for status, gauge in self._trainers.items():
            gauge.set(self._status_counts[status])

    def _show_fragments(self) -> None:
        self._held.set(self._held_count)
        self._pending.set(len(self._fragment_times) - self._held_count)
