"""The pilot as its user runs it on a cluster: ``bftrainer init``, ``sbatch
jobscripts/pilot.slurm``, ``bftrainer submit``.

On the cluster of slurm_lab, with a node of its own for the pilot's job. And the check of what
trainers have written about their steps (slurm/horovod_steps.py, slurm/chain_steps.py).
"""

from __future__ import annotations

import getpass
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bftrainer.errors import CommandError
from bftrainer.system.command import run
from bftrainer.system.processes import ProcessId, identify, send, with_variable
from bftrainer_clusters.slurm.hostlists import parse_hostlist
from support.live_machine import Machine
from support.patience import PATIENCE
from support.promises import promised
from support.slurm_lab import Lab, wait_until

CHECKOUT = Path(__file__).resolve().parents[2]
PILOT_SCRIPT = CHECKOUT / "jobscripts" / "pilot.slurm"
SCRIPTS = Path(__file__).parents[1] / "slurm"
COMMIT_EVERY = 5
CHECKPOINT_EVERY = 20
Line = dict[str, Any]
QUICK: dict[str, object] = {
    "decisions_solver": "exact",
    "decisions_objective": "relative-speed",  # every trainer has a node
    "learning_measure": False,  # the curves that are submitted share the nodes evenly
    "nodes_flap_back_off_s": 1.0,
    "times_poll_s": 1.0,
    "times_shutdown_s": 90.0,
    "workers_allow_root": True,
    "workers_allow_stock_horovodrun": True,
    "workers_private_interface": True,
    "slurm_partition": "scavenge",
}


@dataclass
class PilotJob:
    """A state directory, a folder per trainer, and the pilot's jobs."""

    lab: Lab
    machine: Machine
    launchers: dict[str, str] = field(default_factory=dict)

    def configure(self, **changes: object) -> None:
        """As a user would: ``bftrainer init``, then an editor. ``times_poll_s=1`` is key ``poll_s``
        of table ``times``.
        """
        self.machine.bftrainer("init", "--holder", "slurm", "--all-keys")
        changes.setdefault("workers_allow_root", True)  # the lab is whoever runs the tests
        path = self.machine.state / "bftrainer.toml"
        lines, table = [], ""
        for line in path.read_text().splitlines():
            if line.startswith("["):
                table = line[1:].partition("]")[0]
            key = line.removeprefix("#").partition(" ")[0]
            value = changes.pop(f"{table}_{key}", None)
            lines.append(line if value is None else f"{key} = {json.dumps(value)}")
        assert not changes, f"no such keys: {changes}"
        path.write_text("\n".join(lines) + "\n")

    def sbatch(self, *options: str, **environment: str) -> str:
        """The shipped job script; its job id."""
        own = {
            "BFTRAINER_STATE": str(self.machine.state),
            "BFTRAINER_VENV": sys.prefix,
            **environment,
        }
        env = {**self.lab.env, **own}
        argv = [
            "sbatch",
            "--parsable",
            "--partition=service",
            f"--chdir={self.machine.work}",
            *options,
            str(PILOT_SCRIPT),
        ]
        return run(argv, timeout_s=60, env=env).strip()

    def submit(self, name: str, launcher: str, max_nodes: int = 2, pace_s: float = 0.1) -> None:
        """A trainer in a folder of its own. Its curve flattens, so that four of them share the
        nodes.
        """
        self.launchers[name] = launcher
        folder = self.folder(name)
        folder.mkdir()
        script = SCRIPTS / {"restart": "chain_steps.py", "torchrun": "torch_steps.py"}.get(
            launcher, "horovod_steps.py"
        )
        sizes = list(range(1, max_nodes + 1))
        settings = {
            "curve": (
                f"{{ nodes = {sizes}, samples_per_s = {[round(10 * n**0.7, 2) for n in sizes]} }}"
            ),
            "env": '{ OMP_NUM_THREADS = "1", HOROVOD_GLOO_TIMEOUT_SECONDS = "30" }',
            "scale_up_s": "1",
            "scale_down_s": "0.5",
            "stop_s": "30",
        }
        sets = [word for key, value in settings.items() for word in ("--set", f"{key} = {value}")]
        sets += ["--set", f"command = {json.dumps([sys.executable, str(script), str(pace_s)])}"]
        words = ["--launcher", launcher, "--max-nodes", max_nodes, "--cwd", folder]
        self.machine.bftrainer("submit", "--name", name, *words, *sets)

    def folder(self, name: str) -> Path:
        return self.machine.work / name

    def finish(self, *names: str) -> None:
        """Have trainers complete their training."""
        for name in names:
            (self.folder(name) / "finish").touch()

    def lines(self, name: str, kind: str) -> list[Line]:
        path = self.folder(name) / f"{kind}.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def trains(self, name: str, since_s: float, size: int | None = None, count: int = 3) -> bool:
        """Whether it has made steps since then (at that size)."""
        found = [
            s
            for s in self.lines(name, "steps")
            if s["at_s"] > since_s and size in (None, s["size"])
        ]
        return len(found) >= count

    def until_training(
        self, *names: str, size: int | None = None, least: int | None = None, seconds: float = 90
    ) -> None:
        """Until these (or so many of them) have made steps from now on, at that size."""
        since_s, enough = time.time(), len(names) if least is None else least
        wanted = f"{enough} of {', '.join(names)} to train" + (
            "" if size is None else f" on {size} nodes"
        )
        self.until(
            wanted,
            lambda: sum(self.trains(name, since_s, size) for name in names) >= enough,
            seconds,
        )

    def until(self, what: str, holds: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait; the failure tells the story."""
        seconds *= PATIENCE
        give_up = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < give_up, f"waited {seconds:g} s for: {what}\n{self.story()}"
            time.sleep(0.2)

    def story(self) -> str:
        """Events of the pilot, jobs, ends of logs."""
        parts = []
        with suppress(CommandError):
            parts.append(self.lab.run("squeue", "-a", "-t", "all", "-o", "%i %j %P %T %N %M %r"))
        for words in (["list", "--all"], ["nodes"], ["events"]):
            done = self.machine.bftrainer(*words, check=False)
            parts.append("\n".join((done.stdout + done.stderr).splitlines()[-60:]))
        logs = [*self.machine.work.glob("bftrainer-pilot.*.out")]
        for name in self.launchers:
            home = self.machine.state / "trainers" / name
            logs += [
                home / "events.jsonl",
                home / "logs" / "driver.log",
                *sorted(home.glob("logs/*/*.log"))[-4:],
            ]
        parts += [f"--- {log}\n" + "\n".join(_last(log)) for log in logs if log.exists()]
        return "\n".join(parts)

    def state_of(self, job: str) -> str:
        return self.lab.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()

    def stop(self, *jobs: str) -> None:
        """The way that the job script names: everybody checkpoints, nodes are released, the job
        completes.
        """
        self.lab.run("scancel", "--batch", "--signal=TERM", *jobs)
        self.until(
            "pilots' jobs to complete",
            lambda: {self.state_of(job) for job in jobs} == {"COMPLETED"},
        )

    def stop_all(self) -> None:
        """The same where one may be handing over to the next just now."""
        told: set[str] = set()

        def over() -> bool:
            fresh = set(self.running_pilots()) - told
            if fresh:
                self.lab.run("scancel", "--batch", "--signal=TERM", *fresh)
                told.update(fresh)
            return not self.left()

        self.until("nothing of ours to be left, and nobody to wait", over)

    def waiting_pilots(self) -> list[str]:
        return self.lab.run("squeue", "-h", "-p", "service", "-t", "PD", "-o", "%i").split()

    def running_pilots(self) -> list[str]:
        return self.lab.run("squeue", "-h", "-p", "service", "-t", "R", "-o", "%i").split()

    def main_job(self, size: int) -> tuple[str, frozenset[str], list[ProcessId]]:
        """A job of the main queue, as soon as it runs: its id, its nodes, and what of ours is on
        them.
        """
        told = self.machine.work / f"main.{size}.{time.monotonic_ns()}"
        job = self.lab.submit(f"touch {told}; sleep 600", "-p", "main", f"-N{size}", "-t", "30")
        wait_until(told.exists, f"the main job of {size} nodes to start", 60, every_s=0.01)
        nodes = parse_hostlist(self.lab.run("squeue", "-h", "-j", job, "-o", "%N").strip())
        return job, nodes, self.ours_on(nodes)

    def end_main_jobs(self) -> None:
        """Main jobs of :meth:`main_job` end."""
        self.lab.run("scancel", "--partition=main", f"--user={getpass.getuser()}")
        wait_until(lambda: not self.lab.run("squeue", "-h", "-p", "main"), "main jobs to end")

    def fragments(self) -> set[str]:
        """What the pilot holds."""
        return {str(row["fragment"]) for row in self.machine.rows("nodes")}

    def until_all_train(self, count: int) -> None:
        """Until so many nodes are held, and each trainer trains on all of its own: no worker is
        about to start.
        """
        since_s = time.time()

        def trains() -> bool:
            sizes = Counter(
                str(row["trainer"]) for row in self.machine.rows("nodes") if row["trainer"]
            )
            return sizes.total() == count and all(
                self.trains(name, since_s, size) for name, size in sizes.items()
            )

        self.until(f"trainers to train on all {count} nodes", trains, 90)

    def sizes(self, name: str) -> set[int]:
        """The sizes at which it has trained."""
        return {line["size"] for line in self.lines(name, "steps")}

    def ours_on(self, nodes: Iterable[str]) -> list[ProcessId]:
        """Workers, and whatever else of trainers is in steps on these nodes."""
        found = []
        for process in self.lab_processes():
            variables = _variables(process.pid)
            ours = any(v.startswith(b"BFTRAINER_TRAINER_DIR=") for v in variables)
            if ours and any(f"SLURMD_NODENAME={node}".encode() in variables for node in nodes):
                found.append(process)
        return found

    def lab_processes(self) -> list[ProcessId]:
        return list(with_variable("SLURM_CONF", str(self.lab.conf)))

    def tree_of_the_job(self, job: str) -> list[ProcessId]:
        """What a cgroup of the pilot's job would hold: its script, pilot, drivers and their sruns,
        reapers; not the steps.
        """
        found = []
        for process in self.lab_processes():
            variables = _variables(process.pid)
            inside = f"SLURM_JOB_ID={job}".encode() in variables
            # srun and what is below it do not have the job's variables; steps elsewhere have their
            # node's. The daemons of the lab inherit the variables of the test run, such as
            # BFTRAINER_CACHE.
            names = {v.partition(b"=")[0] for v in variables}
            client = any(name.startswith(b"BFTRAINER_") for name in names - os.environb.keys())
            elsewhere = any(v.startswith(b"SLURMD_NODENAME=node") for v in variables)
            if (inside or client) and not elsewhere:
                found.append(process)
        return found

    def pilot_process(self) -> ProcessId | None:
        """The pilot itself."""
        rows = self.machine.rows("events")
        pids = [
            int(str(row["text"]).rpartition(" ")[2])
            for row in rows
            if "started with pid" in str(row["text"])
        ]
        return identify(pids[-1]) if pids else None

    def left(self) -> list[str]:
        """Processes of this state directory, and jobs of ours."""
        there = [f"process {p.pid}: {_command(p.pid)}" for p in self.machine.processes()]
        jobs = self.lab.run("squeue", "-h", "-o", "%i|%j").split()
        return there + [job for job in jobs if "bftrainer" in job]

    def check_story(self, name: str) -> None:
        """Steps are contiguous apart from replay since the last commit; weights are what they were.
        See below.
        """
        every = (
            CHECKPOINT_EVERY if self.launchers[name] in ("restart", "torchrun") else COMMIT_EVERY
        )
        with promised():
            check_story(
                self.lines(name, "steps"),
                self.lines(name, "begins"),
                self.lines(name, "saved"),
                every,
            )

    def check_saved(self, name: str) -> None:
        """It was stopped by the rules: nothing is to be made again."""
        assert self.lines(name, "saved")[-1]["step"] == self.lines(name, "steps")[-1]["step"]

    def close(self) -> None:
        """Whatever a failed test has left."""
        self.lab.cancel_all()
        for process in self.machine.processes():
            send(process, signal.SIGKILL)


def check_story(
    steps: list[Line], begins: list[Line], saved: list[Line], commit_every: int
) -> None:
    """What one trainer has lived through, in the order of time.

    Within a group each step follows the one before. A rescale begins at the last commit, so at most
    ``commit_every`` steps are made again, with exactly the weights that step had. A new incarnation
    begins where a checkpoint ended (the last; the one before it if the last was being put in
    place). Every rank begins with the same weights.
    """
    assert steps, "it never ran"
    by_group: dict[tuple[int, int], set[str]] = {}
    for line in begins:
        by_group.setdefault((line["incarnation"], line["step"]), set()).add(line["weights"])
    assert all(len(found) == 1 for found in by_group.values()), by_group
    told = sorted(
        [*steps, *(line for line in begins if line["rank"] == 0)], key=lambda line: line["at_s"]
    )
    was: Line | None = None
    history: dict[int, Line] = {}
    for line in told:
        if "rank" in line:
            if was is None or was["incarnation"] != line["incarnation"]:
                assert was is None or was["incarnation"] < line["incarnation"], (was, line)
                _begins_where_it_was_saved(line, [s for s in saved if s["at_s"] < line["at_s"]])
            else:
                assert was["step"] - commit_every <= line["step"] <= was["step"], (was, line)
                before = history.get(line["step"], line)
                assert (line["weights"], line["samples"]) == (
                    before["weights"],
                    before["samples"],
                ), (before, line)
        else:
            assert was is not None
            assert line["step"] == was["step"] + 1, (was, line)
            assert (line["incarnation"], line["size"]) == (was["incarnation"], was["size"]), (
                was,
                line,
            )
            assert line["samples"] == was["samples"] + 8 * line["size"], (was, line)
            history[line["step"]] = line
        was = line


def _begins_where_it_was_saved(line: Line, saved: list[Line]) -> None:
    if line["step"] == 0:
        assert not saved, line
        return
    same = [(s["step"], s["samples"], s["weights"]) for s in saved[-2:]]
    assert (line["step"], line["samples"], line["weights"]) in same, (line, saved[-2:])


def _variables(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _last(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-25:]


def _command(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")[:150]
        )
    except OSError:
        return ""


def pilot_job(lab: Lab, path: Path) -> PilotJob:
    """An empty place for one."""
    os.chmod(path, 0o700)  # noqa: PTH101
    work = path / "work"
    work.mkdir()
    return PilotJob(lab, Machine(path / "state", work))
