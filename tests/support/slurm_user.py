"""An ordinary user of the cluster of slurm_lab.py: an account of this machine, made for the tests
and removed after them.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.slurm_lab import Lab

NAME = f"bftrainer-{os.getpid()}"
"""Several test processes may have one at a time."""


def missing_user() -> str:
    """Why there can be none here; empty if there can."""
    if os.geteuid() != 0:
        return "not root"
    absent = [name for name in ("useradd", "userdel", "setpriv") if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


@dataclass(frozen=True)
class LabUser:
    """``home`` is a folder of the user's."""

    lab: Lab
    home: Path
    name: str = NAME
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further ones of this user's environment."""

    def argv(self, *argv: str) -> list[str]:
        """A command that this user runs."""
        own = pwd.getpwnam(self.name)
        return ["setpriv", f"--reuid={own.pw_uid}", f"--regid={own.pw_gid}", "--init-groups", *argv]

    @property
    def env(self) -> dict[str, str]:
        return {
            **self.lab.environ(),
            "HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.variables,
        }

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*argv),
            env=self.env,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=check,
        )

    def spawn(self, *argv: str, out: Path) -> subprocess.Popen[bytes]:
        with out.open("wb") as file:
            return subprocess.Popen(
                self.argv(*argv),
                env=self.env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def folder(self, name: str) -> Path:
        """An empty one of the user's."""
        path = self.home / name
        self.run("mkdir", "-p", "-m", "700", str(path))
        return path

    def job(self, script: str, *options: str) -> str:
        """``sbatch`` a script; its job id."""
        return self.run(
            "sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", script
        ).stdout.strip()


@contextmanager
def lab_user(lab: Lab, accounts: Sequence[str] = (), name: str = NAME) -> Iterator[LabUser]:
    """The user, in these accounts of the cluster."""
    subprocess.run(
        ["useradd", "--no-create-home", "--no-user-group", name], check=True, capture_output=True
    )
    lab.root.chmod(0o711)  # slurm.conf and munge's socket are below
    home = lab.root / f"home-{name}"
    home.mkdir(exist_ok=True)
    try:
        own = pwd.getpwnam(name)
        os.chown(home, own.pw_uid, own.pw_gid)
        for account in accounts:
            lab.run("sacctmgr", "-i", "add", "user", name, f"Account={account}")
        yield LabUser(lab, home, name)
    finally:
        lab.cancel_all()
        subprocess.run(["userdel", name], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)  # the next user of this name may have another uid


@functools.cache
def python_of_users() -> tuple[str, dict[str, str]]:
    """A Python that other users may run as a program of their own, with what it needs to import the
    project: this one, or the system's of the same version. Empty if there is none.
    """
    paths = os.pathsep.join(path for path in sys.path if path)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    choices = ((sys.executable, dict[str, str]()), (f"/usr/bin/{version}", {"PYTHONPATH": paths}))
    words = "import os, sys, bftrainer_clusters.slurm.hold; sys.exit(not os.access(sys.executable, os.X_OK))"
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    for executable, variables in choices:
        argv = [*nobody, executable, "-c", words]
        environment = {**os.environ, **variables}
        with suppress(OSError):
            if subprocess.run(argv, cwd="/", env=environment, capture_output=True).returncode == 0:
                return executable, variables
    return "", {}


def python_for_users() -> str:
    """This Python, if other users may run it and read the project; else empty."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    argv = [*nobody, sys.executable, "-c", "import bftrainer_clusters.slurm.hold"]
    return (
        sys.executable
        if subprocess.run(argv, cwd="/", capture_output=True, check=False).returncode == 0
        else ""
    )
