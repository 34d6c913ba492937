"""Records journals of real pilots (README.md). Needs the Python of the version to be recorded and its tests on PYTHONPATH."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import live_machine

OUT = Path(__file__).parent
KEPT = ("meta", "settings", "journal", "states", "last_state")  # the others name folders of the machine
CONFIG = """
[decisions]
policy = "{policy}"
solver = "{solver}"
solve_s = {solve_s}
max_parallel = 3
[nodes]
min_window_s = 0
flap_back_off_s = 0.5
unused_after_s = 2
[times]
poll_s = 0.2
file_poll_s = 0.05
shutdown_s = 300
lease_s = 60
[trace]
log = "log.csv"
nodes = 100
speedup = 1
[learning]
{learning}
{classes}
"""
CLASSES = '[classes.fast]\nhosts = ["n[1-2]"]\n[classes.slow]\nhosts = ["n[3-9]"]\n'
NODES = [(0.0, "n1 n2 n3", ""), (4.0, "n4", ""), (9.0, "", "n1"), (13.0, "n1 n5", "n2"), (17.0, "n2", "n3")]
GUARD = "guard_hours=0.0005"
CASES: dict[str, dict[str, Any]] = {
    "bftrainer": {},
    "bftrainer-highs": {"solver": "highs"},
    "bftrainer-auto": {"solver": "auto"},
    "bftrainer-no-license": {"solver": "auto", "solve_s": 1e-6, "env": {"GRB_LICENSE_FILE": "/nonexistent.lic"}},
    "bftrainer-learning": {"learning": "window_s = 1\nexplore_after_s = 3"},
    "bftrainer-classes": {"classes": CLASSES, "a": ("--set", 'node_class = "fast"')},
    "bftrainer-guarded": {"policy": f"bftrainer?{GUARD}", "crowd": True},
    "flowcon-guarded-classes": {"policy": f"flowcon?interval_s=2&{GUARD}", "crowd": True, "classes": CLASSES},
    "loss-phase-guarded": {"policy": f"loss-phase?iterations=20&batch_samples=1&{GUARD}", "crowd": True},
    "loss-phase": {"policy": "loss-phase?iterations=20&batch_samples=1"},
    "flowcon": {"policy": "flowcon?interval_s=2"},
    "modelarts-optimal": {"policy": "modelarts-optimal?interval_s=3"},
    "modelarts-greedy": {"policy": "modelarts-greedy?interval_s=3"},
    **{name: {"policy": name} for name in ("equal-share", "afs-l", "afs-p", "srtf", "fcfs-rigid")},
}


def stepper(folder: Path) -> Path:
    """The tests' trainer, reporting a loss as well."""
    text = (Path(live_machine.__file__).parent / "live" / "stepper.py").read_text()
    path = folder / "stepper.py"
    path.write_text(text.replace("world_size=size)", "world_size=size, loss=4.0 * 0.99**step + 1.0)"))
    return path


def without_curve(on: live_machine.Machine) -> None:
    argv = [sys.executable, "-m", "bftrainer", "submit", "--name", "blank", "--max-nodes", "4", "--cwd", str(on.work)]
    argv += ["--set", "scale_up_s = 0.2", "--set", "scale_down_s = 0.1", "--state", str(on.state), "--"]
    argv += [sys.executable, str(live_machine.STEPPER), "blank.json", "blank.steps", "100000", "0.05"]
    subprocess.run(argv, check=True, cwd=on.work)


def record(name: str, case: dict[str, Any], folder: Path) -> None:
    defaults = {"policy": "bftrainer", "solver": "exact", "solve_s": 0.2, "learning": "measure = false", "classes": ""}
    on = live_machine.machine(folder, NODES, CONFIG.format(**{**defaults, **case}))
    live_machine.STEPPER = stepper(folder)
    says = ("--set", "samples_total = 100000", "--set", "reports_loss = true", "--set", "requested_nodes = 2")
    os.environ.update(case.get("env", {}))
    try:
        if "learning" in case:
            without_curve(on)
            on.submit("wrong", 100_000, 0.05, 4, "--set", 'model = "stepper"', *says)
        else:
            on.submit("a", 100_000, 0.05, 2, *says, *case.get("a", ()))
            on.submit("b", 120, 0.05, 3, *says)
        pilot = on.pilot()
        time.sleep(6)
        on.submit("c", 100_000, 0.05, 4, *says)
        if case.get("crowd"):
            on.submit("d", 100_000, 0.05, 2, *says)
        time.sleep(6)
        on.end(pilot)
        pilot = on.pilot()  # resumes with the memory of the policy
        time.sleep(8)
        on.end(pilot)
        print(name, on.bftrainer_replay().strip())
        database = sqlite3.connect(on.state / "pilot.db")
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if table not in KEPT:
                database.execute(f"DELETE FROM {table}")  # a name from the schema
        database.commit()
        (OUT / f"{name}.sql").write_text("\n".join(database.iterdump()) + "\n")
    finally:
        on.close()


for each in sys.argv[1:] or CASES:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / each).mkdir(mode=0o700)
        record(each, CASES[each], Path(folder) / each)
