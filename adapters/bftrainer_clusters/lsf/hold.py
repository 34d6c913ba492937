"""Holders on LSF: the payload and a starter of workers run in the job itself, in a queue that
*ends* preempted jobs.

No holder is submitted before ``bqueues -l`` has shown that: a suspended job keeps memory and GPUs
of the node that a main job gets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.cluster.model import NodeRequest
from bftrainer.errors import CommandError, UserError
from bftrainer.system import command
from bftrainer.system.clock import Clock
from bftrainer.system.command import Parsed
from bftrainer.system.users import own_name
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import HolderJobs, SchedulerTraits, holder_script
from bftrainer_clusters.holding.job_holder import JobHolder
from bftrainer_clusters.lsf import jobs
from bftrainer_clusters.lsf.config import LsfSettings
from bftrainer_clusters.lsf.jobs import LsfJob
from bftrainer_clusters.lsf.observe import ask, queue_problems
from bftrainer_clusters.lsf.text import answer_of, unknown_jobs
from bftrainer_clusters.on_node import lsf_payload, lsf_starter

TRAITS = SchedulerTraits("LSF", "lsf", "bsub", min_interval_s=2.0, failures_in_a_row=1)
_PLAIN = re.compile(r"[\w@%+=:,./{}-]+")
_CHECK_QUEUE_S = 600.0


class LsfHolder(JobHolder[LsfSettings]):
    """Holds nodes for one pilot. ``pilot`` marks its holders; ``env`` is added to the environment
    of every command.
    """

    def __init__(
        self,
        settings: LsfSettings,
        holders: Path,
        pilot: str,
        clock: Clock,
        lease_s: float = 60.0,
        poll_s: float = 10.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        files = HolderFiles(holders.absolute())
        self._lsf = _Lsf(settings, files, pilot, clock, lease_s, env or {})
        super().__init__(self._lsf, settings, files, clock, poll_s)


@dataclass
class _Lsf(HolderJobs[LsfSettings]):
    """The scheduler's part."""

    settings: LsfSettings
    files: HolderFiles
    pilot: str
    clock: Clock
    lease_s: float
    env: Mapping[str, str]
    traits: SchedulerTraits = TRAITS
    user: str = field(default_factory=own_name)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.description = jobs.description(self.pilot, self.user)
        self.script = holder_script(self.settings.holder_script, "holder.lsf")
        self.queue_checked_until_s: float = self.clock.elapsed_s()

    def reconfigure(self, settings: LsfSettings) -> None:
        self.settings = settings

    def begin(self) -> None:
        """Nothing: the queue is checked with the first holder."""

    def why_no_holder(self) -> str:
        """Why the queue would not end holders; LSF is asked every ten minutes."""
        now_s = self.clock.elapsed_s()
        if now_s >= self.queue_checked_until_s:
            self.problems = queue_problems(self.settings, self.env)
            self.queue_checked_until_s = now_s + _CHECK_QUEUE_S
        return "; ".join(self.problems)

    def submit(self, request: NodeRequest, beside: tuple[str, ...] = ()) -> str:
        """Run bsub once."""
        chosen = self.settings
        programs = (
            lsf_payload.__file__,
            lsf_starter.__file__,
            self.files.root,
            f"{self.lease_s:g}",
        )
        words = [
            str(word)
            for word in ("/bin/bash", self.script, chosen.python, *programs, *chosen.worker_prefix)
        ]
        # LSF passes these words to a shell.
        for word in words:
            if not _PLAIN.fullmatch(word):
                raise UserError(f"holders cannot be submitted: a shell would interpret {word!r}")
        argv = jobs.submit_argv(
            chosen, request, self.description, words, self.files.log(request.node, "%J")
        )
        return self._ask(argv, jobs.parse_submitted)

    def listed(self) -> Mapping[str, LsfJob]:
        wall_s = self.clock.now_s()
        return self._ask(
            jobs.list_argv(self.user), lambda text: jobs.parse_list(text, self.description, wall_s)
        )

    def unknown(self, ids: list[str]) -> frozenset[str]:
        """One bjobs; it names every job that it does not find."""
        argv = jobs.known_argv(ids)
        output = command.outcome(argv, timeout_s=self.settings.timeout_s, env=self.env)
        if answer_of(output) is None:
            raise command.failure(argv, output)
        named = (command.parsed(argv, text, unknown_jobs) for text in (output.out, output.err))
        return frozenset(ids).intersection(frozenset().union(*named))

    def end(self, ids: list[str]) -> None:
        """Run bkill once for all."""
        with suppress(CommandError):
            self._ask(jobs.cancel_argv(ids), str)

    def end_workers(self, names: list[str]) -> None:
        """Leave a SIGKILL in the folder of each order, for the starter to send."""
        for name in names:
            for order in (self.files.root / name / "work").glob("*"):
                with suppress(OSError):
                    lsf_starter.write(str(order / "signal"), "9")

    def _ask(self, argv: list[str], parse: Callable[[str], Parsed]) -> Parsed:
        return ask(argv, parse, self.settings.timeout_s, self.env)
