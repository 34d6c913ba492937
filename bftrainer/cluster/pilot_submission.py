"""What a site offers for ``bftrainer pilot --submit``: the job script of a pilot there, and its
submission. A site whose pilots can run as jobs has the methods of :class:`PilotSubmitter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from bftrainer.config.pilot import PilotConfig


@dataclass(frozen=True, slots=True)
class PilotJobWishes:
    """What the user has decided about the pilot's job; empty or None: the site's answers decide."""

    partition: str = ""
    qos: str = ""
    account: str = ""
    limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class PilotScript:
    """The job script of a pilot: its file name in the state directory, its text, and in a few words
    why each option has its value. ``is_own``: it is the user's file there, which stays as it is.
    """

    name: str
    text: str
    reasons: tuple[str, ...] = ()
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class SubmittedPilot:
    """A submitted job; ``job`` is what the batch system's ``job_is_gone`` takes. ``watch`` and
    ``stop`` are commands for the user, ``output`` is the file to which the scheduler writes the
    job's output.
    """

    job: str
    watch: str
    stop: str
    output: str


@runtime_checkable
class PilotSubmitter(Protocol):
    """A site that runs pilots as batch jobs."""

    def pilot_script(
        self, config: PilotConfig, where: str, state_dir: Path, wishes: PilotJobWishes
    ) -> PilotScript:
        """Return the job script of the pilot of a state directory; nothing is written.

        ``where`` is the configuration file. Raises :class:`~bftrainer.errors.UndecidedError` where
        the user has to decide, ``UserError`` for a wish that the site has nothing for,
        ``CommandError`` and ``SchedulerError`` where the scheduler gives no answer.
        """

    def submit_pilot(self, script: Path) -> SubmittedPilot:
        """Submit a job script from its own folder. Raises ``CommandError``, ``SchedulerError``."""
