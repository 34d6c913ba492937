"""A trial of race.py: its work is time. Run as a plain job's step, or by the launcher ``restart``.

    race_trial.py FOLDER SAMPLES

It makes 10 n^0.947 samples per second on n nodes (ShuffleNet's speedup), checkpoints every 5 s and
when it is asked to stop. Its first rank writes ``begins`` (a line per start: where it resumes, and
what had been reached), ``at`` (the samples of the latest step), and ``done`` (when).
"""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from bftrainer.progress import Reporter

FOLDER, TOTAL = Path(sys.argv[1]), float(sys.argv[2])
RANK = int(os.environ.get("RANK") or os.environ["SLURM_PROCID"])
SIZE = int(os.environ.get("WORLD_SIZE") or os.environ["SLURM_NTASKS"])
STEP_S, CHECKPOINT_S = 0.2, 5.0
asked = [False]


def ask(number: int, frame: FrameType | None) -> None:
    asked[0] = True


def write(name: str, value: float) -> None:
    if RANK == 0:
        (FOLDER / f"{name}.new").write_text(f"{value}")
        (FOLDER / f"{name}.new").replace(FOLDER / name)


signal.signal(signal.SIGTERM, ask)
report, checkpoint = Reporter(), FOLDER / "checkpoint"
samples = float(checkpoint.read_text()) if checkpoint.exists() else 0.0
if RANK == 0:
    reached = float((FOLDER / "at").read_text()) if (FOLDER / "at").exists() else 0.0
    with (FOLDER / "begins").open("a") as out:
        out.write(f"{samples} {reached} {SIZE}\n")
step, saved_s = 0, time.monotonic()
while samples < TOTAL:
    time.sleep(STEP_S)
    step, samples = step + 1, samples + STEP_S * 10 * SIZE**0.947
    write("at", samples)
    if report.step(step=step, samples=int(samples), world_size=SIZE) or asked[0]:
        write("checkpoint", samples)
        report.checkpointed()
        report.leave()
    if time.monotonic() - saved_s >= CHECKPOINT_S:
        write("checkpoint", samples)
        saved_s = time.monotonic()
write("checkpoint", samples)
write("done", time.time())
report.done()
