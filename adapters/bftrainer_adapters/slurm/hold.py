"""Holders on Slurm: the payload is a job step (payload.py), workers are others, and either is ended by scancel."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.domain.cluster import NodeRequest
from bftrainer.domain.fragments import id_of
from bftrainer.domain.ports import Clock
from bftrainer.errors import CommandError
from bftrainer.system import command
from bftrainer_adapters.holding.holder_files import HolderFiles
from bftrainer_adapters.holding.holder_jobs import HolderSettings, SchedulerTraits, holder_script
from bftrainer_adapters.holding.job_holder import JobHolder
from bftrainer_adapters.on_node import payload
from bftrainer_adapters.slurm import jobs
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.jobs import HolderJob
from bftrainer_adapters.slurm.observe import ENVIRONMENT
from bftrainer_adapters.slurm.peers import with_hosts
from bftrainer_adapters.slurm.text import parse_has_cgroups, parse_has_epilog

STEPS_END_S = 3.0
MANNERS = SchedulerTraits("Slurm", "slurm", "sbatch", hurry_s=1.0, failures_in_a_row=2)


class SlurmHolder(JobHolder):
    """Holds nodes for one pilot. ``pilot`` tells its holders from others'; ``env`` is added to every command's environment."""

    def __init__(
        self,
        settings: SlurmSettings,
        holders: Path,
        pilot: str,
        clock: Clock,
        lease_s: float = 60.0,
        poll_s: float = 10.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        files = HolderFiles(holders.absolute())
        self._slurm = _Slurm(settings, files, pilot, lease_s, env or {})
        super().__init__(self._slurm, settings, files, clock, poll_s)

    def reconfigure(self, settings: HolderSettings, poll_s: float) -> None:
        """For holders to come; those that are there keep their options."""
        super().reconfigure(settings, poll_s)
        if isinstance(settings, SlurmSettings):
            self._slurm.settings = settings

    def claim(self, hosts: tuple[str, ...]) -> None:
        """From now on holders say that these hosts are this pilot's."""
        self._slurm.hosts = hosts


@dataclass
class Listing:
    """Answers of squeue, one after the other: of 5,000 lines all but a few are those of the answer before."""

    said: str
    _known: dict[str, HolderJob | None] = field(default_factory=dict)  # by line; another pilot's: None

    def read(self, text: str) -> dict[str, HolderJob]:
        """The same as :func:`slurm_jobs.parse_list`, which reads only lines that are new."""
        lines, known = text.splitlines(keepends=True), self._known
        new = jobs.parse_list("".join([*lines[:1], *(line for line in lines[1:] if line not in known)]), self.said)
        self._known = {line: known[line] if line in known else new.get(line.partition("|")[0]) for line in lines[1:]}
        return {job.id: job for job in self._known.values() if job is not None}


@dataclass
class _Slurm:
    """The scheduler's part."""

    settings: SlurmSettings
    files: HolderFiles
    pilot: str
    lease_s: float
    env: Mapping[str, str]
    manners: SchedulerTraits = MANNERS
    script_first: bool = False
    hosts: tuple[str, ...] = ()
    user: str = field(default_factory=getpass.getuser)

    def __post_init__(self) -> None:
        self.comment = jobs.comment(self.pilot, self.user)
        self.listing = Listing(self.comment)
        self.script = holder_script(self.settings.holder_script, "holder.slurm")

    def begin(self) -> None:
        """The holder's script depends on it."""
        config = self._run(["scontrol", "show", "config"])
        # With cgroups the script's step would last 1 s longer than the script, for its srun.
        self.script_first = not parse_has_epilog(config) and not parse_has_cgroups(config)

    def why_none(self) -> str:
        """Slurm's preemption ends jobs where doctor has been content."""
        return ""

    def submit(self, claim: NodeRequest) -> str:
        """One sbatch (8 ms)."""
        way = "script first" if self.script_first else "payload first"
        words = (self.script, self.settings.python, payload.__file__, self.files.root, f"{self.lease_s:g}", way)
        said, log = with_hosts(self.comment, self.hosts), self.files.log(claim.node, "%j")
        argv = jobs.submit_argv(self.settings, claim, said, map(str, words), log)
        return jobs.parse_submitted(self._run(argv))

    def listed(self) -> Mapping[str, HolderJob]:
        """By squeue."""
        return self.listing.read(self._run(jobs.list_argv(self.user)))

    def is_unknown(self, job: str) -> bool:
        """By scontrol, which knows jobs that squeue does not list."""
        try:
            self._run(jobs.exists_argv(job))
        except CommandError as error:
            return jobs.is_unknown_job(error.problem)
        return False

    def end(self, ids: list[str]) -> None:
        """One scancel for all."""
        with suppress(CommandError):
            self._run(jobs.cancel_argv(ids))

    def end_workers(self, names: list[str]) -> None:
        """All steps but the payload's. Waits a while until they are over: before that a new step there finds no memory."""
        ids = [id_of(name) for name in names]
        steps = jobs.parse_worker_steps(self._run(jobs.steps_argv(ids)))
        if steps:
            self._run(jobs.kill_steps_argv(steps))
        until_s = time.monotonic() + STEPS_END_S
        while steps and time.monotonic() < until_s:
            time.sleep(0.1)
            steps = jobs.parse_worker_steps(self._run(jobs.steps_argv(ids)))

    def _run(self, argv: list[str]) -> str:
        return command.run(argv, timeout_s=self.settings.timeout_s, env={**self.env, **ENVIRONMENT})
