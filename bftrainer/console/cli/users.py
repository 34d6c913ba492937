"""``bftrainer users``: how users share the idle nodes now, and why. All of it is in squeue; no
pilot has to run here.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.output import json_option, say, show_json
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import name_column, number_column, show_table
from bftrainer.counted import counted
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.sharing.fair_share import Sharer


@dataclass(frozen=True, slots=True)
class UserShare:
    """One user's pilots and nodes, and the part of all nodes that the user is due.

    ``pilots``: the number of the user's pilots.
    ``wants``: nodes that the user's trainers could use; None if one of the pilots shows no demand.
    ``holds``: nodes that the user's pilots hold.
    ``part``: nodes due to the user, computed by ``weight`` from ``nodes``.
    ``least``: the smallest number of nodes that the user's trainers can use.
    ``nodes``: nodes of all users: those that pilots hold, and the ``idle`` ones.
    ``idle``: idle nodes, the same number for every user.
    """

    user: str
    pilots: int
    wants: int | None
    holds: int
    part: int
    least: int
    nodes: int
    idle: int
    weight: int = 1

    @property
    def lacks(self) -> int:
        """The number of nodes that the user holds below its part."""
        return max(self.part - self.holds, 0)


@click.command()
@state_option
@json_option
def users(state: Path, as_json: bool) -> None:
    """List the users whose pilots share the idle nodes: how many nodes each wants, holds, and has
    as its part.

    Pilots show these numbers in squeue, and nothing else of their trainings. The configuration in
    the state directory, if there is one, says which nodes count. See `bftrainer explain --user` for
    the reasons.

    \b
    Example:
      bftrainer users
    """
    shares = shares_now(state)
    if as_json:
        show_json([{**asdict(share), "lacks": share.lacks} for share in shares])
        return
    heads = ["pilots", "wants", "holds", "part", "lacks"]
    rows = [_user_row(share) for share in shares]
    if _has_weights(shares):
        heads.append("weight")
        rows = [(*row, str(share.weight)) for row, share in zip(rows, shares, strict=True)]
    show_table([name_column("user"), *map(number_column, heads)], rows)
    if not shares:
        say("no pilot is visible")
        return
    say(f"{counted(shares[0].nodes, 'node')}, {shares[0].idle} idle")


def _user_row(share: UserShare) -> tuple[str, ...]:
    """The row of a user, without the weight."""
    wants = "-" if share.wants is None else str(share.wants)
    return (
        share.user,
        str(share.pilots),
        wants,
        str(share.holds),
        str(share.part),
        str(share.lacks),
    )


def shares_now(state: Path) -> list[UserShare]:
    """Return each user's share, computed as pilots do.

    Raises ``UserError`` where the scheduler does not show other users' pilots.
    """
    from bftrainer.cluster.model import Availability, Hidden
    from bftrainer.cluster.site_plugin import observed_site
    from bftrainer.console.client.state_dir import CONFIG_NAME, read
    from bftrainer.plugin_traits import all_sites
    from bftrainer.sharing.peers import rivals
    from bftrainer.system.clock import SystemClock

    path = state / CONFIG_NAME
    config = read(state) if path.exists() else None
    sharing_sites = [name for name, traits in all_sites().items() if traits.shows_pilots]
    holder = sharing_sites[0] if config is None else config.nodes.holder
    site = observed_site(holder, config, str(path), SystemClock())
    if site.pilots is None:
        raise UserError(
            f"{path}: nodes.holder: expected {' or '.join(sharing_sites)}, where pilots of "
            "several users share nodes"
        )
    pilots = site.pilots()
    observation = site.scheduler.observe()
    if Hidden.JOBS in observation.hidden:
        raise UserError(
            "the site hides other users' jobs (PrivateData), so pilots do not share nodes; ask "
            "an operator"
        )
    usable_names = site.chosen(node for node in observation.nodes if site.ours.may_have(node))
    idle_count = sum(
        node.name in usable_names and node.availability is Availability.FREE
        for node in observation.nodes
    )
    claims = rivals(pilots, sorted(usable_names))
    return _user_shares(claims, idle_count)


def _user_shares(claims: Sequence[Sharer], idle_count: int) -> list[UserShare]:
    """Divide the nodes that pilots hold and the idle ones among users, sorted by name."""
    from bftrainer.sharing.fair_share import parts_of

    node_count = idle_count + sum(claim.holds for claim in claims)
    # A pilot that shows no demand keeps the nodes that it holds.
    silent_pilots = {claim.key for claim in claims if claim.wants is None}
    parts = parts_of(node_count, claims, silent_pilots, time.time())
    claims_by_user: dict[str, list[Sharer]] = defaultdict(list)
    for claim in claims:
        claims_by_user[claim.user].append(claim)
    shares = []
    for user, user_claims in sorted(claims_by_user.items()):
        share = UserShare(
            user=user,
            pilots=len(user_claims),
            wants=_total_demand(user_claims),
            holds=sum(claim.holds for claim in user_claims),
            part=sum(parts[claim.key] for claim in user_claims),
            least=min(claim.least for claim in user_claims),
            nodes=node_count,
            idle=idle_count,
            weight=user_claims[0].weight,
        )
        shares.append(share)
    return shares


def _total_demand(claims: list[Sharer]) -> int | None:
    """Return the nodes that all pilots of a user could use; None if one shows no demand."""
    total = 0
    for claim in claims:
        if claim.wants is None:
            return None
        total += claim.wants
    return total


def share_reason(shares: list[UserShare], user: str) -> str:
    """Explain in sentences why a user holds its number of nodes.

    Raises ``UserError`` if no pilot of the user is visible.
    """
    share = next((share for share in shares if share.user == user), None)
    if share is None:
        raise UserError(f"--user {user}: no pilot of this user is visible; see `bftrainer users`")
    holding = (
        f"{user} holds {share.holds} of {counted(share.nodes, 'node')} that pilots hold or that "
        "are idle."
    )
    if share.wants is None:
        return (
            f"{holding} Its pilot shows no demand (nodes.share is off), so it keeps them and "
            "the others split the rest."
        )
    kind = "equal part"
    if _has_weights(shares):
        total_weight = sum(other.weight for other in shares)
        kind = f"part, by weight {share.weight} of {total_weight},"
    part = (
        f"Its {kind} is {share.part}: {counted(len(shares), 'user')} share them, its trainings "
        f"could use {share.wants}."
    )
    others = [other for other in shares if other.user != user]
    return f"{holding} {part} {_difference_reason(share, others)}"


def _difference_reason(share: UserShare, others: list[UserShare]) -> str:
    """Explain in a sentence why a user holds more nodes than its part, fewer, or as many."""
    from bftrainer.sharing.fair_share import RELEASE_PATIENCE_S, TURN_S

    if share.holds > share.part:
        deficits = ", ".join(f"{other.user} ({other.lacks})" for other in others if other.lacks)
        if not deficits:
            return "It has more because no other user lacks nodes."
        return (
            f"Others lack nodes: {deficits}. Its pilot releases what is above the part: at once "
            f"for a user who is new or has none, else after {RELEASE_PATIENCE_S / 60:g} minutes."
        )
    if share.part < share.least and share.wants:
        return (
            f"Its trainings need at least {share.least}, so it has as many by turns of "
            f"{TURN_S / 60:g} minutes."
        )
    if not share.lacks:
        return "It has its part."
    if share.idle:
        return f"It lacks {share.lacks}, and {share.idle} are idle: its pilot requests them."
    surpluses = ", ".join(
        f"{other.user} ({other.holds - other.part})" for other in others if other.holds > other.part
    )
    return f"It lacks {share.lacks}, and none is idle; above their parts: {surpluses or 'nobody'}."


def _has_weights(shares: list[UserShare]) -> bool:
    """Whether the weights of two users differ, so that a part is not an equal one."""
    return len({share.weight for share in shares}) > 1
