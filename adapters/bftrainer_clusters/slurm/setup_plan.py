"""What an administrator changes at a Slurm site for main jobs to preempt holders at once: a
difference of slurm.conf and commands of sacctmgr. Pure; reasons in docs/site-setup.md.

The plan is judged by the checks that the pilot obeys: a test applies it to public sites, and then
they pass.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import UserError
from bftrainer_clusters.slurm import checks, qos_limits
from bftrainer_clusters.slurm.preempt import BY_PARTITION
from bftrainer_clusters.slurm.setup import Partition, exempt_s
from bftrainer_clusters.slurm.site_choice import SiteView, Way, ranked_places
from bftrainer_clusters.slurm.site_proposal import folded
from bftrainer_clusters.slurm.text import parse_has_cgroups

HOLDERS = "scavenger"
PILOTS = "pilots"
_BRIEF_S = 2.0
"""Within this time, a PreemptExemptTime is left as it is."""
_EXEMPT_PRIORITY = "min_exempt_priority"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting of slurm.conf. ``old`` is empty where it is not set."""

    key: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """The settings of a partition that change; ``is_new``: the partition does not exist yet."""

    name: str
    settings: tuple[SettingChange, ...]
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """All changes. ``keys`` are those of the table [slurm] of users' pilots; ``remarks`` what the
    administrator should weigh.
    """

    keys: tuple[tuple[str, str], ...]
    config: tuple[SettingChange, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        return not (self.config or self.partitions or self.commands)


def plan_setup(view: SiteView, partition: str = "", qos: str = "") -> SetupPlan:
    """Plan the changes for this site; the plan is empty if main jobs preempt holders already.

    ``partition`` and ``qos`` are the names of the holders' partition and QOS; empty: the plan
    chooses them. Raises ``UserError`` where they are those of main jobs, and for a QOS where
    partitions decide about preemption.
    """
    for place in ranked_places(view):
        is_named = partition in ("", place.partition.name) and qos in ("", place.qos)
        if place.way is Way.SITE and not place.exclude and is_named:
            names = (("partition", place.partition.name), ("qos", place.qos))
            keys = tuple((key, name) for key, name in names if name)
            return SetupPlan(keys, remarks=(f"{place.words}: {place.why}",))
    if view.is_by_qos:
        return _by_qos(view, partition, qos or HOLDERS)
    if qos:
        raise UserError(
            f"--qos {qos}: partitions decide about preemption here (PreemptType); remove --qos"
        )
    return _by_partition(view, partition or _preemptible_partition(view) or HOLDERS)


def _preemptible_partition(view: SiteView) -> str:
    """Return the partition whose jobs Slurm ends already, although for some main jobs only or not
    at once; empty if there is none.
    """
    names = (
        place.partition.name
        for place in ranked_places(view)
        if place.ends_later and not place.partition.is_default
    )
    return next(names, "")


def _by_partition(view: SiteView, name: str) -> SetupPlan:
    """Plan for preemption by partition: holders get the partition ``name``, below all others.
    Raises ``UserError`` if it is the default, or the only one.
    """
    facts = view.facts
    others = [other for other in facts.partitions.values() if other.name != name]
    ours = facts.partitions.get(name)
    if ours is not None and ours.is_default:
        raise UserError(
            f"--partition {name}: it is the default, so jobs that name no partition run there; "
            "name another one"
        )
    if not others:
        raise UserError(f"--partition {name}: no other partition has nodes; name a new one")
    config = tuple(_preemption_changes(view, BY_PARTITION))
    is_changed = any(change.key in ("PreemptType", "PreemptMode") for change in config)
    # The holders' tier: it stays if it is the lowest already, else it becomes 1, and all others are
    # raised until they are above that.
    tier = 1 if ours is None or not _is_lowest(ours, others) else ours.tier
    lowest_tier = min(other.tier for other in others)
    tier_shift = 0 if tier > 1 else max(0, 2 - lowest_tier)
    main_changes = [
        _main_partition_changes(other, tier_shift, is_changed, facts.config) for other in others
    ]
    nodes = _holder_nodes(others)
    own_change = (
        _new_partition(name, nodes)
        if ours is None
        else _holder_partition_changes(ours, nodes, tier)
    )
    changed = [change for change in (own_change, *main_changes) if change.settings]
    remarks = []
    if exempt_s(facts.config) > _BRIEF_S:
        old = facts.config["PreemptExemptTime"]
        remarks.append(
            f"jobs that need the protection of their first {old} get it by their QOS: "
            f"sacctmgr modify qos NAME set PreemptExemptTime={old}"
        )
    commands = [*_exempt_commands(view, ours, "")]
    keys = (("partition", name),)
    return SetupPlan(keys, config, tuple(changed), tuple(commands), tuple(remarks))


def _holder_nodes(others: list[Partition]) -> frozenset[str]:
    """Return the nodes of the main partitions in which jobs start, but for those of partitions
    whose jobs share no block of the topology with other jobs.
    """
    of_started_jobs = frozenset[str]().union(
        *(other.nodes for other in others if other.starts_jobs)
    )
    return of_started_jobs.difference(*(other.nodes for other in others if other.whole_blocks))


def _new_partition(name: str, nodes: frozenset[str]) -> PartitionChange:
    """Return the settings of a new partition for holders."""
    settings = {
        "Nodes": ",".join(folded(nodes)),
        "PriorityTier": "1",
        "PreemptMode": "CANCEL",
        "MaxTime": "1-00:00:00",
        "State": "UP",
    }
    added = tuple(SettingChange(key, "", value) for key, value in settings.items())
    return PartitionChange(name, added, is_new=True)


def _is_lowest(ours: Partition, others: list[Partition]) -> bool:
    """Return whether all other partitions with nodes of ``ours`` are above it."""
    return all(other.tier > ours.tier for other in others if other.nodes & ours.nodes)


def _holder_partition_changes(ours: Partition, nodes: frozenset[str], tier: int) -> PartitionChange:
    """Return the changes that make the existing partition ``ours`` the holders' partition, with
    PriorityTier ``tier`` and on no other nodes than ``nodes``.
    """
    changes = []
    if ours.nodes - nodes:
        old, new = (",".join(folded(names)) for names in (ours.nodes, ours.nodes & nodes))
        changes.append(SettingChange("Nodes", old, new))
    if ours.tier != tier:
        changes.append(SettingChange("PriorityTier", str(ours.tier), str(tier)))
    if ours.preempt_mode not in ("CANCEL", "REQUEUE"):
        changes.append(SettingChange("PreemptMode", ours.preempt_mode, "CANCEL"))
    if ours.jobs_a_core > 1:
        old = f"FORCE:{ours.jobs_a_core}"
        changes.append(SettingChange("OverSubscribe", old, "EXCLUSIVE"))
    if ours.state != "UP":
        changes.append(SettingChange("State", ours.state, "UP"))
    if ours.root_only:
        changes.append(SettingChange("RootOnly", "YES", "NO"))
    return PartitionChange(ours.name, tuple(changes))


def _main_partition_changes(
    other: Partition, tier_shift: int, is_preemption_new: bool, config: dict[str, str]
) -> PartitionChange:
    """Return the changes of a main partition. All are raised by the same ``tier_shift``, so that
    their order stays; where preemption is new, they have to say that their own jobs stay out of it.
    """
    changes = []
    if tier_shift:
        tier = other.tier + tier_shift
        changes.append(SettingChange("PriorityTier", str(other.tier), str(tier)))
    was_preemptible = config.get("PreemptType") == BY_PARTITION and other.preempt_mode != "OFF"
    if is_preemption_new and not was_preemptible:
        changes.append(SettingChange("PreemptMode", other.preempt_mode, "OFF"))
    return PartitionChange(other.name, tuple(changes))


def _by_qos(view: SiteView, partition: str, name: str) -> SetupPlan:
    """Plan for preemption by QOS: holders get the QOS ``name``, which all others preempt, and an
    account. Raises ``UserError`` if the QOS is that of jobs that name none.
    """
    facts = view.facts
    catalog = facts.accounting.qos or {}
    if name == facts.accounting.default_qos:
        raise UserError(
            f"--qos {name}: jobs that name no QOS have it; name another one for holders"
        )
    ours = _partition_for(view, partition)
    changes = _opening_changes(ours, name)
    commands: list[tuple[str, ...]] = []
    if name not in catalog:
        commands.append(("add", "qos", name))
    settings = "Priority=0", "UsageFactor=0", "PreemptMode=cancel", "PreemptExemptTime=00:00:00"
    commands.append(("modify", "qos", name, "set", *settings))
    others = [qos.name for qos in catalog.values() if qos.name != name and name not in qos.preempts]
    if others:
        commands.append(("modify", "qos", ",".join(sorted(others)), "set", f"Preempt+={name}"))
    commands += _exempt_commands(view, ours, name)
    commands.append(("add", "account", PILOTS))
    commands.append(("add", "user", "USER", f"account={PILOTS}"))
    where = ("where", f"account={PILOTS}")
    commands.append(("modify", "user", "USER", *where, "set", f"qos={name}"))
    keys = (("partition", ours.name), ("qos", name), ("account", PILOTS))
    changed = (PartitionChange(ours.name, changes),) if changes else ()
    remark = "the last two commands are for each USER who may run a pilot"
    config = tuple(_preemption_changes(view, "preempt/qos"))
    return SetupPlan(keys, config, changed, tuple(commands), (remark,))


def _opening_changes(ours: Partition, qos: str) -> tuple[SettingChange, ...]:
    """Return the changes of a partition for holders of this QOS and of the account PILOTS to run
    there, without sharing cores with other jobs.
    """
    changes = []
    if ours.allowed_qos and qos not in ours.allowed_qos:
        old = ",".join(sorted(ours.allowed_qos))
        changes.append(SettingChange("AllowQos", old, f"{old},{qos}"))
    if qos in ours.denied_qos:
        old = ",".join(sorted(ours.denied_qos))
        new = ",".join(sorted(ours.denied_qos - {qos}))
        changes.append(SettingChange("DenyQos", old, new))
    if not ours.admits_account(PILOTS):
        old = ",".join(sorted(ours.allowed_accounts))
        changes.append(SettingChange("AllowAccounts", old, f"{old},{PILOTS}"))
    if ours.jobs_a_core > 1:
        changes.append(SettingChange("OverSubscribe", f"FORCE:{ours.jobs_a_core}", "NO"))
    return tuple(changes)


def _partition_for(view: SiteView, name: str) -> Partition:
    """Return the named partition. Without a name: of those in which no jobs share a core, the one
    with the most GPUs, then nodes; without any such, the one with the most nodes. Raises
    ``UserError`` for an unknown name.
    """
    partitions = view.facts.partitions
    if name:
        if name not in partitions:
            raise UserError(
                f"--partition {name}: there is none; expected one of "
                f"{', '.join(sorted(partitions))}"
            )
        return partitions[name]
    usable = [place.partition for place in ranked_places(view) if place.partition.jobs_a_core == 1]
    if usable:
        return usable[0]  # places are in this order
    return max(partitions.values(), key=lambda partition: (len(partition.nodes), partition.name))


def _exempt_commands(view: SiteView, ours: Partition | None, qos: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands that unset the PreemptExemptTime of the QOSes that holders cannot avoid:
    that of their partition ``ours``, and the default one where they have no QOS of their own
    (``qos``). The command that makes their own QOS unsets its time.
    """
    catalog = view.facts.accounting.qos or {}
    names = {"" if ours is None else ours.qos, qos or "normal"} - {""}
    for name in sorted(names & catalog.keys()):
        if (catalog[name].exempt_s or 0.0) > _BRIEF_S and name != qos:
            yield ("modify", "qos", name, "set", "PreemptExemptTime=00:00:00")


def _preemption_changes(view: SiteView, preempt_type: str) -> Iterator[SettingChange]:
    """Yield the changes of the cluster's preemption: its type, a mode that ends jobs, and no
    exceptions.
    """
    config = view.facts.config
    if config.get("PreemptType") != preempt_type:
        yield SettingChange("PreemptType", config.get("PreemptType", ""), preempt_type)
    old = config.get("PreemptMode", "OFF")
    words = [word for word in old.upper().split(",") if word not in ("PRIORITY", "OFF")]
    new = ",".join(words) or "CANCEL"
    if new != old.upper():
        yield SettingChange("PreemptMode", old, new)
    parameters = config.get("PreemptParameters", "")
    kept = [word for word in parameters.split(",") if not word.startswith(_EXEMPT_PRIORITY)]
    if ",".join(kept) != parameters:
        yield SettingChange("PreemptParameters", parameters, ",".join(kept))
    # With preemption by QOS, the holders' QOS has a time of its own.
    if exempt_s(config) > _BRIEF_S and preempt_type == BY_PARTITION:
        yield SettingChange("PreemptExemptTime", config["PreemptExemptTime"], "00:00:00")


def recommendations(view: SiteView) -> list[str]:
    """Return the settings that let main jobs start sooner on held nodes, as doctor names them."""
    text, config = view.facts.config_text, view.facts.config
    has_cgroups = parse_has_cgroups(text)
    grace_s = qos_limits.grace_s(config, None, None)
    findings = (
        checks.killing(config, grace_s),
        checks.user_signal(config, None, has_cgroups),
        checks.epilog(text, has_cgroups),
        checks.scheduler(config),
    )
    return [check.remedy for check in findings if check.state is CheckStatus.WARNING]


def plan_text(plan: SetupPlan, view: SiteView, advice: Iterable[str] = ()) -> str:
    """Format the plan for an administrator: a difference of slurm.conf, commands, and the settings
    of users' pilots. ``advice`` are further settings that are recommended.
    """
    config = view.facts.config
    cluster = config.get("ClusterName", "this cluster")
    version = config["SLURM_VERSION"]
    lines = [f"# Cluster {cluster}, Slurm {version}. Nothing was executed."]
    if plan.is_empty:
        lines += ["# Main jobs preempt holders already; there is nothing to change:"]
        lines += [f"#   {remark}" for remark in plan.remarks]
        return "\n".join([*lines, "", *_keys_text(plan)]) + "\n"
    lines += ["# After these changes, main jobs preempt holders at once (docs/site-setup.md)."]
    if plan.config or plan.partitions:
        is_new_type = any(change.key == "PreemptType" for change in plan.config)
        how = "restart slurmctld" if is_new_type else "scontrol reconfigure"
        lines += ["", f"# slurm.conf, then: {how}. Other settings of a partition's line stay."]
        lines += _difference_lines(plan)
    if plan.commands:
        lines += ["", "# accounting"]
        lines += [shlex.join(("sacctmgr", "-i", *words)) for words in plan.commands]
    lines += [f"# {remark}" for remark in plan.remarks]
    lines += [f"# recommended: {remedy}" for remedy in advice]
    lines += ["", *_keys_text(plan)]
    lines += ["", "# Check with: bftrainer doctor --state DIR, and later bftrainer audit"]
    return "\n".join(lines) + "\n"


def _difference_lines(plan: SetupPlan) -> Iterator[str]:
    """Yield the changes of slurm.conf as lines of a difference (``-old``, ``+new``)."""
    for change in plan.config:
        if change.old:
            yield f"-{change.key}={change.old}"
        yield f"+{change.key}={change.new}"
    for partition in plan.partitions:
        old = " ".join(f"{change.key}={change.old}" for change in partition.settings)
        new = " ".join(f"{change.key}={change.new}" for change in partition.settings)
        head = f"PartitionName={partition.name}"
        if not partition.is_new:
            yield f"-{head} {old}"
        yield f"+{head} {new}"


def _keys_text(plan: SetupPlan) -> Iterator[str]:
    yield "# bftrainer.toml of users (bftrainer init finds the same)"
    yield from ("[nodes]", 'holder = "slurm"', "[slurm]")
    yield from (f'{key} = "{value}"' for key, value in plan.keys)
