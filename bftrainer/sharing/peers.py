"""The other pilots of a site: host lists that must not overlap, and a cap on the nodes of all
pilots together.

No process coordinates pilots. Each shows its claims where all can read them (the ``PeerPilots``
port), and all follow the same rules: a host list that overlaps another one is refused, and of the
holder jobs above the shared cap the latest ones, by job id, are released by their pilots. Any user
can make a job that looks like a pilot's. So at its start, a pilot is refused by a claim of its own
user only; another user's is told, and the nodes are shared, first come, first served.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bftrainer.cluster.model import Hidden, Observation, PeerPilot
from bftrainer.cluster.ports import PeerPilots, Scheduler
from bftrainer.config.host_lists import host_patterns
from bftrainer.config.pilot import NodesConfig
from bftrainer.errors import CommandError, SchedulerError, UserError
from bftrainer.fragment_names import job_of
from bftrainer.sharing.claims import ClaimComparison
from bftrainer.sharing.sharer import Sharer
from bftrainer.system.printable import printable

_MOST_CHARACTERS = 60
"""Messages show so many characters of the name that another pilot's comment gives it."""


def overlap(hosts: tuple[str, ...], others: Iterable[PeerPilot], nodes: Iterable[str]) -> str:
    """Return a message about the first other pilot whose host list has nodes of ours: which nodes,
    and whose pilot it is. Empty if there is none.

    ``hosts`` is our list, ``nodes`` are all of the cluster. A pilot without a list claims nothing:
    it uses whatever is idle, first come, first served.
    """
    own = host_patterns(hosts)
    comparison = ClaimComparison(sorted(node for node in nodes if node in own))
    for other in others:
        if both := comparison.claimed(other.user, other.hosts):
            more = f" and {len(both) - 3} more" if len(both) > 3 else ""
            pilot = printable(other.pilot[:_MOST_CHARACTERS])
            return (
                f"nodes.hosts: {', '.join(both[:3])}{more} also in the list of pilot {pilot} "
                f"of {other.user} "
                f"(job {other.job}); expected lists that do not overlap, or that pilot ended"
            )
    return ""


def rivals(others: Iterable[PeerPilot], usable: Sequence[str]) -> tuple[Sharer, ...]:
    """Return the peer pilots that may use some of our ``usable`` nodes (sorted), for the split of
    nodes (:mod:`.fair_share`). A pilot without a host list may use any of them.
    """
    comparison = ClaimComparison(usable)
    sharers = []
    for other in others:
        nodes = frozenset(comparison.claimed(other.user, other.hosts)) if other.hosts else None
        if nodes is not None and not nodes:  # its list has none of our nodes
            continue
        # It cannot want more of our nodes than it may use.
        limit = len(usable if nodes is None else nodes)
        sharers.append(
            Sharer(
                user=other.user,
                pilot=other.pilot,
                wants=None if other.wants is None else min(other.wants, limit),
                holds=other.held,
                is_short=other.is_short,
                nodes=nodes,
                asks=other.asks,
                least=other.least,
                weight=other.weight,
            )
        )
    return tuple(sharers)


def claim_hosts(
    peers: PeerPilots | None,
    scheduler: Scheduler,
    hosts: tuple[str, ...],
    refused_by: str | None = None,
) -> str:
    """Announce our host list to the other pilots, then check that no node of it is in one of their
    lists. Returns a warning for the event log, empty if there is none.

    Raises ``UserError`` for a node in two lists; with ``refused_by``, a user, only for pilots of
    this user, and others are a warning. The announcement comes first, so that of two pilots that
    start at once at least one sees the other. A check that cannot be made now is only a warning: a
    pilot that comes back while the scheduler is down must reach its trainers.
    """
    if peers is None:
        return ""
    try:
        peers.announce(hosts)
        if not hosts:
            return ""
        others = peers.look()
        observation = scheduler.observe()
    except (CommandError, SchedulerError) as error:
        return f"cannot check whether other pilots claim the same hosts: {error}"
    nodes = [node.name for node in observation.nodes]
    refusing = [other for other in others if refused_by in (None, other.user)]
    if problem := overlap(hosts, refusing, nodes):
        raise UserError(problem)
    if warning := overlap(hosts, others, nodes):
        return warning
    if Hidden.JOBS in observation.hidden:
        return (
            "cannot check whether other pilots claim the same hosts: the site hides other users' "
            "jobs"
        )
    return ""


def ask_peers(peers: PeerPilots | None, nodes: NodesConfig) -> tuple[PeerPilot, ...] | None:
    """Ask the scheduler for the peer pilots; called in the background. None where they do not
    matter: no split, no shared cap, no host list.
    """
    if peers is None or not (nodes.share or nodes.site_max_nodes or nodes.hosts):
        return None
    return peers.look()


def peer_holders(
    nodes: NodesConfig, observation: Observation, others: tuple[PeerPilot, ...] | None
) -> tuple[str, ...]:
    """Return the job ids of the other pilots' holder jobs, which count towards
    ``nodes.site_max_nodes``, the cap on the nodes of all pilots.

    Raises ``UserError`` where there is such a cap and the site hides other users' jobs: hidden is
    not none.
    """
    has_cap = nodes.site_max_nodes is not None
    if others is not None and Hidden.JOBS in observation.hidden and has_cap:
        raise UserError(
            "nodes.site_max_nodes: the site hides other users' jobs (PrivateData), so other "
            "pilots' nodes cannot be "
            "counted; remove the key, or have an operator run the pilot"
        )
    return tuple(job for other in others or () for job in other.holders)


def room_beside(peer_holders: Sequence[str], site_max_nodes: int | None) -> float:
    """Return how many nodes this pilot may hold if all pilots together may hold ``site_max_nodes``;
    infinite without such a cap.
    """
    return math.inf if site_max_nodes is None else max(site_max_nodes - len(peer_holders), 0)


def surplus(
    fragments: Iterable[str], peer_holders: Iterable[str], site_max_nodes: int | None
) -> tuple[str, ...]:
    """Return our fragments (held nodes) above the cap on the nodes of all pilots, which have to be
    released: of the holder jobs of all pilots, the latest ones by job id.

    ``peer_holders`` are the job ids of the other pilots' holders. All pilots count in the same
    order, so only one of two that raced gives way.
    """
    if site_max_nodes is None:
        return ()
    ours = [(_job_number(job_of(name)), name) for name in fragments]
    # Without a name: they count, and are not ours to release.
    theirs = [(_job_number(job), "") for job in peer_holders]
    return tuple(name for _, name in sorted([*ours, *theirs])[site_max_nodes:] if name)


def _job_number(job: str) -> int:
    """Return a job id as a number; 0, the earliest, for one that is no number."""
    return int(job) if job.isdecimal() else 0
