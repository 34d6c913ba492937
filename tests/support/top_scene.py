"""Scenes for ``bftrainer top``: snapshots of pilots over fakes, on the fakes' clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bftrainer.console.cli.top.reader import Reader, Snapshot
from bftrainer.pilot.persistence.registry import TrainerStatus
from bftrainer.pilot.persistence.store import Holder
from bftrainer.system.processes import ProcessId
from support.live_house import House, house, spec


@dataclass
class Played:
    """A reader of recorded snapshots; the last one repeats."""

    state: Path
    looks: list[Snapshot]

    def read_snapshot(self) -> Snapshot:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def now_s(self) -> float:
        return self.looks[0].at_s

    def close(self) -> None:
        pass


def train(h: House, rates: dict[str, float], every_s: float = 1.0) -> Callable[[], None]:
    """Running trainers make progress; ``rates`` are samples per second on one node."""
    done: dict[str, float] = {}
    last = [h.clock.now_s()]

    def go() -> None:
        passed_s = h.clock.now_s() - last[0]
        if passed_s < every_s:
            return
        last[0] = h.clock.now_s()
        for name, driver in h.launcher.drivers.items():
            if driver.view.alive and driver.view.on:
                done[name] = (
                    done.get(name, 0.0) + rates[name] * len(driver.view.on) ** 0.9 * passed_s
                )
                h.launcher.progress(name, done[name])

    return go


def snapshots(
    h: House, seconds: float, at: Iterable[float], also: Callable[[], None]
) -> list[Snapshot]:
    """Run a pilot and take snapshots of its directory at these seconds, with a fixed host and
    pid.
    """
    due, looks = sorted(at), []
    reader = Reader(h.path, h.clock.now_s)

    def tick() -> None:
        also()
        if due and h.clock.elapsed_s() >= due[0]:
            due.pop(0)
            looks.append(same_everywhere(reader.read_snapshot()))

    h.after_tick = tick
    h.pilot(seconds)
    reader.close()
    return looks


def same_everywhere(look: Snapshot) -> Snapshot:
    decisions = tuple(replace(d, text=re.sub(r"\d+ ms", "1 ms", d.text)) for d in look.decisions)
    if look.pilot is None:
        return replace(look, decisions=decisions)
    pilot = Holder("login1", ProcessId(4711, ""), "", look.pilot.heartbeat_s)
    return replace(look, decisions=decisions, pilot=pilot, is_alive=None)


WORK = {
    "resnet50": (8, 240.0, 4e6),
    "bert-base": (6, 60.0, 3e5),
    "unet3d": (4, 12.0, 2e4),
    "gpt2-small": (8, 30.0, 5e5),
    "vit-b16": (4, 150.0, 6e5),
    "dlrm": (2, 900.0, 9e6),
    "tacotron": (2, 45.0, None),
}


def a_pilot(path: Path) -> Played:
    """Seven trainers on up to 28 nodes for ten minutes: nodes join and leave; one trainer is
    paused, one fails, one waits.
    """
    h = house(
        path, nodes={"unused_after_s": 30.0}, decisions={"max_parallel": 6}, times={"poll_s": 10.0}
    )
    h.cluster.give(*(f"node{i:02d}" for i in range(1, 15)))
    h.submit(
        *(
            spec(name, most, samples_per_s=rate, **({"samples_total": total} if total else {}))
            for name, (most, rate, total) in WORK.items()
        )
    )
    from bftrainer.pilot.persistence.spool import RequestKind

    h.launcher.behaviour["dlrm"] = "fails"
    h.at(60, lambda: h.cluster.give(*(f"node{i:02d}" for i in range(15, 25))))
    h.at(170, lambda: [h.cluster.take(f"node{i:02d}") for i in range(3, 13)])
    h.at(260, lambda: h.ask(RequestKind.PAUSE, "unet3d"))
    h.at(300, lambda: h.cluster.give(*(f"node{i:02d}" for i in range(3, 10))))
    h.at(420, lambda: [h.cluster.take(f"node{i:02d}") for i in (20, 21, 22, 23)])
    h.at(500, lambda: h.cluster.give(*(f"node{i:02d}" for i in range(30, 44))))
    h.at(570, lambda: h.cluster.take("node17"))
    looks = snapshots(
        h, 603, range(5, 601, 5), train(h, {name: rate for name, (_, rate, _) in WORK.items()})
    )
    statuses = {t.name: t.status for t in looks[-1].trainers}
    assert TrainerStatus.RUNNING in statuses.values(), statuses
    return Played(h.path, looks)
