"""The table ``[slurm]`` of the pilot's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from bftrainer.config.trainer_file import Count, Positive
from bftrainer.config.validation import ConfigTable
from bftrainer.errors import InvalidValueError

RELOADED = frozenset(
    ("account", "options", "start_within_s", "ready_within_s", "max_pending", "longest_s", "timeout_s", "python")
)
"""Keys that a running pilot takes over at a SIGHUP; the others are part of what its holders are known by."""


class SlurmSettings(ConfigTable):
    """How nodes are held on a Slurm cluster."""

    partition: str = ""
    """The scavenger partition of the holders; with QOS preemption it may stay empty."""
    qos: str = ""
    """The preemptible QOS of the holders; with partition preemption it may stay empty."""
    account: str = ""
    """Account that the holders are charged to."""
    gres: str = ""
    """What holders and workers ask for on every node, such as "gpu:4". Without it holders ask for all GPUs that a node has."""
    options: tuple[str, ...] = ()
    """Further options for sbatch, such as "--constraint=ib"."""
    start_within_s: Positive = 5.0
    """A holder that does not run so long after sbatch is cancelled."""
    ready_within_s: Positive = 30.0
    """A holder that runs for so long and whose payload has not reported is given up."""
    max_pending: Count = 16
    """Holders that may wait to start at once."""
    longest_s: Positive = 86_400.0
    """Time limit of a holder on a node for which nobody has plans; at most the partition's MaxTime."""
    assume_window_s: Positive | None = None
    """How long a node may be held where the site hides other users' jobs (PrivateData). Without it that is refused."""
    backend: Literal["commands", "pyslurm"] = "commands"
    """How Slurm is looked at."""
    format: Literal["text", "json"] = "text"
    """What the commands are asked to print; json needs Slurm 23.11."""
    timeout_s: Positive = 10.0
    """Time for each command."""
    back_off_s: Positive = 10.0
    """A node on which sbatch failed is left alone so long, then twice as long, up to ..."""
    back_off_most_s: Positive = 600.0
    """... this."""
    holder_script: Path | None = None
    """The site's own holder.slurm instead of the one that comes with bftrainer."""
    python: str = "python3"
    """The compute nodes' Python, 3.6 or newer, for the payload."""

    @model_validator(mode="after")
    def _check(self) -> SlurmSettings:
        if not self.partition and not self.qos:
            raise InvalidValueError(
                "holders need a partition or a qos that the main queue may preempt; set one of them"
            )
        if self.start_within_s > 60 or self.longest_s < 60:
            raise InvalidValueError("start_within_s is at most 60, longest_s at least 60")
        return self
