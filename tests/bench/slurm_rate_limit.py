"""A pilot of an ordinary user whose calls slurmctld limits: ``python tests/bench/slurm_rate_limit.py sid 30`` (minutes; root).

6 nodes, 2 trainers, 40 calls at once and then 4 a minute. Prints each minute how many nodes are held, how many calls were made
and refused, and the trainers' steps; at the end, the events that tell of failed looks and released nodes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from slurm_lab import Lab, Settings
from slurm_user import NAME, LabUser, lab_user
from slurm_versions import VERSIONS

LIMIT = "rl_enable,rl_bucket_size=40,rl_refill_period=60,rl_refill_rate=4"
STEPPER = Path(__file__).resolve().parents[1] / "live" / "stepper.py"
CONFIG = '[decisions]\nsolver = "exact"\n[nodes]\nholder = "slurm"\n[slurm]\npartition = "scavenge"\n'


PYTHON = ["env", f"PYTHONPATH={':'.join(path for path in sys.path if path)}", "/usr/bin/python3"]
"""Which every user may run; this Python may lie in a home directory."""


def told(user: LabUser, work: Path) -> str:
    """Holders, calls, refusals and steps so far."""
    by_user = user.lab.run("sdiag").partition("by user")[2]
    calls = re.search(rf"{NAME}\s+\(\s*\d+\) count:(\d+)", by_user)
    log = (user.lab.root / "log" / "slurmctld.log").read_text()
    held = user.lab.run("squeue", "-h", "-t", "R", "-n", "bftrainer-holder", "-o", "%N").split()
    steps = [len(path.read_text().splitlines()) for path in sorted(work.glob("*.steps"))]
    return f"{len(held)} nodes, {calls[1] if calls else 0} calls, {log.count('RPC rate limit exceeded')} refused, steps {steps}"


def measure(user: LabUser, minutes: float) -> None:
    state, work = user.folder("state"), user.folder("work")
    user.run("sh", "-c", f"printf %s '{CONFIG}' > {state}/bftrainer.toml; chmod 600 {state}/bftrainer.toml")

    def bftrainer(command: str, *words: str) -> str:
        argv = [*PYTHON, "-m", "bftrainer", command, "--state", str(state), *words]
        done = user.run(*argv, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for name in ("a", "b"):
        options = [f"--name={name}", "--max-nodes=3", "--samples-per-s=10", f"--cwd={work}"]
        options += ["--set", "scale_up_s = 2", "--set", "scale_down_s = 1"]
        program = [*PYTHON, str(STEPPER), f"{name}.json", f"{name}.steps", "1000000", "0.5"]
        bftrainer("submit", *options, "--", *program)
    pilot = user.spawn(*PYTHON, "-m", "bftrainer", "pilot", "--state", str(state), out=user.lab.root / "log" / "pilot")
    began_s = time.monotonic()
    while (passed_s := time.monotonic() - began_s) < minutes * 60 and pilot.poll() is None:
        print(f"{passed_s:.0f} s: {told(user, work)}", flush=True)
        time.sleep(min(60.0, minutes * 10))
    print(f"{(time.monotonic() - began_s) / 60:.1f} min: {told(user, work)}")
    user.run("kill", f"-{signal.SIGTERM.value}", str(pilot.pid))
    print(f"pilot: {pilot.wait(180)}")
    is_of_interest: Callable[[str], object] = re.compile(r" (node|poll|pilot|scheduler|refused)\b").search
    print("\n".join(line for line in bftrainer("events").splitlines() if is_of_interest(line)))


def main(version: str, minutes: float) -> None:
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-slurm."))
    settings = replace(Settings(), nodes=6)
    lab = Lab(folder, replace(settings, controller=f"{settings.controller},{LIMIT}"), VERSIONS[version])
    try:
        lab.start()
        with lab_user(lab) as user:
            measure(user, minutes)
    finally:
        lab.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", default="installed", choices=VERSIONS, metavar="VERSION")
    parser.add_argument("minutes", type=float, nargs="?", default=10.0, metavar="MINUTES")
    options = parser.parse_args()
    main(options.version, options.minutes)
