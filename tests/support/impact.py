"""How long a job of the main queue takes to start: on an empty cluster, and on one that is held by
us to the last node.

Time runs from before the command that submits the main job, one of :data:`WAYS`, to the job's first
line. On the held cluster every node has a worker; what workers do when they are asked to end is one
of :data:`WORKERS`.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from bftrainer.cluster.model import FragmentPhase, NodeRequest
from bftrainer.fragment_names import node_of
from bftrainer.system.processes import with_variable
from bftrainer_clusters.slurm.hold import SlurmHolder
from bftrainer_clusters.slurm.hostlists import parse_hostlist
from support.clusters_under_test import WORKER_MARK, RealSlurm
from support.slurm_lab import Lab, wait_until

WAYS = ("salloc", "sbatch")
"""How users submit. slurmctld (22.05.8) looks for nodes for an interactive job as it comes, for a
batch job at its next turn, up to a second later, whoever holds them: by salloc a difference of 0.02
s shows, by sbatch one of 0.2 s hardly does.
"""

WORKERS = {
    "ends on SIGTERM": "{up}; exec sleep 1000",
    "checkpoints for 3 s": "trap 'sleep 3; exit' TERM; {up}; while :; do sleep 0.5; done",
    "ignores SIGTERM": "trap '' TERM; {up}; while :; do sleep 0.5; done",
    "has setsid children": (
        "setsid bash -c \"trap '' TERM; {up}; while :; do sleep 0.5; done\" & wait"
    ),
    "leaves orphans": (
        "(setsid bash -c \"trap '' TERM; {up}; while :; do sleep 0.5; done\" &); exec sleep 1000"
    ),
}
_PROGRAM = (
    f"{shlex.quote(sys.executable)} "
    f"{{}}{shlex.quote(str(Path(__file__).parents[1] / 'slurm' / 'impact_worker.py'))}"
)
FRAMEWORKS = {
    "horovod": _PROGRAM.format("") + " horovod {up_file}",
    "torchrun": _PROGRAM.format("-m torch.distributed.run --standalone --nproc-per-node=1 ")
    + " torchrun {up_file}",
    "restart": _PROGRAM.format("") + " restart {up_file}",
    "pool": _PROGRAM.format("") + " pool {up_file}",
}
"""Real ones, a world of one on each node: torch takes seconds to import, so they are few."""


def steps_with_remains(lab: Lab) -> set[str]:
    """Steps whose first process ended before the others, by the logs of slurmd (debug2): decision
    7.

    slurmstepd kills those that remain ("inherited" ones), and looks again a second later. 22.05
    logs "killing process 7 (inherited_task) with signal 9", 24.11 and 26.05 "sending process 7
    (inherited_task) signal 9".
    """
    logs = "".join((lab.root / "log" / f"slurmd.{name}.log").read_text() for name in lab.node_names)
    signaled = re.findall(r"\[(\d+\.\w+)\] .* process \d+ \((\w+)\) (?:with )?signal (\d+)", logs)
    assert any((kind, number) == ("slurm_task", "44") for _, kind, number in signaled), (
        "cgroups are in use"
    )
    return {step for step, kind, number in signaled if (kind, number) == ("inherited_task", "9")}


def busy_s() -> float:
    """What all cores together have worked since the machine came up, in steps of 0.01 s."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _idle, _iowait, irq, softirq = map(int, fields[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Start:
    """One main job's start; times are seconds from its submission.

    ``left`` are processes of workers on its nodes when it ran, ``late`` nodes left after that.
    """

    took_s: float
    nodes: frozenset[str]
    left: int
    late: tuple[str, ...]
    killed: int
    notice_s: float | None
    allocated_s: float | None
    """When slurmctld gave it its nodes; None if its log does not say."""
    busy_s: float
    """Time of all this machine's cores, which is the whole cluster here, from the submission to the
    first line.
    """


@dataclass
class Impact:
    """A cluster to measure on."""

    lab: Lab
    state: Path
    seed: int = 0
    by: str = "sbatch"
    """One of :data:`WAYS`."""
    settings: dict[str, object] = field(default_factory=dict)
    """Of the table [slurm]."""
    slurm: RealSlurm = field(init=False)
    holder: SlurmHolder = field(init=False)
    jobs: int = 0
    interactive: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.slurm = RealSlurm(self.lab, self.state)
        self.holder = self.slurm.holder(
            "impact", lease_s=600.0, start_within_s=60.0, **self.settings
        )
        self.holder.poll()
        self.random = random.Random(self.seed)

    def start_on_empty(self, size: int) -> Start:
        """The yardstick."""
        self._let_settle()
        start = self._start(size)
        self.lab.wait_idle()
        return start

    def start_on_plain(self, size: int) -> Start:
        """Every node has somebody else's preemptible job with a step that dies at once when Slurm
        asks: the least that preempting anybody costs. (A job without a step hears nothing before
        GraceTime and KillWait are over.)
        """
        jobs = [
            self.lab.submit(
                "srun -n1 sleep 1000", "-p", "scavenge", "-N1", "-w", node, "--exclusive", "--mem=0"
            )
            for node in self.lab.node_names
        ]
        wait_until(lambda: self._running("scavenge") == len(jobs), "plain jobs to run", 90)
        self._let_settle()
        start = self._start(size)
        self.lab.run("scancel", *jobs)
        wait_until(
            lambda: not self.lab.run("squeue", "-h", "-p", "scavenge"), "plain jobs to end", 60
        )
        self.lab.wait_idle()
        return start

    def start_on_held(self, size: int, worker: str) -> Start:
        """All nodes held, a worker on each."""
        self.lab.wait_idle()
        wait_until(self._all_held, "holders to be ready", 90)
        ups = {
            fragment: self.state / f"up.{fragment.node}.{fragment.id}"
            for fragment in self.holder.poll()
        }
        for fragment, up in ups.items():
            script = {**WORKERS, **FRAMEWORKS}[worker].format(up=f"touch {up}", up_file=up)
            self.slurm.spawn_worker(fragment, script)
        wait_until(lambda: all(up.exists() for up in ups.values()), "workers to run", 60)
        self._let_settle()
        start = self._start(size)
        self.holder.release(frozenset(fragment.name for fragment in self.holder.poll()))
        wait_until(lambda: not self.holder.poll(), "holders to end", 60)
        self.lab.wait_idle()
        for process in self.slurm.sruns:
            process.wait(60)
        self.slurm.sruns.clear()
        return start

    def workers_on(self, nodes: frozenset[str]) -> int:
        """Processes of workers whose step was on one of these nodes."""
        found = 0
        for process in with_variable(WORKER_MARK, str(self.lab.root)):
            try:
                variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            found += any(f"SLURMD_NODENAME={node}".encode() in variables for node in nodes)
        return found

    def _start(self, size: int) -> Start:
        self.jobs += 1
        told = self.state / f"main.{self.jobs}"
        before_s, begun_s = busy_s(), time.time()
        self._submit(
            f"date +%s.%N > {told}.part; mv {told}.part {told}; exec sleep 60",
            f"-N{size}",
            "-t",
            "2",
        )
        wait_until(told.exists, "the main job to start", 120, every_s=0.01)
        used_s = busy_s() - before_s
        (job,) = self.lab.run("squeue", "-h", "-p", "main", "-o", "%i").split()
        nodes = parse_hostlist(self.lab.run("squeue", "-h", "-j", job, "-o", "%N").strip())
        left = self.workers_on(nodes)
        started_s = float(told.read_text())
        written = [path for path in self.holder.holders.glob("*#*/leaving") if path.read_bytes()]
        marks = {node_of(path.parent.name): path for path in written}
        notices, late, killed = [], [], 0
        for node in sorted(nodes & marks.keys()):
            noticed, _, count, took = marks[node].read_text().split()
            notices.append(float(noticed))
            killed += int(count.partition("=")[2])
            if float(noticed) + float(took.partition("=")[2]) > started_s:
                late.append(node)
        self.lab.run("scancel", job)
        wait_until(
            lambda: not self.lab.run("squeue", "-h", "-p", "main"), "the main job to end", 60
        )
        if self.interactive is not None:
            self.interactive.wait(60)
        notice_s = min(notices) - begun_s if notices else None
        allocated_at_s = self.allocated(job)
        allocated_s = allocated_at_s - begun_s if allocated_at_s is not None else None
        return Start(
            started_s - begun_s, nodes, left, tuple(late), killed, notice_s, allocated_s, used_s
        )

    def _submit(self, script: str, *options: str) -> None:
        if self.by == "sbatch":
            self.lab.submit(script, *options)
        else:
            self.interactive = subprocess.Popen(
                ["salloc", *options, "srun", "-N1", "-n1", "bash", "-c", script],
                env=self.lab.environ(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def allocated(self, job: str) -> float | None:
        """By slurmctld's log, seconds since 1970. 26.05 does not log what backfill starts."""
        log = (self.lab.root / "log" / "slurmctld.log").read_text()
        found = re.search(
            r"^\[(\S+)\] sched.* (?:Allocate|Started|_slurm_rpc_allocate_resources) "
            rf"JobId={job} (?!NodeList=\(null)",
            log,
            re.MULTILINE,
        )
        return datetime.fromisoformat(found[1]).astimezone().timestamp() if found else None

    def _all_held(self) -> bool:
        """Whether they are; what is not held is asked for, again if it was refused or did not
        start, as a pilot does.
        """
        fragments = self.holder.poll()
        missing = set(self.lab.node_names) - {fragment.node for fragment in fragments}
        if missing:
            self.holder.acquire(tuple(NodeRequest(node) for node in sorted(missing)))
        return not missing and {fragment.phase for fragment in fragments} == {FragmentPhase.READY}

    def _running(self, partition: str) -> int:
        return len(self.lab.run("squeue", "-h", "-p", partition, "-t", "R", "-o", "%i").split())

    def _let_settle(self) -> None:
        """The scheduler's cycles are not to fall into step with ours."""
        time.sleep(self.random.uniform(0.2, 1.2))
