#!/usr/bin/env python3
"""From pip install to the first step of a training, on seven kinds of real Slurms.

    python tests/slurm/first_step.py
    python tests/slurm/first_step.py --slurm sid

Root runs it; all commands are an ordinary user's, without a terminal and without a file that is
edited. The wheel of this checkout is installed into a fresh environment, with its dependencies from
the package index. Then, on each cluster, two lines:

    bftrainer init --holder slurm --chains-allowed && bftrainer pilot &
    bftrainer submit --max-nodes 3 ... -- python stepper.py ...

A row for each kind: what init has decided, and the seconds from the first command to the first step.
A site where nodes cannot be held is right if init or the pilot refuses it, with the reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from site_configurations import Configuration, ConfiguredLab
from support.never_preempts import PLAIN
from support.slurm_lab import Settings
from support.slurm_user import LabUser, lab_user
from support.slurm_versions import VERSIONS, SlurmVersion

ROOT = Path(__file__).parents[2]
NODES = 3
LIMIT_S = 60.0
KINDS = {
    "no preemption, two tiers": ("none", "OFF", "0", 0, "EXCLUSIVE"),
    "CANCEL, as recommended": ("partition_prio", "CANCEL", "0", 30, "EXCLUSIVE"),
    "exempt for 10 min": ("partition_prio", "CANCEL", "00:10:00", 30, "EXCLUSIVE"),
    "REQUEUE": ("partition_prio", "REQUEUE", "0", 0, "EXCLUSIVE"),
    "SUSPEND,GANG": ("partition_prio", "SUSPEND,GANG", "0", 0, "FORCE:1"),
    "shared nodes, FORCE:2": ("none", "OFF", "0", 0, "FORCE:2"),
    "GraceTime 600": ("partition_prio", "CANCEL", "0", 600, "EXCLUSIVE"),
}


def configuration(kind: str) -> Configuration:
    preempt, mode, exempt, grace_s, shares = KINDS[kind]
    return Configuration(preempt, mode, exempt, grace_s, "above", "", shares, "")


def installed(folder: Path) -> tuple[Path, float]:
    """Install the wheel of this checkout; return the environment's bin and how long pip took."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    subprocess.run(["/usr/bin/python3", "-m", "venv", folder / "env"], check=True)
    began_s = time.monotonic()
    pip = folder / "env" / "bin" / "pip"
    subprocess.run([pip, "install", "-q", wheel], check=True)
    return folder / "env" / "bin", time.monotonic() - began_s


def first_step(user: LabUser, programs: Path) -> tuple[str, float | None]:
    """Type the two lines; return what was decided, and the seconds until the first step (None: it
    was refused).
    """
    user = replace(user, variables={"PATH": f"{programs}:{user.lab.env['PATH']}"})
    record = user.home / "steps"
    began_s = time.monotonic()
    done = user.run("bftrainer", "init", "--holder", "slurm", "--chains-allowed", check=False)
    if done.returncode:
        return (done.stderr or done.stdout).strip().splitlines()[-1], None
    decided = _decided(user)
    pilot = user.spawn("bftrainer", "pilot", out=user.lab.root / "pilot.out")
    try:
        program = ("python", str(user.home / "stepper.py"), str(user.home / "checkpoint"))
        words = ("--max-nodes", str(NODES), "--samples-per-s", "10", "--name", "first")
        argv = ("bftrainer", "submit", *words, "--cwd", str(user.home), "--")
        user.run(*argv, *program, str(record), "100000", "0.1")
        while not record.exists():
            if time.monotonic() - began_s > 3 * LIMIT_S:
                events = user.run("bftrainer", "events", "-n", "6", check=False).stdout
                return f"{decided}; no step: {events}", None
            time.sleep(0.1)
        return decided, time.monotonic() - began_s
    finally:
        os.killpg(pilot.pid, signal.SIGTERM)
        try:
            pilot.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(pilot.pid, signal.SIGKILL)


def _decided(user: LabUser) -> str:
    """Return the keys that init has set."""
    text = user.run("cat", str(user.home / ".bftrainer" / "bftrainer.toml")).stdout
    keys = re.findall(r"^(give_way|partition|longest_s) = (\S+)", text, re.MULTILINE)
    return ", ".join(f"{key} {value}" for key, value in keys)


def run(version: SlurmVersion, kind: str, programs: Path) -> str:
    """Try one kind of cluster; return the row of the table."""
    chosen = configuration(kind)
    settings = Settings(NODES, preempt=f"preempt/{chosen.preempt}", scheduler=PLAIN)
    with tempfile.TemporaryDirectory(prefix="bftrainer-lab-") as folder:
        lab = ConfiguredLab(Path(folder), settings, version, chosen=chosen)
        Path(folder).chmod(0o711)
        try:
            lab.start()
            with lab_user(lab) as user:
                script = user.home / "stepper.py"
                shutil.copy(ROOT / "tests" / "live" / "stepper.py", script)
                script.chmod(0o644)
                decided, seconds = first_step(user, programs)
        finally:
            lab.stop()
    shown = "refused" if seconds is None else f"{seconds:.1f}"
    return f"| {kind} | {decided} | {shown} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slurm", default="installed", choices=[*VERSIONS])
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=[*KINDS])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bftrainer-wheel-") as folder:
        Path(folder).chmod(0o755)
        programs, seconds = installed(Path(folder))
        print(f"pip install: {seconds:.1f} s")
        print("| Slurm | init has decided | first step, s |\n|---|---|---|", flush=True)
        for kind in options.kinds:
            print(run(VERSIONS[options.slurm], kind, programs), flush=True)


if __name__ == "__main__":
    main()
