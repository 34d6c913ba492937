"""Whether a Slurm site is configured so that holders cost the main queue nothing. Pure; reasons in
docs/site-setup.md.

Tried with the versions in ``TRIALS``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bftrainer.cluster.model import GiveWay, Hidden, glances_per_s
from bftrainer.decide.domain.checks import Check
from bftrainer_clusters.slurm import qos_limits
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.rate_limit import USED_OF_LIMIT
from bftrainer_clusters.slurm.rate_limit import rate_limit as limit_of
from bftrainer_clusters.slurm.setup import backfill_every_s, parse_version, seconds
from bftrainer_clusters.slurm.several_nodes import several_nodes
from bftrainer_clusters.slurm.shared_nodes import shared_nodes
from bftrainer_clusters.slurm.site_checks import (
    checks_of_holding,
    for_doctor,
    hidden_nodes,
    permit_of,
    way_choice,
)
from bftrainer_clusters.slurm.site_facts import MayHold, SiteSetup
from bftrainer_clusters.slurm.text import parse_has_cgroups, parse_has_epilog, parse_hidden

_SLOW_BACKFILL_S = 10
_LONG_KILL_S = 60
CALLS_A_MINUTE = 35
"""The calls of a pilot at rest, by sdiag with times.poll_s = 10 (docs/slurm.md): 5 RPCs a look, 2
for each list of holders.
"""
YIELD_POLL_S = 1.0
"""The default of nodes.yield_poll_s."""


@dataclass(frozen=True, slots=True)
class VersionTrial:
    """What was run of the live tests on one version, and what came of it."""

    version: str
    date: str
    result: str

    @property
    def release(self) -> tuple[int, int]:
        """The release of the version: (22, 5) of 22.05.8. Patches of a release answer alike."""
        year, month = self.version.split(".")[:2]
        return int(year), int(month)

    def __str__(self) -> str:
        return f"{self.version} tried on {self.date}: {self.result}"


_PASSED = (
    "holding, preemption, faults and limits passed, with and without an Epilog, with cgroup "
    "v1, v2 and linuxproc; so did "
    "trainers of a pilot in a job"
)
TRIALS = (
    VersionTrial("22.05.8", "2026-11-22", _PASSED),
    VersionTrial("24.11.5", "2026-11-23", _PASSED),
    VersionTrial("26.05.5", "2026-11-23", _PASSED),
)


def trial_of(release: tuple[int, int]) -> VersionTrial | None:
    """Return what was tried with a release of Slurm; None if it was not tried."""
    return next((trial for trial in TRIALS if trial.release == release), None)


def judge(
    settings: SlurmSettings | None,
    facts: SiteSetup,
    user: str,
    max_nodes: int = 1_000_000,
    by_gpu: bool = False,
    may_hold: MayHold = lambda node: True,
    give_way: str = "site",
    yield_poll_s: float = YIELD_POLL_S,
) -> tuple[Check, ...]:
    """Return all checks of a site, in the order in which they are printed. Without ``settings``,
    only those that hold for every pilot here.

    ``max_nodes``: nodes.max_nodes. ``by_gpu``: nodes.unit is "gpu". ``may_hold``: by nodes.hosts
    and nodes.exclude. ``give_way``: nodes.give_way. ``yield_poll_s``: nodes.yield_poll_s.
    """
    config_text, partitions = facts.config_text, facts.partitions
    config, has_cgroups = facts.config, parse_has_cgroups(config_text)
    of_holders: tuple[Check, ...] = ()
    grace_s, way = 0, GiveWay.SITE
    if settings is not None:
        holding = checks_of_holding(settings, facts, user, may_hold, by_gpu)
        choice = way_choice(settings, facts, user, give_way, by_gpu)
        way = permit_of(holding, facts, choice).give_way
        of_holders = (
            *for_doctor(holding, facts, choice),
            *qos_limits.limits(settings, config, facts.holders(settings), max_nodes),
            *several_nodes(settings),
            *(shared_nodes(settings, config, partitions) if by_gpu else ()),
        )
        qos = facts.accounting.qos or {}
        grace_s = qos_limits.grace_s(
            config, partitions.get(settings.partition), qos.get(settings.qos)
        )
    return (
        version(config),
        *check_visibility(config_text, user, settings, way),
        *of_holders,
        killing(config, grace_s),
        user_signal(config, settings, has_cgroups),
        epilog(config_text, has_cgroups),
        scheduler(config),
        *rate_limit(config, user, _glances_a_minute(settings, way, yield_poll_s)),
        tracking(config, has_cgroups),
    )


def version(config: Mapping[str, str]) -> Check:
    """Check whether bftrainer was tried with this version of Slurm, so that its output is known."""
    text = config["SLURM_VERSION"]
    if tested := trial_of(parse_version(text)):
        return Check.ok("version", f"{text} ({tested})")
    tried = ", ".join(f"{trial.version} on {trial.date}" for trial in TRIALS)
    return Check.warning(
        "version",
        f"{text} has not been tried (tried: {tried})",
        "watch `bftrainer events` on the first day: it shows output that cannot be parsed",
    )


def check_visibility(
    config_text: str, user: str, settings: SlurmSettings | None, way: GiveWay = GiveWay.SITE
) -> Iterator[Check]:
    """Check what PrivateData hides from the pilot's user. ``way``: who frees nodes for main jobs.
    Where nodes are hidden and there are ``settings``, :func:`.checks_of_holding` says so instead.
    """
    kinds = parse_hidden(config_text, user)
    if Hidden.NODES in kinds:
        if settings is None:
            yield from hidden_nodes(config_text, user)
        return
    what = " and ".join(sorted(kind.value for kind in kinds))
    detail = f"PrivateData hides other users' {what} from {user}"
    if not kinds:
        yield Check.ok("privacy", f"{user} sees all jobs, nodes and reservations")
    elif settings is not None and settings.assume_window_s is not None:
        note = (
            f"{detail}; each node is held for {settings.assume_window_s:g} s at most, and "
            "not split with other users"
        )
        yield Check.warning(
            "privacy", note, "have an operator run the pilot to see the ends of windows"
        )
    elif way is GiveWay.BLIND:
        yield Check.warning(
            "privacy",
            f"{detail}; each node is held for nodes.worst_wait_s at most, and not split with "
            "other users",
            "have an operator run the pilot to see the queue",
        )
    else:
        yield Check.broken(
            "privacy", detail, "set slurm.assume_window_s, or have an operator run the pilot"
        )


def killing(config: Mapping[str, str], grace_s: int) -> Check:
    """Check how long a holder whose payload has died keeps its node, and any other preempted job:
    by KillWait and GraceTime.

    slurmctld ends a job after its GraceTime, but only each KillWait + MessageTimeout (seen with
    22.05.8 and 26.05.5).
    """
    kill_s = seconds(config.get("KillWait", "30"))
    every_s = kill_s + seconds(config.get("MessageTimeout", "10"))
    longest_s = math.ceil(grace_s / every_s) * every_s + kill_s
    detail = f"KillWait {kill_s} s, GraceTime {grace_s} s: no effect while the payload runs"
    detail += (
        f"; a main job waits up to {longest_s} s for other jobs in the partition that do "
        "not end at the notice"
    )
    if kill_s + grace_s >= _LONG_KILL_S:
        return Check.warning(
            "kill wait",
            f"KillWait {kill_s} s, GraceTime {grace_s} s: a main job waits that long for a "
            "holder whose payload has died",
            "set KillWait=5, and a shorter GraceTime for the holders' partition or QOS",
        )
    return Check.ok("kill wait", detail)


def user_signal(
    config: Mapping[str, str], settings: SlurmSettings | None, has_cgroups: bool
) -> Check:
    """Check whether Slurm signals a job at its preemption:
    SlurmctldParameters=preempt_send_user_signal up to 22.05, PreemptParameters=send_user_signal
    later.
    """
    parameters = [config.get("SlurmctldParameters", ""), config.get("PreemptParameters", "")]
    words = set(",".join(parameters).lower().split(","))
    if words & {"preempt_send_user_signal", "send_user_signal"}:
        return Check.ok(
            "user signal",
            "sent to batch scripts and holders at preemption; holders use a signal that "
            "workers ignore",
        )
    remedy = (
        "SlurmctldParameters=preempt_send_user_signal (later versions: "
        "PreemptParameters=send_user_signal)"
    )
    if settings is not None and settings.holder_script is not None:
        note = f"not sent: {settings.holder_script} must run its payload as a job step"
        return Check.warning("user signal", note, remedy)
    note = (
        "not sent: batch scripts are signaled when GraceTime is over; the payload, a job "
        "step, is signaled immediately"
    )
    if has_cgroups:
        note += (
            "; workers are signaled as well, and a worker that dies before its children "
            "delays its node by 1 to 2 s"
        )
    return Check.warning("user signal", note, remedy)


def epilog(config_text: str, has_cgroups: bool) -> Check:
    """Check whether an Epilog is configured: then slurmctld starts jobs at once when it hears of a
    holder's end, and otherwise in its next cycle.
    """
    if parse_has_epilog(config_text):
        return Check.ok("epilog", "configured: slurmctld starts jobs as soon as a holder ends")
    how = "none: holders end their script first, which delays main jobs by about 0.1 s"
    if has_cgroups:
        how = (
            "none: a main job starts in slurmctld's next cycle after a holder's end, up to "
            "batch_sched_delay (3 s) later"
        )
    return Check.warning("epilog", how, "configure any Epilog, such as Epilog=/bin/true")


def scheduler(config: Mapping[str, str]) -> Check:
    """Check how often backfill plans: the ends of windows come from its latest cycle."""
    every_s = backfill_every_s(config)
    if every_s is None:
        return Check.warning(
            "scheduler",
            f"{config.get('SchedulerType')}: without planned starts, the ends of windows are "
            "unknown",
            "SchedulerType=sched/backfill",
        )
    if every_s > _SLOW_BACKFILL_S:
        return Check.warning(
            "scheduler",
            f"backfill runs every {every_s} s: the ends of windows may be that old, and "
            "holders start that late",
            f"SchedulerParameters=bf_interval={_SLOW_BACKFILL_S} or less, if the controller "
            "can afford it",
        )
    return Check.ok("scheduler", f"backfill runs every {every_s} s")


def tracking(config: Mapping[str, str], has_cgroups: bool) -> Check:
    """Check whether Slurm tracks processes by cgroups, the only way to find every process
    of a job.
    """
    if has_cgroups:
        return Check.ok("tracking", "cgroups: no process outlives its job")
    kind = config.get("ProctrackType", "")
    return Check.warning(
        "tracking",
        f"{kind} misses processes that leave their session; the payload searches for them",
        "ProctrackType=proctrack/cgroup",
    )


def _glances_a_minute(settings: SlurmSettings | None, way: GiveWay, yield_poll_s: float) -> float:
    """Return how often a pilot counts jobs itself; a broker counts them for all pilots."""
    if settings is not None and settings.broker:
        return 0.0
    return 60.0 * glances_per_s(way, yield_poll_s)


def rate_limit(
    config: Mapping[str, str], user: str, glances_a_minute: float = 0.0
) -> Iterator[Check]:
    """Check whether the site lets a user make as many calls as a pilot needs
    (SlurmctldParameters=rl_enable); nothing without a limit. A pilot that makes way for main jobs
    itself makes ``glances_a_minute`` more.
    """
    if (limit := limit_of(config, user)) is None:
        return
    setting = f"rl_enable: a bucket of {limit.bucket} calls, {limit.per_minute:g} more a minute"
    calls = f"{CALLS_A_MINUTE + glances_a_minute:g} a minute at rest"
    if glances_a_minute:
        calls += f", {glances_a_minute:g} of them to see main jobs"
    usable = USED_OF_LIMIT * limit.per_minute
    if usable >= CALLS_A_MINUTE + glances_a_minute:
        yield Check.ok("rate limit", f"{setting}; a pilot makes {calls}")
    elif glances_a_minute:
        yield Check.warning(
            "rate limit",
            f"{setting}, of which it uses {100 * USED_OF_LIMIT:g} %; a pilot that polls every 10 s "
            f"makes {calls}: this one will look less often, and main jobs wait longer for held "
            "nodes",
            "a larger rl_refill_rate, a larger nodes.yield_poll_s, or slurm.broker",
        )
    else:
        yield Check.warning(
            "rate limit",
            f"{setting}, of which it uses {100 * USED_OF_LIMIT:g} %; a pilot that polls every 10 s "
            f"makes {calls}: this one will poll less often",
            "a larger rl_refill_rate, or accept that idle nodes are seen later",
        )
