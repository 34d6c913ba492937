"""What doctor says of a Slurm site: recorded answers of two set-ups, and the same with one thing
wrong at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.public_sites import SITES
from support.recorded_slurm import recorded

from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm.associations import Accounting
from bftrainer_clusters.slurm.checks import judge, rate_limit
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import Qos, parse_config, parse_partitions, parse_qos
from bftrainer_clusters.slurm.site_facts import SiteSetup

SETTINGS = SlurmSettings(partition="scavenge")


def judged(
    site: str = "recommended",
    settings: SlurmSettings | None = SETTINGS,
    qos: dict[str, Qos] | None = None,
    change: Callable[[str], str] = lambda text: text,
) -> dict[str, Check]:
    """Findings by name, of answers that were changed."""
    config, partitions = (
        change(recorded(f"site-{site}.config.txt")),
        change(recorded(f"site-{site}.partitions.txt")),
    )
    found = judge(settings, SiteSetup(config, parse_partitions(partitions), Accounting(qos)), "me")
    for one in found:
        assert (one.remedy == "") == (one.state is CheckStatus.OK), (
            f"every failed check says a remedy: {one}"
        )
        assert "\n" not in one.detail + one.remedy
    return {one.name: one for one in found}


def weights(found: dict[str, Check], weight: CheckStatus) -> set[str]:
    return {name for name, one in found.items() if one.state is weight}


def swap(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


PRIVATE = "PrivateData             = "
BY_QOS = swap("preempt/partition_prio", "preempt/qos")


FAULTS = [
    ("version", "WARNING", "20.11.9", "= 22.05.8", "= 20.11.9"),
    ("version", "WARNING", "23.11.4 has not been tried", "= 22.05.8", "= 23.11.4"),
    ("version", "OK", "24.11.7 (24.11.5 tried on", "= 22.05.8", "= 24.11.7"),
    ("version", "WARNING", "27.11.0", "= 22.05.8", "= 27.11.0"),
    ("privacy", "BROKEN", "other users' jobs", PRIVATE + "none", PRIVATE + "jobs"),
    ("privacy", "BROKEN", "nodes", PRIVATE + "none", PRIVATE + "nodes,users"),
    ("preemption", "BROKEN", "preempt/none", "preempt/partition_prio", "preempt/none"),
    ("preemption", "BROKEN", "slurm.qos is empty", "preempt/partition_prio", "preempt/qos"),
    ("preemption", "BROKEN", "keep memory and GPUs", "PreemptMode=CANCEL", "PreemptMode=SUSPEND"),
    ("preemption", "BROKEN", "nothing ends a holder", "PreemptMode=CANCEL", "PreemptMode=OFF"),
    (
        "preemption",
        "BROKEN",
        "no partition with its nodes is above",
        "PriorityTier=10",
        "PriorityTier=1",
    ),
    ("preemption", "OK", "main preempts", "PreemptMode=CANCEL", "PreemptMode=REQUEUE"),
    (
        "partition",
        "BROKEN",
        "partition 'scavenge' does not exist; available: main, other",
        "=scavenge",
        "=other",
    ),
    ("partition", "BROKEN", "is DOWN", "State=UP", "State=DOWN"),
    ("max wall", "OK", "MaxTime 14400 s", "MaxTime=UNLIMITED", "MaxTime=04:00:00"),
    ("max wall", "WARNING", "holders last 600 s", "MaxTime=UNLIMITED", "MaxTime=00:10:00"),
    (
        "preemption",
        "BROKEN",
        "whose priority is as high",
        "PreemptMode=CANCEL",
        "PreemptMode=CANCEL,PRIORITY",
    ),
    (
        "preemption",
        "BROKEN",
        "min_exempt_priority=5",
        "PreemptMode             =",
        "PreemptParameters = min_exempt_priority=5\nPreemptMode             =",
    ),
    (
        "over time limit",
        "OK",
        "OverTimeLimit 5 min",
        "OverTimeLimit           = 0 min",
        "OverTimeLimit           = 5 min",
    ),
    ("partition", "OK", "8 nodes", "MaxTime=UNLIMITED", "MaxTime=7-00:00:00"),
    ("partition", "BROKEN", "RootOnly", "RootOnly=NO", "RootOnly=YES"),
    ("epilog", "WARNING", "none", "= /bin/true\nEpilogMsgTime", "= (null)\nEpilogMsgTime"),
    ("epilog", "OK", "configured", "Epilog                  =", "Epilog[0]               ="),
    ("scheduler", "WARNING", "without planned starts", "sched/backfill", "sched/builtin"),
    ("scheduler", "WARNING", "every 60 s", "bf_interval=1,", "bf_interval=60,"),
    ("kill wait", "OK", "up to 20 s for other jobs", "GraceTime=30", "GraceTime=5"),
    (
        "kill wait",
        "WARNING",
        "KillWait 60 s",
        "KillWait                = 5",
        "KillWait                = 60",
    ),
    ("kill wait", "WARNING", "GraceTime 300 s", "GraceTime=30", "GraceTime=300"),
    ("user signal", "WARNING", "when GraceTime is over", ",preempt_send_user_signal", ""),
    (
        "user signal",
        "OK",
        "a signal that workers ignore",
        ",preempt_send_user_signal",
        "\nPreemptParameters = send_user_signal",
    ),
    (
        "exempt time",
        "BROKEN",
        "600 s",
        "PreemptExemptTime       = 00:00:00",
        "PreemptExemptTime       = 00:10:00",
    ),
    ("tracking", "OK", "cgroups", "proctrack/linuxproc", "proctrack/cgroup"),
]
CGROUPS = swap("proctrack/linuxproc", "proctrack/cgroup")
WITH_CGROUPS = [
    ("epilog", "next cycle", "= /bin/true\nEpilogMsgTime", "= (null)\nEpilogMsgTime"),
    ("user signal", "by 1 to 2 s", ",preempt_send_user_signal", ""),
]


@pytest.mark.parametrize(("name", "weight", "words", "old", "new"), FAULTS)
def test_one_thing_at_a_time(name: str, weight: str, words: str, old: str, new: str) -> None:
    both = recorded("site-recommended.config.txt") + recorded("site-recommended.partitions.txt")
    assert old in both, "the fault is planted"
    found = judged(change=swap(old, new))
    assert found[name].state is CheckStatus[weight], found[name]
    assert words in found[name].detail
    assert weights(found, CheckStatus.BROKEN) <= {name}, "nothing else is blamed"


@pytest.mark.parametrize(("name", "words", "old", "new"), WITH_CGROUPS)
def test_what_matters_more_with_cgroups(name: str, words: str, old: str, new: str) -> None:
    without, found = (
        judged(change=swap(old, new)),
        judged(change=lambda text: CGROUPS(swap(old, new)(text))),
    )
    assert words not in without[name].detail
    assert (found[name].state, words in found[name].detail) == (CheckStatus.WARNING, True), found[
        name
    ]


def test_partitions_whose_jobs_holders_would_keep_waiting() -> None:
    words = "GraceTime=0 MaxTime=UNLIMITED PriorityTier=1 RootOnly=NO PreemptMode=OFF State=UP"

    def with_debug(nodes: str) -> Callable[[str], str]:
        line = f"PartitionName=debug Nodes={nodes} {words}\n"
        return lambda text: text + line if text.startswith("PartitionName") else text

    found = judged(change=with_debug("node[07-08]"))
    assert found["preemption"].state is CheckStatus.BROKEN
    assert "jobs of debug wait for holders, those of main do not" in found["preemption"].detail
    assert judged(change=with_debug("other[1-2]"))["preemption"].state is CheckStatus.OK, (
        "they share no node"
    )


@pytest.mark.parametrize("words", ["ExclusiveTopo=YES ExclusiveUser=NO", "Exclusive=TOPO"])
def test_partitions_whose_jobs_get_whole_blocks(words: str) -> None:
    def main_has(text: str) -> str:
        return re.sub(
            r"^(PartitionName=main .*) ExclusiveUser=NO", rf"\1 {words}", text, flags=re.MULTILINE
        )

    found = judged(change=main_has)
    assert weights(found, CheckStatus.BROKEN) == {"topology"}
    assert "jobs of main get whole blocks" in found["topology"].detail
    assert "topology" not in judged()


def test_root_and_slurm_user_see_everything_and_a_window_may_be_assumed() -> None:
    text = recorded("site-recommended.config.txt").replace(PRIVATE + "none", PRIVATE + "jobs,nodes")
    shown = parse_partitions(recorded("site-recommended.partitions.txt"))
    found = {f.name: f for f in judge(SETTINGS, SiteSetup(text, shown), "root")}
    assert found["privacy"].state is CheckStatus.OK
    assumed = SlurmSettings(partition="scavenge", assume_window_s=600.0)
    found = judged(settings=assumed, change=swap(PRIVATE + "none", PRIVATE + "jobs"))
    assert found["privacy"].state is CheckStatus.WARNING
    assert "600 s at most" in found["privacy"].detail


# As 22.05.8, 24.11.5 and 26.05.5 print them, all alike.
QOSES = "normal|scavenger|cluster|1.000000|00:00:00|||||||||||||\nscavenger||cancel|0.000000|00:00:00|||||||||||||\n"
LIMITED = "scavenger||cancel|0.000000|00:00:45|00:01:00|00:30:00|2|3|4||node=1|node=2|||||\n"


@pytest.mark.parametrize(
    ("text", "weight", "words"),
    [
        (QOSES, CheckStatus.OK, "normal preempts scavenger"),
        (
            QOSES.replace("normal|scavenger|", "normal||"),
            CheckStatus.BROKEN,
            "no QOS lists scavenger",
        ),
        (QOSES.replace("0.000000", "1.000000"), CheckStatus.WARNING, "UsageFactor 1"),
        (
            QOSES.replace("\nscavenger|", "\nother|"),
            CheckStatus.BROKEN,
            "QOS 'scavenger' does not exist; available: normal, other",
        ),
        (None, CheckStatus.BROKEN, "needs accounting"),
    ],
)
def test_a_site_that_preempts_by_qos(text: str | None, weight: CheckStatus, words: str) -> None:
    known = None if text is None else parse_qos(text)
    found = judged(settings=SlurmSettings(qos="scavenger"), qos=known, change=BY_QOS)
    assert found["qos"].state is weight
    assert words in found["qos"].detail
    assert "preemption" not in found


def enforced(text: str) -> str:
    """A site with QOS preemption that applies limits."""
    return BY_QOS(text).replace(
        "AccountingStorageEnforce = none", "AccountingStorageEnforce = associations,limits,qos"
    )


def test_what_a_qos_limits() -> None:
    known = parse_qos(QOSES.splitlines()[0] + "\n" + LIMITED)
    assert "limits" not in judged(
        settings=SlurmSettings(qos="scavenger"), change=BY_QOS, qos=known
    ), "not enforced"
    found = judged(settings=SlurmSettings(qos="scavenger"), change=enforced, qos=known)
    assert found["exempt time"].state is CheckStatus.BROKEN
    assert "QOS scavenger has PreemptExemptTime 60 s" in found["exempt time"].detail
    assert found["max wall"].state is CheckStatus.WARNING
    assert "QOS scavenger has MaxWall 1800 s" in found["max wall"].detail
    assert "at most 1 node is held" in found["limits"].detail
    assert "GraceTime 45 s" in found["kill wait"].detail
    off = LIMITED.replace("00:01:00", "00:00:00").replace("|2|3|", "|0|3|")
    found = judged(
        settings=SlurmSettings(qos="scavenger"),
        qos=parse_qos(off),
        change=lambda text: enforced(text).replace(
            "PreemptExemptTime       = 00:00:00", "PreemptExemptTime       = 00:10:00"
        ),
    )
    assert "exempt time" not in found, "the QOS takes precedence"
    assert found["limits"].state is CheckStatus.BROKEN


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("rl_enable,rl_bucket_size=40,rl_refill_period=60,rl_refill_rate=4", CheckStatus.WARNING),
        ("rl_enable", CheckStatus.OK),
        ("rl_bucket_size=40", None),
    ],
)
def test_a_site_that_limits_calls(words: str, state: CheckStatus | None) -> None:
    found = judged(
        change=swap("preempt_send_user_signal", f"preempt_send_user_signal,{words}")
    ).get("rate limit")
    assert (found.state if found else None) is state


def test_the_limit_on_calls_counts_the_glances_of_a_pilot_that_makes_way() -> None:
    """35 a minute at rest, of 80 % of the limit; 30 more to see main jobs, 60 if it is blind."""
    words = "rl_enable,rl_bucket_size=40,rl_refill_period=60,rl_refill_rate={}"

    def state(rate: int, glances: float) -> CheckStatus:
        (check,) = rate_limit({"SlurmctldParameters": words.format(rate)}, "me", glances)
        return check.state

    assert [state(44, 0.0), state(43, 0.0)] == [CheckStatus.OK, CheckStatus.WARNING]
    assert [state(82, 30.0), state(81, 30.0)] == [CheckStatus.OK, CheckStatus.WARNING]
    assert [state(119, 60.0), state(118, 60.0)] == [CheckStatus.OK, CheckStatus.WARNING]
    site = SITES["one partition without preemption"]
    text = recorded("site-recommended.config.txt").replace(
        "preempt_send_user_signal", f"preempt_send_user_signal,{words.format(60)}"
    )
    for line in site.config.splitlines():
        key = line.split(" = ")[0]
        text = "".join(
            f"{line}\n" if old.startswith(f"{key} ") else f"{old}\n" for old in text.splitlines()
        )
    facts = replace(site.facts, config_text=text)

    def shown(give_way: str, yield_poll_s: float = 1.0) -> str:
        checks = judge(site.settings, facts, "me", give_way=give_way, yield_poll_s=yield_poll_s)
        return next(str(check) for check in checks if check.name == "rate limit")

    assert "a pilot makes 35 a minute at rest" in shown("site")
    assert "makes 95 a minute at rest, 60 of them to see main jobs" in shown("auto")
    assert "main jobs wait longer" in shown("auto")
    assert "a pilot makes 41 a minute at rest" in shown("auto", 10.0)
    site = replace(site, settings=site.settings.model_copy(update={"broker": "/x"}))
    assert "a pilot makes 35 a minute at rest" in shown("auto"), "the broker counts jobs"


def test_a_qos_that_suspends() -> None:
    known = parse_qos(QOSES.replace("cancel", "suspend"))
    found = judged(settings=SlurmSettings(qos="scavenger"), qos=known, change=BY_QOS)
    assert "keep memory and GPUs" in found["preemption"].detail


def test_without_a_configuration_only_what_holds_for_any_pilot() -> None:
    found = judged(settings=None)
    assert set(found) == {
        "version",
        "privacy",
        "kill wait",
        "user signal",
        "epilog",
        "scheduler",
        "tracking",
    }


@pytest.mark.parametrize("text", ["", "garbage", "Configuration data as of now\nEpilog = x\n"])
def test_an_answer_that_is_none_is_not_a_site(text: str) -> None:
    with pytest.raises(SchedulerError):
        parse_config(text)
    with pytest.raises(SchedulerError):
        parse_partitions(text)
    with pytest.raises(SchedulerError):
        parse_qos(text)


def test_a_partition_without_a_name_is_an_error() -> None:
    text = recorded("site-recommended.partitions.txt").replace("=scavenge ", "= ", 1)
    with pytest.raises(SchedulerError, match="a partition has no name"):
        parse_partitions(text)
