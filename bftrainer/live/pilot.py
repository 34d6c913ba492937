"""The pilot process: lease, loop, end. A new pilot and one that comes back do the same."""

from __future__ import annotations

import os
from collections.abc import Callable

from bftrainer.config.pilot import PilotConfig
from bftrainer.core.loop import run
from bftrainer.errors import PilotFailedError, UserError
from bftrainer.live.decision_maker import check_decisions
from bftrainer.live.facts import Fact, Listener, TellingRegistry
from bftrainer.live.hints import HintListener
from bftrainer.live.metrics import Metrics
from bftrainer.live.metrics_server import MetricsServer, is_served
from bftrainer.live.runtime import PilotDependencies, PilotRuntime
from bftrainer.live.signals import Signals
from bftrainer.live.steady_clock import SteadyClock
from bftrainer.live.trainers.launcher import DirectoryLauncher
from bftrainer.persistence.registry import Registry
from bftrainer.persistence.store import open_store
from bftrainer.protocol.paths import TRAINERS
from bftrainer.system.processes import this_process


def run_pilot(
    parts: PilotDependencies,
    config: PilotConfig,
    signals: Signals,
    reread: Callable[[], PilotConfig | None] = lambda: None,
) -> None:
    """Take the lease, run the loop until told to end, release everything.

    Raises :class:`~bftrainer.errors.StateDirError` if another pilot runs there, another ``UserError`` if it cannot start, and
    ``StoreError`` if the disk fails: then drivers go on, and the next pilot adopts them. Once it runs, no error has the exit
    status 2: a job script does not restart a pilot after that, and all trainers would stop for good.
    """
    store = open_store(parts.state_dir, create=True, at_step=parts.at_step)
    served: MetricsServer | None = None
    hints: HintListener | None = None
    runs = False
    try:
        check_decisions(config, [r.spec.trainer() for r in Registry(store).trainers() if not r.status.is_final])
        store.take_lease(this_process(), parts.job_id, parts.clock.now_s(), config.times.lease_s, parts.job_is_gone)
        running: PilotRuntime | None = None

        def log(fact: Fact) -> None:
            parts.log(fact, (config if running is None else running.config).log.format)

        listeners: list[Listener] = [log]
        clock = SteadyClock(parts.clock)
        registry = TellingRegistry(store, parts.clock.now_s, listeners, clock.to_wall)
        registry.note(clock.now_s(), "pilot", "", f"started with pid {os.getpid()}")
        launcher = DirectoryLauncher(parts.state_dir / TRAINERS, parts.driver)
        if config.hints.port is not None:
            hints = HintListener(config.hints, config.workers, parts.state_dir, parts.clock)
            registry.note(
                clock.now_s(), "hints", "", f"listening on {hints.counts.address}, UDP port {hints.counts.port}"
            )
        running = PilotRuntime(parts, config, registry, listeners, launcher, signals, reread, clock, hints)
        if is_served(config.metrics):
            metrics = Metrics(registry)
            listeners.append(metrics.hear)
            served = MetricsServer(metrics, config.metrics, parts.state_dir)
            for place in served.places:
                registry.note(clock.now_s(), "metrics", "", place)
        runs = True
        with running.heartbeat.running():
            run(running.world, running.state, running.decisions.policy, running)
        running.close()
        registry.note(clock.now_s(), "pilot", "", "has ended")
        store.drop_lease()
    except UserError as error:
        if runs:
            raise PilotFailedError(f"the pilot cannot go on: {error}") from error
        if store.has_lease:
            store.drop_lease()
        raise
    finally:
        if served is not None:
            served.end()
        if hints is not None:
            hints.close()
        store.close()
