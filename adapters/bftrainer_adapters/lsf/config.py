"""The table ``[lsf]`` of the pilot's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from bftrainer.config.trainer_file import Count, Positive
from bftrainer.config.validation import ConfigTable
from bftrainer.errors import InvalidValueError

RELOADED = frozenset(
    ("project", "options", "start_within_s", "ready_within_s", "max_pending", "longest_s", "timeout_s", "python")
)
"""Keys that a running pilot takes over at a SIGHUP; the others are part of what its nodes are known by."""


class LsfSettings(ConfigTable):
    """How nodes are seen and held on an LSF cluster."""

    queue: str
    """The preemptable queue of the holders. It must end preempted jobs (TERMINATE_WHEN = PREEMPT), not suspend them."""
    app: str = ""
    """Application profile of the holders (bsub -app)."""
    project: str = ""
    """Project that the holders are charged to (bsub -P)."""
    slots_per_node: Count
    """Slots of a whole node: 42 on Summit."""
    gpus_per_node: int = 0
    """GPUs of a node; bhosts does not tell."""
    gpu: str = ""
    """What holders ask for with bsub -gpu, such as "num=6:mode=shared"; empty: no such option."""
    place: Literal["slots", "exclusive", "nnodes"] = "slots"
    """How a holder asks for all of a node: -n SLOTS, -x, or -nnodes 1 (CSM)."""
    launch_node: bool = False
    """Whether jobs start on a launch node (CSM): the first host of LSB_DJOB_HOSTFILE is not a pool node then."""
    payload_prefix: tuple[str, ...] = ()
    """How the holder script starts the payload on the node, such as ["jsrun", "-n1", "-r1", "-c1"]; empty: it is there."""
    worker_prefix: tuple[str, ...] = ()
    """How workers start inside the holder, such as ["blaunch", "{node}"] or ["jsrun", "-n1", "-a1", "-cALL_CPUS"]."""
    hosts: tuple[str, ...] = ()
    """Host groups or hosts to look at; none: all of the cluster."""
    select: str = ""
    """Resource requirement of the compute nodes for bhosts and bslots, such as "select[CN]" on Summit."""
    options: tuple[str, ...] = ()
    """Further options for bsub."""
    format: Literal["json", "text"] = "json"
    """What bhosts is asked to print; json needs LSF 10.1.0.2."""
    pending: Literal["bjobs", "jobstat", "none"] = "bjobs"
    """Where the waiting jobs are read from; windows come from bslots in any case."""
    reservations: bool = True
    """Whether brsvs is asked for advance reservations."""
    start_within_s: Positive = 30.0
    """A holder that does not run so long after bsub is killed; mbatchd dispatches every MBD_SLEEP_TIME (10 s by default)."""
    ready_within_s: Positive = 60.0
    """A holder that runs for so long and whose payload has not reported is given up."""
    max_pending: Count = 16
    """Holders that may wait to start at once."""
    longest_s: Positive = 86_400.0
    """Run limit of a holder on a node for which nobody has plans; at most the queue's RUNLIMIT."""
    timeout_s: Positive = 20.0
    """Time for each command."""
    back_off_s: Positive = 20.0
    """A node on which bsub failed is left alone so long, then twice as long, up to ..."""
    back_off_most_s: Positive = 600.0
    """... this."""
    holder_script: Path | None = None
    """The site's own holder.lsf instead of the one that comes with bftrainer."""
    python: str = "python3"
    """The compute nodes' Python, 3.6 or newer, for the payload and the worker starter."""

    @model_validator(mode="after")
    def _check(self) -> LsfSettings:
        if not self.queue:
            raise InvalidValueError("holders need a queue that the main queues may preempt")
        if self.launch_node and not self.payload_prefix:
            raise InvalidValueError("with a launch node the payload needs a payload_prefix, such as jsrun")
        if self.launch_node and not self.worker_prefix:
            raise InvalidValueError("with a launch node workers need a worker_prefix, such as jsrun")
        if self.start_within_s > 300 or self.longest_s < 60 or self.gpus_per_node < 0:
            raise InvalidValueError("start_within_s is at most 300, longest_s at least 60, gpus_per_node at least 0")
        return self
