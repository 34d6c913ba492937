#!/usr/bin/env python3
"""From idle to training: a main job ends on a real Slurm of 8 nodes; when is the first step on its nodes made?

    make latency                                                    all launchers, by polling
    python tests/slurm/latency.py --launchers restart --runs 6      a part of it
    python tests/slurm/latency.py --hints                           with hints instead of polling alone
    python tests/slurm/latency.py --python OTHER/.venv/bin/python   the pilot of another version, measured alike
    python tests/slurm/latency.py --taken 1                         one node at a time: imports that do not compete
    python tests/slurm/latency.py --import-s 5                      with imports that take 5 s longer
    python tests/slurm/latency.py --config FILE                     with FILE appended to the configuration

A main job keeps 4 of the 8 nodes. A trainer has the other 4; in each run a main job takes 2 of these (--taken) and ends at
a random moment of the pilot's polls. Times come from what each program writes itself, to the millisecond: slurmctld's log,
the payload's marks, the audit and the journal of the pilot, the events of the driver, the steps of the trainer; so any
version can be measured. The models are tiny and the steps are paced, but on a machine of 2 cores the imports of the workers
compete: the last line says how busy the processors were. Ctrl-C prints what has been measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from latency_times import BACK, UP, WHOLE, Measured, measured
from live_machine import Machine, machine
from slurm_lab import Lab, Settings, free_ports, wait_until
from slurm_versions import VERSIONS

from bftrainer.domain.node_stages import p95
from bftrainer_adapters.slurm.hostlists import parse_hostlist

SCRIPTS = {"horovod": "horovod_steps.py", "torchrun": "torch_steps.py", "restart": "chain_steps.py"}
CONFIG = """
[decisions]
solver = "exact"
gather_s = {gather_s}
[learning]
measure = false
[nodes]
holder = "slurm"
flap_back_off_s = 1
[times]
poll_s = {poll_s}
shutdown_s = 60
[slurm]
partition = "scavenge"
[workers]
allow_root = true
"""
HINT = Path(__file__).resolve().parents[2] / "jobscripts" / "hint.sh"
NAME, KEPT, SIZE = "t", 4, 4
PACE_S = 0.05


@dataclass(frozen=True)
class Options:
    """One measurement."""

    python: str
    runs: int
    poll_s: float
    gather_s: float
    import_s: float
    config: str
    keep: Path | None
    hints: bool
    taken: int


def stories(lab: Lab, launcher: str, options: Options) -> Iterator[Measured]:
    """The times of each fragment, run by run."""
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        path = Path(folder)
        own = machine(path, [], CONFIG.format(poll_s=options.poll_s, gather_s=options.gather_s) + options.config)
        keep = _main_job(lab, KEPT)
        try:
            _submit(own, launcher, options)
            with (own.work / "pilot.log").open("ab") as log:
                argv = [options.python, "-m", "bftrainer", "pilot", "--state", str(own.state)]
                own.children.append(subprocess.Popen(argv, cwd=own.work, stdout=log, stderr=log))
            _until_training(own, SIZE, time.time(), "the first steps")
            for _ in range(options.runs):
                time.sleep(
                    random.uniform(1.0, 1.0 + (3.0 if options.hints else options.poll_s))
                )  # any phase of the polls
                yield _one_run(lab, own, options.taken)
            own.end(own.children[0])
            if options.keep:
                shutil.copytree(own.state, options.keep / launcher, ignore=shutil.ignore_patterns("*.sock"))
        finally:
            lab.run("scancel", keep)
            own.close()
            lab.tidy_up()


def _one_run(lab: Lab, own: Machine, taken: int) -> Measured:
    before_s = time.time()
    job = _main_job(lab, taken)
    nodes = parse_hostlist(lab.run("squeue", "-h", "-j", job, "-o", "%N").strip())
    _until_training(own, SIZE - taken, before_s, "the rest to train on")
    time.sleep(2.0)
    ended_s = time.time()
    lab.run("scancel", job)
    chosen = ",".join(sorted(nodes))
    _until_idle(lab, job, chosen)
    idle_s = time.time()
    _until_training(own, SIZE, ended_s, "the trainer to grow again")
    time.sleep(1.5)  # until the drivers have reported, and the audit is written
    return measured(lab.root / "log" / "slurmctld.log", own, NAME, nodes, job, before_s, ended_s, idle_s)


def _until_idle(lab: Lab, job: str, nodes: str) -> None:
    """Wait until the scheduler shows the main job's nodes idle, or until a fast pilot has taken the first of them again."""
    states: set[str] = set()

    def free() -> bool:
        states.clear()
        states.update(lab.run("sinfo", "-h", "-N", "-n", nodes, "-p", "main", "-o", "%T").split())
        if states == {"idle"}:
            return True
        is_taken = (
            states <= {"idle", "allocated", "mixed"} and not lab.run("squeue", "-h", "-j", job, "-o", "%T").strip()
        )
        return is_taken and bool(lab.run("squeue", "-h", "-w", nodes, "-o", "%i").strip())

    try:
        wait_until(free, "the main job's nodes to be idle", 60)
    except AssertionError as error:
        raise AssertionError(f"{error}: they are {sorted(states)}\n{lab.run('sinfo', '-R')}") from error


def _main_job(lab: Lab, nodes: int) -> str:
    free = lab.root / "log"
    told = free / f"main.{time.monotonic_ns()}"
    job = lab.submit(f"touch {told}; exec sleep 3600", "-p", "main", f"-N{nodes}", "-t", "60")
    wait_until(told.exists, f"the main job of {nodes} nodes to start", 60)
    return job


def _submit(own: Machine, launcher: str, options: Options) -> None:
    (own.work / NAME).mkdir()
    script = Path(__file__).with_name(SCRIPTS[launcher])
    env = {"OMP_NUM_THREADS": "1", "HOROVOD_GLOO_TIMEOUT_SECONDS": "30"}
    if options.import_s:
        # From a folder of installed packages, as it were: a warm worker imports those, not the script's own modules.
        packages = own.work / "site-packages"
        packages.mkdir()
        (packages / "a_slow_import.py").write_text(f"import time\ntime.sleep({options.import_s})\n")
        copied = own.work / "script" / script.name  # beside the packages: what is below its folder is its own
        copied.parent.mkdir()
        text = script.read_text()
        first = text.index("import hashlib")
        copied.write_text(text[:first] + "import a_slow_import\n" + text[first:])
        script, env["PYTHONPATH"] = copied, str(packages)
    settings = {
        "curve": "{ nodes = [1, 2, 3, 4], samples_per_s = [10, 19, 27, 34] }",
        "env": "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items()) + " }",
        "scale_up_s": "1", "scale_down_s": "0.5", "stop_s": "30",
        "command": json.dumps([options.python, str(script), str(PACE_S)]),
    }  # fmt: skip
    sets = [word for key, value in settings.items() for word in ("--set", f"{key} = {value}")]
    words = ["--launcher", launcher, "--max-nodes", SIZE, "--cwd", own.work / NAME]
    argv = [
        options.python,
        "-m",
        "bftrainer",
        "submit",
        "--name",
        NAME,
        *map(str, words),
        *sets,
        "--state",
        str(own.state),
    ]
    subprocess.run(argv, check=True, cwd=own.work)


def _until_training(own: Machine, size: int, since_s: float, what: str) -> None:
    path = own.work / NAME / "steps.jsonl"

    def trains() -> bool:
        lines = path.read_text().splitlines()[-5:] if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return len(found) == 5 and all(one["size"] == size and one["at_s"] > since_s for one in found)

    try:
        wait_until(trains, what, 120, every_s=0.1)
    except AssertionError:
        logs = [own.work / "pilot.log", own.state / "trainers" / NAME / "logs" / "driver.log"]
        print(*(f"--- {log}\n{log.read_text()[-3000:]}" for log in logs if log.exists()), sep="\n", file=sys.stderr)
        raise


def table(found: dict[str, list[Measured]]) -> str:
    """Median and 95th percentile of each stage, and of the whole."""
    lines = [f"| seconds until, median / p95 | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for stages, ends in ((UP, WHOLE[0]), (BACK, WHOLE[1])):
        for stage in (*stages, total := " -> ".join(ends)):
            cells = []
            for runs in found.values():
                values = [it[stage] for one in runs for it in one.stages() if stage in it]
                cells.append(f"{statistics.median(values):.2f} / {p95(values):.2f}" if values else "-")
            bold = "**" if stage == total else ""
            lines.append(f"| {bold}{stage}{bold} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--launchers", nargs="+", choices=SCRIPTS, default=list(SCRIPTS), help="default all")
    options.add_argument("--runs", type=int, default=10, help="main jobs per launcher (default 10)")
    options.add_argument("--taken", type=int, choices=range(1, SIZE), default=2, help="nodes of each (default 2)")
    options.add_argument("--gather-s", type=float, default=1.0, help="decisions.gather_s (default 1, the pilot's own)")
    options.add_argument("--poll-s", type=float, default=10.0, help="times.poll_s (default 10, the pilot's own)")
    options.add_argument(
        "--import-s", type=float, default=0.0, help="seconds that the trainer's imports take in addition"
    )
    options.add_argument(
        "--python", default=sys.executable, help="interpreter with the bftrainer to measure (default this)"
    )
    options.add_argument("--config", type=Path, help="keys of [workers], then tables, to append to the configuration")
    options.add_argument("--hints", action="store_true", help="an Epilog that sends hints, and a pilot that hears them")
    options.add_argument("--slurm", choices=VERSIONS, default="installed", help="default the installed one")
    options.add_argument("--keep", type=Path, help="keep the pilots' state directories here, for `bftrainer plot t`")
    options.add_argument("--json", type=Path, help="also write the times to this file; what it contains is kept")
    chosen = options.parse_args()
    more = chosen.config.read_text() if chosen.config else ""
    (port,) = free_ports(1)
    if chosen.hints:
        more += f'[hints]\nport = {port}\naddress = "127.0.0.1"\n'
    one = Options(
        chosen.python,
        chosen.runs,
        chosen.poll_s,
        chosen.gather_s,
        chosen.import_s,
        more,
        chosen.keep,
        chosen.hints,
        chosen.taken,
    )
    found: dict[str, list[Measured]] = {}
    if chosen.json and chosen.json.exists():
        for name, runs in json.loads(chosen.json.read_text()).items():
            found[name] = [Measured(**run) for run in runs]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the cluster must not stay
    began, busy = time.monotonic(), _busy_s()
    with tempfile.TemporaryDirectory(prefix="latency-lab-") as folder:
        Path(folder).chmod(0o755)
        epilog = "/bin/true"
        if chosen.hints:
            epilog = f"{folder}/hint.sh"
            Path(epilog).write_text(HINT.read_text().replace("10.0.0.1/7717", f"127.0.0.1/{port}"))
            Path(epilog).chmod(0o755)
        lab = Lab(Path(folder), Settings(epilog=epilog), VERSIONS[chosen.slurm])
        lab.start()
        os.environ.update(lab.env | {"PATH": f"{lab.env['PATH']}:{os.environ['PATH']}"})
        try:
            for launcher in chosen.launchers:
                for run in stories(lab, launcher, one):
                    found.setdefault(launcher, []).append(run)
                    print(f"{launcher}: {_in_words(run)}", file=sys.stderr, flush=True)
                    if chosen.json:
                        text = json.dumps({name: [vars(it) for it in runs] for name, runs in found.items()})
                        chosen.json.write_text(text + "\n")
        except KeyboardInterrupt:
            pass
        finally:
            lab.stop()
    print(table(found))
    shares = (_busy_s() - busy) / (time.monotonic() - began) / (os.cpu_count() or 1)
    print(
        f"\n{os.cpu_count()} processors, {100 * shares:.0f} % busy; {sum(len(r.up) for v in found.values() for r in v)} nodes"
    )
    return 0


def _in_words(run: Measured) -> str:
    totals = [f"{it['idle -> first step']:.2f}" for it in run.stages() if "idle -> first step" in it]
    return f"idle -> first step {', '.join(totals)} s"


def _busy_s() -> float:
    """Seconds of all processors since the machine's start in which they were not idle."""
    values = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(values) - values[3] - values[4]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
