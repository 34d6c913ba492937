"""``bftrainer users``: how users share the idle nodes now, and why. All of it is in squeue; no
pilot has to run here.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from bftrainer.console.cli.output import json_option, say, show_json
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import name_column, number_column, show_table
from bftrainer.counted import counted
from bftrainer.errors import UserError


@dataclass(frozen=True, slots=True)
class UserShare:
    """A user's pilots, their nodes, and the user's part, by ``weight``, of all ``nodes`` that
    pilots hold or that are ``idle``.

    ``wants``: nodes that its trainers could use, at least ``least`` at a time; None if a pilot does
    not say.
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
        """Nodes below the part."""
        return max(self.part - self.holds, 0)


@click.command()
@state_option
@json_option
def users(state: Path, as_json: bool) -> None:
    """List the users whose pilots share the idle nodes: how many nodes each wants, holds, and has
    as its part.

    Pilots show these numbers in squeue, and nothing else of their trainers. The configuration in
    the state directory, if there is one, says which nodes count. See `bftrainer explain --user` for
    the reasons.

    \b
    Example:
      bftrainer users
    """
    found = shares_now(state)
    if as_json:
        show_json([{**asdict(it), "lacks": it.lacks} for it in found])
        return
    columns = ("user", "pilots", "wants", "holds", "part", "lacks", "weight")[: 6 + _differ(found)]
    numbers = [
        (it.pilots, "-" if it.wants is None else it.wants, it.holds, it.part, it.lacks, it.weight)
        for it in found
    ]
    rows = [
        (it.user, *map(str, of[: len(columns) - 1])) for it, of in zip(found, numbers, strict=True)
    ]
    show_table([name_column(columns[0]), *map(number_column, columns[1:])], rows)
    say(
        f"{counted(found[0].nodes, 'node')}, {found[0].idle} idle"
        if found
        else "no pilot is visible"
    )


def shares_now(state: Path) -> list[UserShare]:
    """By user, as pilots compute it. Raises ``UserError`` where the scheduler does not show other
    users' pilots.
    """
    from bftrainer.cluster.model import Availability, Hidden
    from bftrainer.cluster.site_plugin import observed_site
    from bftrainer.console.client.state_dir import CONFIG_NAME, read
    from bftrainer.sharing.fair_share import Sharer, parts_of
    from bftrainer.sharing.peers import rivals
    from bftrainer.system.clock import SystemClock

    path = state / CONFIG_NAME
    config = read(state) if path.exists() else None
    site = observed_site(
        "slurm" if config is None else config.nodes.holder, config, str(path), SystemClock()
    )
    if site.pilots is None:
        raise UserError(
            f"{path}: nodes.holder: expected slurm, where pilots of several users share nodes"
        )
    pilots, seen = site.pilots(), site.scheduler.observe()
    if Hidden.JOBS in seen.hidden:
        raise UserError(
            "the site hides other users' jobs (PrivateData), so pilots do not share nodes; ask "
            "an operator"
        )
    chosen = site.chosen(node for node in seen.nodes if site.ours.may_have(node))
    idle = sum(
        node.name in chosen and node.availability is Availability.FREE for node in seen.nodes
    )
    claims = rivals(pilots, sorted(chosen))
    nodes = idle + sum(c.holds for c in claims)
    parts = parts_of(nodes, claims, {c.key for c in claims if c.wants is None}, time.time())
    of_user = defaultdict[str, list[Sharer]](list)
    for c in claims:
        of_user[c.user].append(c)
    return [
        UserShare(
            user,
            len(its),
            None if any(c.wants is None for c in its) else sum(c.wants or 0 for c in its),
            sum(c.holds for c in its),
            sum(parts[c.key] for c in its),
            min(c.least for c in its),
            nodes,
            idle,
            its[0].weight,
        )
        for user, its in sorted(of_user.items())
    ]


def why(found: list[UserShare], user: str) -> str:
    """Why this user holds so many nodes."""
    from bftrainer.sharing.fair_share import RELEASE_PATIENCE_S, TURN_S

    it = next((it for it in found if it.user == user), None)
    if it is None:
        raise UserError(f"--user {user}: no pilot of this user is visible; see `bftrainer users`")
    others = [other for other in found if other is not it]
    lacking = ", ".join(f"{other.user} ({other.lacks})" for other in others if other.lacks)
    above = ", ".join(
        f"{other.user} ({other.holds - other.part})" for other in others if other.holds > other.part
    )
    said = (
        f"{user} holds {it.holds} of {counted(it.nodes, 'node')} that pilots hold or that "
        "are idle. "
    )
    if it.wants is None:
        return (
            f"{said}Its pilot shows no demand (nodes.share is off), so it keeps them and "
            "the others split the rest."
        )
    kind = (
        f"part, by weight {it.weight} of {sum(other.weight for other in found)},"
        if _differ(found)
        else "equal part"
    )
    said += (
        f"Its {kind} is {it.part}: {counted(len(found), 'user')} share them, its trainers "
        f"could use {it.wants}. "
    )
    if it.holds > it.part:
        return said + (
            f"Others lack nodes: {lacking}. Its pilot releases what is above the part: at once "
            "for a user who is new or has "
            f"none, else after {RELEASE_PATIENCE_S / 60:g} minutes."
            if lacking
            else "It has more because no other user lacks nodes."
        )
    if it.part < it.least and it.wants:
        return (
            f"{said}Its trainers need at least {it.least}, so it has as many by turns of "
            f"{TURN_S / 60:g} minutes."
        )
    if not it.lacks:
        return f"{said}It has its part."
    if it.idle:
        return f"{said}It lacks {it.lacks}, and {it.idle} are idle: its pilot requests them."
    return f"{said}It lacks {it.lacks}, and none is idle; above their parts: {above or 'nobody'}."


def _differ(found: list[UserShare]) -> bool:
    return len({it.weight for it in found}) > 1
