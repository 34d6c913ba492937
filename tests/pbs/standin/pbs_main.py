"""A command of the stand-in, by the name in PBS_STANDIN_COMMAND; first whatever fault was ordered for
it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time

from pbs_batch import mom, pbs_release_nodes, pbs_tmrsh, qalter, qdel, qsig, qsub
from pbs_show import SHOWS
from pbs_state import locked

COMMANDS = {
    **SHOWS,
    "qsub": qsub,
    "qdel": qdel,
    "qsig": qsig,
    "qalter": qalter,
    "pbs_release_nodes": pbs_release_nodes,
    "pbs_tmrsh": pbs_tmrsh,
    "mom": lambda words: mom(words[0]),
}
NO_SERVER = {"pbsnodes": 1, "qmgr": 3, "qstat": 255}
"""The statuses of commands that reach no server, as recorded; 162 for the others."""


def fault_of(name: str) -> str:
    """What is ordered for this call; ``times`` counts down."""
    if name == "mom":
        return ""
    with locked() as state:
        state.setdefault("calls", []).append([name, *sys.argv[1:]])
        for key in (name, "*"):
            fault = state["faults"].get(key)
            if fault and fault.get("times", 1) > 0:
                if "times" in fault:
                    fault["times"] -= 1
                return str(fault["kind"])
    return ""


def run(name: str, words: list[str]) -> int:
    fault = fault_of(name)
    if fault == "down":
        if name == "qstat" and "json" in words:  # a document as of an empty cluster
            print('{\n\t"timestamp":\t1795882758,\n\t"pbs_server":\t"head"\n}')
        print(
            f"Connection refused\n{name}: cannot connect to server head (errno=15010)",
            file=sys.stderr,
        )
        return NO_SERVER.get(name, 162)
    if fault == "stopped":  # SIGSTOP: commands wait without limit
        time.sleep(60)
    if fault == "no-answer":  # it is done, and nobody hears of it
        with contextlib.redirect_stdout(io.StringIO()):
            COMMANDS[name](words)
        time.sleep(60)
    if fault != "without-last-line":
        return COMMANDS[name](words)
    caught = io.StringIO()
    with contextlib.redirect_stdout(caught):
        status = COMMANDS[name](words)
    print("".join(caught.getvalue().splitlines(keepends=True)[:-1]), end="")
    return status


if __name__ == "__main__":
    sys.exit(run(os.environ["PBS_STANDIN_COMMAND"], sys.argv[1:]))
