"""``trainer.json`` and ``driver.json``: written by the pilot before it starts a driver, and read by
the driver.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Optional

from bftrainer.scaling import Scaling


class StartedPer(str, Enum):
    """Whether the launcher ``restart`` starts the command once per worker, or once per trainer (as
    for MPI programs).
    """

    WORKER = "worker"
    TRAINER = "trainer"


@dataclass(frozen=True)
class TrainerMessage:
    """``trainer.json``: what was submitted, as far as the driver and the training script need
    it.
    """

    id: str
    command: tuple[str, ...]
    cwd: Path
    min_nodes: int
    max_nodes: int
    sizes: Optional[tuple[int, ...]] = None
    """Legal node counts, if not every count from ``min_nodes`` to ``max_nodes`` is legal."""
    environment: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    image: Optional[str] = None
    """``.sif``: Apptainer's; ``.sqsh``: pyxis'."""
    started_per: StartedPer = StartedPer.WORKER
    scaling: Optional[Scaling] = None
    global_batch: Optional[int] = None
    samples_total: Optional[float] = None
    stop_s: float = 30.0
    """Seconds from a stop request to SIGKILL."""
    first_step_s: Optional[float] = None
    """Seconds from the start of a worker to its first report; None: the site's limit, for scripts
    that report.
    """
    stop_signal: Optional[str] = None
    """``SIGUSR1`` or ``USR1``: asks the program for a checkpoint and exit (launcher
    ``restart``).
    """
    trackers: tuple[str, ...] = ()
    group: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The trainer's parameters, which the trackers record."""


@dataclass(frozen=True)
class DriverSettings:
    """``driver.json``: how to start and watch workers at this site. The pilot gives all that its
    configuration sets.
    """

    driver: str
    """The launcher's name."""
    interface: str
    allow_from: tuple[str, ...]
    """Networks from which the trainer's nodes connect."""
    poll_s: float
    """How often ``hosts`` and ``control`` are read."""
    hang_s: float
    """A worker counts as hung after this much silence of ``progress.jsonl``."""
    warm: bool
    """Start a joining node's workers before the node is announced."""
    log_bytes: int
    """The most bytes that one worker's log takes on disk."""
    allow_stock_horovodrun: bool
    first_step_s: float = 900.0
    """A worker of a script that reports counts as hung if no report has come so long after its
    start.
    """
    private_interface: bool = False
    """No other user can reach the interface: gloo's connections are not checked, and NCCL may
    connect several nodes.
    """
    notice_s: float = 0.0
    """Seconds that workers on a preempted node may take to save; 0: they are killed at once."""
    prefix: tuple[str, ...] = ()
    """Put before every worker's command; ``{fragment_id}``, ``{job_id}`` and ``{node}`` are filled
    in.
    """
    ends_by: int = int(signal.SIGKILL)
    """Signal at which the prefix's process ends, and its worker at once."""
    drop_environment: tuple[str, ...] = ("SLURM_", "SBATCH_", "SRUN_")
    keep_environment: tuple[str, ...] = ("SLURM_CONF",)
