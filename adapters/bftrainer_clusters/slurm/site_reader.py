"""Reads a Slurm site for ``bftrainer init``: scontrol, sacctmgr, the route to a compute node, and
``sbatch --test-only`` of a holder. Changes nothing.
"""

from __future__ import annotations

import grp
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

from bftrainer.cluster.model import NodeView
from bftrainer.cluster.pilot_submission import PilotJobWishes
from bftrainer.cluster.site_advice import SiteProposal, SiteWishes
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import InvalidValueError, UserError
from bftrainer.system import command
from bftrainer.system.network import route_to
from bftrainer.system.users import own_name
from bftrainer_clusters.slurm import associations, pilot_place
from bftrainer_clusters.slurm.associations import Accounting, Association, RunCommand
from bftrainer_clusters.slurm.calls import ENVIRONMENT
from bftrainer_clusters.slurm.clusters import chosen_cluster, of_cluster
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.configuration import config_text
from bftrainer_clusters.slurm.doctor import holder_check
from bftrainer_clusters.slurm.observe import NODES_ARGV
from bftrainer_clusters.slurm.preempt import qos_that_keep_waiting
from bftrainer_clusters.slurm.setup import (
    has_slurmdbd,
    parse_partitions,
    parse_qos,
    partitions_argv,
    qos_argv,
)
from bftrainer_clusters.slurm.setup_plan import plan_setup, plan_text, recommendations
from bftrainer_clusters.slurm.site_choice import SiteChoice, SiteView, choose, ranked_places
from bftrainer_clusters.slurm.site_facts import SiteSetup, unused
from bftrainer_clusters.slurm.site_limits import Holders
from bftrainer_clusters.slurm.site_proposal import Network, proposal_of, settings_of
from bftrainer_clusters.slurm.text import hides_jobs, parse_nodes

COMMANDS = ("sbatch", "scontrol")
_TIMEOUT_S = 10.0
_ADDRESS = re.compile(r"^NodeName=(\S+) .*?\sNodeAddr=(\S+)", re.MULTILINE)
_MAX_LOOKED_UP = 16
Route = Callable[[str], tuple[str, IPv4Network]]


def propose(wishes: SiteWishes) -> SiteProposal | None:
    """Propose the keys for a pilot of this user at the Slurm of this host; None where Slurm is not
    installed. Raises ``UserError`` if sbatch would refuse a holder, and ``CommandError`` or
    ``SchedulerError`` if Slurm cannot be read.
    """
    if any(shutil.which(name) is None for name in COMMANDS):
        return None
    cluster = chosen_cluster(os.environ)
    ask = _ask_of(cluster)
    view, nodes, nodes_text = _read_view_and_nodes(ask, cluster)
    choice = choose(view, wishes.partition, wishes.qos, wishes.account)
    network = Network()
    if not wishes.interface:
        network = read_network(nodes_text, choice.place.partition.nodes, route_to)
    holders = read_limits(view, choice, ask)
    proposal = proposal_of(view, choice, holders, network, wishes, cluster)
    return _tested_proposal(proposal, nodes)


def pilot_options(
    settings: SlurmSettings, wishes: PilotJobWishes
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options of sbatch for the job of a pilot with these settings, and the reasons."""
    cluster = settings.cluster or chosen_cluster(os.environ)
    view, _, _ = _read_view_and_nodes(_ask_of(cluster), cluster)
    return pilot_place.pilot_options(view, settings, wishes)


def setup_steps(partition: str, qos: str) -> str:
    """Return what an administrator would change at the Slurm of this host, as text."""
    cluster = chosen_cluster(os.environ)
    view, _, _ = _read_view_and_nodes(_ask_of(cluster), cluster)
    return plan_text(plan_setup(view, partition, qos), view, recommendations(view))


def _ask_of(cluster: str) -> RunCommand:
    """Return a function that runs a command of Slurm for this cluster."""
    return lambda argv: command.run(
        of_cluster(argv, cluster), timeout_s=_TIMEOUT_S, env=ENVIRONMENT
    )


def _read_view_and_nodes(
    ask: RunCommand, cluster: str
) -> tuple[SiteView, tuple[NodeView, ...], str]:
    """Read the site and its nodes; return both, and the text about the nodes, which has their
    addresses.
    """
    text = config_text(_TIMEOUT_S, ENVIRONMENT, cluster)
    argv = [*NODES_ARGV]
    nodes_text = ask(argv)
    nodes = command.parsed(argv, nodes_text, parse_nodes)
    return read_view(text, nodes, own_name(), _own_groups(), ask), nodes, nodes_text


def read_view(
    text: str, nodes: Iterable[NodeView], user: str, groups: frozenset[str], ask: RunCommand
) -> SiteView:
    """Read what a user sees of a site.

    Args:
        text: The configuration (``scontrol show config``).
        nodes: All nodes, for their GPUs.
        user: The user.
        groups: The names of the user's groups.
        ask: Runs a command.

    Raises:
        CommandError: Accounting is configured and does not answer: a QOS may protect holders from
            preemption.
    """
    partitions = command.parsed(partitions_argv(), ask(partitions_argv()), parse_partitions)
    facts = SiteSetup(text, partitions)
    gpus = {node.name: node.gpu_count for node in nodes if node.gpu_count}
    if not has_slurmdbd(text):
        return SiteView(facts, user, groups=groups, gpus=gpus)
    cluster = facts.config.get("ClusterName", "")
    qos = command.parsed(qos_argv(), ask(qos_argv()), parse_qos)
    user_argv = associations.argv(cluster, user=user)
    of_user = command.parsed(user_argv, ask(user_argv), associations.parse)
    default_account = ask(associations.default_account_argv(user)).strip()
    chain = associations.chain(ask, cluster, user, default_account, "")
    facts = replace(facts, accounting=Accounting(qos, chain))
    view = SiteView(facts, user, tuple(of_user), default_account, groups, gpus)
    return _with_unused_qos(view, ask)


def _with_unused_qos(view: SiteView, ask: RunCommand) -> SiteView:
    """Return the view with the QOSes that no job has had for a week, which the checks ignore.
    Unchanged where QOSes do not decide about preemption, and where other users' jobs are hidden.
    """
    if not view.is_by_qos or hides_jobs(view.facts.config_text, view.user):
        return view
    facts = view.facts
    waiting_qos = frozenset[str]().union(
        *(
            qos_that_keep_waiting(
                place.settings(), facts.config, facts.partitions, facts.accounting, lambda _: True
            )
            for place in ranked_places(view)
        )
    )
    if not waiting_qos:
        return view
    return replace(view, facts=replace(facts, unused_qos=unused(waiting_qos, view.user, ask)))


def read_limits(view: SiteView, choice: SiteChoice, ask: RunCommand) -> Holders:
    """Read the limits of holders with the chosen account, and of the accounts above it."""
    facts = view.facts
    chain: tuple[Association, ...] = ()
    if view.associations:
        cluster = facts.config.get("ClusterName", "")
        account = choice.account or view.default_account
        chain = associations.chain(ask, cluster, view.user, account, choice.place.partition.name)
    # The facts have the chain of the default account.
    chosen_facts = replace(facts, accounting=Accounting(facts.accounting.qos, chain))
    return chosen_facts.holders(choice.place.settings(choice.account))


def read_network(nodes_text: str, nodes: frozenset[str], route: Route) -> Network:
    """Find the interface and network by which this host reaches the nodes of a partition, by the
    addresses that Slurm has of them; ``why_none`` says why none is proposed.

    ``nodes_text`` is scontrol's text about all nodes, ``nodes`` are those of the partition, and
    ``route`` returns the interface and its network for an address. The result is empty where the
    route is this host's loopback.
    """
    addresses: Mapping[str, str] = dict(_ADDRESS.findall(nodes_text))
    sample = [name for name in sorted(nodes) if name in addresses][:_MAX_LOOKED_UP]
    if not sample:
        return Network(why_none="Slurm shows no address of a node")
    node = sample[0]
    try:
        interface, network = route(addresses[node])
    except InvalidValueError as error:
        return Network(why_none=str(error))
    if network.is_loopback:
        return Network()
    outsiders = [name for name in sample if not _is_within(addresses[name], network)]
    if outsiders:
        why = f"node {outsiders[0]} is outside of {network}, the network of {interface}"
        return Network(why_none=f"{why}; workers.allow_from needs its network")
    return Network(interface, str(network), node)


def _is_within(address: str, network: IPv4Network) -> bool:
    """Return whether an address is in a network; a name counts as within, since its route was
    looked up.
    """
    with suppress(ValueError):
        return IPv4Address(address) in network
    return True


def _tested_proposal(proposal: SiteProposal, nodes: tuple[NodeView, ...]) -> SiteProposal:
    """Return the proposal, if sbatch would accept a holder. Raises ``UserError`` with sbatch's
    words if not.
    """
    check = holder_check(settings_of(proposal), nodes)
    if check.state is CheckStatus.BROKEN:
        raise UserError(
            f"sbatch --test-only refuses a holder: {check.detail}; choose another --partition, "
            "--qos or --account, or write the file by hand with --blank"
        )
    return replace(proposal, remarks=(*proposal.remarks, f"Tested: {check.detail}."))


def _own_groups() -> frozenset[str]:
    """Return the names of this process's groups."""
    names = set()
    for gid in {os.getgid(), *os.getgroups()}:
        with suppress(KeyError):
            names.add(grp.getgrgid(gid).gr_name)
    return frozenset(names)
