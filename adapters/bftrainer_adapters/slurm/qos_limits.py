"""What the QOS of the holders says of their time and number, and what the cluster says where it does not. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bftrainer.domain.checks import Check
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.setup import Partition, Qos, exempt_s

_NODES = re.compile(r"(?:^|,)node=(\d+)")


def limits(settings: SlurmSettings, config: Mapping[str, str], qos: Qos | None) -> Iterator[Check]:
    """Limits that make main jobs wait or keep holders from starting, and those that cap the pilot."""
    exempt, whose = exempt_s(config), ""
    if qos is not None and qos.exempt_s is not None:
        exempt, whose = qos.exempt_s, f"QOS {qos.name} has "
    if exempt:
        remedy = f"sacctmgr modify qos {settings.qos} set PreemptExemptTime=0" if whose else "PreemptExemptTime=0"
        yield Check.broken(
            "exempt time",
            f"{whose}PreemptExemptTime {exempt:g} s: a holder cannot be preempted in its first {exempt:g} s",
            f"{remedy}; set it in the QOS of the jobs that need it",
        )
    if qos is None:
        return
    if qos.max_s < settings.longest_s:
        yield Check.broken(
            "max wall",
            f"QOS {qos.name} has MaxWall {qos.max_s:g} s, slurm.longest_s is {settings.longest_s:g}: "
            "holders on nodes without a plan would never start",
            f"set slurm.longest_s = {qos.max_s:g} or less",
        )
    if qos.caps:
        yield _caps(qos)


def _caps(qos: Qos) -> Check:
    """Each holder is a job of one node. A limit on CPUs or memory is shown, but not converted to nodes."""
    told = ", ".join(f"{key} {value}" for key, value in qos.caps.items())
    numbers = [int(value) for value in qos.caps.values() if value.isdecimal()]
    numbers += [int(found[1]) for value in qos.caps.values() if (found := _NODES.search(value))]
    if numbers and min(numbers) == 0:
        return Check.broken("limits", f"QOS {qos.name}: {told}: no holder may run", "raise the limit that is 0")
    most = f"at most {min(numbers)} nodes are held" if numbers else "these limit the nodes that are held"
    return Check.ok("limits", f"QOS {qos.name}: {told}: {most}")


def grace_s(config: Mapping[str, str], partition: Partition | None, qos: Qos | None) -> int:
    """GraceTime of a holder: the QOS's with preemption by QOS, otherwise the partition's."""
    if config.get("PreemptType") == "preempt/qos":
        return qos.grace_s if qos is not None else 0
    return partition.grace_s if partition is not None else 0
