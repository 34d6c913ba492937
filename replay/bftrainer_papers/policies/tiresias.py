"""Tiresias-L (Gu et al., NSDI 2019), a baseline of [AFS]: least attained service in two queues.

Lengths are unknown. A job begins in the first queue, and is demoted once its attained service, the
number of its GPUs times its run time, reaches a threshold. Jobs of the first queue come before
those of the second; within a queue, jobs run in the order of their first start, so that none
preempts another. A job that has waited longer than the promote knob times its run time since its
last promotion returns to the first queue with no attained service. Jobs are not resized: each runs
at its requested size, and one that does not fit is skipped.

Defaults are those of the paper's evaluation: two queues, a threshold of one GPU-hour, and a promote
knob of 8.

Departures: node-seconds in place of GPU-seconds; placement does not matter here, so the part of
Tiresias that decides which jobs need a consolidated placement is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer_papers.policies.shares import first_fit, requested

_ROUNDING_NODE_S = 1e-3
"""At the instant at which a job reaches the threshold, rounding may leave it just below."""


@dataclass(frozen=True, slots=True)
class AttainedService:
    """The state of a job: its node-seconds and run time at its last promotion, and since when it
    waits (infinity: it runs).
    """

    id: str
    base_node_s: float = 0.0
    base_run_s: float = 0.0
    waits_since_s: float = math.inf


@dataclass(frozen=True, slots=True)
class TiresiasL:
    """Tiresias-L. ``queue_node_s``: the attained service at which a job is demoted;
    ``promote_knob``: how many times its run time a job waits before it is promoted (0: never).
    """

    queue_node_s: float = 3600.0
    promote_knob: float = 8.0
    name: str = "tiresias-l"
    rigid: bool = True

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Run the jobs of the first queue, then those of the second, each at its requested size.

        The memory has the state of all jobs: those that have started, in the order of their first
        start, then the others in the order of admission. If some job waits, the policy asks to be
        called again when a job would next change its queue.
        """
        jobs = {active.trainer.id: active for active in state.active}
        services = [
            self._with_promotion(service, jobs[service.id], state.at_s)
            for service in _attained_services(state)
        ]
        by_queue = sorted(services, key=lambda s: self._is_demoted(s, jobs[s.id]))
        index = {active.trainer.id: j for j, active in enumerate(state.active)}
        counts = first_fit(state, [index[trainer.id] for trainer in by_queue])
        running = {service.id for service in services if counts[index[service.id]]}
        services = [
            _attained_service(service, service.id in running, state.at_s) for service in services
        ]
        # The sort is stable: jobs that start now come after those that have started before.
        services.sort(key=lambda s: s.id not in running and jobs[s.id].run_s == 0)
        changes_s = [
            self._due_s(service, jobs[service.id], service.id in running, state.at_s)
            for service in services
        ]
        wake_at_s = min(changes_s, default=math.inf) if len(running) < len(services) else math.inf
        return (
            Decision(counts, wake_at_s if math.isfinite(wake_at_s) else None),
            tuple(services),
        )

    def _is_demoted(self, service: AttainedService, job: Active) -> bool:
        return job.node_s - service.base_node_s >= self.queue_node_s - _ROUNDING_NODE_S

    def _with_promotion(
        self, service: AttainedService, job: Active, at_s: float
    ) -> AttainedService:
        """Return the state of a job, back in the first queue if it has waited for too long.

        A promoted job counts from then on: what it has used so far becomes the base from which its
        attained service (node-seconds) is measured. A ``promote_knob`` of 0 promotes nobody.
        """
        if not self._is_demoted(service, job) or not self.promote_knob:
            return service
        if at_s < self._promotion_s(service, job):
            return service
        return AttainedService(service.id, job.node_s, job.run_s, service.waits_since_s)

    def _promotion_s(self, service: AttainedService, job: Active) -> float:
        """Return when a demoted job that waits is promoted."""
        return service.waits_since_s + self.promote_knob * (job.run_s - service.base_run_s)

    def _due_s(self, service: AttainedService, job: Active, is_running: bool, at_s: float) -> float:
        """Return when a job changes its queue if nothing else happens; infinity if never.

        A running job of the first queue is demoted when its service reaches the threshold; a
        waiting job of the second is promoted when it has waited for long enough.
        """
        if is_running and not self._is_demoted(service, job):
            left_node_s = self.queue_node_s - (job.node_s - service.base_node_s)
            return at_s + left_node_s / requested(job.trainer)
        if not is_running and self._is_demoted(service, job) and self.promote_knob:
            return self._promotion_s(service, job)
        return math.inf


def _attained_services(state: State) -> list[AttainedService]:
    """Return the states of all admitted jobs: those in memory in their order, then new ones."""
    previous = state.memory if isinstance(state.memory, tuple) else ()
    admitted = {active.trainer.id for active in state.active}
    services = [service for service in previous if service.id in admitted]
    previous_ids = {service.id for service in services}
    return services + [
        AttainedService(active.trainer.id)
        for active in state.active
        if active.trainer.id not in previous_ids
    ]


def _attained_service(service: AttainedService, is_running: bool, at_s: float) -> AttainedService:
    """Return the state of a job that runs or waits from ``at_s`` on."""
    if is_running:
        return replace(service, waits_since_s=math.inf)
    return replace(service, waits_since_s=min(service.waits_since_s, at_s))


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    options = settings.option_values("tiresias-l", queue_node_s=3600.0, promote_knob=8.0)
    return TiresiasL(options["queue_node_s"], options["promote_knob"])
