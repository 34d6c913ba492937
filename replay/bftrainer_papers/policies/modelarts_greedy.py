"""The greedy allocator of ModelArts (Hu et al. 2021, [ModelArts section 3, Fig. 4]): leave no node
idle.

Waiting trainers, in order of admission, are its job queue; training time is time with at least one
node. Every f = 5 min:

1. idle nodes and a queue: the head of the queue gets as many nodes as are legal; repeat;
2. idle nodes, no queue: the trainer with the shortest training time gets as many more as are legal;
   repeat;
3. no idle nodes and a queue: the trainer with the longest training time is halved, its nodes go to
   the head of the queue;
4. neither: no change.

Between these moments only case 1 applies: "simulation allocates maximum resources to queueing jobs"
[ModelArts 5.1]. Sizes are capped at 16 nodes. The paper states powers of two for the optimal
allocator only; here they are an option. Our reading: if one half is not enough for the head (its
minimum is above 1), further trainers are halved, or nothing changes; a node that the head cannot
use does not count as idle.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.sizes import largest_legal, largest_of, sizes_of
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class ModelArtsGreedy:
    """The greedy allocator of [ModelArts]. ``interval_s`` is the elastic training frequency f,
    ``cap`` the largest size of any trainer.
    """

    cap: int = 16
    interval_s: float = 300.0
    powers_of_two: bool = False
    name: str = "modelarts-greedy"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Serve the queue; at a scaling moment, also scale up or halve running trainers.

        Scaling moments are ``interval_s`` apart. The memory is the time of the next one, at which
        the policy asks to be called again.
        """
        next_s = state.memory if isinstance(state.memory, float) else state.at_s
        scaling = state.at_s >= next_s
        if scaling:
            next_s = next_moment(state.at_s, self.interval_s)
        shares = Shares(state, powers_of_two=self.powers_of_two, cap=self.cap)
        shares.serve_queue()
        if scaling and not shares.queue:
            shares.scale_up()
        elif scaling:
            shares.halve()
        return Decision(tuple(shares.counts), next_s if state.active else None), next_s


def next_moment(at_s: float, interval_s: float) -> float:
    """Return the next full interval of the world's clock, in seconds: 9:00, 9:05, 9:10 [ModelArts
    5.1].
    """
    return (at_s // interval_s + 1) * interval_s


class Shares:
    """The node counts of all trainers, which the three cases of the allocator change. Each starts
    at the largest legal size within the nodes that its trainer holds.
    """

    def __init__(self, state: State, *, powers_of_two: bool, cap: int) -> None:
        """Begin with the nodes that trainers hold; ``cap`` is the largest size of any."""
        self.state = state
        self.sizes = [sizes_of(admitted.trainer, powers_of_two, cap) for admitted in state.active]
        self.counts = [
            largest_of(sizes, largest_legal(admitted.trainer, len(admitted.nodes)))
            for sizes, admitted in zip(self.sizes, state.active, strict=True)
        ]
        self.idle = len(state.pool) - sum(self.counts)

    @property
    def queue(self) -> list[int]:
        """The waiting trainers whose smallest size fits the whole pool, as indices in order of
        admission.
        """
        within = len(self.state.pool)
        return [
            j
            for j, n in enumerate(self.counts)
            if n == 0 and self.sizes[j] and self.sizes[j][0] <= within
        ]

    def give(self, j: int) -> None:
        """Give trainer ``j`` as many idle nodes as are legal."""
        more = largest_of(self.sizes[j], self.counts[j] + self.idle) - self.counts[j]
        self.counts[j] += more
        self.idle -= more

    def serve_queue(self) -> None:
        """Give idle nodes to waiting trainers in order (case 1). A head that is too large for the
        idle nodes blocks the queue.
        """
        for j in self.queue:
            self.give(j)
            if self.counts[j] == 0:
                return

    def scale_up(self) -> None:
        """Give idle nodes to running trainers, those with the shortest run time first (case 2)."""
        running = [j for j, n in enumerate(self.counts) if n]
        for j in sorted(running, key=lambda j: (self.state.active[j].run_s, j)):
            self.give(j)

    def halve(self) -> None:
        """Halve running trainers, the longest-running first, until the head of the queue fits.

        This is case 3 (no idle nodes and a queue). If the head never fits, nothing is changed: the
        halved counts are a copy until then.
        """
        head, counts, idle = self.queue[0], list(self.counts), self.idle
        running = [j for j, n in enumerate(counts) if n]
        for j in sorted(running, key=lambda j: (-self.state.active[j].run_s, j)):
            half = largest_of(self.sizes[j], counts[j] // 2)
            if half:
                idle += counts[j] - half
                counts[j] = half
            if idle >= self.sizes[head][0]:
                self.counts, self.idle = counts, idle
                self.give(head)
                return


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    options = settings.option_values("modelarts-greedy", cap=16, interval_s=300.0, powers_of_two=0)
    return ModelArtsGreedy(
        int(options["cap"]), options["interval_s"], bool(options["powers_of_two"])
    )
