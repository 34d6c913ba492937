"""The Epilog that sends hints (jobscripts/hint.sh), run by real slurmds."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from conftest import started
from support.slurm_lab import Settings, wait_until
from support.slurm_versions import SlurmVersion

from bftrainer.config.pilot import HintsConfig, WorkersConfig
from bftrainer.pilot.hints import HintListener
from bftrainer.system.clock import SystemClock

SCRIPT = Path(__file__).parents[2] / "jobscripts" / "hint.sh"


@pytest.mark.slow
def test_the_epilog_sends_a_hint_and_delays_no_node(
    folder: Path, slurm_version: SlurmVersion
) -> None:
    """Also while an address is one that nobody answers for, and a name one that DNS does not
    know.
    """
    with closing(
        HintListener(HintsConfig(port=0), WorkersConfig(), folder, SystemClock())
    ) as listener:
        pilots = f"no.such.host.invalid/7717 192.0.2.1/7717 127.0.0.1/{listener.counts.port}"
        epilog = folder / "hint.sh"
        epilog.write_text(SCRIPT.read_text().replace("10.0.0.1/7717", pilots))
        epilog.chmod(0o755)
        for lab in started(Settings(nodes=2, epilog=str(epilog)), slurm_version):
            listener.take()
            for number in range(3):
                lab.submit("exit 0", "-N2", "-p", "main")
                came = 0
                wait_until(
                    lambda lab=lab: not lab.run("squeue", "-h", "-t", "PD,R"), "the job to end"
                )
                ended_s = time.monotonic()
                lab.wait_idle()
                idle_s = time.monotonic() - ended_s

                def both() -> bool:
                    nonlocal came
                    came += listener.take()
                    return came >= 2

                wait_until(both, "a hint of each node")
                print(
                    f"Slurm {slurm_version.number}, job {number}: idle {idle_s:.2f} s after "
                    f"the end, {came} hints"
                )
            log = (lab.root / "log" / "slurmd.node01.log").read_text()
            assert "epilog failed" not in log.lower(), log[-2000:]
            assert "drain" not in lab.run("sinfo", "-h", "-o", "%T")
