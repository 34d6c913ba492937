"""The versions of Slurm that tests can run: the installed one, and those of .ci/slurm-versions.sh
in .cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "srun", "scancel", "scontrol", "sdiag")
SYSTEM_PATH = f"/usr/sbin:/sbin:{os.environ['PATH']}"
CACHE = Path(os.environ.get("BFTRAINER_CACHE") or Path(__file__).resolve().parents[2] / ".cache")


@dataclass(frozen=True)
class SlurmVersion:
    """``name`` is "installed" or the Debian release that the packages are from."""

    name: str
    folder: Path | None = None

    @property
    def path(self) -> str:
        """Where its programs are found, and munge's."""
        return SYSTEM_PATH if self.folder is None else f"{self.folder}/bin:{SYSTEM_PATH}"

    @property
    def settings(self) -> str:
        """Lines of slurm.conf and slurmdbd.conf."""
        return "" if self.folder is None else f"PluginDir={self.folder}/plugins\n"

    @property
    def slurmd_options(self) -> tuple[str, ...]:
        return () if self.folder is None else ("-d", f"{self.folder}/bin/slurmstepd")

    @property
    def number(self) -> str:
        """Such as "24.11.5"; empty if it is not there."""
        if self.folder is None:
            program = shutil.which("slurmctld", path=SYSTEM_PATH)
            shown = (
                subprocess.run([program, "-V"], capture_output=True, text=True, check=False)
                if program
                else None
            )
            found = re.search(r"\d+\.\d+\.\d+", shown.stdout) if shown else None
            return found[0] if found else ""
        try:
            folder, _, number = (self.folder / "stamp").read_text().strip().rpartition("|")
        except OSError:
            return ""
        return number if folder == str(self.folder) else ""

    @property
    def release(self) -> tuple[int, int]:
        """(24, 11) of 24.11.5."""
        year, month = self.number.split(".")[:2]
        return int(year), int(month)

    def missing(self) -> str:
        """Why it cannot run here; empty if it can."""
        absent = [
            name for name in ("munged", *PROGRAMS) if shutil.which(name, path=self.path) is None
        ]
        if self.folder is not None and not self.number:
            return (
                f"the Slurm of Debian {self.name} is not in {CACHE}; sh "
                ".ci/slurm-versions.sh install fetches it"
            )
        return (
            f"Slurm is not installed ({', '.join(absent)}); see .ci/system-packages.txt"
            if absent
            else ""
        )


INSTALLED = SlurmVersion("installed")
VERSIONS = {
    v.name: v
    for v in (INSTALLED, *(SlurmVersion(s, CACHE / f"slurm-{s}") for s in ("trixie", "sid")))
}
"""From the oldest to the newest, where Debian 12's Slurm is the installed one."""
