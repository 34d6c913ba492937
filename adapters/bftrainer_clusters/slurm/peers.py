"""The PeerPilots port on Slurm: the comments of holders and of pilots' own jobs, which every user
sees in squeue.

A pilot that runs as a job (jobscripts/pilot.slurm) writes its host list into the comment of that
job. Each holder shows it as well, so a pilot outside of any job is seen once it holds a node. The
job id, the user (authenticated by munge) and the state come from Slurm; comments are free text of
users, so comments that are not understood are skipped. A claim counts while its job has nodes, and
a pending holder only if it may start: a job that is held costs its user nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from bftrainer.cluster.model import PeerPilot
from bftrainer.errors import InvalidValueError
from bftrainer.system import command
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.holding.holder_jobs import JobPhase
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.job_list import HOLDER_NAME, PILOT_NAME, JobList
from bftrainer_clusters.slurm.jobs import JOB_PHASES
from bftrainer_clusters.slurm.published import NotPublishedError
from bftrainer_clusters.slurm.records import fields_of, number, parse_records
from bftrainer_clusters.slurm.text import NOT_ELIGIBLE
from bftrainer_clusters.slurm.user_weights import Weights

FORMAT = "%A|%u|%T|%j|%r|%D|%k"
_HEADER = "JOBID|USER|STATE|NAME|REASON|NODES|COMMENT"
_WORDS = re.compile(
    r"bftrainer: (?:idle node held by )?pilot (\S+) of [^;]*(?:; least ([0-9]{1,7})|;[^;]*?)??"
    r"(?:; wants ([0-9]{1,7})( short)?)?(?:; hosts (\S+))?"
)
_MAX_CHARACTERS = 700
"""Slurm rejects comments of more than 1,024."""
_MOST_WANTED = 9_999_999
_MOST_CHARACTERS_OF_A_USER = 20 * _MAX_CHARACTERS
"""The most characters of a user's host lists that are read; more than any user's pilots claim."""


@dataclass(frozen=True, slots=True)
class _PilotJob:
    """A holder, or the job that a pilot runs in. ``claim`` is its comment; None: any other text."""

    id: str
    user: str
    name: str
    waits: bool
    nodes: int
    claim: re.Match[str] | None

    @property
    def key(self) -> tuple[str, str]:
        """The user and the pilot. A holder with any other comment still counts."""
        return self.user, self.claim[1] if self.claim else "unknown"

    @property
    def is_pilots_own(self) -> bool:
        return self.name == PILOT_NAME

    @property
    def wants(self) -> int | None:
        """The number of nodes that the pilot could use, by a job that has nodes."""
        if self.claim is None or not self.claim[3] or self.waits:
            return None
        return int(self.claim[3])

    @property
    def hosts(self) -> str:
        """The list of hosts that a job with nodes claims; empty if it claims none."""
        return (self.claim[5] or "") if self.claim and not self.waits else ""


def parse_peers(text: str, mark: str, pilot: str, user: str) -> tuple[PeerPilot, ...]:
    """Return all pilots in squeue's output but this one of this user, in the order of user and
    name.
    """
    pilots: dict[tuple[str, str], PeerPilot] = {}
    claims: dict[tuple[str, str], dict[str, None]] = {}
    characters: Counter[str] = Counter()
    for job in _pilot_jobs(text, mark):
        if job.key == (user, pilot):
            continue
        before = pilots.get(job.key) or PeerPilot(job.key[1], job.user, job=job.id)
        pilots[job.key] = _with_job(before, job)
        lists = claims.setdefault(job.key, {})
        if job.hosts and job.hosts not in lists:  # all holders of a pilot repeat its list
            characters[job.user] += len(job.hosts)
            if characters[job.user] <= _MOST_CHARACTERS_OF_A_USER:
                lists[job.hosts] = None
    return tuple(replace(pilots[key], hosts=_split(claims[key])) for key in sorted(pilots))


def _pilot_jobs(text: str, mark: str) -> Iterator[_PilotJob]:
    """Yield the jobs that count: holders that may start or run, and running jobs of pilots."""
    for record in parse_records(text, mark, _HEADER, "pilots"):
        job, owner, state, name, reason, size, words = fields_of(record, 7)
        claim = _WORDS.fullmatch(words)
        waits = JOB_PHASES.get(state) is JobPhase.WAITS
        if waits and reason in NOT_ELIGIBLE:
            continue
        if name == PILOT_NAME and (waits or claim is None):
            continue
        nodes = number(size) if name == HOLDER_NAME and not waits else 0
        yield _PilotJob(job, owner, name, waits, nodes, claim)


def _with_job(peer: PeerPilot, job: _PilotJob) -> PeerPilot:
    """Return what is known of a pilot, with what one more of its jobs shows."""
    if job.name == HOLDER_NAME:
        peer = replace(
            peer,
            holders=(*peer.holders, job.id),
            held=peer.held + job.nodes,
            asks=peer.asks or job.waits,
        )
    # The comment of the pilot's own job is up to date, that of a holder is as old as the holder.
    if job.claim is None or job.wants is None or not (peer.wants is None or job.is_pilots_own):
        return peer
    least = int(job.claim[2] or 1)
    is_short = job.is_pilots_own and bool(job.claim[4])
    return replace(peer, wants=job.wants, is_short=is_short, least=least)


def of_jobs(jobs: JobList, pilot: str = "", user: str = "") -> tuple[PeerPilot, ...]:
    """Return all pilots in a list of jobs but this one of this user, with the weights of their
    users.
    """
    text = jobs.as_printed(
        FORMAT, lambda job: bool(job["%j"]) and JOB_PHASES.get(job["%T"]) is not JobPhase.OVER
    )
    pilots = command.parsed(
        ["squeue"], text, lambda text: parse_peers(text, jobs.mark, pilot, user)
    )
    return tuple(replace(peer, weight=(jobs.weights or {}).get(peer.user, 1)) for peer in pilots)


def _split(lists: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for text in lists for part in split_hosts(text)))


def claim_words(hosts: tuple[str, ...], wants: int | None = None, is_short: bool = False) -> str:
    """Return the end of a comment: how many nodes the trainers could use, and the hosts that the
    pilot claims (``; wants 8; hosts n[01-04]``).
    """
    words = "" if wants is None else f"; wants {min(wants, _MOST_WANTED)}{' short' * is_short}"
    return f"{words}; hosts {','.join(hosts)}" if hosts else words


def check_hosts(hosts: tuple[str, ...]) -> None:
    """Raise :class:`InvalidValueError` for a list of hosts that does not fit into a comment."""
    for pattern in hosts:
        if not re.fullmatch(r"[\w.\[\],*?-]+", pattern, re.ASCII):
            raise InvalidValueError(
                f"nodes.hosts: {pattern!r} is not a pattern of node names, such as node[01-08] "
                "or gpu*"
            )
    length = len(",".join(hosts))
    if length > _MAX_CHARACTERS:
        raise InvalidValueError(
            f"nodes.hosts: has {length} characters, expected at most {_MAX_CHARACTERS}: it is "
            "shown in a job's comment; "
            'write ranges, such as "node[001-128]"'
        )


def split_hosts(text: str) -> tuple[str, ...]:
    """Split at the commas outside of brackets: ``node[01-03,7],gpu*`` -> ``node[01-03,7]``,
    ``gpu*``.
    """
    return tuple(part for part in re.split(r",(?![^\[]*\])", text) if part)


def announce_argv(job: str, comment: str) -> list[str]:
    """Build the command that sets the comment of the pilot's own job."""
    return ["scontrol", "update", f"JobId={job}", f"Comment={comment}"]


@dataclass
class SlurmPeerPilots:
    """Finds the pilots of all users, and shows them what this one claims.

    ``job`` is the pilot's own, or empty. ``on_holders`` puts the claims into the comments of new
    holders. ``weights``: for a list of jobs without them.
    """

    pilot: str
    user: str
    job: str = ""
    on_holders: Callable[[str], None] = lambda _: None
    timeout_s: float = 10.0
    calls: SlurmCalls = field(default_factory=SlurmCalls)
    weights: Weights | None = None
    _weight: int = 1
    _has_announced: bool = False
    _news: str = ""
    _next_news_s: float = 0.0
    _demand: tuple[int | None, bool] = (None, False)
    _hosts: tuple[str, ...] = ()
    _claims: bool = False
    """Whether a host list was announced, and not compared yet with those that are no older."""

    def announce(
        self,
        hosts: tuple[str, ...],
        wants: int | None = None,
        is_short: bool = False,
        least: int = 1,
    ) -> None:
        """Show the hosts and the demand in the comments of the pilot's own job and of new
        holders.
        """
        check_hosts(hosts)
        self._hosts, self._claims = hosts, self._claims or hosts != self._hosts
        self._demand = self._demand if wants is None else (wants, is_short)
        words = claim_words(hosts, *self._demand)
        # Without whether the pilot is short of nodes: that changes too often for holders' comments.
        self.on_holders(claim_words(hosts, self._demand[0]))
        if self.job and (words or self._has_announced):
            smallest = f"; least {min(least, _MOST_WANTED)}" if least > 1 else ""
            argv = announce_argv(
                self.job, f"bftrainer: pilot {self.pilot} of {self.user}{smallest}{words}"
            )
            self.calls.run(argv, CallKind.LOOK, self.timeout_s)
            self._has_announced = True

    def look(self) -> tuple[PeerPilot, ...]:
        """Return the other pilots, from a broker's list or by one squeue (about 10 ms), which the
        observation that follows uses as well.
        """
        self._news = self._published_news()
        jobs = self.calls.jobs(self.timeout_s, of_now=self._claims)
        self._claims = False
        is_alone = all(job["%u"] == self.user for job in jobs.jobs if job["%j"])
        if jobs.weights is None and self.weights is not None and not is_alone:
            jobs = replace(jobs, weights=self.weights.now())
        self._weight = (jobs.weights or {}).get(self.user, 1)
        return of_jobs(jobs, self.pilot, self.user)

    @property
    def own(self) -> PeerPilot:
        return PeerPilot(self.pilot, self.user, weight=self._weight)

    def has_news(self) -> bool:
        """Return whether a broker has published other jobs or demands since the last look; its file
        is read twice a second at most.
        """
        now_s = self.calls.elapsed_s()
        if now_s < self._next_news_s:
            return False
        self._next_news_s = now_s + 0.5
        return self._published_news() not in ("", self._news)

    def _published_news(self) -> str:
        with suppress(NotPublishedError):
            return "" if self.calls.published is None else self.calls.published.head().news
        return ""
