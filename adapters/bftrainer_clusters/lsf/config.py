"""The table ``[lsf]`` of the pilot's configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from bftrainer.config.trainer_file import Count, Positive
from bftrainer.errors import InvalidValueError
from bftrainer_clusters.holding import holder_jobs
from bftrainer_clusters.holding.holder_jobs import HolderSettings

RELOADED = holder_jobs.RELOADED | {"project"}
"""Keys that a running pilot applies on SIGHUP; its holders depend on the others."""


class LsfSettings(HolderSettings):
    """How nodes are seen and held on an LSF cluster."""

    queue: str
    """The preemptable queue of the holders. It must end preempted jobs (TERMINATE_WHEN = PREEMPT),
    not suspend them.
    """
    app: str = ""
    """Application profile of the holders (bsub -app)."""
    project: str = ""
    """Project that holders are charged to (bsub -P)."""
    slots_per_node: Count
    """Slots of a whole node."""
    gpus_per_node: int = 0
    """GPUs of a node; bhosts does not show them."""
    gpu: str = ""
    """GPU request of holders (bsub -gpu), such as "num=6:mode=shared"; empty: none."""
    place: Literal["slots", "exclusive"] = "slots"
    """How a holder requests a whole node: -n SLOTS or -x."""
    worker_prefix: tuple[str, ...] = ()
    """Prefix that starts workers inside the holder, such as ["blaunch", "{node}"]."""
    hosts: tuple[str, ...] = ()
    """Host groups or hosts to observe; empty: all of the cluster."""
    select: str = ""
    """Resource requirement of the compute nodes for bhosts and bslots, such as "select[CN]"."""
    pending: Literal["bjobs", "none"] = "bjobs"
    """Source of pending jobs; windows always come from bslots."""
    reservations: bool = True
    """Read advance reservations (brsvs)."""
    start_within_s: Positive = 30.0
    """A holder that has not started within this time after bsub is killed; mbatchd dispatches every
    MBD_SLEEP_TIME (10 s).
    """
    ready_within_s: Positive = 60.0
    """A holder whose payload has not reported within this time after the job's start is killed."""
    timeout_s: Positive = 15.0
    """Timeout of each command; at most a quarter of `times.lease_s`."""
    back_off_s: Positive = 20.0
    """First back-off after bsub failed for a node; doubled by each further failure."""

    @model_validator(mode="after")
    def _check(self) -> LsfSettings:
        """Reject settings with which no holder could run."""
        if not self.queue:
            raise InvalidValueError(
                "queue must not be empty: holders need a queue that the main queues may preempt"
            )
        if self.start_within_s > 300 or self.longest_s < 60 or self.gpus_per_node < 0:
            raise InvalidValueError(
                "expected start_within_s at most 300, longest_s at least 60, gpus_per_node at "
                "least 0"
            )
        return self
