"""Memory and CPU time of the drivers of many trainers: ``python tests/bench/drivers.py``.

    python tests/bench/drivers.py [--counts 10,100,300] [--seconds 20]

Trainers of one worker, a shell that sleeps; launcher ``restart`` with the pilot's settings. Memory
is the proportional set size of the drivers and of what ends their workers, without the workers; CPU
time is of a window in which nothing happens. Drivers are a process each, and for comparison threads
of one process.
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
from bftrainer.pilot.trainers.trainer_message import driver_settings
from bftrainer.wires.control import ControlMessage, ControlRequest
from bftrainer.wires.hosts_file import HostSlots, write_hosts
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import from_fields, write_json
from bftrainer_drivers.common.event_writer import EventWriter
from bftrainer_drivers.common.reaper import Reaper
from bftrainer_drivers.common.run_loop import Run
from bftrainer_drivers.restart.main import PlainBackend

COMMAND = ("/bin/sh", "-c", "while :; do sleep 60; done")


def trainers(root: Path, count: int) -> list[TrainerDirectory]:
    """Write the trainers' directories as the pilot does."""
    config = PilotConfig()
    keys = {**driver_settings(config.workers, config.times.file_poll_s), "driver": "restart"}
    directories = [TrainerDirectory(root / f"t{number}") for number in range(count)]
    for number, directory in enumerate(directories):
        directory.logs.mkdir(parents=True)
        write_json(directory.trainer, TrainerMessage(f"t{number}", COMMAND, root, 1, 1))
        write_json(directory.driver, from_fields(DriverSettings, keys, "bench"))
        write_json(directory.control, ControlMessage(ControlRequest.RUN, 1))
        write_hosts(directory.hosts, [HostSlots("n1", 1, str(number))])
    return directories


def in_threads(root: Path, count: int) -> None:
    """Run all drivers in this process, until standard input ends."""
    reaper = Reaper()
    for number in range(count):
        directory = TrainerDirectory(root / f"t{number}")
        events = EventWriter(directory.events, directory.new_incarnation())
        run = Run(directory, events, PlainBackend, reaper)
        threading.Thread(target=run.run, name=f"t{number}", daemon=True).start()
    sys.stdin.read()
    os._exit(0)


def is_running(directory: TrainerDirectory) -> bool:
    """Whether the driver has said so."""
    return directory.events.exists() and '"running"' in directory.events.read_text()


def family(pids: list[int]) -> list[int]:
    """Drivers and their reapers: their Python processes."""
    processes = list(pids)
    for pid in pids:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        processes += [
            int(child)
            for child in children
            if b"reaper" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
    return processes


def memory_mb(pids: list[int]) -> float:
    """Proportional set size of all."""
    lines = [
        line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    ]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def cpu_s(pids: list[int]) -> float:
    """CPU time of all until now."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(values[11]) + int(values[12]) for values in fields) / os.sysconf("SC_CLK_TCK")


def measure(count: int, seconds: float, shared: bool) -> str:
    """Return the row of so many trainers."""
    with tempfile.TemporaryDirectory() as folder:
        directories = trainers(Path(folder), count)
        commands = [
            [sys.executable, "-m", "bftrainer_drivers.restart.main", str(directory.path)]
            for directory in directories
        ]
        if shared:
            commands = [[sys.executable, __file__, "--in-threads", folder, "--counts", str(count)]]
        began_s = time.monotonic()
        started = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
            for command in commands
        ]
        try:
            while not all(map(is_running, directories)):
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
    """Print one row for each number of trainers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
