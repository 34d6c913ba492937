"""What the common holder (job_holder.py) asks of a scheduler: its part, its manners, its settings, its job script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bftrainer.domain.cluster import NodeRequest
from bftrainer.errors import UserError
from bftrainer.system.installed import Installed, installed_file
from bftrainer_adapters.holding.held import HolderTimeouts, ListedJob


@dataclass(frozen=True, slots=True)
class SchedulerTraits:
    """How a scheduler wants to be treated."""

    name: str
    """As it is called in reasons."""
    table: str
    """Its table of the configuration."""
    submit: str
    """The command that submits."""
    hurry_s: float
    """It is asked at most so often, however much is about to change."""
    failures_in_a_row: int
    """So many submissions that failed one after another end a round: then it is not the node."""


class HolderJobs(Protocol):
    """A scheduler's part: holder jobs submitted, listed and ended. All but ``end`` may raise CommandError or SchedulerError."""

    @property
    def manners(self) -> SchedulerTraits:
        """How this scheduler wants to be treated."""

    def begin(self) -> None:
        """Once, before the first list: what has to be known of the cluster."""

    def why_none(self) -> str:
        """Why no holder may be submitted at all; empty if one may."""

    def submit(self, claim: NodeRequest) -> str:
        """Submit a holder for a node and a time; its job id."""

    def listed(self) -> Mapping[str, ListedJob]:
        """This pilot's holders by job id, those that ended lately too."""

    def is_unknown(self, job: str) -> bool:
        """Whether the scheduler says of a job that there is none of this id. Silence is not that."""

    def end(self, ids: list[str]) -> None:
        """End jobs, at least one. Where nobody answers, nothing happens: the lease says it, too."""

    def end_workers(self, names: list[str]) -> None:
        """End whatever runs in these fragments but their payloads. Raises where that takes somebody who does not answer."""


class HolderSettings(HolderTimeouts, Protocol):
    """What of the settings counts here."""

    @property
    def max_pending(self) -> int:
        """Holders that may wait to start at once."""

    @property
    def longest_s(self) -> float:
        """Time limit of a holder on a node for which nobody has plans."""

    @property
    def back_off_s(self) -> float:
        """A node on which a holder failed is left alone so long, then twice as long, up to ..."""

    @property
    def back_off_most_s(self) -> float:
        """... this."""


def holder_script(chosen: Path | None, name: str) -> Path:
    """The job script: the site's own, or the one that comes with bftrainer. Raises ``UserError``."""
    if chosen is None:
        return installed_file(Installed.JOBSCRIPT, name)
    if not chosen.is_file():
        raise UserError(f"no holder script at {chosen}")
    return chosen.absolute()
