#!/usr/bin/env python3
"""Generated configurations of a real Slurm: on each one, a pilot of an ordinary user holds nothing,
or main jobs of every partition start in time on nodes that it holds.

    python tests/slurm/site_configurations.py --count 60 --seed 1
    python tests/slurm/site_configurations.py --first 41           the last 19 of these
    python tests/slurm/site_configurations.py --minutes 20         as many as fit
    python tests/slurm/site_configurations.py --six --slurm sid    one of each kind
    python tests/slurm/site_configurations.py --six --jobs 50
    chrt -r 1 python tests/slurm/site_configurations.py --six --jobs 50

Root runs it: the pilot is another user's, so that PrivateData hides jobs from it. A row for each
configuration: the mode of the pilot, the delays of main jobs of 1, 2 and all nodes by sbatch, srun
and salloc, and those of three such jobs on the same cluster while it was empty. A *violation* is a
job that takes longer than a look and 2 s where the pilot yields, or than 5 s where the scheduler
preempts holders; or a refusal with nodes held. On a machine with other work, `chrt -r 1` lets Slurm
and the pilot run before it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import cycle, islice, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.never_preempts import PLAIN, MainJobs, held, pilot_text
from support.slurm_lab import Lab, Settings, wait_until
from support.slurm_user import LabUser, lab_user, python_of_users
from support.slurm_versions import VERSIONS, SlurmVersion

NODES = 3
SITE_LIMIT_S = 5.0
"""The longest delay of a main job where the scheduler preempts holders."""
MORE_THAN_A_LOOK_S = 2.0
"""The same where the pilot yields, beyond the time between two looks."""
JOBS = (("sbatch", 1), ("srun", 2), ("salloc", NODES), ("srun", 1), ("sbatch", NODES))
"""Main jobs: the command and the nodes."""
LONGER_THAN_A_LOOK_S = 1.0
"""How much longer main jobs last. The pilot takes one that it does not see running for canceled,
and then holds nothing for up to a minute.
"""
_TIERS = {"above": (10, 1, ""), "equal": (1, 1, ""), "below": (1, 10, ""), "third": (10, 1, "1")}


@dataclass(frozen=True)
class Configuration:
    """What differs between sites."""

    preempt: str
    mode: str
    exempt: str
    grace_s: int
    tiers: str
    holders: str
    shares: str
    private: str

    @property
    def is_possible(self) -> bool:
        """Whether slurmctld takes it, and it differs from the others."""
        if self.preempt == "none":
            return self.mode == "OFF" and self.exempt == "0" and self.grace_s == 0
        return self.mode != "OFF"

    def slurm_conf(self, text: str) -> str:
        """The recommended configuration, changed to this one."""
        main_tier, tier, third = _TIERS[self.tiers]
        lines = [line for line in text.splitlines() if not line.startswith("PartitionName=")]
        lines = [
            f"PreemptMode={self.mode}" if line.startswith("PreemptMode=") else line
            for line in lines
        ]
        own = "OFF" if self.preempt == "none" else self.mode.split(",", maxsplit=1)[0]
        grace = f"GraceTime={self.grace_s}" if self.preempt != "none" else ""
        shares = f"OverSubscribe={self.shares}"
        of_all = "Nodes=ALL DefaultTime=60"
        lines += [
            f"PartitionName=main {of_all} Default=YES PriorityTier={main_tier} PreemptMode=OFF {shares}",
            f"PartitionName=scavenge {of_all} PriorityTier={tier} PreemptMode={own} {grace} {shares}",
        ]
        if third:
            lines.append(
                f"PartitionName=debug {of_all} PriorityTier={third} PreemptMode=OFF {shares}"
            )
        if self.exempt != "0":
            lines.append(f"PreemptExemptTime={self.exempt}")
        return "\n".join(lines) + "\n"

    @property
    def partitions(self) -> tuple[str, ...]:
        """Those of main jobs."""
        return ("main", "debug") if self.tiers == "third" else ("main",)

    def __str__(self) -> str:
        return " ".join(str(getattr(self, each.name) or "-") for each in fields(self))


def configurations(count: int, seed: int) -> list[Configuration]:
    """Some of all that are possible, with as many of each kind of preemption."""
    every = [
        one
        for words in product(
            ("none", "partition_prio"),
            ("OFF", "CANCEL", "REQUEUE", "SUSPEND,GANG"),
            ("0", "00:10:00"),
            (0, 30, 600),
            tuple(_TIERS),
            ("scavenge", "main"),
            ("EXCLUSIVE", "NO", "FORCE:2"),
            ("", "jobs"),
        )
        if (one := Configuration(*words)).is_possible
    ]
    never = [one for one in every if one.preempt == "none"]
    others = [one for one in every if one.preempt != "none"]
    chosen = random.Random(seed)
    some = chosen.sample(never, min(count // 3, len(never)))
    some += chosen.sample(others, min(count - len(some), len(others)))
    chosen.shuffle(some)
    return some


SIX = (
    Configuration("none", "OFF", "0", 0, "above", "main", "EXCLUSIVE", ""),
    Configuration("none", "OFF", "0", 0, "equal", "main", "NO", "jobs"),
    Configuration("partition_prio", "CANCEL", "0", 30, "above", "scavenge", "EXCLUSIVE", ""),
    Configuration("partition_prio", "REQUEUE", "00:10:00", 600, "above", "scavenge", "NO", ""),
    Configuration("partition_prio", "SUSPEND,GANG", "0", 0, "above", "scavenge", "NO", ""),
    Configuration("partition_prio", "CANCEL", "0", 0, "third", "scavenge", "EXCLUSIVE", "jobs"),
)
"""One of each kind of site: without preemption, with a hidden queue, with preemption at once, after
a guaranteed time, by suspension, and from a third partition.
"""


@dataclass
class ConfiguredLab(Lab):
    """A cluster with such a configuration."""

    chosen: Configuration | None = None

    def _write_configuration(self) -> None:
        super()._write_configuration()
        assert self.chosen is not None
        self.conf.write_text(self.chosen.slurm_conf(self.conf.read_text()))


@dataclass
class Outcome:
    """``mode``: site, yield, blind or refused. ``delays`` of main jobs in seconds, and those on the
    empty cluster.
    """

    mode: str = ""
    delays: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


@contextmanager
def pilot(user: LabUser, text: str) -> Iterator[Path]:
    """A pilot of this user with a trainer that leaves at once; its state directory."""
    state = user.folder("state")
    user.run("sh", "-c", 'printf %s "$1" > "$2"', "sh", text, str(state / "bftrainer.toml"))
    argv = (python_of_users()[0], "-m", "bftrainer")
    process = user.spawn(*argv, "pilot", "--state", str(state), out=user.lab.root / "pilot.out")
    try:
        words = (
            "--name",
            "a",
            "--max-nodes",
            "64",
            "--samples-per-s",
            "10",
            "--cwd",
            str(user.home),
        )
        user.run(*argv, "submit", *words, "--state", str(state), "--", "sleep", "100000")
        yield state
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def events(user: LabUser, state: Path) -> list[dict[str, str]]:
    argv = (
        python_of_users()[0],
        "-m",
        "bftrainer",
        "events",
        "--state",
        str(state),
        "-n",
        "200",
        "--json",
    )
    done = user.run(*argv, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def mode_of(user: LabUser, state: Path) -> str:
    """The pilot's mode once it is known; empty before."""
    rows = events(user, state)
    for row in reversed(rows):
        if row["kind"] == "refused" and "no node is held" in row["text"]:
            return "refused"
        if row["kind"] == "give way":
            return row["text"].partition(":")[0]
    return "site" if held(user.lab) else ""


def _with_python(user: LabUser) -> LabUser:
    return replace(user, variables=python_of_users()[1])


def examine(
    lab: ConfiguredLab, chosen: Configuration, options: argparse.Namespace, folder: Path
) -> Outcome:
    """Let a pilot hold nodes, if it does, and submit main jobs in each partition."""
    outcome = Outcome()
    empty = MainJobs(lab, folder)
    for by, nodes in JOBS[:NODES]:
        time.sleep(random.uniform(0.5, 2.5))
        outcome.empty.append(empty.run(by, nodes))
        lab.wait_idle()
    text = pilot_text(yield_notice_s=0.5, yield_poll_s=options.look).replace(
        'partition = "main"', f'partition = "{chosen.holders}"'
    )
    with lab_user(lab) as account, pilot(user := _with_python(account), text) as state:
        wait_until(lambda: mode_of(user, state), "the pilot's mode", 40, 0.5)
        outcome.mode = mode_of(user, state)
        if outcome.mode == "refused":
            if held(lab):
                outcome.violations.append("refused, and holds nodes")
            return outcome
        jobs = MainJobs(lab, folder, length_s=options.look + LONGER_THAN_A_LOOK_S)
        is_site = outcome.mode == "site"
        limit_s = SITE_LIMIT_S if is_site else options.look + MORE_THAN_A_LOOK_S
        for partition in chosen.partitions:
            for by, nodes in islice(cycle(JOBS), options.jobs):
                wait_until(lambda: held(lab) == NODES, "all nodes to be held", 60, 0.3)
                time.sleep(random.uniform(0.5, 2.5))
                _start_one(jobs, by, nodes, partition, outcome, limit_s)
    return outcome


def _start_one(
    jobs: MainJobs, by: str, nodes: int, partition: str, outcome: Outcome, limit_s: float
) -> None:
    """Start a main job, and note its delay and whether that is a violation."""
    try:
        delay_s = jobs.run(by, nodes, "-p", partition, seconds=limit_s * 3)
    except AssertionError:
        outcome.violations.append(f"{by} {nodes} in {partition} does not start")
        jobs.lab.run("scancel", "--user=root", "--state=PENDING")
        return
    outcome.delays.append(delay_s)
    if delay_s > limit_s:
        outcome.violations.append(f"{by} {nodes} in {partition}: {delay_s:.1f} s")


def run(version: SlurmVersion, chosen: Configuration, options: argparse.Namespace) -> Outcome:
    settings = Settings(
        NODES,
        preempt=f"preempt/{chosen.preempt}",
        scheduler=PLAIN,
        private_data=chosen.private,
    )
    with tempfile.TemporaryDirectory(prefix="bftrainer-lab-") as folder:
        path = Path(folder)
        path.chmod(0o711)
        lab = ConfiguredLab(path, settings, version, chosen=chosen)
        marks = path / "marks"
        marks.mkdir()
        try:
            lab.start()
            return examine(lab, chosen, options, marks)
        finally:
            lab.stop()


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Lines with the number of configurations by mode, and the delays beside those on the empty
    clusters.
    """
    modes = Counter(outcome.mode for outcome in outcomes)
    for mode, count in sorted(modes.items()):
        delays = [s for outcome in outcomes if outcome.mode == mode for s in outcome.delays]
        yield f"{mode}: {count} configurations, {_spread(delays)}"
    yield f"empty clusters: {_spread([s for outcome in outcomes for s in outcome.empty])}"
    bad = sum(bool(outcome.violations) for outcome in outcomes)
    yield f"{len(outcomes)} configurations, {bad} with violations"


def _spread(delays: Sequence[float]) -> str:
    if not delays:
        return "no job"
    if len(delays) < 2:
        return f"1 job, {delays[0]:.2f} s"
    tenths = statistics.quantiles(delays, n=10)
    low_s, median_s, high_s = tenths[0], statistics.median(delays), tenths[-1]
    return (
        f"{len(delays)} jobs, median {median_s:.2f} s, 10 to 90 % {low_s:.2f} to {high_s:.2f} s, "
        f"max {max(delays):.2f} s"
    )


def _cell(delays: Sequence[float]) -> str:
    """All delays of a few jobs, the median and the maximum of many."""
    if len(delays) > 2 * len(JOBS):
        return _spread(delays)
    return " ".join(f"{delay_s:.1f}" for delay_s in delays)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slurm", default="installed", choices=[*VERSIONS])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="skip so many")
    parser.add_argument("--six", action="store_true", help="one configuration of each kind")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--look", type=float, default=1.0, help="nodes.yield_poll_s")
    parser.add_argument("--jobs", type=int, default=len(JOBS), help="main jobs in a partition")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began_s = time.monotonic()
    outcomes: list[Outcome] = []
    columns = [*(each.name for each in fields(Configuration)), "mode", "delays s", "empty s", ""]
    print(f"| {' | '.join(columns)} |")
    print("|" + "---|" * len(columns))
    every = SIX if options.six else configurations(options.count, options.seed)
    for chosen in every[options.first :]:
        if time.monotonic() - began_s > 60 * options.minutes:
            break
        try:
            outcome = run(VERSIONS[options.slurm], chosen, options)
        except AssertionError as error:
            outcome = Outcome("error", violations=[str(error).splitlines()[0][:100]])
        outcomes.append(outcome)
        cells = [outcome.mode, _cell(outcome.delays), _cell(outcome.empty)]
        cells.append("; ".join(outcome.violations))
        words = str(chosen).replace(" ", " | ")
        print(f"| {words} | {' | '.join(cells)} |", flush=True)
    print(*summary(outcomes), sep="\n")


if __name__ == "__main__":
    main()
