"""``holder = "allocation"``: the nodes of the job that the pilot itself runs in. It needs no site
setup; nothing is preempted.

Every node of the allocation is idle at first and available until the job ends; "released" means
that the pilot no longer uses it. Held nodes are recorded as folders, so a restarted pilot finds
them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from bftrainer.cluster.model import (
    Acquired,
    Availability,
    Fragment,
    FragmentPhase,
    NodeRequest,
    NodeView,
    Observation,
    Refusal,
)
from bftrainer.cluster.site_plugin import JobNodes, Site, SitePlugin, batch_systems
from bftrainer.config.pilot import PilotConfig
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import UserError
from bftrainer.fragment_names import fragment_name, id_of, is_fragment_name
from bftrainer.system.clock import Clock
from bftrainer.system.files import remove_folder, remove_leftovers
from bftrainer.system.processes import end_all, with_variable
from bftrainer.wires.environment import FRAGMENT


class Allocation:
    """Scheduler and NodeHolder over a fixed list of nodes.

    ``ends_by`` is the number of the signal that ends workers. Raises ``UserError`` without nodes.
    """

    def __init__(
        self,
        state_dir: Path,
        nodes: tuple[str, ...],
        clock: Clock,
        ends_by: int = int(signal.SIGKILL),
    ) -> None:
        if not nodes:
            raise UserError(
                'holder = "allocation" needs nodes: run the pilot inside a job, or set nodes.hosts'
            )
        self._holders = state_dir / "holders"
        self._holders.mkdir(mode=0o700, exist_ok=True)
        self._nodes = nodes
        self._clock = clock
        self._ends_by = signal.Signals(ends_by)
        # Released fragments that the next poll reports as gone.
        self._unreported_fragments: list[Fragment] = []
        # Names of released fragments whose folders could not be removed.
        self._leftover_names: set[str] = set()
        remove_leftovers(self._holders)

    def observe(self) -> Observation:
        """Return the nodes of the job: busy if they are held, otherwise free, and without an end of
        a window.
        """
        availabilities = dict.fromkeys(self._nodes, Availability.FREE)
        for fragment in self._held_fragments():
            availabilities[fragment.node] = Availability.BUSY
        return Observation(
            self._clock.now_s(),
            tuple(NodeView(node, availabilities[node]) for node in self._nodes),
        )

    def acquire(self, requests: tuple[NodeRequest, ...]) -> Acquired:
        """Hold nodes of the job. They are ready at once, but reported as pending first, as by every
        holder.
        """
        held_nodes = {fragment.node for fragment in self._held_fragments()}
        fragments: list[Fragment] = []
        refusals: list[Refusal] = []
        for number, request in enumerate(requests):
            if request.node in held_nodes or request.node not in self._nodes:
                refusals.append(Refusal(request.node, "already held, or not a node of this job"))
                continue
            name = fragment_name(request.node, f"{os.getpid()}-{self._clock.now_s():.3f}-{number}")
            (self._holders / name).mkdir(mode=0o700)
            held_nodes.add(request.node)
            fragments.append(Fragment(name, FragmentPhase.PENDING))
        return Acquired(tuple(fragments), tuple(refusals))

    def poll(self) -> tuple[Fragment, ...]:
        """Return the held fragments, all of them ready, and the fragments that have gone since the
        last call, by name. Gone are released ones, and fragments on nodes outside of the job (the
        pilot has moved to another job), which are removed now.
        """
        fragments = self._unreported_fragments
        self._unreported_fragments = []
        for fragment in self._held_fragments():
            if fragment.node in self._nodes:
                fragments.append(fragment)
                continue
            self._remove(fragment)
            fragments.append(
                Fragment(fragment.name, FragmentPhase.GONE, why="not a node of this job")
            )
        return tuple(sorted(fragments, key=lambda fragment: fragment.name))

    def observed(self, without_a_job: frozenset[str]) -> None: ...

    def release(self, names: frozenset[str]) -> None:
        """End the workers of these fragments and delete their folders."""
        self.clear(names)
        for fragment in self._held_fragments():
            if fragment.name in names:
                self._remove(fragment)
                self._unreported_fragments.append(
                    Fragment(fragment.name, FragmentPhase.GONE, why="released")
                )

    def clear(self, names: frozenset[str]) -> None:
        """End the workers of these fragments, or the sruns that started them."""
        processes = [
            process for name in sorted(names) for process in with_variable(FRAGMENT, id_of(name))
        ]
        end_all(processes, self._ends_by)

    def renew(self) -> None:
        """Nothing to do: the end of the job ends everything."""

    def _remove(self, fragment: Fragment) -> None:
        if not remove_folder(self._holders / fragment.name):
            self._leftover_names.add(fragment.name)

    def _held_fragments(self) -> list[Fragment]:
        """Return the fragments that have a folder and were not released, by name."""
        names = sorted(path.name for path in self._holders.iterdir() if is_fragment_name(path.name))
        return [
            Fragment(name, FragmentPhase.READY)
            for name in names
            if name not in self._leftover_names
        ]


class AllocationSite:
    """``holder = "allocation"``; outside of a job this host is the only node."""

    table = None
    batch = None
    init_values: Mapping[str, object] = {}
    runs_here = False

    def build(self, config: PilotConfig, state_dir: Path, clock: Clock) -> Site:
        """Build the site on the nodes of the batch job that this process runs in, by the first
        batch system that recognizes one in the environment; without a job, on this host.
        """
        jobs = (batch.job_nodes(os.environ, config) for _, batch in batch_systems())
        own_job = next((job for job in jobs if job is not None), JobNodes(("localhost",)))
        allocation = Allocation(state_dir, own_job.nodes, clock, own_job.ends_by)
        return Site(
            allocation,
            allocation,
            driver={"prefix": list(own_job.prefix), "ends_by": own_job.ends_by},
        )

    def check(self, config: PilotConfig | None, where: str, keep: Path) -> list[Check]:
        return []


SITE: SitePlugin = AllocationSite()
