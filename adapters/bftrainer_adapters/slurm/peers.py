"""The PeerPilots port on Slurm: the comments of holders and of pilots' own jobs, which every user sees in squeue.

A pilot that runs as a job (jobscripts/pilot.slurm) writes its host list into the comment of that job. Each holder shows it
as well, so a pilot outside of any job is seen once it holds a node. The user that squeue shows is authenticated (munge);
comments are free text of users, so comments that are not understood are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bftrainer.domain.cluster import PeerPilot
from bftrainer.errors import InvalidValueError, SchedulerError
from bftrainer.system import command
from bftrainer_adapters.slurm.jobs import HOLDER_NAME
from bftrainer_adapters.slurm.text import whole_lines

PILOT_NAME = "bftrainer-pilot"
_FORMAT = "%i|%u|%j|%k"
_HEADER = "JOBID|USER|NAME|COMMENT"
_WORDS = re.compile(r"bftrainer: (?:idle node held by )?pilot (\S+) of [^;]*(?:;[^;]*?)??(?:; hosts (\S+))?")
_MAX_CHARACTERS = 700
"""Slurm rejects comments of more than 1,024."""


def list_argv() -> list[str]:
    """Holders and pilots of all users, while they are pending, running or completing."""
    return ["squeue", "-a", "--noconvert", "-n", f"{HOLDER_NAME},{PILOT_NAME}", "-o", _FORMAT]


def parse_peers(text: str, pilot: str, user: str) -> tuple[PeerPilot, ...]:
    """All pilots but this one of this user, by user and name."""
    header, *lines = whole_lines(text, "pilots")
    if header != _HEADER:
        raise SchedulerError(f"squeue's header is {header[:80]!r}, expected {_HEADER!r}")
    found: dict[tuple[str, str], PeerPilot] = {}
    for line in lines:
        job, owner, name, words, *_ = [*line.split("|", 3), "", "", ""]
        claim = _WORDS.fullmatch(words)
        if not job.isdecimal() or (name == PILOT_NAME and claim is None):
            continue
        # A holder with any other comment still counts.
        key = (owner, claim[1] if claim else "unknown")
        if key == (user, pilot):
            continue
        seen = found.get(key) or PeerPilot(key[1], owner, job=job)
        hosts = split_hosts(claim[2]) if claim and claim[2] else ()
        holders = (*seen.holders, job) if name == HOLDER_NAME else seen.holders
        found[key] = replace(seen, hosts=tuple(dict.fromkeys((*seen.hosts, *hosts))), holders=holders)
    return tuple(found[key] for key in sorted(found))


def with_hosts(comment: str, hosts: tuple[str, ...]) -> str:
    """A comment with the claim to these hosts."""
    return f"{comment}; hosts {','.join(hosts)}" if hosts else comment


def check_hosts(hosts: tuple[str, ...]) -> None:
    """Raise :class:`InvalidValueError` for a list that does not fit into a comment."""
    for pattern in hosts:
        if not re.fullmatch(r"[\w.\[\],*?-]+", pattern, re.ASCII):
            raise InvalidValueError(
                f"nodes.hosts: {pattern!r} is not a pattern of node names, such as node[01-08] or gpu*"
            )
    length = len(",".join(hosts))
    if length > _MAX_CHARACTERS:
        raise InvalidValueError(
            f"nodes.hosts: has {length} characters, expected at most {_MAX_CHARACTERS}: it is shown in a job's comment; "
            'write ranges, such as "node[001-128]"'
        )


def split_hosts(text: str) -> tuple[str, ...]:
    """``node[01-03,7],gpu*`` at the commas outside of brackets."""
    return tuple(part for part in re.split(r",(?![^\[]*\])", text) if part)


def announce_argv(job: str, comment: str) -> list[str]:
    """Set the comment of the pilot's own job."""
    return ["scontrol", "update", f"JobId={job}", f"Comment={comment}"]


@dataclass
class SlurmPeerPilots:
    """``job`` is the pilot's own, or empty. ``on_holders`` puts the list into the comments of new holders."""

    pilot: str
    user: str
    job: str = ""
    on_holders: Callable[[tuple[str, ...]], None] = lambda _: None
    timeout_s: float = 10.0
    env: Mapping[str, str] = field(default_factory=dict)
    _has_announced: bool = False

    def announce(self, hosts: tuple[str, ...]) -> None:
        """Show the hosts in the comments of the pilot's job and of new holders."""
        check_hosts(hosts)
        self.on_holders(hosts)
        if self.job and (hosts or self._has_announced):
            comment = with_hosts(f"bftrainer: pilot {self.pilot} of {self.user}", hosts)
            self._run(announce_argv(self.job, comment))
            self._has_announced = True

    def look(self) -> tuple[PeerPilot, ...]:
        """One squeue, about 10 ms."""
        return parse_peers(self._run(list_argv()), self.pilot, self.user)

    def _run(self, argv: list[str]) -> str:
        return command.run(argv, timeout_s=self.timeout_s, env=self.env)
