"""Where the idle GPU-hours of a log are: on idle nodes, on partly used nodes, and on these without
cores beside them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

from bftrainer_replay.analysis.window_fragments import fragments_of, pool_sizes_of
from bftrainer_replay.logs.gpus import counted
from bftrainer_replay.logs.model import LogWindow

SHORT_S = 600.0


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU-hours; ``stranded_h`` is None where the log does not tell the cores of its jobs.

    ``parts_h`` are those on partly used nodes by the size of the part, ``short_share`` is the share
    of all idle GPU-hours in spells under 10 minutes.
    """

    gpus: int
    nodes: int
    span_h: float
    whole_h: float
    parts_h: dict[int, float]
    stranded_h: float | None
    short_share: float

    @property
    def part_h(self) -> float:
        """The GPU-hours on partly used nodes."""
        return sum(self.parts_h.values())

    @property
    def idle_h(self) -> float:
        """All idle GPU-hours."""
        return self.whole_h + self.part_h + (self.stranded_h or 0.0)

    def rows(self) -> list[tuple[str, float]]:
        """Place and GPU-hours: the two places, the second by size, and what cannot be held."""
        rows = [("on idle nodes", self.whole_h), ("on partly used nodes", self.part_h)]
        rows += [(f"  {size} idle on the node", hours) for size, hours in self.parts_h.items()]
        if self.stranded_h is not None:
            rows.append(("on partly used nodes, without cores", self.stranded_h))
        return rows

    def sentence(self) -> str:
        """Say what share of the GPU-hours is idle, and where."""
        if not self.idle_h:
            return "No GPU is ever idle."
        places = [
            f"{hours / self.idle_h:.1%} {place}"
            for place, hours in self.rows()
            if not place.startswith(" ")
        ]
        large_h = sum(hours for size, hours in self.parts_h.items() if size >= 4)
        large = large_h / (self.part_h or 1.0)
        return (
            f"{self.idle_h / (self.gpus * self.span_h):.1%} of the GPU-hours are idle; of "
            f"these, {', '.join(places)}. "
            f"{large:.0%} of the GPU-hours on partly used nodes are in parts of 4 GPUs or "
            f"more. {self.short_share:.1%} of the "
            "idle GPU-hours are in spells under 10 minutes."
        )

    def as_dict(self) -> dict[str, object]:
        """The figures as a JSON object."""
        return {**asdict(self), "idle_h": self.idle_h, "part_h": self.part_h}


def gpu_hours(window: LogWindow) -> GpuHours:
    """Measure the idle GPU-hours of a window in GPUs: on whole nodes, on parts of nodes, and
    without cores.
    """
    assert window.gpus is not None, "in nodes"
    idle, by_node, every = window.gpus.idle or window, window.gpus.by_node, window.gpus.every
    per_node = window.gpus.per_node
    nodes = fragments_of(by_node)
    lengths = zip(nodes.nodes, nodes.length_s.tolist(), strict=True)
    whole_h = sum(per_node.get(node, 0) * length_s for node, length_s in lengths) / 3600
    # A node without jobs has all its cores: GPUs without cores are on partly used nodes.
    stranded_h = None
    if every is not None:
        stranded_h = pool_sizes_of(every).node_hours() - pool_sizes_of(idle).node_hours()
    lengths_s = fragments_of(idle).length_s
    short = float(lengths_s[lengths_s < SHORT_S].sum()) / (float(lengths_s.sum()) or 1.0)
    parts = _parts_h(idle, by_node)
    return GpuHours(
        sum(per_node.values()),
        len(per_node),
        window.service_s / 3600,
        whole_h,
        parts,
        stranded_h,
        short,
    )


def _parts_h(idle: LogWindow, by_node: LogWindow) -> dict[int, float]:
    """Return the idle GPU-hours on partly used nodes, by how many GPUs of the node were idle."""
    count, whole = counted(idle.initial), set(by_node.initial)
    since_s = dict.fromkeys(count, idle.start_s)
    hours: Counter[int] = Counter()

    def count_until(node: str, at_s: float) -> None:
        """Count the idle GPUs of a node since its last change."""
        if count[node] and node not in whole:
            hours[count[node]] += count[node] * (at_s - since_s[node]) / 3600  # type: ignore[assignment]
        since_s[node] = at_s

    changes = [(event.at_s, False, event.change) for event in idle.events]
    changes += [(event.at_s, True, event.change) for event in by_node.events]
    for at_s, of_nodes, change in sorted(changes, key=lambda entry: entry[:2]):
        if of_nodes:
            for node in change.joined | change.left:
                count_until(node, at_s)
            whole = (whole - change.left) | change.joined
            continue
        came, went = counted(change.joined), counted(change.left)
        for node in {*came, *went}:
            count_until(node, at_s)
        count.update(came)
        count.subtract(went)
    for node in count:
        count_until(node, idle.end_s)
    return {size: part_h for size, part_h in sorted(hours.items()) if part_h}
