"""MariaDB and slurmdbd for the cluster of slurm_lab.py: accounts, QOSes and their limits. Up in 8
to 10 s.
"""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from support.slurm_versions import SYSTEM_PATH, SlurmVersion

_PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb")
_SQL = (
    "create database slurm_acct_db; "
    + "".join(
        f"create user 'slurm'@'{h}' identified by 'slurm'; " for h in ("127.0.0.1", "localhost")
    )
    + "".join(
        f"grant all on slurm_acct_db.* to 'slurm'@'{h}'; " for h in ("127.0.0.1", "localhost")
    )
)
_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
LogFile={root}/log/slurmdbd.log
PidFile={root}/run/slurmdbd.pid
CommunicationParameters=NoInAddrAny
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


def missing_accounting(version: SlurmVersion) -> str:
    """Why there is no slurmdbd here; empty if there is."""
    absent = [
        n
        for n in (*_PROGRAMS, "slurmdbd", "sacctmgr")
        if shutil.which(n, path=version.path) is None
    ]
    return f"not installed: {', '.join(absent)}; see .ci/system-packages.txt" if absent else ""


class Cluster(Protocol):
    """A cluster with a database."""

    def run(self, *argv: str) -> str: ...


_ACCOUNTS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "site" / "accounts.sh"


def preemptible_qos(cluster: Cluster) -> None:
    """The script of the documentation, as it is, for this user, who has an account for jobs
    already.
    """
    sacctmgr(cluster, "add account users")
    sacctmgr(cluster, f"add user {getpass.getuser()} account=users")
    cluster.run("sh", str(_ACCOUNTS), getpass.getuser())


def sacctmgr(cluster: Cluster, words: str) -> None:
    """Change accounting."""
    cluster.run("sacctmgr", "-i", *words.split())


def with_user(cluster: Cluster) -> None:
    """This user has an account for jobs on all clusters of the database."""
    sacctmgr(cluster, "add account users")
    sacctmgr(cluster, f"add user {getpass.getuser()} account=users")


def account_beside_pilots(cluster: Cluster, user: str) -> None:
    """This user's account ``physics`` below ``science``, beside the account of the pilots: they
    share its limits.
    """
    sacctmgr(cluster, "add account science")
    sacctmgr(cluster, "add account physics parent=science")
    sacctmgr(cluster, "modify account pilots set parent=science")
    sacctmgr(cluster, f"add user {user} account=physics")


def limit(cluster: Cluster, words: str) -> None:
    """Change the QOS."""
    sacctmgr(cluster, f"modify qos scavenger set {words}")


@dataclass
class Database:
    """The database server of one cluster."""

    root: Path
    ports: list[int]
    version: SlurmVersion

    @property
    def options(self) -> list[str]:
        d = self.root / "mysql"
        return [
            "--no-defaults",
            f"--user={getpass.getuser()}",
            f"--datadir={d}/data",
            f"--socket={d}/sock",
            f"--pid-file={d}/pid",
            "--bind-address=127.0.0.1",
            f"--port={self.ports[1]}",
            "--innodb-buffer-pool-size=128M",
            "--innodb-lock-wait-timeout=900",
            "--innodb-flush-log-at-trx-commit=0",
            f"--log-error={d}/log",
        ]

    def slurm_conf(self, enforce: str) -> str:
        return (
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={self.ports[0]}\nAccountingStoragePass={self.root}/munge/socket\n"
            f"AccountingStorageEnforce={enforce}"
        )

    def prepare(self) -> None:
        """The files of an empty database, and slurmdbd.conf."""
        folder = self.root / "mysql"
        folder.mkdir(exist_ok=True)
        done = subprocess.run(
            [
                "mariadb-install-db",
                "--no-defaults",
                f"--user={getpass.getuser()}",
                f"--datadir={folder}/data",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        conf = self.root / "etc" / "slurmdbd.conf"
        text = _SLURMDBD_CONF.format(
            root=self.root,
            host=socket.gethostname().split(".")[0],
            port=self.ports[0],
            user=getpass.getuser(),
            sql_port=self.ports[1],
        )
        conf.write_text(text + self.version.settings)
        conf.chmod(0o600)

    def is_up(self) -> bool:
        return self._sql("select 1").returncode == 0

    def make(self) -> None:
        self._sql(_SQL).check_returncode()

    def _sql(self, text: str) -> subprocess.CompletedProcess[bytes]:
        argv = [
            "mariadb",
            "--no-defaults",
            "-S",
            str(self.root / "mysql" / "sock"),
            "-uroot",
            "-e",
            text,
        ]
        return subprocess.run(argv, capture_output=True, check=False, env={"PATH": SYSTEM_PATH})
