"""Where the idle GPU-hours of a log are: on idle nodes, on partly used nodes, and on these without
cores beside them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass

from bftrainer_replay.analysis.window_fragments import fragments_of, pool_sizes_of
from bftrainer_replay.logs.gpus import counted
from bftrainer_replay.logs.model import LogWindow

SHORT_S = 600.0


@dataclass(frozen=True, slots=True)
class GpuHours:
    """The idle GPU-hours of a window. ``whole_h`` are those on idle nodes, ``parts_h`` those on
    partly used nodes, by the number of GPUs that were idle on the node at once. ``stranded_h`` are
    those without cores left beside them (None: the log does not tell the cores of its jobs).

    ``span_h`` is the length of the window without gaps and outages; ``short_share`` is the share of
    the idle GPU-hours in periods under 10 minutes.
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
        """Return (place, GPU-hours) for each place where GPUs are idle, as rows of a table.

        GPUs on partly used nodes are also listed by how many were idle on the node (these names are
        indented), and those without cores, which cannot be held, at the end.
        """
        rows = [("on idle nodes", self.whole_h), ("on partly used nodes", self.part_h)]
        rows += [(f"  {size} idle on the node", hours) for size, hours in self.parts_h.items()]
        if self.stranded_h is not None:
            rows.append(("on partly used nodes, without cores", self.stranded_h))
        return rows

    def sentence(self) -> str:
        """Return sentences on what share of the GPU-hours is idle, and where."""
        if not self.idle_h:
            return "No GPU is ever idle."
        places = [
            f"{hours / self.idle_h:.1%} {place}"
            for place, hours in self.rows()
            # Indented places are parts of the one above them.
            if not place.startswith(" ")
        ]
        large_h = sum(hours for size, hours in self.parts_h.items() if size >= 4)
        large_share = large_h / (self.part_h or 1.0)
        return (
            f"{self.idle_h / (self.gpus * self.span_h):.1%} of the GPU-hours are idle; of "
            f"these, {', '.join(places)}. "
            f"{large_share:.0%} of the GPU-hours on partly used nodes are in parts of 4 GPUs or "
            f"more. {self.short_share:.1%} of the "
            "idle GPU-hours are in spells under 10 minutes."
        )

    def as_dict(self) -> dict[str, object]:
        """Return the figures as a JSON object."""
        return {**asdict(self), "idle_h": self.idle_h, "part_h": self.part_h}


def gpu_hours(window: LogWindow) -> GpuHours:
    """Return where the idle GPU-hours of a window are: on idle nodes, on parts of nodes, without
    cores.

    The window's unit must be a GPU (``window.gpus`` is set).
    """
    assert window.gpus is not None, "in nodes"
    per_node, by_node = window.gpus.per_node, window.gpus.by_node
    # The window may be of slots that a pilot holds: then ``idle`` is that of the idle GPUs.
    idle = window.gpus.idle or window
    nodes = fragments_of(by_node)
    idle_node_s = zip(nodes.first_nodes, nodes.node_s.tolist(), strict=True)
    whole_h = sum(per_node.get(node, 0) * node_s for node, node_s in idle_node_s) / 3600
    # A node without jobs has all its cores: GPUs without cores are on partly used nodes.
    stranded_h = None
    if window.gpus.every is not None:
        # ``every`` has all idle GPUs, ``idle`` those with cores beside them.
        every_h = pool_sizes_of(window.gpus.every).node_hours()
        stranded_h = every_h - pool_sizes_of(idle).node_hours()
    fragments = fragments_of(idle)
    short_s = float(fragments.node_s[fragments.length_s < SHORT_S].sum())
    return GpuHours(
        gpus=sum(per_node.values()),
        nodes=len(per_node),
        span_h=window.service_s / 3600,
        whole_h=whole_h,
        parts_h=_parts_h(idle, by_node),
        stranded_h=stranded_h,
        short_share=short_s / (float(fragments.node_s.sum()) or 1.0),
    )


def _parts_h(idle: LogWindow, by_node: LogWindow) -> dict[int, float]:
    """Return the idle GPU-hours on partly used nodes, by how many GPUs of the node were idle at
    once.

    ``idle`` is the window of idle GPUs, ``by_node`` that of nodes of which all GPUs are idle.
    """
    idle_gpus = counted(idle.initial)  # GPUs of each node
    idle_nodes = set(by_node.initial)
    counted_until_s = dict.fromkeys(idle_gpus, idle.start_s)
    hours: defaultdict[int, float] = defaultdict(float)

    def count_until(node: str, at_s: float) -> None:
        """Add the hours of the node's idle GPUs since its last change, if it was partly used."""
        if idle_gpus[node] and node not in idle_nodes:
            hours[idle_gpus[node]] += idle_gpus[node] * (at_s - counted_until_s[node]) / 3600
        counted_until_s[node] = at_s

    # (time, whether nodes change, change): at equal times, changes of GPUs come first.
    changes = [(event.at_s, False, event.change) for event in idle.events]
    changes += [(event.at_s, True, event.change) for event in by_node.events]
    for at_s, is_of_nodes, change in sorted(changes, key=lambda entry: entry[:2]):
        if is_of_nodes:
            for node in change.joined | change.left:
                count_until(node, at_s)
            idle_nodes = (idle_nodes - change.left) | change.joined
            continue
        arrivals, departures = counted(change.joined), counted(change.left)
        for node in {*arrivals, *departures}:
            count_until(node, at_s)
        idle_gpus.update(arrivals)
        idle_gpus.subtract(departures)
    for node in idle_gpus:
        count_until(node, idle.end_s)
    return {size: part_h for size, part_h in sorted(hours.items()) if part_h}
