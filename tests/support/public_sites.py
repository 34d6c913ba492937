"""Fourteen Slurm sites, by their public pages and repositories, abridged to the fields that decide
about preemption.

The fields are in the words of ``scontrol`` and in those of ``sacctmgr``'s parser. Where a page
leaves one out, the likely value stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bftrainer_clusters.slurm.associations import Accounting
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import Qos, limit_s, parse_partitions
from bftrainer_clusters.slurm.site_facts import SiteSetup


@dataclass(frozen=True)
class PublicSite:
    """A site, and the settings that its user would choose. ``name`` is the check that fails; empty:
    none does.
    """

    config: str
    partitions: list[str]
    settings: SlurmSettings
    name: str = ""
    words: str = ""
    qos: list[Qos] = field(default_factory=list)

    @property
    def facts(self) -> SiteSetup:
        known = {qos.name: qos for qos in self.qos} or None
        return SiteSetup(
            self.config, parse_partitions("\n".join(self.partitions) + "\n"), Accounting(known)
        )


def partition(name: str, nodes: str, tier: int = 1, mode: str = "OFF", **more: str) -> str:
    """A line of ``scontrol -a -o show partition``."""
    given = {
        "AllowQos": "ALL",
        "Default": "NO",
        "QoS": "N/A",
        "GraceTime": "0",
        "MaxTime": "UNLIMITED",
        "OverSubscribe": "NO",
        "AllowAccounts": "ALL",
        "TRES": "cpu=1,node=1",
        **more,
    }
    return (
        f"PartitionName={name} AllowGroups=ALL AllowAccounts={given['AllowAccounts']} "
        f"AllowQos={given['AllowQos']} Default={given['Default']} "
        f"QoS={given['QoS']} "
        f"GraceTime={given['GraceTime']} MaxTime={given['MaxTime']} LLN=NO Nodes={nodes} "
        f"PriorityTier={tier} RootOnly=NO "
        f"OverSubscribe={given['OverSubscribe']} OverTimeLimit=NONE PreemptMode={mode} "
        f"State=UP TRES={given['TRES']}"
    )


def config(
    by: str = "none", mode: str = "OFF", exempt: str = "00:00:00", private: str = "none"
) -> str:
    """The lines of ``scontrol show config`` that decide."""
    values = {
        "SLURM_VERSION": "25.05.1",
        "PreemptType": f"preempt/{by}",
        "PreemptMode": mode,
        "PreemptExemptTime": exempt,
        "PrivateData": private,
    }
    return "".join(f"{key} = {value}\n" for key, value in values.items())


def qos(
    name: str,
    preempts: str = "",
    factor: float = 1.0,
    exempt: float | None = None,
    wall: str = "UNLIMITED",
) -> Qos:
    """As sacctmgr shows it."""
    return Qos(
        name, frozenset(preempts.split(",")) - {""}, "CLUSTER", factor, 0, exempt, limit_s(wall)
    )


CPU, GPU = "cpu-a-[1-2],cpu-b-[1-6],cpu-e-1,cpu-f-[1-2]", "gpu-a-[1-4],gpu-b-[1-6],gpu-h-[1-8]"
INTERACTIVE = "cpu-c-[1-4],gpu-e-[1-8],gpu-s-[01-20]"
FARM = "ccc[0035-0036,0085-0090],golub[113-116]"
CHARGED = [
    qos("regular", "preempt,overrun"),
    qos("debug", "preempt,overrun"),
    qos("premium", "preempt,overrun"),
]
SMALL = [qos(name, "scavenger") for name in ("normal", "undergrad", "expedite")]
POOLED = [qos(name, "pre-s,pre-n") for name in ("short", "normal", "long", "htc-s")]
LISTED = [
    qos("test", "batch,debug,normal,low"),
    *map(qos, ("prod", "batch", "debug", "normal", "low")),
]

SITES = {
    "a QOS that guarantees two hours": PublicSite(
        config("qos", "REQUEUE"),
        [
            partition("gpu", "nid[1000-1099]", mode="REQUEUE"),
            partition("cpu", "nid[4000-4099]", mode="REQUEUE"),
        ],
        SlurmSettings(partition="gpu", qos="preempt"),
        "exempt time",
        "QOS preempt has PreemptExemptTime 7200 s",
        [
            *CHARGED,
            qos("preempt", factor=0.25, exempt=7200, wall="2-00:00:00"),
            qos("overrun", factor=0.0),
        ],
    ),
    "a checkpoint QOS on the nodes of the labs": PublicSite(
        config("qos", "REQUEUE"),
        [
            partition("ckpt-all", "g[3001-3020],n[3001-3040]", mode="REQUEUE"),
            partition("compute", "n[3001-3040]", mode="REQUEUE"),
            partition("gpu-a40", "g[3001-3020]", mode="REQUEUE"),
        ],
        SlurmSettings(partition="ckpt-all", qos="lab-ckpt"),
        qos=[qos("lab-compute", "lab-ckpt"), qos("normal", "lab-ckpt"), qos("lab-ckpt")],
    ),
    "a partition below three others": PublicSite(
        config("partition_prio", "REQUEUE"),
        [
            partition("cpu", CPU, 1000, "REQUEUE", Default="YES"),
            partition("gpu", GPU, 1000, "REQUEUE"),
            partition("interactive", INTERACTIVE, 2000, "REQUEUE"),
            partition("preview", "cpu-vm-[1-2]", 1, "REQUEUE"),
            partition("preempted", f"{CPU},{GPU},{INTERACTIVE}", 1, "REQUEUE", GraceTime="30"),
        ],
        SlurmSettings(partition="preempted"),
    ),
    "a second partition on contributed nodes": PublicSite(
        config("partition_prio", "CANCEL"),
        [
            partition("skylake", "n[339-381]", Default="YES"),
            partition("genoa", "n[393-419]"),
            partition("owner", "n[424-427]", 9),
            partition("owner-lm", "n423", 9),
            partition("cpu", "n[388-392]", 9),
            partition(
                "genoacpu-b",
                "n[388-392,423-427]",
                2,
                "CANCEL",
                GraceTime="100",
                AllowQos="normal,cpupreempt",
            ),
        ],
        SlurmSettings(partition="genoacpu-b"),
    ),
    "two preemptible QOSes in a partition of their own": PublicSite(
        config("qos", "CANCEL"),
        [
            partition(
                "htc",
                "n[0-3,24-93]",
                mode="CANCEL",
                Default="YES",
                AllowQos="short,normal,long,htc-s",
            ),
            partition("preempt", "n[0-3,24-93]", mode="CANCEL", AllowQos="pre-s,pre-n"),
        ],
        SlurmSettings(partition="preempt", qos="pre-n"),
        qos=[*POOLED, qos("pre-s", factor=0.0), qos("pre-n", factor=0.0)],
    ),
    "a QOS called scavenger where partitions decide": PublicSite(
        config("partition_prio", "REQUEUE"),
        [
            partition("b200", "gb[201-216]", mode="REQUEUE"),
            partition("l40s", "gl[105-112]", mode="REQUEUE"),
        ],
        SlurmSettings(partition="b200", qos="scavenger"),
        "preemption",
        "no partition with its nodes is above b200",
        [qos("scavenger"), qos("all")],
    ),
    "one QOS that preempts, and four that do not": PublicSite(
        config("qos", "REQUEUE"),
        [partition("batch", "n[01-10]", mode="REQUEUE", Default="YES")],
        SlurmSettings(partition="batch", qos="batch"),
        "qos",
        "jobs of QOS normal, prod wait for holders",
        LISTED,
    ),
    "an exempt time of ten minutes": PublicSite(
        config("qos", "REQUEUE", "00:10:00"),
        [partition("gpu", "n[1-4]", mode="REQUEUE", Default="YES")],
        SlurmSettings(partition="gpu", qos="scavenger"),
        "exempt time",
        "PreemptExemptTime 600 s",
        [*SMALL, qos("scavenger")],
    ),
    "preemption by QOS, and one QOS for all": PublicSite(
        config("qos", "CANCEL", "00:00:10"),
        [partition("course", "n[1-2]", mode="CANCEL", QoS="normal", AllowQos="normal")],
        SlurmSettings(partition="course", qos="normal"),
        "qos",
        "no QOS lists normal under Preempt",
        [qos("normal")],
    ),
    "two partitions without preemption": PublicSite(
        config(),
        [
            partition("standard", "c[0001-0100]", 2, Default="YES"),
            partition("parallel", "c[0101-0200]", 2),
        ],
        SlurmSettings(partition="standard"),
        "preemption",
        "PreemptType=preempt/none",
    ),
    "one partition without preemption": PublicSite(
        config(),
        [partition("general", "gpu[01-11],awi[01-26]", Default="YES")],
        SlurmSettings(partition="general"),
        "preemption",
        "PreemptType=preempt/none",
    ),
    "a secondary partition below the owners'": PublicSite(
        config("partition_prio", "REQUEUE"),
        [
            partition("stat", FARM, 3, OverSubscribe="YES:4"),
            partition("secondary", FARM, 1, "REQUEUE", GraceTime="120", OverSubscribe="YES:4"),
        ],
        SlurmSettings(partition="secondary"),
    ),
    "a site that never ends a job, and hides the others'": PublicSite(
        config(private="jobs,users"),
        [partition("all", "n[1-1908]", Default="YES")],
        SlurmSettings(partition="all", assume_window_s=3600.0),
        "preemption",
        "PreemptType=preempt/none",
    ),
    "partitions by the size of jobs, and PreemptMode=OFF": PublicSite(
        config("partition_prio", "REQUEUE"),
        [
            partition(name, "cpn[3856-3894]", tier)
            for name, tier in (("ngs12", 100), ("ngs48", 100), ("ct", 10))
        ],
        SlurmSettings(partition="ct"),
        "preemption",
        "partition ct has PreemptMode OFF",
    ),
}
