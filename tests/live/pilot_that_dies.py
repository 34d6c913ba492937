"""The real pilot in a process of its own that SIGKILLs itself at a step of the store: ``STATE_DIR
'decision: written'``.
"""

import os
import signal
import sys
from pathlib import Path

from bftrainer.client.state_dir import read
from bftrainer.live.own_site import build_site
from bftrainer.live.pilot_process import run_pilot
from bftrainer.live.runtime import PilotDependencies
from bftrainer.live.signals import Signals
from bftrainer.system.clock import SystemClock

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
