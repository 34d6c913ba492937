"""The real pilot in a process of its own that SIGKILLs itself at a step of the store: ``STATE_DIR
'decision: written'``.
"""

import os
import signal
import sys
from pathlib import Path

from bftrainer.console.client.state_dir import read
from bftrainer.pilot.own_site import build_site
from bftrainer.pilot.pilot_process import run_pilot
from bftrainer.pilot.runtime import PilotDependencies
from bftrainer.system.clock import SystemClock
from bftrainer.system.signals import Signals

state, die_at = Path(sys.argv[1]), sys.argv[2]


def at_step(step: str) -> None:
    if step == die_at:
        os.kill(os.getpid(), signal.SIGKILL)


config, clock = read(state, None), SystemClock()
site = build_site(config, state, clock)
with Signals().caught() as signals:
    run_pilot(
        PilotDependencies(state, site, clock, at_step=at_step),
        config,
        signals,
    )
