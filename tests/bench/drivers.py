"""Memory and CPU time of the drivers of many trainers: a process for each, and one process with a thread for each.

    python tests/bench/drivers.py [--counts 10,100,300] [--seconds 20]

Trainers of one worker, a shell that sleeps; launcher ``restart`` with the pilot's settings. Memory is the proportional set size
of the drivers and of what ends their workers, without the workers; CPU time is of a window in which nothing happens.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bftrainer.config.pilot import PilotConfig
from bftrainer.live.trainers.trainer_message import driver_settings
from bftrainer.protocol.control import ControlMessage, ControlRequest
from bftrainer.protocol.hosts import HostSlots, write_hosts
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.typed_json import from_fields, write_json
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.reaper import Reaper
from bftrainer_adapters.drivers.common.run import Run
from bftrainer_adapters.drivers.restart.main import PlainBackend

COMMAND = ("/bin/sh", "-c", "while :; do sleep 60; done")


def trainers(root: Path, count: int) -> list[TrainerDirectory]:
    """Directories as the pilot writes them."""
    config = PilotConfig()
    keys = {**driver_settings(config.workers, config.times.file_poll_s), "driver": "restart"}
    made = [TrainerDirectory(root / f"t{number}") for number in range(count)]
    for number, directory in enumerate(made):
        directory.logs.mkdir(parents=True)
        write_json(directory.trainer, TrainerMessage(f"t{number}", COMMAND, root, 1, 1))
        write_json(directory.driver, from_fields(DriverSettings, keys, "bench"))
        write_json(directory.control, ControlMessage(ControlRequest.RUN, 1))
        write_hosts(directory.hosts, [HostSlots("n1", 1, str(number))])
    return made


def in_threads(root: Path, count: int) -> None:
    """All in this process, until standard input ends."""
    reaper = Reaper()
    for number in range(count):
        directory = TrainerDirectory(root / f"t{number}")
        events = EventWriter(directory.events, directory.new_incarnation())
        run = Run(directory, events, PlainBackend, reaper)
        threading.Thread(target=run.run, name=f"t{number}", daemon=True).start()
    sys.stdin.read()
    os._exit(0)


def is_running(directory: TrainerDirectory) -> bool:
    return directory.events.exists() and '"running"' in directory.events.read_text()


def family(pids: list[int]) -> list[int]:
    """Drivers and their reapers: their Python processes."""
    found = list(pids)
    for pid in pids:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found += [int(each) for each in children if b"reaper" in Path(f"/proc/{each}/cmdline").read_bytes()]
    return found


def memory_mb(pids: list[int]) -> float:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def cpu_s(pids: list[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def measure(count: int, seconds: float, shared: bool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        made = trainers(Path(folder), count)
        commands = [[sys.executable, "-m", "bftrainer_adapters.drivers.restart.main", str(it.path)] for it in made]
        if shared:
            commands = [[sys.executable, __file__, "--in-threads", folder, "--counts", str(count)]]
        began_s = time.monotonic()
        started = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
            for command in commands
        ]
        try:
            while not all(map(is_running, made)):
                time.sleep(0.2)
            up_s = time.monotonic() - began_s
            pids = family([process.pid for process in started])
            time.sleep(2)
            before, at_s = cpu_s(pids), time.monotonic()
            time.sleep(seconds)
            used = (cpu_s(pids) - before) / (time.monotonic() - at_s)
            words = "one process" if shared else "processes"
            return (
                f"| {count} | {words} | {memory_mb(pids) / count:.2f} | {1000 * used / count:.2f} | {up_s:.1f} "
                f"| {len(pids)} |"
            )
        finally:
            for process in started:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            time.sleep(1)  # the reapers end the workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="10,100,300")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--in-threads", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.in_threads is not None:
        in_threads(chosen.in_threads, int(chosen.counts))
    print(
        "| trainers | drivers | MB per trainer | ms of CPU time per second and trainer | s until all run | processes |"
    )
    print("|---|---|---|---|---|---|")
    for count in map(int, chosen.counts.split(",")):
        for shared in (False, True):
            print(measure(count, chosen.seconds, shared), flush=True)


if __name__ == "__main__":
    main()
