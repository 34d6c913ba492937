"""The last part of ``make demo``: a pilot on this host trains an example to its end, on the idle
nodes of a generated log.

``.venv/bin/python .ci/demo.py FOLDER``: the state directory is FOLDER/pilot, as ``bftrainer init``
has made it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import bftrainer

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "numpy_parallel.py"
COMMAND = (
    "python",
    EXAMPLE.name,
    "--steps",
    "400",
    "--pace-s",
    "0.05",
    "--checkpoint",
    "digits.npz",
)
"""20 s on any number of nodes: less than a minute with all that a pilot does before and after."""
MOST_S = 120.0
SPEEDUP = 60.0
"""Of the log: the nodes of an hour come and go in a minute."""


def main(folder: Path) -> int:
    """Returns 0 if the training is done in time."""
    state = folder / "pilot"
    for path in (EXAMPLE, EXAMPLE.with_suffix(".toml")):
        shutil.copy(path, folder)
    configuration = state / "bftrainer.toml"
    text = configuration.read_text(encoding="utf-8")
    configuration.write_text(
        text.replace("#speedup = 1.0", f"speedup = {SPEEDUP}"), encoding="utf-8"
    )
    began_s = time.monotonic()
    handle = bftrainer.submit(
        folder / EXAMPLE.with_suffix(".toml").name, state=state, command=COMMAND
    )
    command = [sys.executable, "-m", "bftrainer", "pilot", "--state", str(state)]
    pilot = subprocess.Popen(command, env={**os.environ, "PYTHONUNBUFFERED": "1"})  # noqa: S603  # our own program
    try:
        status = handle.wait(MOST_S)
    except TimeoutError:
        status = handle.status()
    finally:
        took_s = time.monotonic() - began_s
        pilot.send_signal(signal.SIGTERM)
        pilot.wait()
    journal = [sys.executable, "-m", "bftrainer", "replay", "journal", str(state)]
    subprocess.run(journal, check=True)  # noqa: S603  # our own program
    record = handle.view().record
    repeated = 0.0 if record is None else record.repeated_samples
    lost = f"{repeated:,.0f} samples were repeated after preemptions"
    print(f"{handle.name}: {status.value} after {took_s:.0f} s; {lost}.")
    print(f"Report on the generated log: {folder.absolute()}/report.html")
    program = shlex.quote(str(Path(sys.prefix) / "bin" / "bftrainer"))
    print(f"Next, in the folder of a training script: {program} adapt train.py")
    return 0 if status is bftrainer.SubmissionStatus.DONE else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
