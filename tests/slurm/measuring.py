"""A cluster for a measurement, until its end or Ctrl-C."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from support.slurm_lab import Lab, Settings
from support.slurm_versions import VERSIONS

HINT = Path(__file__).resolve().parents[2] / "jobscripts" / "hint.sh"


@contextmanager
def cluster(settings: Settings, slurm: str, hints_port: int | None = None) -> Iterator[Lab]:
    """A running one that this process's commands find. With a port, its Epilog sends hints
    there.
    """
    if missing := VERSIONS[slurm].missing():
        raise SystemExit(missing)
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # in the background, too: the cluster must not stay
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bftrainer-lab-") as folder:
        Path(folder).chmod(0o755)
        if hints_port is not None:
            epilog = Path(folder) / "hint.sh"
            epilog.write_text(HINT.read_text().replace("10.0.0.1/7717", f"127.0.0.1/{hints_port}"))
            epilog.chmod(0o755)
            settings = replace(settings, epilog=str(epilog))
        lab = Lab(Path(folder), settings, VERSIONS[slurm])
        try:
            lab.start()
            os.environ.update(lab.env | {"PATH": f"{lab.env['PATH']}:{os.environ['PATH']}"})
            yield lab
        finally:
            lab.stop()
