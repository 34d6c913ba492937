"""The live part of the demo: a pilot on nodes of the generated log, faster than real time, with trainers on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bftrainer.errors import UserError
from bftrainer.live.rerun import decide_again
from bftrainer.persistence.registry import Registry
from bftrainer.persistence.store import open_store
from bftrainer.protocol.environment import TRAINER_DIR
from bftrainer.protocol.events import DriverEvent
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.system.installed import Installed, installed_file
from bftrainer.system.processes import send, with_variable

# Two hours of the demo's log (seed 1) in which nodes become idle and busy: 34 events, 0 to 24 of 36 nodes idle.
NODES, SPEEDUP, START_H, RUN_S = 36, 120.0, 13.0, 60.0
_CONFIG = """\
# Configuration of the demo's pilot: nodes of a generated log, two minutes of the log per second.
[nodes]
holder = "trace"
max_nodes = 6
min_window_s = 0
flap_back_off_s = 1
unused_after_s = 3
[times]
poll_s = 0.5
shutdown_s = 20
lease_s = 15
[trace]
log = "log.csv.gz"
nodes = {nodes}
start_h = {start_h}
speedup = {speedup}
"""
_TRAINERS = {"digits-a": (3, 0.05), "digits-b": (2, 0.08), "digits-c": (2, 0.1)}


@dataclass
class DemoPilot:
    """A pilot that runs during the demo's replays, with its state in a private temporary folder."""

    folder: Path
    process: subprocess.Popen[bytes]
    began_s: float

    @staticmethod
    def start(log: Path) -> DemoPilot:
        """Submit three trainers, start the pilot."""
        folder = Path(tempfile.mkdtemp(prefix="bftrainer-demo-"))
        shutil.copy(log, folder / "log.csv.gz")
        text = _CONFIG.format(nodes=NODES, start_h=START_H, speedup=SPEEDUP)
        (folder / "bftrainer.toml").write_text(text, encoding="utf-8")
        script = str(installed_file(Installed.EXAMPLE, "numpy_parallel.py"))
        for name, (max_nodes, pace_s) in _TRAINERS.items():
            options: list[object] = ["--name", name, "--max-nodes", max_nodes, "--samples-per-s", round(32 / pace_s)]
            costs = ["--set", "scale_up_s = 2", "--set", "scale_down_s = 1", "--set", "stop_s = 10"]
            program = [sys.executable, script, "--steps", 100000, "--pace-s", pace_s, "--checkpoint", f"{name}.npz"]
            _run("submit", *options, "--cwd", folder, *costs, "--state", folder, "--", *program)
        with (folder / "pilot.log").open("wb") as output:
            argv = [sys.executable, "-m", "bftrainer", "pilot", "--state", str(folder)]
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603
        return DemoPilot(folder, process, time.time())

    def finish(self) -> str:
        """Let the pilot run to the end of its minute, stop it, and say what it did."""
        time.sleep(max(0.0, self.began_s + RUN_S - time.time()))
        run_s = time.time() - self.began_s  # longer than a minute if the replays take longer
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        if status != 0:
            last = (self.folder / "pilot.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise UserError(f"the demo's pilot ended with status {status}: {' '.join(last)}")
        with closing(open_store(self.folder)) as store:
            verdicts = list(decide_again(store))
            trainers, fragments = Registry(store).trainers(), Registry(store).fragments()
        held_s, trained_s = (sum(t.held_node_s for t in trainers), sum(t.trained_node_s for t in trainers))
        return (
            f"The pilot ran for {run_s:.0f} s, {run_s * SPEEDUP / 3600:.1f} h of the log: {len(verdicts)} decisions "
            f"({sum(bool(v.differs) for v in verdicts)} of them differ when its journal is replayed), {len(fragments)} nodes "
            f"held, {sum(f.reason == 'preempted' for f in fragments)} of them preempted, "
            f"{sum(self._rescales(t.name) for t in trainers)} rescales, {held_s / 60:.1f} node-minutes, "
            f"{trained_s / held_s if held_s else 0:.0%} of them in training."
        )

    def keep(self, out: Path) -> None:
        """Copy the pilot's database and configuration to ``out``."""
        for name in ("pilot.db", "bftrainer.toml"):
            shutil.copy(self.folder / name, out / name)

    def close(self) -> None:
        """Kill the remaining processes and delete the folder."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for name in _TRAINERS:
            for process in with_variable(TRAINER_DIR, str(TrainerDirectory.of(self.folder, name).path)):
                send(process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _rescales(self, name: str) -> int:
        path = TrainerDirectory.of(self.folder, name).events
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return Counter(json.loads(line)["event"] for line in lines)[DriverEvent.RUNNING.value]


def _run(*arguments: object) -> None:
    argv = [sys.executable, "-m", "bftrainer", *map(str, arguments)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=60)  # noqa: S603
