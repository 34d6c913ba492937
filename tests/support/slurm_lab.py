"""A real Slurm cluster on this machine for as long as a test needs it: munged, slurmctld and a
slurmd per node.

Everything is below one folder, listens on 127.0.0.1 only, on ports that were free, and needs no
systemd, no cgroups and no root (as an ordinary user that user is SlurmUser). Tried with Debian's
22.05.8, 24.11.5 and 26.05.5 (slurm_versions.py): 8 nodes are idle after one to three seconds.
"""

from __future__ import annotations

import getpass
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bftrainer.system.command import run, scrubbed
from bftrainer.system.processes import ProcessId, send, with_variable
from support.patience import PATIENCE
from support.slurm_accounting import Database
from support.slurm_gpus import Gpus
from support.slurm_versions import INSTALLED, SlurmVersion

FOLDERS = ("etc", "ctld", "log", "run", "spool", "munge", "cgroup", "bin")
BAD_ANSWERS = {
    "empty": "exit 0",
    "garbage": "echo 'slurm_load_jobs error: Socket timed out'",
    "truncated": "printf 'JOBID|STATE|REQ_NODES|END_TIME|REASON|COMM'",
    "failing": "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
    "hung": "sleep 1000",
}
"""Scripts in place of squeue whose answers cannot be trusted."""
CGROUPS = Path("/sys/fs/cgroup")
OWN_PROCESSES = [
    *("unshare", "--fork", "--pid", "--mount-proc", "--kill-child"),
    *("bash", "-c", '"$@" & wait $!', "node"),
]
"""Runs slurmd below an init that reaps. unshare passes no signal on but its own end."""
OWN_HOST = ["unshare", "--uts", "sh", "-c", 'hostname backup && exec "$@"', "sh"]
BACKUP = "slurmctld backup"


def missing_cgroups(kind: str = "v1") -> str:
    """Why slurmd cannot track processes by cgroup here; empty if it can: root, and a freezer of
    cgroup v1, or cgroup v2.
    """
    if os.geteuid() != 0:
        return "not root"
    if kind == "v1":
        freezer = CGROUPS / "freezer"
        return (
            "" if os.access(freezer / "tasks", os.W_OK) else f"no freezer of cgroup v1 in {freezer}"
        )
    if not os.access(cgroup2() / "cgroup.procs", os.W_OK):
        return f"no cgroup v2 in {cgroup2()}"
    return "" if not _is_hybrid() or shutil.which("cc") else "no C compiler for slurm_shim.c"


def cgroup2() -> Path:
    """Where cgroup v2 is mounted: alone, or beside v1."""
    return CGROUPS if (CGROUPS / "cgroup.controllers").exists() else CGROUPS / "unified"


def _is_hybrid() -> bool:
    return cgroup2() != CGROUPS


@dataclass(frozen=True)
class Settings:
    """What differs between sites. The default is the recommended set-up with short waits."""

    nodes: int = 8
    grace_s: int = 30
    kill_wait_s: int = 5
    scheduler: str = (
        "bf_interval=1,bf_window=2880,bf_resolution=1,bf_continue,sched_min_interval=0,batch_sched_delay=0,"
        "sched_interval=2,preempt_youngest_first"
    )
    controller: str = "enable_configless,preempt_send_user_signal"
    private_data: str = ""
    service: int = 0
    """Further nodes, in a partition of that name only: where pilots sit, and no main job."""
    cloud: int = 0
    """Further nodes of everybody's partitions, in the state CLOUD: powered down, without a slurmd
    until a test starts it.
    """
    epilog: str = "/bin/true"
    """Any. Without one slurmctld (22.05.8) hears of a holder's end in an answer that makes it plan
    only at its next turn, up to 1 s later; with one, in a message that makes it start jobs at once
    (0.13 s after the notice instead of 0.53).
    """
    prolog: str = ""
    more: str = ""
    """Further lines of slurm.conf."""
    preempt: str = "preempt/partition_prio"
    accounting: str = ""
    """With slurmdbd and MariaDB, and what of it slurmctld enforces (``associations,limits,qos``):
    slurm_accounting.py.
    """
    slurmd_debug: str = "info"
    proctrack: str = "linuxproc"
    """How slurmd finds a step's processes: by /proc, anywhere, or as sites do by ``cgroup``
    (:func:`missing_cgroups`).
    """
    cgroups: str = "v1"
    """Or v2, of which slurmd only tracks processes here: no controllers, no systemd."""
    gpus: Gpus | None = None
    exclusive: str = "OverSubscribe=EXCLUSIVE"
    """How the main queue's partition says that jobs share no node; 26.05 has Exclusive=NODE, too,
    and TOPO and USER.
    """
    topology: str = ""
    """topology.conf."""
    cores: int = 2
    memory_mb: int = 2000
    """Of each node."""
    shares_nodes: bool = False
    """Jobs of several users run beside each other, and count their memory."""
    backup: bool = False
    """A second slurmctld, which takes over from the first (root)."""
    own_processes: bool = False
    """Each node's /proc shows its own processes only (root): many_nodes.py. Otherwise the end of a
    job reads those of all nodes.
    """
    cluster: str = "lab"
    """ClusterName."""
    prefix: str = "node"
    """Of the nodes' names."""


# Slurm's own defaults (man slurm.conf, 22.05), with GraceTime 30.
DEFAULTS = Settings(
    kill_wait_s=30, scheduler="bf_interval=30", controller="enable_configless", epilog=""
)

_SLURM_CONF = """\
ClusterName={settings.cluster}
SlurmctldHost={host}(127.0.0.1)
{backup}
SlurmctldPort={port}
# Two labs on one machine must not share job ids: a holder's payload knows its job by it. Ports are the lab's own.
FirstJobId={first_job}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/munge/socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={root}/ctld
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd.%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd.%n.log
LogTimeFormat=iso8601_ms
SlurmctldDebug=info
SlurmdDebug={settings.slurmd_debug}
ProctrackType=proctrack/{settings.proctrack}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
# With 2, 24.11 and later revive a node in 2 s that a test has set DOWN.
ReturnToService=1
SlurmctldTimeout=30
SlurmdTimeout=300
InactiveLimit=0
MinJobAge=60
KillWait={settings.kill_wait_s}
MailProg=/bin/true
TCPTimeout=5
SlurmdParameters=config_overrides
SlurmctldParameters={settings.controller}
PropagateResourceLimits=NONE
SelectType=select/cons_tres
SelectTypeParameters={select}
SchedulerType=sched/backfill
SchedulerParameters={settings.scheduler}
PriorityType=priority/multifactor
PriorityWeightAge=0
PreemptType={settings.preempt}
PreemptMode=CANCEL
{accounting}
JobCompType=jobcomp/none
{more}
{nodes}
PartitionName=main Nodes={of_main} Default=YES PriorityTier=10 PreemptMode=OFF {exclusive} DefaultTime=60
PartitionName=scavenge Nodes={of_main} PriorityTier=1 PreemptMode=CANCEL GraceTime={settings.grace_s} \
{alone} DefaultTime=60
{of_service}
"""


@dataclass
class Lab:
    """The cluster. ``env`` is what a command needs to reach it; ``bin`` comes first on its PATH,
    for fakes.

    ``sibling``: a cluster that was started before, whose slurmdbd and munge's key this one shares.
    """

    root: Path
    settings: Settings = field(default_factory=Settings)
    version: SlurmVersion = INSTALLED
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    database: Database | None = None
    sibling: Lab | None = None

    @property
    def conf(self) -> Path:
        return self.root / "etc" / "slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.conf), "PATH": f"{self.root}/bin:{self.version.path}"}

    @property
    def node_names(self) -> list[str]:
        return [f"{self.settings.prefix}{n:02d}" for n in range(1, self.settings.nodes + 1)]

    @property
    def service_names(self) -> list[str]:
        return [f"svc{n:02d}" for n in range(1, self.settings.service + 1)]

    @property
    def cloud_names(self) -> list[str]:
        return [f"cloud{n:02d}" for n in range(1, self.settings.cloud + 1)]

    def start(self) -> None:
        for name in FOLDERS:
            (self.root / name).mkdir(mode=0o755, parents=True, exist_ok=True)
        key = Path("run") / "munge.key"
        (self.root / key).write_bytes(
            (self.sibling.root / key).read_bytes() if self.sibling else os.urandom(1024)
        )
        (self.root / key).chmod(0o600)
        self._write_configuration()
        self._start(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={self.root}/run/munge.key",
            f"--socket={self.root}/munge/socket",
            f"--pid-file={self.root}/run/munged.pid",
            f"--seed-file={self.root}/run/munge.seed",
            f"--log-file={self.root}/log/munged.log",
        )
        wait_until(lambda: (self.root / "munge" / "socket").exists(), "munged to listen")
        if self.database is not None:
            if self.sibling is None:
                self._start_database(self.database)
            self.run("sacctmgr", "-i", "add", "cluster", self.settings.cluster)
        self.start_controller(clean=True)
        if self.settings.backup:
            self.start_controller(name=BACKUP)
        for name in [*self.node_names, *self.service_names]:
            self.start_node(name)
        self.wait_idle()

    def start_controller(self, clean: bool = False, name: str = "slurmctld") -> None:
        own = ["-f", str(self._conf_of_backup())] if name == BACKUP else []
        self._start(name, "-D", "-i", *own, *(["-c"] if clean else []))

    def _conf_of_backup(self) -> Path:
        """With a log and a file for its pid of its own: a slurmctld ends the one whose pid it
        finds.
        """
        path = self.conf.with_name("backup.conf")
        path.write_text(re.sub(r"slurmctld\.(pid|log)", r"backup.\1", self.conf.read_text()))
        return path

    def _start_database(self, database: Database) -> None:
        database.prepare()
        self._start("mariadbd", *database.options)
        wait_until(database.is_up, "MariaDB", 60)
        database.make()
        self._start("slurmdbd", "-D")
        wait_until(lambda: self.answers("sacctmgr", "-n", "-i", "list", "cluster"), "slurmdbd", 90)

    def stop_daemon(self, name: str) -> None:
        """End one daemon and wait for it."""
        self._end(name)
        process = self.daemons.pop(name)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)

    def _end(self, name: str) -> None:
        """Signal one daemon to end."""
        alone = self.settings.own_processes and name.startswith("slurmd ")
        self.daemons[name].send_signal(signal.SIGKILL if alone else signal.SIGTERM)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """slurmctld is down; it is back at the end, also that of a test that fails, for a later
        test shares the cluster.
        """
        self.stop_daemon("slurmctld")
        try:
            yield
        finally:
            self.start_controller()
            wait_until(lambda: self.answers("squeue", "-h"), "slurmctld to answer")

    def stop(self) -> None:
        """End the jobs, the daemons, and whatever their jobs have left; the latter are found by
        their SLURM_CONF.
        """
        if "slurmctld" in self.daemons:
            with suppress(Exception):
                self.cancel_all()
        last = [name for name in ("slurmdbd", "mariadbd") if name in self.daemons]
        others = sorted(self.daemons.keys() - set(last), reverse=True)
        for name in others:
            self._end(name)
        for name in [*others, *last]:
            self.stop_daemon(name)
        for process in self.processes():
            send(process, signal.SIGKILL)
        if self.uses_cgroup2:
            for folder in sorted(
                cgroup2().glob("system.slice/*slurmstepd.scope/**/"), reverse=True
            ):
                with suppress(OSError):  # another lab's, or a process is still ending
                    folder.rmdir()

    def processes(self) -> list[ProcessId]:
        """Everything that was started with this cluster's configuration: daemons, steps, jobs."""
        return list(with_variable("SLURM_CONF", str(self.conf)))

    def cancel_all(self) -> None:
        """Cancel every job and wait until none is left."""
        # Of every user, by id: 26.05's scancel refuses the user nobody. Arrays and heterogeneous
        # jobs as a whole.
        if jobs := {
            re.split("[_+]", job)[0] for job in self.run("squeue", "-h", "-a", "-o", "%i").split()
        }:
            self.run("scancel", *sorted(jobs))
        wait_until(lambda: not self.run("squeue", "-h"), "all jobs to end", seconds=45)

    def tidy_up(self) -> None:
        """Back to eight idle nodes: no fakes, jobs, reservations or broken nodes."""
        for fake in (self.root / "bin").iterdir():
            fake.unlink()
        if "slurmctld" not in self.daemons:
            self.start_controller()
        wait_until(lambda: self.answers("squeue", "-h"), "slurmctld to answer")
        for line in self.run("scontrol", "-o", "show", "reservation").splitlines():
            if line.startswith("ReservationName="):
                self.run("scontrol", "delete", line.split()[0])
        self.cancel_all()
        for name in self.node_names:
            if f"slurmd {name}" not in self.daemons:
                self.start_node(name)
        if self._states() != ["idle"] * self.settings.nodes:
            with suppress(Exception):
                self.run(
                    "scontrol", "update", f"NodeName={','.join(self.node_names)}", "State=RESUME"
                )
        self.wait_idle()

    @property
    def uses_cgroup2(self) -> bool:
        return (self.settings.proctrack, self.settings.cgroups) == ("cgroup", "v2")

    def start_node(self, name: str, *options: str) -> None:
        more = {"LD_PRELOAD": str(self._shim())} if self.uses_cgroup2 and _is_hybrid() else {}
        self._start(
            f"slurmd {name}", "-D", "-N", name, *self.version.slurmd_options, *options, **more
        )

    def _shim(self) -> Path:
        """slurm_shim.c, compiled."""
        library = self.root / "run" / "shim.so"
        if not library.exists():
            source = Path(__file__).with_name("slurm_shim.c")
            run(
                ["cc", "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(source), "-ldl"],
                timeout_s=60,
            )
        return library

    def real(self, program: str) -> str:
        """The path of a program that a fake has replaced."""
        path = shutil.which(program, path=self.version.path)
        assert path, program
        return path

    def put_fake(self, program: str, script: str) -> None:
        """A program that is found before the real one."""
        path = self.root / "bin" / program
        path.write_text(script)
        path.chmod(0o755)

    def answers(self, *argv: str) -> bool:
        with suppress(Exception):
            self.run(*argv)
            return True
        return False

    def wait_idle(self) -> None:
        """Until every node is idle (``idle*``, not responding, is not)."""
        wanted = ["idle"] * self.settings.nodes
        try:
            wait_until(lambda: self._states() == wanted, "all nodes to be idle")
        except AssertionError as error:
            logs = [
                f"{log.name}: {log.read_text(errors='replace')[-500:]}"
                for log in sorted((self.root / "log").glob("*"))
            ]
            raise AssertionError(
                "\n".join((f"{error}; they are {self._states()}", *logs))
            ) from None

    def run(self, *argv: str, stdin: str | None = None, timeout_s: float = 60.0) -> str:
        return run(argv, timeout_s=timeout_s, env=self.env, stdin=stdin)

    def submit(self, script: str, *options: str) -> str:
        """``sbatch`` a script; its job id."""
        out = f"--output={self.root}/log/job-%j.out"
        return self.run(
            "sbatch", "--parsable", out, *options, stdin=f"#!/bin/bash\n{script}\n"
        ).strip()

    def enter(self, setenv: Callable[[str, str], None]) -> None:
        """Commands of this process are to find this cluster."""
        for name, value in self.env.items():
            setenv(name, value)

    def environ(self) -> dict[str, str]:
        """For a program that is to find this cluster, and no job that the tests may run in."""
        return {**scrubbed(os.environ), **self.env}

    def _states(self) -> list[str]:
        with suppress(Exception):
            return self.run(
                "sinfo", "-h", "-N", "-p", "main", "-n", ",".join(self.node_names), "-o", "%T"
            ).split()
        return []

    def _start(self, name: str, *arguments: str, **variables: str) -> None:
        program = self.real(name.split()[0])
        log = (self.root / "log" / f"{name.replace(' ', '.')}.err").open("ab")
        below = OWN_HOST if name == BACKUP else []
        if self.settings.own_processes and name.startswith("slurmd "):
            below = OWN_PROCESSES
        with log:
            self.daemons[name] = subprocess.Popen(
                [*below, program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self.environ(), **variables},
                start_new_session=True,
            )

    def _service_partition(self) -> str:
        """Pilots share its nodes, a core each."""
        if not self.service_names:
            return ""
        return (
            f"PartitionName=service Nodes={','.join(self.service_names)} PriorityTier=10 "
            "PreemptMode=OFF DefaultTime=60"
        )

    def _write_configuration(self) -> None:
        host = socket.gethostname().split(".")[0]
        names = [*self.node_names, *self.service_names, *self.cloud_names]
        states = ["CLOUD" if name in self.cloud_names else "UNKNOWN" for name in names]
        controller, *ports = free_ports(1 + len(names))
        gpus = self.settings.gpus
        gres = f" Gres={gpus.gres}" if gpus else ""
        cores, shares = self.settings.cores, self.settings.shares_nodes
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores} "
            "Boards=1 SocketsPerBoard=1 "
            f"CoresPerSocket={cores} ThreadsPerCore=1 RealMemory={self.settings.memory_mb} "
            f"State={state}{gres}"
            for name, port, state in zip(names, ports, states, strict=True)
        )
        chosen = {
            "PrivateData": self.settings.private_data,
            "Epilog": self.settings.epilog,
            "Prolog": self.settings.prolog,
        }
        more = self.version.settings + "\n".join(
            f"{key}={value}" for key, value in chosen.items() if value
        )
        more += "\n" + self.settings.more
        if gpus:
            more += "\n" + gpus.slurm_conf()
            self.conf.with_name("gres.conf").write_text(gpus.gres_conf(self.root / "dev"))
        accounting = "AccountingStorageType=accounting_storage/none"
        if self.settings.accounting:
            shared = self.sibling.database if self.sibling else None
            self.database = shared or Database(self.root, free_ports(2), self.version)
            accounting = self.database.slurm_conf(self.settings.accounting)
        text = _SLURM_CONF.format(
            host=host,
            port=controller,
            backup="SlurmctldHost=backup(127.0.0.2)" if self.settings.backup else "",
            first_job=controller * 1000,
            user=getpass.getuser(),
            root=self.root,
            settings=self.settings,
            nodes=nodes,
            accounting=accounting,
            select="CR_Core_Memory" if shares else "CR_Core",
            alone="" if shares else "OverSubscribe=EXCLUSIVE",
            exclusive="" if shares else self.settings.exclusive,
            more=more,
            of_main=",".join([*self.node_names, *self.cloud_names]),
            of_service=self._service_partition(),
        )
        if (
            self.settings.preempt == "preempt/qos"
        ):  # as the page on site setup has it: the QOS says who is preempted
            text = text.replace("PreemptMode=OFF ", "", 1)
        if self.settings.preempt == "preempt/none":  # slurmctld refuses any other mode
            text = re.sub(r"PreemptMode=CANCEL GraceTime=\d+", "PreemptMode=OFF", text)
            text = text.replace("PreemptMode=CANCEL", "PreemptMode=OFF")
        self.conf.write_text(text)
        self.conf.with_name("cgroup.conf").write_text(self._cgroup_conf())
        if self.settings.topology:
            self.conf.with_name("topology.conf").write_text(self.settings.topology)

    def _cgroup_conf(self) -> str:
        if self.uses_cgroup2:
            (cgroup2() / "system.slice").mkdir(exist_ok=True)  # systemd's; 24.11 and later make it
            return f"CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nCgroupMountpoint={cgroup2()}\n"
        # slurmd starts a cgroup plugin even if nothing uses one; with v1 named it starts on any
        # machine, and makes no cgroup.
        mounted = CGROUPS if self.settings.proctrack == "cgroup" else self.root / "cgroup"
        automount = (
            "CgroupAutomount=no\n" if self.version.release < (24, 5) else ""
        )  # a later one's error
        return f"CgroupPlugin=cgroup/v1\n{automount}CgroupMountpoint={mounted}\n"


@contextmanager
def sibling_of(lab: Lab, cluster: str = "b", prefix: str = "beta") -> Iterator[Lab]:
    """A second cluster under the slurmdbd of a lab."""
    with tempfile.TemporaryDirectory(
        prefix="bftrainer-slurm.", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o711)
        settings = replace(lab.settings, cluster=cluster, prefix=prefix)
        sibling = Lab(Path(folder), settings, lab.version, sibling=lab)
        try:
            sibling.start()
            yield sibling
        finally:
            sibling.stop()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody has now, below those that connections get (32768 and up on
    Linux).
    """
    found: list[int] = []
    for port in random.Random().sample(range(18_000, 32_000), 2_000):
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


def wait_until(
    condition: Callable[[], object], what: str, seconds: float = 30.0, every_s: float = 0.05
) -> None:
    seconds *= PATIENCE
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds:g} s for {what}"
        time.sleep(every_s)
