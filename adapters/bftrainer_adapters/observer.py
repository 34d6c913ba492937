"""A site to look at and nothing else: its scheduler, built from a configuration or, without one, from nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bftrainer.config.pilot import NodeClassConfig, NodesConfig, PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.core.windows import Ours
from bftrainer.domain.cluster import NodeView
from bftrainer.domain.ports import Clock, Scheduler
from bftrainer.errors import SchedulerError, UnknownNameError, UserError
from bftrainer.live.nodes.classifier import class_of
from bftrainer.live.nodes.selection import may_be_held
from bftrainer_adapters.lsf import text as lsf_text
from bftrainer_adapters.lsf.config import LsfSettings
from bftrainer_adapters.lsf.observe import LsfScheduler, ask, hosts_argv
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.observe import AnswerFormat, SlurmScheduler

SCHEDULERS = ("lsf", "slurm")


@dataclass(frozen=True, slots=True)
class ObservedSite:
    """What is looked at. ``remarks``: what was taken for granted."""

    scheduler: Scheduler
    ours: Ours
    nodes: NodesConfig = field(default_factory=NodesConfig)
    remarks: tuple[str, ...] = ()
    classes: Mapping[str, NodeClassConfig] = field(default_factory=dict)

    def chosen(self, views: Iterable[NodeView]) -> frozenset[str]:
        """The names of those that the configuration lets a pilot have: partitions, hosts, exclude, node_class."""
        partitions, kind = set(self.nodes.partitions), self.nodes.node_class
        return frozenset(
            node.name
            for node in views
            if may_be_held(node.name, self.nodes)
            and (not partitions or not partitions.isdisjoint(node.partitions))
            and kind in (None, class_of(node, self.classes))
        )


def watched(
    kind: str,
    config: PilotConfig | None,
    where: str,
    clock: Clock,
    slots_per_node: int | None = None,
    env: Mapping[str, str] | None = None,
) -> ObservedSite:
    """The scheduler ``kind`` with the tables ``[nodes]`` and ``[slurm]`` or ``[lsf]`` of ``config``, a file ``where``.

    Nothing of it is held, so holders' settings do not matter. Windows that the site hides are taken as endless: only the
    idle nodes are asked for. Raises :class:`~bftrainer.errors.SchedulerError` if LSF has to be asked for its slots and
    does not answer.
    """
    nodes = NodesConfig() if config is None else config.nodes
    classes = {} if config is None else config.classes
    if kind == "slurm":
        return ObservedSite(*_slurm({} if config is None else config.slurm, where, env or {}), nodes, classes=classes)
    if kind == "lsf":
        settings, remarks = _lsf({} if config is None else config.lsf, where, slots_per_node, env or {})
        ours = Ours(frozenset(), frozenset({settings.queue} - {""}), math.inf)
        return ObservedSite(LsfScheduler(settings, clock, env or {}), ours, nodes, remarks, classes)
    raise UnknownNameError("scheduler", kind, SCHEDULERS)


def _slurm(table: dict[str, Any], where: str, env: Mapping[str, str]) -> tuple[SlurmScheduler, Ours]:
    if not table:
        return SlurmScheduler(env=env), Ours(assume_window_s=math.inf)
    settings = check_table(table, SlurmSettings, f"{where}: slurm")
    scheduler = SlurmScheduler(AnswerFormat(settings.format), settings.timeout_s, env)
    return scheduler, Ours(frozenset(), frozenset({settings.partition} - {""}), math.inf)


def _lsf(
    table: dict[str, Any], where: str, slots_per_node: int | None, env: Mapping[str, str]
) -> tuple[LsfSettings, tuple[str, ...]]:
    if table:
        settings = check_table(table, LsfSettings, f"{where}: lsf")
        if slots_per_node not in (None, settings.slots_per_node):
            raise UserError(
                f"--slots-per-node {slots_per_node}: {where} says {settings.slots_per_node}; give one of them"
            )
        return settings, ()
    if slots_per_node is not None:
        return _bare(slots_per_node), ()
    found = _bare(1)
    hosts = ask(hosts_argv(found), lsf_text.parse_hosts_json, found.timeout_s, env)
    sizes: Counter[int] = Counter(host.cpus for host in hosts if host.cpus)
    if not sizes:
        raise SchedulerError("no host of LSF tells its slots (MAX); give --slots-per-node")
    slots, count = max(sizes.items(), key=lambda size: (size[1], size[0]))
    remark = f"a node has {slots} slots, as {count:,} of {len(hosts):,} hosts have (--slots-per-node says otherwise)"
    return _bare(slots), (remark,)


def _bare(slots: int) -> LsfSettings:
    """Settings for looking only: no queue of ours."""
    return LsfSettings.model_construct(queue="", slots_per_node=slots)
