"""``make faults``: random faults on a pilot over a cluster in memory, in nights of simulated time.

    python tests/support/random_faults.py [--faults 10000] [--seed 0]

Each night has its own pilot, cluster and users. The table shows how often each kind of fault
struck. After each night no submission may be lost, nothing may be done twice, and the journal must
give the same decisions again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from bftrainer.cluster.model import Acquired, FragmentPhase, NodeRequest, Observation  # noqa: E402
from bftrainer.errors import CommandError, SchedulerError, StoreError, UnknownStateError  # noqa: E402
from bftrainer.pilot.persistence.registry import Registry, TrainerStatus  # noqa: E402
from bftrainer.pilot.persistence.spool import Request, RequestKind  # noqa: E402
from bftrainer.pilot.persistence.store import DB_NAME  # noqa: E402
from bftrainer.pilot.rerun import decide_again  # noqa: E402
from bftrainer.wires.reports import Ending  # noqa: E402
from support.fakes_live import FakeCluster, FakeLauncher  # noqa: E402
from support.live_house import house, spec  # noqa: E402

FAULTS_A_NIGHT = 200
EVERY_S = 8.0
"""Mean time between two faults. A trainer comes every 40 s."""
NODES = tuple(f"n{number}" for number in range(1, 9))
SAMPLES_PER_S = 10.0


class KilledError(BaseException):
    """The pilot is dead: nothing in it may catch this."""


class Broken:
    """What is to happen at the next calls: (calls until then, what). Every call and every write of
    the pilot passes here.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, Callable[[str], None]]] = []

    def passes(self, place: str) -> None:
        due = [happens for left, happens in self.calls if left <= 0]
        self.calls = [(left - 1, happens) for left, happens in self.calls if left > 0]
        for happens in due:
            happens(place)


@dataclass
class Cluster(FakeCluster):
    """A scheduler that can fail in more ways; the pilot may die before and after each order."""

    broken: Broken = field(default_factory=Broken)
    trouble: Exception | None = None
    takes_s: float = 0.0
    doubled: list[str] = field(default_factory=list)

    def observe(self) -> Observation:
        self.broken.passes("observe")
        self.clock.sleep(self.takes_s)
        if self.trouble is not None:
            raise self.trouble
        return super().observe()

    def acquire(self, claims: tuple[NodeRequest, ...]) -> Acquired:
        self.broken.passes("acquire: before")
        self.doubled += [
            f"{claim.node} is held twice" for claim in claims if claim.node in self.held()
        ]
        acquired = super().acquire(claims)
        self.broken.passes("acquire: after")
        return acquired

    def release(self, names: frozenset[str]) -> None:
        self.broken.passes("release: before")
        super().release(names)
        self.broken.passes("release: after")


@dataclass
class Launcher(FakeLauncher):
    """The pilot may die before and after each order. ``done`` are trainers whose work is over."""

    broken: Broken = field(default_factory=Broken)
    done: set[str] = field(default_factory=set)

    def start(self, *args: Any, **keys: Any) -> None:
        self.broken.passes("start: before")
        if args[0].name in self.done:
            self.overlaps.append(f"{args[0].name} is done, and starts again")
        super().start(*args, **keys)
        self.broken.passes("start: after")

    def order(self, *args: Any) -> None:
        self.broken.passes("order: before")
        super().order(*args)
        self.broken.passes("order: after")


@dataclass
class Night:
    """``wanted``: node-seconds of work of each trainer. ``killed``: drivers killed since its last
    progress.
    """

    path: Path
    rng: random.Random
    faults: int
    struck: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    decisions: int = 0
    simulated_s: float = 0.0
    pilots: int = 0
    held_node_s: float = 0.0
    second_s: float = 0.0
    wanted: dict[str, float] = field(default_factory=dict)
    canceled: set[str] = field(default_factory=set)
    killed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        tables = (
            {"solver": "exact"}
            if self.rng.random() < 0.5
            else {"solver": "exact", "max_parallel": 3}
        )
        self.home = house(self.path, decisions=tables)
        self.broken = Broken()
        self.cluster = self.home.cluster = Cluster(self.home.clock, broken=self.broken)
        self.launcher = self.home.launcher = Launcher(self.home.clock, broken=self.broken)
        self.home.at_step = self.broken.passes
        self.torn: bytes | None = None
        self.requests: list[Request] = []
        self.is_quiet = False

    # --- the world

    def second(self) -> None:
        """Trainers train, and jobs of the main queue come and go."""
        self.home.at(1.0, self.second)
        passed_s, self.second_s = (
            self.home.clock.elapsed_s() - self.second_s,
            self.home.clock.elapsed_s(),
        )
        held = [it for it in self.cluster.fragments.values() if it.phase is not FragmentPhase.GONE]
        self.held_node_s += len(held) * passed_s
        for name, driver in self.launcher.drivers.items():
            if not driver.view.alive or not driver.view.on:
                continue
            samples = (driver.view.samples or 0.0) + SAMPLES_PER_S * len(driver.view.on) * passed_s
            self.launcher.progress(name, samples)
            self.killed[name] = 0
            if samples >= SAMPLES_PER_S * self.wanted[name]:
                self.launcher.done.add(name)
                self.launcher.finish(name)
        if not self.is_quiet and self.rng.random() < 0.05:
            node = self.rng.choice(NODES)
            self.cluster.take(node) if node in self.cluster.idle else self.cluster.give(node)

    def user(self) -> None:
        """A trainer is submitted."""
        if self.is_quiet:
            return
        name = f"t{len(self.wanted)}"
        low = self.rng.randint(1, 2)
        self.wanted[name] = self.rng.uniform(10, 300)
        self.launcher.slow[name] = self.rng.uniform(0.2, 2.5)
        self.ask(
            Request(
                kind=RequestKind.SUBMIT,
                trainer=name,
                owner="me",
                spec=spec(name, min_nodes=low, max_nodes=low + self.rng.randint(0, 3)),
            )
        )
        self.home.at(self.rng.expovariate(1 / 40), self.user)

    def ask(self, request: Request) -> None:
        self.requests.append(request)
        self.home.spool.put(request)

    # --- the faults

    def pilot_is_killed(self) -> None:
        def dies(place: str) -> None:
            raise KilledError(place)

        self.broken.calls.append((self.rng.randint(0, 40), dies))

    def pilot_is_killed_in_a_write(self) -> None:
        """The database is left with the journal of a transaction that has not ended, cut off
        anywhere.
        """

        def dies(place: str) -> None:
            journal = self.path / f"{DB_NAME}-journal"
            if not place.endswith(": written") or not journal.exists():
                self.broken.calls.append((0, dies))
                return
            data = journal.read_bytes()
            self.torn = data[: self.rng.randint(0, len(data))]
            raise KilledError(place)

        self.broken.calls.append((self.rng.randint(0, 20), dies))

    def disk_is_full(self) -> None:
        def full(place: str) -> None:
            if place.endswith((": written", ": before")) and not place.startswith(
                ("acquire", "release", "start", "order")
            ):
                raise StoreError(f"made up, at {place}: database or disk is full")
            self.broken.calls.append((0, full))

        for _ in range(self.rng.randint(1, 3)):
            self.broken.calls.append((self.rng.randint(0, 20), full))

    def driver_is_killed(self) -> None:
        alive = [name for name, driver in self.launcher.drivers.items() if driver.view.alive]
        if alive:
            name = self.rng.choice(alive)
            self.killed[name] += 1
            self.launcher._end(name, Ending.KILLED)

    def node_is_lost(self) -> None:
        node = self.rng.choice(NODES)
        self.cluster.take(node)
        self.home.at(self.rng.uniform(1, 60), lambda: self.cluster.give(node))

    def holder_is_lost(self) -> None:
        for name in self.rng.sample(
            sorted(self.cluster.fragments), min(1, len(self.cluster.fragments))
        ):
            self.cluster._move(name, FragmentPhase.GONE, "preempted")

    def _scheduler(self, trouble: Exception) -> None:
        self.cluster.trouble = trouble
        self.home.at(
            self.rng.choice((1, 5, 15, 60)), lambda: setattr(self.cluster, "trouble", None)
        )

    def scheduler_is_silent(self) -> None:
        self._scheduler(CommandError(["scontrol"], "no answer within 10 s"))

    def scheduler_answers_garbage(self) -> None:
        self._scheduler(
            self.rng.choice(
                (UnknownStateError("node", "\x1b[2J"), SchedulerError("the answer is truncated"))
            )
        )

    def scheduler_is_slow(self) -> None:
        self.cluster.takes_s = self.rng.uniform(2, 10)
        self.home.at(self.rng.uniform(5, 30), lambda: setattr(self.cluster, "takes_s", 0.0))

    def clock_is_set(self) -> None:
        self.home.clock.set_by = self.rng.choice((0.0, self.rng.uniform(-3600, 3600)))

    def pilot_stands_still(self) -> None:
        self.home.clock.now += self.rng.choice((3, 30, 200))

    def driver_is_deaf(self) -> None:
        if self.wanted:
            name = self.rng.choice(list(self.wanted))
            self.launcher.behaviour[name] = "deaf"
            self.home.at(self.rng.uniform(5, 60), lambda: self.launcher.behaviour.pop(name, None))

    def _command(self, kind: RequestKind) -> None:
        if self.wanted:
            self.ask(Request(kind=kind, trainer=self.rng.choice(list(self.wanted)[-6:])))

    def user_cancels(self) -> None:
        self._command(RequestKind.CANCEL)
        if self.wanted:
            self.canceled.add(self.requests[-1].trainer)

    def user_pauses(self) -> None:
        self._command(RequestKind.PAUSE)

    def user_resumes(self) -> None:
        self._command(RequestKind.RESUME)

    def request_is_repeated(self) -> None:
        if self.requests:
            for _ in range(self.rng.randint(1, 3)):
                self.home.spool.put(self.rng.choice(self.requests[-10:]))

    def request_is_torn(self) -> None:
        text = (self.requests or [Request(kind=RequestKind.CANCEL, trainer="t0")])[
            -1
        ].model_dump_json()
        path = self.path / "spool" / f"{time.time_ns():020d}-torn.json"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(text[: self.rng.randrange(len(text))])

    def configuration_is_read_again(self) -> None:
        """In its next tick, if a pilot runs."""

        def reload() -> None:
            self.home.after_tick = lambda: None
            self.home.reload(decisions={"max_parallel": self.rng.randint(1, 6), "solver": "exact"})

        self.home.after_tick = reload

    def strike(self) -> None:
        if sum(self.struck.values()) >= self.faults:
            self.is_quiet = True
            return
        kind = self.rng.choice(KINDS)
        self.struck[kind] += 1
        getattr(self, kind)()
        self.home.at(self.rng.expovariate(1 / EVERY_S), self.strike)

    # --- the night

    def run(self) -> Night:
        """All faults, then quiet until every trainer is over, and the promises."""
        self.cluster.give(*NODES)
        for begin in (self.second, self.user, self.strike):
            self.home.at(1.0, begin)
        while not self.is_quiet:
            self.pilot(300.0)
        self.broken.calls.clear()
        self.cluster.trouble, self.cluster.takes_s = None, 0.0
        self.launcher.behaviour.clear()
        self.cluster.give(*NODES)
        for _ in range(40):
            if not (waiting := self.unfinished()):
                break
            for name in waiting:
                self.home.ask(RequestKind.RESUME, name)
            self.pilot(120.0)
        self.check()
        return self

    def pilot(self, seconds: float) -> None:
        """A pilot until it ends, or dies; the supervisor starts the next one some time later."""
        self.pilots += 1
        try:
            self.home.pilot(seconds)
        except (KilledError, StoreError) as error:
            if isinstance(error, StoreError) and "made up" not in str(error):
                self.wrong.append(str(error))
            if self.torn is not None:
                (self.path / f"{DB_NAME}-journal").write_bytes(self.torn)
                self.torn = None
        self.home.after_tick = lambda: None
        self.home.clock.sleep(self.rng.choice((0.5, 2.0, 20.0)))

    def unfinished(self) -> list[str]:
        with closing(self.home.store()) as store:
            known = {it.name: it.status for it in Registry(store).trainers()}
        return [name for name in self.wanted if name not in known or not known[name].is_final]

    def check(self) -> None:
        """What is promised."""
        self.simulated_s = self.home.clock.elapsed_s()
        self.doubled += [*self.launcher.overlaps, *self.cluster.doubled]
        self.wrong += [
            f"{name}: an orphan" for name, it in self.launcher.drivers.items() if it.view.alive
        ]
        self.wrong += [f"{received.name} is unread" for received in self.home.spool.pending()]
        with closing(self.home.store()) as store:
            registry = Registry(store)
            found = registry.trainers()
            for name in self.wanted:
                (status, samples), *more = [
                    (it.status, it.samples_done) for it in found if it.name == name
                ] or [(None, 0.0)]
                self.doubled += [f"{name} is registered {1 + len(more)} times"] * bool(more)
                is_done = (
                    status is TrainerStatus.DONE and samples == self.launcher.look(name).samples
                )
                is_canceled = status is TrainerStatus.CANCELED and name in self.canceled
                if not is_done and not is_canceled:
                    self.lost.append(f"{name}: {status}, {samples:g} samples")
                if (
                    status is not TrainerStatus.DONE
                    and name in self.launcher.done
                    and name not in self.canceled
                ):
                    self.lost.append(f"{name} is done, and counted as {status}")
            self.wrong += [
                f"{it.name} is held for good"
                for it in registry.fragments()
                if it.released_s is None
            ]
            used_s = sum(it.held_node_s for it in found)
            if used_s > self.held_node_s + 2.0 * self.cluster.number:
                self.doubled.append(
                    f"{used_s:.0f} node-seconds are booked, {self.held_node_s:.0f} were held"
                )
            for verdict in decide_again(store):
                self.decisions += 1
                self.wrong += [f"decision {verdict.number}: {verdict.differs}"] * bool(
                    verdict.differs
                )


KINDS = tuple(
    name
    for name in vars(Night)
    if name.startswith(
        (
            "pilot_",
            "disk_",
            "driver_",
            "node_",
            "holder_",
            "scheduler_",
            "clock_",
            "user_",
            "request_",
            "configuration_",
        )
    )
    and callable(getattr(Night, name))
)


def nights(faults: int, seed: int) -> list[Night]:
    """Nights with so many faults in all."""
    made = []
    for number, begun in enumerate(range(0, faults, FAULTS_A_NIGHT)):
        # In memory where there is such a place: every commit waits for the disk.
        with tempfile.TemporaryDirectory(
            dir="/dev/shm" if Path("/dev/shm").is_dir() else None
        ) as folder:
            rng = random.Random(f"{seed}:{number}")
            made.append(
                Night(Path(folder) / "state", rng, min(FAULTS_A_NIGHT, faults - begun)).run()
            )
            if problems := [*made[-1].lost, *made[-1].doubled, *made[-1].wrong]:
                print(f"night {number}: {'; '.join(problems[:5])}", flush=True)
    return made


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    made = nights(given.faults, given.seed)
    struck = sum((night.struck for night in made), Counter[str]())
    for kind, count in sorted(struck.items()):
        print(f"{kind.replace('_', ' '):<32} {count:>6,}")
    of_all = {
        what: sum(len(getattr(night, what)) for night in made)
        for what in ("lost", "doubled", "wrong")
    }
    totals = {
        what: sum(getattr(night, what) for night in made)
        for what in ("pilots", "decisions", "simulated_s")
    }
    trainers = sum(len(night.wanted) for night in made)
    print(
        f"{struck.total():,} faults of {len(struck)} kinds in "
        f"{totals['simulated_s'] / 3600:.1f} simulated hours, "
        f"{totals['pilots']:,} pilots, {trainers:,} trainers, {totals['decisions']:,} decisions: "
        f"{of_all['lost']} lost, {of_all['doubled']} doubled, {of_all['wrong']} otherwise wrong"
    )
    return 1 if any(of_all.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
