"""The sites ``allocation`` and ``trace``: the nodes of the pilot's own job, and nodes of a log with workers on this host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bftrainer.config.pilot import PilotConfig
from bftrainer.domain.checks import Check
from bftrainer.domain.ports import Clock
from bftrainer.live.site import JobNodes, Site, SitePlugin, batch_systems
from bftrainer_adapters.local.allocation import Allocation
from bftrainer_adapters.local.trace import TraceCluster, read_timeline


class _WithoutScheduler:
    table = None
    batch = None

    def reconfigure(self, site: Site, config: PilotConfig) -> tuple[str, ...]:
        return ()

    def check(self, config: PilotConfig | None, where: str, keep: Path) -> list[Check]:
        return []


class AllocationSite(_WithoutScheduler):
    """``holder = "allocation"``; outside of a job this host is the only node."""

    init_values: Mapping[str, object] = {}
    runs_here = False

    def build(self, config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
        around = (batch.job_nodes(os.environ, config) for _, batch in batch_systems())
        found = next((job for job in around if job is not None), JobNodes(("localhost",)))
        allocation = Allocation(state_dir, found.nodes, clock)
        return Site(allocation, allocation, driver={"prefix": list(found.prefix)})


class TraceSite(_WithoutScheduler):
    """``holder = "trace"``, the default. Its table is one of the common ones."""

    # A log at 60 times its speed is observed more often than a cluster.
    init_values: Mapping[str, object] = {"times_poll_s": 1.0}
    runs_here = True

    def build(self, config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
        cluster = TraceCluster(state_dir, read_timeline(config.trace), config.times.lease_s, clock)
        return Site(cluster, cluster)


ALLOCATION: SitePlugin = AllocationSite()
TRACE: SitePlugin = TraceSite()
