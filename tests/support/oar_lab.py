"""A real OAR on this machine for as long as a test needs it: PostgreSQL, Almighty, and an sshd per
node, in namespaces of their own.

Debian's OAR 2.5.9 (oar-server, oar-node, oar-user) has fixed paths, addresses and ports. So all of it
runs in private namespaces of mounts, network, host names and processes, where /etc, /var/lib/oar,
/var/log and /run are the lab's own: nothing outside changes, and the end of
the first process is the end of all. Processes of jobs are visible in /proc of this machine, and files
are where they are. Needs root; 8 nodes are there after about 8 s on 2 cores.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.system.command import run, scrubbed
from support.slurm_lab import wait_until

COMMANDS = ("oarsub", "oarstat", "oarnodes", "oardel")
PROGRAMS = ("oarsub", "oarnodes", "oar-server", "sshd", "unshare", "nsenter", "setpriv", "ip")
POSTGRES = Path("/usr/lib/postgresql")
MAIN_USER = "max"
"""Who submits main jobs; the user of the tests has the holders."""
DATABASE = "postgresql://oar:oar@127.0.0.1/oar"
_NAMESPACES = ("--mount", "--net", "--uts", "--ipc", "--pid")
_START = """\
set -eu
mount --make-rprivate /
mount -t proc proc /proc
mount --bind {root}/etc /etc
mount --bind {root}/oar /var/lib/oar
mount --bind {root}/log /var/log
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/oar /run/sshd
chown oar:oar /run/oar {root}/oar
install -o oar -g oar /dev/null /var/log/oar.log
hostname head
ip link set lo up
{addresses}
cd /
{postgres} initdb -D {root}/pg/data -U postgres -A md5 --pwfile={root}/pg/password --no-sync >/dev/null
sh -e {root}/bin/start-database
oar-database --create --db-host 127.0.0.1 --db-admin-user postgres --db-admin-pass admin
psql -q {database} -c "DELETE FROM admission_rules WHERE rule LIKE '%root and oar users are not%'"
{nodes}
sh -e {root}/bin/start-server
{resources}
touch {root}/run/is-up
trap 'exit 0' TERM
while :; do sleep 1000 & wait $!; done
"""
_CONFIGURATION = {
    "DB_BASE_PASSWD": "oar",
    "DB_BASE_PASSWD_RO": "oar",
    "SERVER_HOSTNAME": "head",
}


def missing_oar() -> str:
    """Return why a lab cannot start here; empty if it can."""
    if os.geteuid() != 0:
        return "not root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    if absent := [name for name in PROGRAMS if shutil.which(name, path=path) is None]:
        return f"{', '.join(absent)} not found; sh .ci/system-packages.sh install installs OAR"
    return "" if _postgres_programs() else "PostgreSQL's server not found"


def _postgres_programs() -> Path | None:
    folders = [path.parent for path in POSTGRES.glob("*/bin/initdb")]
    return max(folders, key=lambda folder: int(folder.parent.name), default=None)


@dataclass
class Lab:
    """The cluster: ``nodes`` nodes of ``cores`` resources each. ``env`` is what a command of OAR
    needs to reach it.
    """

    root: Path
    nodes: int = 8
    cores: int = 2
    turn_s: int = 1
    """SCHEDULER_MIN_TIME_BETWEEN_2_CALLS: one second between two turns of the scheduler, since tests
    wait for turns; OAR's own default is 5.
    """
    security_s: int = 1
    """SCHEDULER_JOB_SECURITY_TIME, which a plan adds to each job; OAR's own default is 60."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    first: int = field(default=0, init=False)
    """The first process inside the namespaces, by its number outside."""

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}

    @property
    def node_names(self) -> list[str]:
        return [f"node{number:02d}" for number in range(1, self.nodes + 1)]

    def start(self) -> None:
        self.root.chmod(0o711)
        for name in ("bin", "run", "pg", "log", "home"):
            (self.root / name).mkdir(mode=0o755)
        (self.root / "home" / ".bashrc").touch()
        # All of /etc: when somebody replaces /etc/passwd, a mount on that one file is gone.
        run(["cp", "-a", "/etc", str(self.root / "etc")], timeout_s=60)
        run(["cp", "-a", "/var/lib/oar", str(self.root / "oar")], timeout_s=60)
        self._write_files()
        with (self.root / "log" / "lab.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL"),
                    *("unshare", *_NAMESPACES, "--fork", "--kill-child"),
                    *("bash", str(self.root / "run" / "start")),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_system_environment(),
                start_new_session=True,
            )
        try:
            wait_until(self._is_up, "OAR to start", 90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from error

    def _is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        if not self.first:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            self.first = int((children.read_text().split() or ["0"])[0])
            if self.first:
                self._write_commands()
        return (self.root / "run" / "is-up").exists()

    def _write_files(self) -> None:
        programs = _postgres_programs()
        assert programs is not None
        shutil.chown(self.root / "pg", "postgres")
        (self.root / "pg" / "password").write_text("admin\n")
        as_postgres = (
            f"setpriv --reuid=postgres --regid=postgres --init-groups env PATH={programs}:$PATH"
        )
        numbers = range(1, self.nodes + 1)
        names = self.node_names
        own = pwd.getpwuid(os.geteuid())
        lines = [
            line
            for line in Path("/etc/passwd").read_text().splitlines()
            if not line.startswith((f"{own.pw_name}:", f"{MAIN_USER}:"))
        ]
        # Homes without the files that a login shell reads: a job's shell reads them, too.
        home = self.root / "home"
        lines += [
            f"{own.pw_name}:x:{own.pw_uid}:{own.pw_gid}::{home}:/bin/bash",
            f"{MAIN_USER}:x:61111:65534::{home}:/bin/bash",
        ]
        self._write("etc/passwd", "\n".join(lines))
        hosts = ["127.0.0.1 localhost head"]
        hosts += [f"127.0.1.{number} {name}" for number, name in zip(numbers, names, strict=True)]
        self._write("etc/hosts", "\n".join(hosts))
        self._configure()
        self._write(
            "bin/start-database",
            f"{as_postgres} pg_ctl -D {self.root}/pg/data -l {self.root}/pg/log -w -o '-c fsync=off "
            f"-c listen_addresses=127.0.0.1 -c unix_socket_directories={self.root}/pg' start",
        )
        self._write(
            "bin/stop-database", f"{as_postgres} pg_ctl -D {self.root}/pg/data -m immediate -w stop"
        )
        self._write(
            "bin/start-server",
            "pgrep Almighty >/dev/null || oar-server </dev/null >/dev/null 2>&1 &",
        )
        self._write(
            "run/start",
            _START.format(
                root=self.root,
                postgres=as_postgres,
                database=DATABASE,
                addresses="\n".join(f"ip addr add 127.0.1.{number} dev lo" for number in numbers),
                nodes="\n".join(
                    f"unshare --uts sh -c 'hostname {name}; exec /usr/sbin/sshd -f "
                    f"/etc/oar/sshd_config -o ListenAddress=127.0.1.{number} -o PidFile=none "
                    f"-E /var/log/sshd.{name}.log'"
                    for number, name in zip(numbers, names, strict=True)
                ),
                resources="\n".join(
                    f"oarnodesetting -a -h {name} -p cpuset={core}"
                    for name in names
                    for core in range(self.cores)
                ),
            ),
        )

    def _configure(self) -> None:
        path = self.root / "etc" / "oar" / "oar.conf"
        text = path.read_text()
        values = {
            **_CONFIGURATION,
            "SCHEDULER_MIN_TIME_BETWEEN_2_CALLS": str(self.turn_s),
            "SCHEDULER_JOB_SECURITY_TIME": str(self.security_s),
        }
        for key, value in values.items():
            text, count = re.subn(rf"^#?{key}=.*$", f'{key}="{value}"', text, flags=re.MULTILINE)
            assert count == 1, key
        # The manager of cpusets needs cgroups of version 1.
        text = text.replace("\nJOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD", "\n#JOB_RESOURCE_MANAGER")
        path.write_text(text)

    def _write_commands(self) -> None:
        """OAR's commands as a program outside calls them: in its own folder and as its own user."""
        for name in COMMANDS:
            self._write(
                f"bin/{name}", f'#!/bin/sh\nexec {self._enter()} /usr/bin/{name} "$@"', 0o755
            )

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.root / name
        path.write_text(f"{text}\n")
        path.chmod(mode)

    def _enter(self) -> str:
        return f"nsenter --target {self.first} {' '.join(_NAMESPACES)} --"

    def run(self, *argv: str) -> str:
        """Run a command inside."""
        entered = [*self._enter().split(), *argv]
        return run(entered, timeout_s=60, env=_system_environment())

    def oarsub(self, *words: str, user: str = MAIN_USER) -> str:
        """Submit a job as a user; return its id, of an array that of the first."""
        as_user = ("setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups")
        quiet = ("-d", "/", "-O", "/dev/null", "-E", "/dev/null")
        said = self.run(*as_user, "oarsub", *quiet, *words)
        job = re.search(r"^OAR_JOB_ID=(\d+)$", said, re.MULTILINE)
        assert job is not None, said
        return job[1]

    def query(self, sql: str) -> str:
        """Ask the database, unaligned and without a header."""
        return self.run("psql", "-qtA", DATABASE, "-c", sql).strip()

    def set_property(self, node: str, key: str, value: str) -> None:
        self.run("oarnodesetting", "-h", node, "-p", f"{key}={value}")

    @contextmanager
    def silent(self) -> Iterator[None]:
        self.stop_database()
        try:
            yield
        finally:
            self.start_database()

    def stop_database(self) -> None:
        self.run("sh", "-e", str(self.root / "bin" / "stop-database"))

    def start_database(self) -> None:
        """Start it, and the server, which ends when it cannot reach it."""
        self.run("sh", "-e", str(self.root / "bin" / "start-database"))
        self.run("sh", "-e", str(self.root / "bin" / "start-server"))

    def tidy_up(self) -> None:
        """End all jobs, open all nodes."""
        active = "state NOT IN ('Terminated', 'Error')"
        if self.query(f"SELECT 1 FROM jobs WHERE {active} LIMIT 1"):
            self.run("oardel", "--sql", active)
        for node in self.query(
            "SELECT DISTINCT network_address FROM resources WHERE drain = 'YES'"
        ).split():
            self.set_property(node, "drain", "NO")
        wait_until(
            lambda: not self.query(f"SELECT 1 FROM jobs WHERE {active} LIMIT 1"),
            "all jobs to end",
            90,
            0.2,
        )
        wait_until(
            lambda: (
                not self.query(
                    "SELECT 1 FROM gantt_jobs_predictions_visu WHERE moldable_job_id > 0 LIMIT 1"
                )
            ),
            "the plan to be empty",
            90,
            0.2,
        )

    def log(self, lines: int = 60) -> str:
        logs = [self.root / "log" / "lab.log", self.root / "log" / "oar.log"]
        return "\n".join(
            line
            for log in logs
            if log.exists()
            for line in log.read_text(errors="replace").splitlines()[-lines:]
        )

    def stop(self) -> None:
        """End the first process; the kernel ends all others."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)


def _system_environment() -> dict[str, str]:
    return {**scrubbed(os.environ), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def started(**settings: int) -> Iterator[Lab]:
    """Yield a cluster and end it."""
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-oar."))
    lab = Lab(folder, **settings)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()
        shutil.rmtree(folder, ignore_errors=True)
