"""A scheduler in five verbs: the public names for an adapter that is written on
:class:`SimpleCluster` (docs/add-a-scheduler.md).

An adapter is a class with ``observe``, ``submit``, ``list``, ``cancel`` and ``signal``, and a table
of job states. All else is shared: which holders are submitted, how often the scheduler is asked,
leases, what runs on the nodes, and how workers start there.
"""

from bftrainer_clusters.holding.holder_jobs import HolderSettings as HolderSettings
from bftrainer_clusters.holding.holder_jobs import JobPhase as JobPhase
from bftrainer_clusters.simple.cluster import JobRecord as JobRecord
from bftrainer_clusters.simple.cluster import JobRequest as JobRequest
from bftrainer_clusters.simple.cluster import SimpleCluster as SimpleCluster
from bftrainer_clusters.simple.holder import SimpleHolder as SimpleHolder
from bftrainer_clusters.simple.site import SimpleSite as SimpleSite
