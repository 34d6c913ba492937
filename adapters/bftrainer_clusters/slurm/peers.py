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
_CLAIM = re.compile(
    r"bftrainer: (?:idle node held by )?pilot (?P<pilot>\S+) of [^;]*"
    r"(?:; least (?P<least>[0-9]{1,7})|;[^;]*?)??"
    r"(?:; wants (?P<wants>[0-9]{1,7})(?P<short> short)?)?(?:; hosts (?P<host_list>\S+))?"
)
"""The comment of a holder or of a pilot's own job."""
_MAX_CHARACTERS = 700
"""Slurm rejects comments of more than 1,024."""
_MAX_DEMAND = 9_999_999
_MAX_CHARACTERS_OF_A_USER = 20 * _MAX_CHARACTERS
"""The most characters of a user's host lists that are read; more than any user's pilots claim."""


@dataclass(frozen=True, slots=True)
class _PilotJob:
    """A holder, or the job that a pilot runs in. ``claim`` is its comment, None if that is any
    other text; ``nodes`` is the number of nodes that a holder has.
    """

    id: str
    user: str
    name: str
    waits: bool
    nodes: int
    claim: re.Match[str] | None

    @property
    def key(self) -> tuple[str, str]:
        """The user and the pilot, which is "unknown" for a holder with any other comment."""
        return self.user, self.claim["pilot"] if self.claim else "unknown"

    @property
    def is_pilots_own(self) -> bool:
        return self.name == PILOT_NAME

    @property
    def wants(self) -> int | None:
        """The number of nodes that the pilot could use. None if the comment does not name it, and
        for a pending job.
        """
        if self.claim is None or not self.claim["wants"] or self.waits:
            return None
        return int(self.claim["wants"])

    @property
    def hosts(self) -> str:
        """The list of hosts that a job with nodes claims; empty if it claims none."""
        if self.claim is None or self.waits:
            return ""
        return self.claim["host_list"] or ""


def parse_peers(text: str, mark: str, pilot: str, user: str) -> tuple[PeerPilot, ...]:
    """Return all pilots in squeue's output but ``pilot`` of ``user``, in the order of user and
    name. The output has the columns of :data:`FORMAT` and the mark of its call. Raises
    ``SchedulerError``.
    """
    pilots: dict[tuple[str, str], PeerPilot] = {}
    host_lists: dict[tuple[str, str], dict[str, None]] = {}  # of each pilot, in order
    characters: Counter[str] = Counter()  # of the different lists of each user
    for job in _pilot_jobs(text, mark):
        if job.key == (user, pilot):
            continue
        peer = pilots.get(job.key)
        if peer is None:
            _, name = job.key
            peer = PeerPilot(name, job.user, job=job.id)
        pilots[job.key] = _with_job(peer, job)
        pilot_lists = host_lists.setdefault(job.key, {})
        if job.hosts and job.hosts not in pilot_lists:  # all holders of a pilot repeat its list
            characters[job.user] += len(job.hosts)
            if characters[job.user] <= _MAX_CHARACTERS_OF_A_USER:
                pilot_lists[job.hosts] = None
    return tuple(
        replace(pilots[key], hosts=_split_lists(host_lists[key])) for key in sorted(pilots)
    )


def _pilot_jobs(text: str, mark: str) -> Iterator[_PilotJob]:
    """Yield the jobs that count: holders that may start or run, and running jobs of pilots."""
    for record in parse_records(text, mark, _HEADER, "pilots"):
        job_id, owner, state, name, reason, size, comment = fields_of(record, 7)
        claim = _CLAIM.fullmatch(comment)
        waits = JOB_PHASES.get(state) is JobPhase.WAITS
        if waits and reason in NOT_ELIGIBLE:  # such a job costs its user nothing
            continue
        if name == PILOT_NAME and (waits or claim is None):
            continue
        nodes = number(size) if name == HOLDER_NAME and not waits else 0
        yield _PilotJob(job_id, owner, name, waits, nodes, claim)


def _with_job(peer: PeerPilot, job: _PilotJob) -> PeerPilot:
    """Return a pilot with one more of its jobs: a holder adds to its nodes, and a comment may
    change its demand.
    """
    if job.name == HOLDER_NAME:
        peer = replace(
            peer,
            holders=(*peer.holders, job.id),
            held=peer.held + job.nodes,
            asks=peer.asks or job.waits,
        )
    if job.claim is None or job.wants is None:
        return peer
    # The comment of the pilot's own job is up to date, that of a holder is as old as the holder.
    if peer.wants is not None and not job.is_pilots_own:
        return peer
    least = int(job.claim["least"] or 1)
    is_short = job.is_pilots_own and bool(job.claim["short"])
    return replace(peer, wants=job.wants, is_short=is_short, least=least)


def of_jobs(jobs: JobList, pilot: str = "", user: str = "") -> tuple[PeerPilot, ...]:
    """Return all pilots in the scheduler's job list but ``pilot`` of ``user``, with the weights of
    their users.
    """
    text = jobs.as_printed(
        FORMAT, lambda job: bool(job["%j"]) and JOB_PHASES.get(job["%T"]) is not JobPhase.OVER
    )
    pilots = command.parsed(
        ["squeue"], text, lambda text: parse_peers(text, jobs.mark, pilot, user)
    )
    return tuple(replace(peer, weight=(jobs.weights or {}).get(peer.user, 1)) for peer in pilots)


def _split_lists(lists: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for text in lists for part in split_hosts(text)))


def claim_words(hosts: tuple[str, ...], wants: int | None = None, is_short: bool = False) -> str:
    """Return the end of a comment: how many nodes the trainers could use, whether the pilot is
    short of nodes, and the hosts that the pilot claims (``; wants 8 short; hosts n[01-04]``).
    """
    words = ""
    if wants is not None:
        words += f"; wants {min(wants, _MAX_DEMAND)}"
        if is_short:
            words += " short"
    if hosts:
        words += f"; hosts {','.join(hosts)}"
    return words


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
    """Lists the pilots of all users, and shows them what this one claims.

    ``job`` is the pilot's own, or empty. ``on_holders`` puts the claims into the comments of new
    holders. ``weights`` are read where the scheduler's job list comes without weights.
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
    """The broker's mark of the jobs and demands that the latest look has seen."""
    _next_news_s: float = 0.0
    _demand: tuple[int | None, bool] = (None, False)
    """The latest demand: the nodes that the trainers could use, whether the pilot is short."""
    _hosts: tuple[str, ...] = ()
    _needs_present_jobs: bool = False
    """Whether another host list was announced since the latest look, which has to compare it with
    lists that are no older.
    """

    def announce(
        self,
        hosts: tuple[str, ...],
        wants: int | None = None,
        is_short: bool = False,
        least: int = 1,
    ) -> None:
        """Show the hosts and the demand in the comments of the pilot's own job and of new holders.

        Args:
            hosts: The host list that the pilot claims.
            wants: The number of nodes that the trainers could use; None: as announced before.
            is_short: Whether the pilot is short of nodes.
            least: The smallest number of nodes that the trainers can use.

        Raises:
            InvalidValueError: The host list does not fit into a comment.
        """
        check_hosts(hosts)
        if hosts != self._hosts:
            self._needs_present_jobs = True
        self._hosts = hosts
        if wants is not None:
            self._demand = (wants, is_short)
        words = claim_words(hosts, *self._demand)
        # Without whether the pilot is short of nodes: that changes too often for holders' comments.
        self.on_holders(claim_words(hosts, self._demand[0]))
        if self.job and (words or self._has_announced):
            smallest = f"; least {min(least, _MAX_DEMAND)}" if least > 1 else ""
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
        jobs = self.calls.jobs(self.timeout_s, of_now=self._needs_present_jobs)
        self._needs_present_jobs = False
        is_alone = all(job["%u"] == self.user for job in jobs.jobs if job["%j"])
        if jobs.weights is None and self.weights is not None and not is_alone:
            jobs = replace(jobs, weights=self.weights.current())
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
