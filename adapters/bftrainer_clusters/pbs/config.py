"""The table ``[pbs]`` of the pilot's configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from bftrainer.config.trainer_file import Positive
from bftrainer.errors import InvalidValueError
from bftrainer_clusters.holding import holder_jobs
from bftrainer_clusters.holding.holder_jobs import HolderSettings

RELOADED = holder_jobs.RELOADED | {"account", "project"}
"""Keys that a running pilot applies on SIGHUP; its holders depend on the others."""

_OUR_OPTIONS = ("-J", "-N", "-q", "-v")
_MARKS = "its name, queue and label, in a job that is no array"
"""qsub takes the last one of options that it gets twice."""


class PbsSettings(HolderSettings):
    """How nodes are seen and held on a PBS cluster."""

    queue: str
    """The queue of the holders. Its jobs must be deleted when a main job needs their nodes
    (preempt_order = D), not suspended.
    """
    main_queues: tuple[str, ...] = ()
    """The queues whose jobs may need held nodes; empty: all other execution queues that are
    enabled. PBS does not show which queue uses which nodes.
    """
    account: str = ""
    """Account that holders are charged to (qsub -A)."""
    project: str = ""
    """Project of the holders (qsub -P)."""
    node_resource: str = "host"
    """The resource by which a holder requests its node: host, or vnode where the site wants that.
    """
    gpu_resource: str = "ngpus"
    """The resource that counts the GPUs of a node."""
    chunk: str = ""
    """Further resources in a holder's request for its node, such as "mem=200gb"."""
    reservations: bool = True
    """Read reservations (pbs_rstat)."""
    nodes_per_holder: Annotated[int, Field(ge=1, le=64)] = 1
    """Maximum number of nodes that share a holder job. Fewer jobs, where the site limits them; PBS
    preempts all nodes of a job together.
    """
    start_within_s: Positive = 15.0
    """A holder that has not started within this time after qsub is deleted."""
    timeout_s: Positive = 15.0
    """Timeout of each command; at most a quarter of `times.lease_s`. A stopped server never
    answers.
    """

    @model_validator(mode="after")
    def _check(self) -> PbsSettings:
        if not self.queue:
            raise InvalidValueError(
                "queue must not be empty: holders need a queue whose jobs main jobs preempt"
            )
        if self.queue in self.main_queues:
            raise InvalidValueError(f"main_queues has {self.queue!r}, the queue of the holders")
        for option in self.options:
            if option.startswith(_OUR_OPTIONS):
                raise InvalidValueError(
                    f"options has {option!r}, which would replace what marks a holder ({_MARKS}); "
                    "remove it"
                )
        if self.longest_s < 60:
            raise InvalidValueError("expected longest_s at least 60")
        return self
