"""The pilot process: lease, loop, end. A new pilot and one that comes back do the same."""

from __future__ import annotations

import os
from collections.abc import Callable

from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import PilotConfig
from bftrainer.decide.core.loop import run
from bftrainer.errors import PilotFailedError, UserError
from bftrainer.pilot.decision_maker import check_decisions
from bftrainer.pilot.hints import HintListener
from bftrainer.pilot.metrics import Metrics, without_client
from bftrainer.pilot.metrics_server import MetricsServer, is_served
from bftrainer.pilot.notices import Notices
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import open_store
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.runtime import PilotDependencies, PilotRuntime
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.pilot.trainers.launcher import DirectoryLauncher
from bftrainer.system.processes import this_process
from bftrainer.system.signals import Signals
from bftrainer.wires.paths import TRAINERS


def run_pilot(
    parts: PilotDependencies,
    config: PilotConfig,
    signals: Signals,
    reread: Callable[[], PilotConfig | None] = lambda: None,
) -> None:
    """Run a pilot in a state directory: take the lease, run the loop until told to end, release
    everything.

    ``reread`` reads the configuration again at a reload; it returns None if there is no file.

    Raises :class:`~bftrainer.errors.StateDirError` if another pilot runs there, another
    ``UserError`` if it cannot start, and ``StoreError`` if the disk fails: then drivers go on, and
    the next pilot adopts them. Once it runs, no error has the exit status 2: a job script does not
    restart a pilot after that, and all trainers would stop for good.
    """
    store = open_store(parts.state_dir, create=True, at_step=parts.at_step)
    metrics_server: MetricsServer | None = None
    hints: HintListener | None = None
    is_running = False
    try:
        registry = Registry(store)
        check_decisions(
            config,
            [
                trainer.spec.trainer()
                for trainer in registry.trainers()
                if not trainer.status.is_final
            ],
        )
        store.take_lease(
            this_process(),
            parts.job.id,
            parts.clock.now_s(),
            config.times.lease_s,
            parts.job.is_gone,
        )
        current_config = ConfigCell(config)
        notices = Notices(current_config, registry, parts.state_dir, parts.clock)
        metrics = Metrics(registry) if is_served(config.metrics) else None
        subscribers = [lambda fact: parts.log(fact, current_config.now.log.format), notices.hear]
        clock = SteadyClock(parts.clock)
        recorder = Recorder(
            store, clock, subscribers if metrics is None else [*subscribers, metrics.hear]
        )
        recorder.note("pilot", "", f"started with pid {os.getpid()}")
        if metrics is None and config.metrics.socket:
            recorder.note("metrics", "", f"not served: {without_client()}")
        if config.hints.port is not None:
            hints = HintListener(config.hints, config.workers, parts.state_dir, parts.clock)
            recorder.note(
                "hints", "", f"listening on {hints.counts.address}, UDP port {hints.counts.port}"
            )
        launcher = DirectoryLauncher(parts.state_dir / TRAINERS, parts.site.driver)
        runtime = PilotRuntime(
            parts, current_config, recorder, clock, notices, launcher, signals, reread, hints
        )
        if metrics is not None:
            metrics_server = MetricsServer(metrics, config.metrics, parts.state_dir)
            for place in metrics_server.places:
                recorder.note("metrics", "", place)
        is_running = True
        with runtime.heartbeat.running():
            run(runtime.world, runtime.state, runtime.decisions.policy, runtime.decisions)
        runtime.close()
        recorder.note("pilot", "", "has ended")
        store.drop_lease()
    except UserError as error:
        # An exit status of 2 would keep a job script from restarting the pilot.
        if is_running:
            raise PilotFailedError(f"the pilot cannot go on: {error}") from error
        if store.has_lease:
            store.drop_lease()  # no loop has run: a next pilot need not wait for the lease's end
        raise
    finally:
        parts.audit.close()
        if metrics_server is not None:
            metrics_server.end()
        if hints is not None:
            hints.close()
        store.close()
