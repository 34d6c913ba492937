"""A command of the stand-in, by the name in LSF_STANDIN_COMMAND; first whatever fault was ordered
for it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time

from batch import bkill, bmod, bsub, sbatchd
from show import SHOWS
from state import locked

COMMANDS = {
    **SHOWS,
    "bsub": bsub,
    "bkill": bkill,
    "bmod": bmod,
    "sbatchd": lambda words: sbatchd(words[0]),
}


def fault_of(name: str) -> str:
    """What is ordered for this call; ``times`` counts down."""
    if name == "sbatchd":
        return ""
    with locked() as state:
        for key in (name, "*"):
            fault = state["faults"].get(key)
            if fault and fault.get("times", 1) > 0:
                if "times" in fault:
                    fault["times"] -= 1
                return str(fault["kind"])
    return ""


def run(name: str, words: list[str]) -> int:
    fault = fault_of(name)
    if fault == "down":  # mbatchd is gone: the command says so and tries again for ever
        while True:
            print("LSF is down. Please wait ...", file=sys.stderr, flush=True)
            time.sleep(0.5)
    if fault == "down-at-once":  # with LSB_NTRIES set
        print("LSF is down. Please wait ...", file=sys.stderr)
        return 255
    if fault == "slow":
        time.sleep(60)
    if fault == "no-answer":  # it is done, and nobody hears of it
        with contextlib.redirect_stdout(io.StringIO()):
            COMMANDS[name](words)
        time.sleep(60)
    if fault == "waits-first":
        print("Cannot connect to LSF. Please wait ...")
    if fault == "none":
        print("No unfinished job found", file=sys.stderr)
        return 255
    if fault == "silent":
        return 0
    if (
        fault == "status-0"
    ):  # LSB_BJOBS_CONSISTENT_EXIT_CODE=N: "none found" is no failure, and still on stderr
        COMMANDS[name](words)
        return 0
    if fault not in ("truncated", "without-last-line"):
        return COMMANDS[name](words)
    caught = io.StringIO()
    with contextlib.redirect_stdout(caught):
        status = COMMANDS[name](words)
    text = caught.getvalue()
    lines = text.rstrip().splitlines(keepends=True)
    sys.stdout.write(text[: len(text) * 2 // 3] if fault == "truncated" else "".join(lines[:-1]))
    return status


if __name__ == "__main__":
    sys.exit(run(os.environ["LSF_STANDIN_COMMAND"], sys.argv[1:]))
