"""Whether a Slurm site is set up so that holders cost the main queue nothing. Pure; reasons in docs/site-setup.md.

Tried with 22.05.8 on a real cluster; ``PreemptParameters`` is from the manual of later versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bftrainer.domain.cluster import Hidden
from bftrainer_adapters.holding.finding import SiteFinding, Weight
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.preempt import holders
from bftrainer_adapters.slurm.setup import Partition, Qos, parse_config, parse_version, seconds
from bftrainer_adapters.slurm.text import parse_has_cgroups, parse_has_epilog, parse_hidden

TRIED = ((22, 5), (26, 5))
JSON_SINCE = (23, 11)
_SLOW_BACKFILL_S = 10
_LONG_KILL_S = 60


def judge(
    settings: SlurmSettings | None,
    config_text: str,
    partitions: Mapping[str, Partition],
    qos: Mapping[str, Qos] | None,
    user: str,
) -> tuple[SiteFinding, ...]:
    """All findings, in the order in which they are printed. Without ``settings`` what holds for any pilot here.

    ``qos`` is None where sacctmgr does not answer.
    """
    config, has_cgroups = parse_config(config_text), parse_has_cgroups(config_text)
    return (
        version(config, settings),
        hidden(config_text, user, settings),
        *(holders(settings, config, partitions, qos) if settings is not None else ()),
        killing(config, partitions.get(settings.partition) if settings is not None else None),
        user_signal(config, settings, has_cgroups),
        epilog(config_text, has_cgroups),
        scheduler(config),
        tracking(config, has_cgroups),
    )


def version(config: Mapping[str, str], settings: SlurmSettings | None) -> SiteFinding:
    """Whether this Slurm is one whose answers are known."""
    text = config["SLURM_VERSION"]
    number = parse_version(text)
    if settings is not None and settings.format == "json" and number < JSON_SINCE:
        return SiteFinding("version", Weight.ERROR, f"{text} has no JSON for scontrol", 'set slurm.format = "text"')
    if not TRIED[0] <= number <= TRIED[1]:
        return SiteFinding(
            "version",
            Weight.WARNING,
            f"{text}; read so far: 22.05 to 26.05",
            "watch `bftrainer events` on the first day: what is not understood is said there",
        )
    return SiteFinding("version", Weight.FINE, text)


def hidden(config_text: str, user: str, settings: SlurmSettings | None) -> SiteFinding:
    """PrivateData: what the pilot's user cannot see."""
    kinds = parse_hidden(config_text, user)
    what = " and ".join(sorted(kind.value for kind in kinds))
    if not kinds:
        return SiteFinding("privacy", Weight.FINE, f"{user} sees all jobs, nodes and reservations")
    detail = f"PrivateData hides other users' {what} from {user}"
    if Hidden.NODES in kinds:
        return SiteFinding(
            "privacy",
            Weight.ERROR,
            detail,
            "have the pilot run by an operator (sacctmgr modify user ... AdminLevel=Operator)",
        )
    if settings is not None and settings.assume_window_s is not None:
        note = f"{detail}; every node is held for {settings.assume_window_s:g} s at most, and other pilots are not seen"
        return SiteFinding(
            "privacy", Weight.WARNING, note, "have the pilot run by an operator to see the ends of windows"
        )
    return SiteFinding(
        "privacy", Weight.ERROR, detail, "set slurm.assume_window_s, or have the pilot run by an operator"
    )


def killing(config: Mapping[str, str], partition: Partition | None) -> SiteFinding:
    """KillWait and GraceTime: how long a holder could stay whose payload is dead."""
    kill_s, grace_s = seconds(config.get("KillWait", "30")), partition.grace_s if partition is not None else 0
    detail = f"KillWait {kill_s} s, GraceTime {grace_s} s: no effect on holders whose payload lives"
    if kill_s + grace_s >= _LONG_KILL_S:
        return SiteFinding(
            "kill wait", Weight.WARNING,
            f"KillWait {kill_s} s, GraceTime {grace_s} s: so long a main job waits if a holder's payload is dead",
            "KillWait=5 is enough for holders; a site may shorten GraceTime of their partition",
        )  # fmt: skip
    return SiteFinding("kill wait", Weight.FINE, detail)


def user_signal(config: Mapping[str, str], settings: SlurmSettings | None, has_cgroups: bool) -> SiteFinding:
    """preempt_send_user_signal: SlurmctldParameters up to 22.05, PreemptParameters=send_user_signal later."""
    words = set(f"{config.get('SlurmctldParameters', '')},{config.get('PreemptParameters', '')}".lower().split(","))
    if words & {"preempt_send_user_signal", "send_user_signal"}:
        return SiteFinding(
            "user signal", Weight.FINE, "batch scripts get theirs at preemption, and holders one that workers ignore"
        )
    remedy = "SlurmctldParameters=preempt_send_user_signal (later versions: PreemptParameters=send_user_signal)"
    if settings is not None and settings.holder_script is not None:
        note = f"not sent at preemption: {settings.holder_script} must run its payload as a job step"
        return SiteFinding("user signal", Weight.WARNING, note, remedy)
    note = "batch scripts hear of a preemption when GraceTime is over; our holders' payload, a job step, at once"
    if has_cgroups:
        note += "; but so do workers, and one that dies before its children makes its node 1 to 2 s late"
    return SiteFinding("user signal", Weight.WARNING, note, remedy)


def epilog(config_text: str, has_cgroups: bool) -> SiteFinding:
    """With an Epilog slurmctld learns of a holder's end in a message that makes it start jobs at once."""
    if parse_has_epilog(config_text):
        return SiteFinding("epilog", Weight.FINE, "there is one: slurmctld starts jobs as soon as a holder ends")
    if has_cgroups:
        return SiteFinding(
            "epilog", Weight.WARNING,
            "none: main jobs start at slurmctld's next turn after a holder's end, up to batch_sched_delay (3 s) later",
            "any Epilog will do, such as Epilog=/bin/true",
        )  # fmt: skip
    return SiteFinding(
        "epilog", Weight.WARNING, "none: holders end their script first, and main jobs start about 0.1 s later than they could",
        "any Epilog will do, such as Epilog=/bin/true",
    )  # fmt: skip


def scheduler(config: Mapping[str, str]) -> SiteFinding:
    """Windows come from backfill's plans, and are as old as its last pass."""
    if config.get("SchedulerType") != "sched/backfill":
        return SiteFinding(
            "scheduler", Weight.WARNING, f"{config.get('SchedulerType')}: without planned starts no window has a known end",
            "SchedulerType=sched/backfill",
        )  # fmt: skip
    words = config.get("SchedulerParameters", "")
    found = re.search(r"\bbf_interval=(\d+)", words)
    every_s = int(found[1]) if found else 30
    if every_s > _SLOW_BACKFILL_S:
        return SiteFinding(
            "scheduler", Weight.WARNING, f"backfill plans every {every_s} s: windows may be that old",
            f"SchedulerParameters=bf_interval={_SLOW_BACKFILL_S} or less, where the controller has time for it",
        )  # fmt: skip
    return SiteFinding("scheduler", Weight.FINE, f"backfill plans every {every_s} s")


def tracking(config: Mapping[str, str], has_cgroups: bool) -> SiteFinding:
    """Only cgroups find every process of a job that has ended."""
    if has_cgroups:
        return SiteFinding("tracking", Weight.FINE, "cgroups: no process outlives its job")
    kind = config.get("ProctrackType", "")
    return SiteFinding(
        "tracking", Weight.WARNING, f"{kind} loses processes that leave their session; the payload looks for them by itself",
        "ProctrackType=proctrack/cgroup",
    )  # fmt: skip
