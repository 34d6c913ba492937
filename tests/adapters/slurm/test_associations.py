"""Accounts, QOSes and partitions that limit a pilot's holders: what caps the pilot, and what would
make main jobs wait.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.recorded_slurm import recorded

from bftrainer.cluster.model import LimitWait
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm import associations, limit_waits
from bftrainer_clusters.slurm.checks import judge
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.limit_waits import shared_limits
from bftrainer_clusters.slurm.setup import parse_partitions, parse_tres, qos_argv
from bftrainer_clusters.slurm.site_facts import read_site
from bftrainer_clusters.slurm.site_limits import most_nodes


def row(argv: list[str], **values: str) -> str:
    """A line that ``sacctmgr -nP`` prints (22.05.8): the fields of its format, which are empty
    where nothing is set.
    """
    names = argv[-1].removeprefix("format=").split(",")
    assert values.keys() <= set(names)
    return "|".join(values.get(name, "") for name in names) + "\n"


def user(**values: str) -> str:
    own = {"Account": "pilots", "User": "ann", "QOS": "normal,scavenger"}
    return row(associations.argv("lab"), **(own | values))


def account(name: str, parent: str = "", **values: str) -> str:
    return row(associations.argv("lab"), Account=name, ParentName=parent, QOS="normal", **values)


def qoses(**of: dict[str, str]) -> str:
    known = {
        "normal": {"Preempt": "scavenger", "PreemptMode": "cluster", "UsageFactor": "1.000000"},
        "scavenger": {"PreemptMode": "cancel", "UsageFactor": "0.000000"},
        "partq": {"PreemptMode": "cluster", "UsageFactor": "1.000000"},
    }
    return "".join(
        row(qos_argv(), Name=name, GraceTime="00:00:00", **(known[name] | of.get(name, {})))
        for name in known
    )


ACCOUNTS = {
    "pilots": account("pilots", "science"),
    "science": account("science", "root"),
    "root": account("root"),
}
CONFIG = (
    recorded("site-recommended.config.txt")
    .replace("preempt/partition_prio", "preempt/qos")
    .replace(
        "AccountingStorageEnforce = none", "AccountingStorageEnforce = associations,limits,qos"
    )
    .replace("accounting_storage/none", "accounting_storage/slurmdbd")
)
PARTITIONS = recorded("site-recommended.partitions.txt")


class Site:
    """Answers of sacctmgr and scontrol, with one thing changed."""

    def __init__(
        self, user: str = user(), qos: str = qoses(), partitions: str = PARTITIONS, **accounts: str
    ) -> None:
        self.user, self.qos, self.partitions, self.accounts = (
            user,
            qos,
            partitions,
            ACCOUNTS | accounts,
        )

    def ask(self, argv: list[str]) -> str:
        if argv[0] == "scontrol":
            return self.partitions
        if argv[0] == "sacct":
            return ""
        match argv[3]:
            case "qos":
                return self.qos
            case "user":
                return "pilots\n"
        account = next((word[8:] for word in argv if word.startswith("account=")), "")
        if account:
            return self.accounts[account]
        return "".join(self.accounts.values()) if "user=" in argv else self.user

    def found(self, settings: SlurmSettings, max_nodes: int = 1_000_000) -> list[Check]:
        """What doctor says of limits."""
        checks = judge(settings, read_site(settings, CONFIG, "ann", self.ask), "ann", max_nodes)
        for check in checks:
            assert (check.remedy == "") == (check.state is CheckStatus.OK), check
        return [check for check in checks if check.name in ("limits", "hours", "max wall")]


OWN = SlurmSettings(qos="scavenger", account="pilots")


SCIENCE = Site(
    science=account("science", "root", GrpTRES="node=3"),
    physics=account("physics", "science"),
    biology=account("biology", "root"),
)
PARTQ = Site(
    qos=qoses(partq={"GrpTRES": "node=4"}), partitions=PARTITIONS.replace("QoS=N/A", "QoS=partq", 1)
)


def test_without_limits_there_is_nothing_to_say() -> None:
    assert Site().found(OWN) == []


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (
            Site(science=account("science", "root", GrpTRES="node=3")),
            "account science: GrpTRES node=3: holders count",
        ),
        (Site(user=user(MaxJobs="2")), "user ann in account pilots: MaxJobs 2: holders count"),
        (Site(user=user(MaxSubmit="2")), "MaxSubmit 2: holders count, so your main jobs"),
        (Site(root=account("root", GrpTRES="cpu=8")), "account root: GrpTRES cpu=8: holders count"),
        (
            PARTQ,
            "QOS partq of partition main: GrpTRES node=4: holders count, so main jobs in main "
            "would wait",
        ),
    ],
)
def test_a_limit_that_counts_main_jobs_makes_them_wait(site: Site, words: str) -> None:
    """Seen live: AssocGrpNodeLimit, AssocMaxJobsLimit and QOSGrpNodeLimit beside holders that
    nothing preempts.
    """
    (check,) = site.found(OWN)
    assert (check.state, words in check.detail) == (CheckStatus.BROKEN, True), check
    assert "nodes.max_nodes" in check.remedy
    (check,) = site.found(OWN, max_nodes=1)
    assert (check.state, "are left beside 1 held nodes" in check.detail) == (
        CheckStatus.OK,
        True,
    ), check


def test_a_limit_that_counts_holders_only_caps_the_pilot() -> None:
    capped = Site(qos=qoses(scavenger={"MaxJobsPU": "2"}))
    (check,) = capped.found(OWN)
    assert (check.state, check.detail) == (
        CheckStatus.OK,
        "QOS scavenger: MaxJobsPU 2: at most 2 nodes are held",
    )
    alone = Site(user=user(QOS="scavenger", MaxJobs="2"))
    (check,) = alone.found(OWN)
    assert check.state is CheckStatus.OK, "no main job runs under this association"
    # The QOS of everybody's jobs caps more than holders.
    everybodys = Site(qos=qoses(normal={"MaxJobsPU": "2"}))
    assert CheckStatus.BROKEN in {
        check.state for check in everybodys.found(SlurmSettings(partition="scavenge"))
    }


def test_hours_that_held_nodes_use_up() -> None:
    site = Site(pilots=account("pilots", "science", GrpTRESMins="cpu=600"))
    assert site.found(OWN) == [], "UsageFactor=0"
    paid = Site(qos=qoses(scavenger={"UsageFactor": "1.000000"}), **site.accounts)
    (check,) = paid.found(OWN)
    assert (check.name, check.state) == ("hours", CheckStatus.BROKEN)


@pytest.mark.parametrize(
    ("site", "longest_s"),
    [
        (Site(), float("inf")),
        (Site(user=user(MaxWall="00:45:00")), 2700.0),
        (Site(qos=qoses(scavenger={"MaxWall": "00:30:00"})), 1800.0),
        (Site(partitions=PARTITIONS.replace("MaxTime=UNLIMITED", "MaxTime=00:05:00", 1)), 300.0),
    ],
)
def test_the_longest_time_limit_of_a_holder(site: Site, longest_s: float) -> None:
    assert read_site(OWN, CONFIG, "ann", site.ask).holders(OWN).longest[0] == longest_s
    if longest_s < 3600:
        (check,) = site.found(OWN)
        assert (check.name, check.state) == ("max wall", CheckStatus.WARNING)


PENDING = "JOBID|USER|ACCOUNT|QOS|PARTITION|NODES|REASON"


@pytest.mark.parametrize(
    ("site", "job", "size"),
    [
        (SCIENCE, "eve|physics|normal|main|2|AssocGrpNodeLimit", 2),
        (SCIENCE, "eve|biology|normal|main|2|AssocGrpNodeLimit", None),  # no account below science
        (
            SCIENCE,
            "eve|physics|normal|main|4|AssocGrpNodeLimit",
            None,
        ),  # more than the limit: it waits without us, too
        (SCIENCE, "ann|pilots|scavenger|main|1|AssocGrpNodeLimit", None),  # a holder
        (SCIENCE, "eve|physics|normal|main|2|QOSGrpNodeLimit", None),
        (SCIENCE, "eve|physics|normal|main|2|AssocMaxNodePerJobLimit", None),
        (
            SCIENCE,
            "eve|physics|normal|main|2|AssocGrpCPUMinutesLimit",
            None,
        ),  # hours that are used up
        (SCIENCE, "eve|physics|normal|main|2|AssocGrpCPURunMinutesLimit", 2),
        (SCIENCE, "eve|physics|normal|main|2|Resources", None),
        (Site(user=user(MaxJobs="3")), "ann|pilots|normal|main|10|AssocMaxJobsLimit", 1),
        (Site(user=user(MaxJobs="3")), "eve|pilots|normal|main|3|AssocMaxJobsLimit", None),
        (PARTQ, "eve|x|normal|main|3|QOSGrpNodeLimit", 3),
        (PARTQ, "eve|x|normal|other|3|QOSGrpNodeLimit", None),
    ],
)
def test_main_jobs_that_wait_for_a_limit_for_which_holders_count(
    site: Site, job: str, size: int | None
) -> None:
    shared = shared_limits(read_site(OWN, CONFIG, "ann", site.ask).holders(OWN), "lab", site.ask)
    found = limit_waits.parse(f"{PENDING}|m\n7|{job}|m\n", "m", shared)
    assert found == (() if size is None else (LimitWait("7", size, job.rpartition("|")[2]),))


def test_nothing_is_asked_where_no_limit_is_shared() -> None:
    site = Site(qos=qoses(scavenger={"GrpTRES": "node=2"}))
    assert (
        shared_limits(read_site(OWN, CONFIG, "ann", site.ask).holders(OWN), "lab", site.ask).limits
        == ()
    )
    by_partition = SlurmSettings(partition="scavenge")
    at = replace(
        read_site(by_partition, CONFIG, "ann", SCIENCE.ask).holders(by_partition),
        by="preempt/partition_prio",
    )
    assert shared_limits(at, "lab", SCIENCE.ask).own_partition == "scavenge", (
        "pilots wait there, and no main job"
    )


def test_which_association_counts() -> None:
    own = associations.Association("pilots", "ann")
    of_partition = replace(own, partition="scavenge")
    assert associations.chosen([own, of_partition], "", "pilots", "scavenge") == of_partition
    assert associations.chosen([own, of_partition], "", "pilots", "main") == own
    assert associations.chosen([own], "other", "pilots", "") is None
    with pytest.raises(SchedulerError, match="truncated"):
        associations.parse("pilots|ann|")


def test_limits_in_nodes() -> None:
    (main, *_) = parse_partitions(PARTITIONS).values()
    assert parse_tres("cpu=8,mem=8000M,gres/gpu=4") == {
        "cpu": 8.0,
        "mem": 8000.0 * 1024**2,
        "gres/gpu": 4.0,
    }
    assert [
        most_nodes("GrpTRES", v, main) for v in ("node=3", "cpu=5", "mem=4000M", "gres/gpu=4")
    ] == [
        3,
        2,
        2,
        float("inf"),
    ]
    assert most_nodes("MaxJobs", "7", main) == 7
