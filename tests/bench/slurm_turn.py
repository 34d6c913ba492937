"""How long a batch job waits for slurmctld's turn: ``python tests/bench/slurm_turn.py installed 20`` (jobs; root).

Jobs of one node by sbatch, one after the other, on an idle cluster of 8 nodes as recommended: seconds from before sbatch to the
first line of the script.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import VERSIONS


def start_s(lab: Lab, told: Path) -> float:
    """Seconds until one job's script writes the time to ``told``."""
    begun_s = time.time()
    job = lab.submit(
        f"date +%s.%N > {told}.part; mv {told}.part {told}; exec sleep 60", "-p", "scavenge", "-N1", "-t", "5"
    )
    wait_until(told.exists, "the job to start", 60, every_s=0.01)
    lab.run("scancel", job)
    lab.wait_idle()
    return float(told.read_text()) - begun_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", choices=VERSIONS)
    parser.add_argument("jobs", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the cluster must not stay
    with tempfile.TemporaryDirectory(prefix="turn.") as folder:
        Path(folder).chmod(0o755)
        lab = Lab(Path(folder), Settings(), VERSIONS[options.version])
        try:
            lab.start()
            found = []
            for number in range(options.jobs):
                time.sleep(random.uniform(0.3, 1.6))  # any phase of the turns
                found.append(start_s(lab, Path(folder) / "log" / f"told.{number}"))
        finally:
            lab.stop()
    print(f"{len(found)} jobs: {min(found):.2f} to {max(found):.2f} s, median {statistics.median(found):.2f} s")


if __name__ == "__main__":
    main()
