#!/usr/bin/env python3
"""Generated configurations of a real Slurm: on each one, a pilot of an ordinary user holds nothing,
or main jobs of every partition start in time on nodes that it holds.

    python tests/slurm/site_configurations.py --count 60 --seed 1
    python tests/slurm/site_configurations.py --minutes 20         as many as fit

Root runs it: the pilot is another user's, so that PrivateData hides jobs from it. A row for each
configuration: the mode of the pilot, the delays of main jobs of 1, 2 and all nodes by sbatch, srun
and salloc. A *violation* is a job that takes longer than --limit, or a node that is held in the mode
``site`` although a job of some partition waits for it.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.never_preempts import PLAIN, MainJobs, held, pilot_text
from support.slurm_lab import Lab, Settings, wait_until
from support.slurm_user import LabUser, lab_user, python_of_users
from support.slurm_versions import VERSIONS, SlurmVersion

NODES = 3
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
    """``mode``: site, yield, blind or refused. ``delays`` of jobs by partition."""

    mode: str = ""
    delays: list[float] = field(default_factory=list)
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


def examine(lab: ConfiguredLab, chosen: Configuration, limit_s: float, folder: Path) -> Outcome:
    """Let a pilot hold nodes, if it does, and submit main jobs."""
    outcome = Outcome()
    partition = chosen.holders
    text = pilot_text(yield_notice_s=0.5).replace(
        'partition = "main"', f'partition = "{partition}"'
    )
    with lab_user(lab) as account, pilot(user := _with_python(account), text) as state:
        wait_until(lambda: mode_of(user, state), "the pilot's mode", 40, 0.5)
        outcome.mode = mode_of(user, state)
        if outcome.mode == "refused":
            if held(lab):
                outcome.violations.append("refused, and holds nodes")
            return outcome
        jobs = MainJobs(lab, folder)
        kinds = [("sbatch", 1), ("srun", 2), ("salloc", NODES)]
        for partition in chosen.partitions:
            for by, nodes in kinds:
                wait_until(lambda: held(lab) == NODES, "all nodes to be held", 60, 0.3)
                time.sleep(random.uniform(0.5, 2.5))
                try:
                    delay_s = jobs.run(by, nodes, "-p", partition, seconds=limit_s * 3)
                except AssertionError:
                    outcome.violations.append(f"{by} {nodes} in {partition} does not start")
                    lab.run("scancel", "--user=root", "--state=PENDING")
                    continue
                outcome.delays.append(delay_s)
                if delay_s > limit_s:
                    outcome.violations.append(f"{by} {nodes} in {partition}: {delay_s:.1f} s")
    return outcome


def run(version: SlurmVersion, chosen: Configuration, limit_s: float) -> Outcome:
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
            return examine(lab, chosen, limit_s, marks)
        finally:
            lab.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slurm", default="installed", choices=[*VERSIONS])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="skip so many")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--limit", type=float, default=5.0, help="seconds")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began_s = time.monotonic()
    outcomes: list[Outcome] = []
    print(f"| {' | '.join(each.name for each in fields(Configuration))} | mode | delays s | |")
    print("|" + "---|" * (len(fields(Configuration)) + 3))
    for chosen in configurations(options.count, options.seed)[options.first :]:
        if time.monotonic() - began_s > 60 * options.minutes:
            break
        try:
            outcome = run(VERSIONS[options.slurm], chosen, options.limit)
        except AssertionError as error:
            outcome = Outcome("error", violations=[str(error).splitlines()[0][:100]])
        outcomes.append(outcome)
        delays = " ".join(f"{delay_s:.1f}" for delay_s in outcome.delays)
        words = str(chosen).replace(" ", " | ")
        print(
            f"| {words} | {outcome.mode} | {delays} | {'; '.join(outcome.violations)} |", flush=True
        )
    delays = [delay_s for outcome in outcomes for delay_s in outcome.delays]
    modes = [outcome.mode for outcome in outcomes]
    print({mode: modes.count(mode) for mode in sorted(set(modes))})
    if delays:
        print(
            f"{len(delays)} jobs: median {statistics.median(delays):.2f} s, max {max(delays):.2f} s"
        )
    print(
        f"{len(outcomes)} configurations, {sum(bool(o.violations) for o in outcomes)} with violations"
    )


if __name__ == "__main__":
    main()
