"""What ``bftrainer init`` reads from PBS: the queue of the holders, the queues of main jobs, and
who frees nodes. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bftrainer.cluster.model import NodeView
from bftrainer.cluster.site_advice import DecidedKey, SiteProposal, SiteWishes
from bftrainer.counted import counted
from bftrainer.errors import UndecidedError, UserError
from bftrainer_clusters.pbs.preempt import reasons_against
from bftrainer_clusters.pbs.queue import PbsQueue, PbsSchedulerFacts

_NAMES = ("preempt", "preemptable", "scavenger", "scavenge", "backfill", "idle")
"""Names that sites give to a queue for jobs on nodes that would be idle."""


def proposed(
    queues: Sequence[PbsQueue],
    schedulers: Sequence[PbsSchedulerFacts],
    nodes: Sequence[NodeView],
    wishes: SiteWishes,
) -> SiteProposal:
    """Return the keys of a pilot's configuration. Raises ``UndecidedError`` where the user has to
    name the queue, and ``UserError`` for a wish that PBS has nothing for.
    """
    if wishes.qos:
        raise UserError("--qos: not for PBS; remove the option")
    queue, why = _holder_queue(queues, wishes)
    keys = [DecidedKey("pbs", "queue", queue, why)]
    against = reasons_against(queues, schedulers, queue)
    remarks = tuple(f"no holder may run yet: {reason}" for reason in against) or (
        f"PBS deletes jobs of {queue} for main jobs",
    )
    if wishes.account:
        keys.append(DecidedKey("pbs", "account", wishes.account, "as --account says"))
    if wishes.longest_s is not None:
        keys.append(DecidedKey("pbs", "longest_s", wishes.longest_s, "as --longest says"))
    if wishes.nodes_per_holder is not None:
        several = wishes.nodes_per_holder
        keys.append(DecidedKey("pbs", "nodes_per_holder", several, "as --nodes-per-holder says"))
    if wishes.interface:
        keys.append(DecidedKey("workers", "interface", wishes.interface, "as --interface says"))
    keys += _slots(nodes, wishes)
    return SiteProposal(tuple(keys), remarks)


def _holder_queue(queues: Sequence[PbsQueue], wishes: SiteWishes) -> tuple[str, str]:
    names = [queue.name for queue in queues if queue.is_execution]
    if wishes.partition:
        if wishes.partition not in names:
            raise UserError(
                f"--partition {wishes.partition}: no execution queue of PBS; expected "
                f"{', '.join(sorted(names))}"
            )
        return wishes.partition, "as --partition says"
    likely = [name for name in names if name.lower() in _NAMES]
    if len(likely) != 1:
        raise UndecidedError(
            "--partition",
            "PBS does not show which queue is for jobs that are deleted when main jobs need their "
            "nodes",
            tuple(sorted(likely or names)),
        )
    return likely[0], "by its name, of a queue whose jobs main jobs preempt"


def _slots(nodes: Sequence[NodeView], wishes: SiteWishes) -> list[DecidedKey]:
    if wishes.slots is not None:
        return [DecidedKey("nodes", "slots", wishes.slots, "as --slots says")]
    counts = Counter(node.gpu_count for node in nodes if node.gpu_count)
    if not counts:
        return []
    gpus, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    why = f"one worker per GPU; {counted(count, 'node')} of {len(nodes)} have {gpus}"
    return [DecidedKey("nodes", "slots", gpus, why)]
