"""Six Slurm sites that no rule of ``bftrainer init`` was written for: their pages and repositories,
abridged to the fields that decide, written down before the rules.

The numbers of nodes are of the pages where they are given, otherwise of the right order.
"""

from __future__ import annotations

from bftrainer_clusters.slurm.config import SlurmSettings
from support.public_sites import PublicSite, config, partition, qos

IRIS_CPU, IRIS_GPU = "c[001-060]", "g[001-030]"

UNSEEN = {
    "a preemptable partition below ten others": PublicSite(
        # Memorial Sloan Kettering, Iris (wiki of a lab, 2025): jobs of all partitions stop those of
        # `preemptable`; the partitions of labs are for their accounts.
        config("partition_prio", "REQUEUE"),
        [
            partition("interactive", "c[001-004]", 100, MaxTime="1-00:00:00"),
            partition("cpushort", IRIS_CPU, 50, MaxTime="02:00:00"),
            partition("gpushort", IRIS_GPU, 50, MaxTime="02:00:00", TRES="cpu=1,gres/gpu=120"),
            partition("cpu", IRIS_CPU, 50, Default="YES", MaxTime="7-00:00:00"),
            partition("gpu", IRIS_GPU, 50, MaxTime="7-00:00:00", TRES="cpu=1,gres/gpu=120"),
            partition(
                "lab", "g[031-032]", 200, AllowAccounts="hpcadmins,lab", TRES="cpu=1,gres/gpu=8"
            ),
            partition(
                "preemptable",
                f"{IRIS_CPU},g[001-032]",
                1,
                "REQUEUE",
                MaxTime="7-00:00:00",
                TRES="cpu=1,gres/gpu=128",
            ),
        ],
        SlurmSettings(partition="preemptable"),
    ),
    "two scavenger partitions, of CPUs and of GPUs": PublicSite(
        # NEC Laboratories (wiki, 2021): debug > batch = long > batch_lp = long_lp > scavenger, and
        # gpu > gpu_scav.
        config("partition_prio", "REQUEUE"),
        [
            partition("debug", "horse[01-40]", 40),
            partition("batch", "horse[01-40]", 30, Default="YES"),
            partition("long", "horse[01-40]", 30),
            partition("batch_lp", "horse[01-40]", 20),
            partition("scavenger", "horse[01-40]", 10, "REQUEUE"),
            partition("gpu", "ml[01-09]", 30, TRES="cpu=1,gres/gpu=36"),
            partition("gpu_scav", "ml[01-09]", 10, "REQUEUE", TRES="cpu=1,gres/gpu=36"),
        ],
        SlurmSettings(partition="gpu_scav"),
    ),
    "partitions by processor, without preemption": PublicSite(
        # UC Riverside HPCC (manual): epyc, intel, batch, short (two hours), highmem, gpu.
        config(),
        [
            partition("epyc", "r[21-38]", Default="YES", MaxTime="30-00:00:00"),
            partition("intel", "i[01-60]", MaxTime="30-00:00:00"),
            partition("short", "i[01-60],r[21-38]", MaxTime="02:00:00"),
            partition("highmem", "h[01-06]", MaxTime="30-00:00:00"),
            partition("gpu", "gpu[01-08]", MaxTime="7-00:00:00", TRES="cpu=1,gres/gpu=32"),
        ],
        SlurmSettings(partition="gpu"),
    ),
    "an interactive partition above the queue of everybody": PublicSite(
        # aws-samples/aws-eda-slurm-cluster: interactive preempts all other partitions, whose jobs
        # wait for one another.
        config("partition_prio", "REQUEUE"),
        [
            partition("batch", "od-[1-100]", 1, "REQUEUE", Default="YES"),
            partition("spot", "sp-[1-50]", 1, "REQUEUE"),
            partition("interactive", "od-[1-100],sp-[1-50]", 1000, "OFF"),
        ],
        SlurmSettings(partition="batch"),
    ),
    "the template of a cloud": PublicSite(
        # GoogleCloudPlatform/rad-lab, modules/hpc_slurm: one partition, no accounting.
        config(),
        [partition("debug", "linux[1-32]", Default="YES")],
        SlurmSettings(partition="debug"),
    ),
    "a preemptable QOS in the accounts of facilities": PublicSite(
        # SLAC S3DF (slaclab/slurm-whacker and the facility's pages): preempt/qos, accounts
        # facility:repo, CPU and GPU partitions.
        config("qos", "CANCEL"),
        [
            partition("roma", "sdfrome[001-129]", mode="CANCEL", Default="YES"),
            partition("milano", "sdfmilan[001-193]", mode="CANCEL"),
            partition("ampere", "sdfampere[001-042]", mode="CANCEL", TRES="cpu=1,gres/gpu=168"),
        ],
        SlurmSettings(partition="ampere", qos="preemptable"),
        qos=[qos("normal", "preemptable"), qos("preemptable", factor=0.0)],
    ),
}
"""By what is special about them."""
