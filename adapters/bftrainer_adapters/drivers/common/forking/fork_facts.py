"""What a process inherits and a fork server must have in common with the worker it replaces; and the messages of both sides.

Only builtin modules: the client's start is part of every worker's.
"""

import _socket  # noqa: F401 - used by the comments that give types, which ruff does not read
import marshal
import os
import sys

FD_COUNT = 3
REFUSES = 3
"""A server's exit status: its imports have done what a fork cannot share."""
READY = "ready"
GO = b"\0"
_STATUS = (
    "Umask:",
    "Uid:",
    "Gid:",
    "Groups:",
    "SigBlk:",
    "SigIgn:",
    "CapEff:",
    "NoNewPrivs:",
    "Seccomp:",
    "Cpus_allowed:",
)
_LATE = ("BFTRAINER_", "SLURM_", "SRUN_", "PMI_", "PMIX_", "LSB_", "LSF_", "LS_", "CSM_", "JSM_")
_LATE_NAMES = {
    "_", "SHLVL", "PWD", "OLDPWD", "PYTHONUNBUFFERED", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "NVIDIA_VISIBLE_DEVICES",
}  # fmt: skip
"""Variables of a step or a worker, set after the fork: no library has read them before."""


def facts():  # type: () -> dict[str, str]
    """What cannot be changed after the fork: user, limits, cores, namespaces, ignored signals, the interpreter."""
    found = {}
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(_STATUS):
                name, _, value = line.partition(":")
                found[name] = value.strip()
    with open("/proc/self/limits") as file:
        found["limits"] = file.read()
    for name in sorted(os.listdir("/proc/self/ns")):
        found["namespace " + name] = os.readlink("/proc/self/ns/" + name)
    root = os.stat("/")
    found["root folder"] = "{}:{}".format(root.st_dev, root.st_ino)
    found["nice"] = str(os.getpriority(os.PRIO_PROCESS, 0))
    found["interpreter"] = sys.executable + " " + sys.version
    return found


def early(environment, late):  # type: (dict[str, str], list[str]) -> dict[str, str]
    """The variables that libraries may have read while they were imported."""
    names = _LATE_NAMES.union(late)
    return {key: value for key, value in environment.items() if key not in names and not key.startswith(_LATE)}


def difference(ours, theirs):  # type: (dict[str, str], dict[str, str]) -> str
    """The names that differ; empty if none do."""
    return ", ".join(sorted(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)))


def pack(message):  # type: (object) -> bytes
    """A message with its length before it."""
    data = marshal.dumps(message)
    return len(data).to_bytes(4, "little") + data


def receive(connection):  # type: (_socket.socket) -> object
    """The next message; None at the end of the connection. Both ends have checked that the other is the same user's."""
    size = exactly(connection, 4)
    data = size and exactly(connection, int.from_bytes(size, "little"))
    return unpack(data) if data else None


def unpack(data):  # type: (bytes) -> object
    """A message without its length."""
    return marshal.loads(data)  # noqa: S302 - safe: both ends have checked that the other is the same user's


class ForkRequest:
    """The worker that a client asks for. Raises KeyError, TypeError and ValueError where the message is no request."""

    def __init__(self, message):  # type: (object) -> None
        if not isinstance(message, dict):
            raise TypeError("a request is a dict")
        self.words = list(message["words"])  # type: list[str]
        self.command = list(message["command"])  # type: list[str]
        self.environment = dict(message["environment"])  # type: dict[str, str]
        self.cwd = str(message["cwd"])
        self.late = list(message["late"])  # type: list[str]
        self.facts = dict(message["facts"])  # type: dict[str, str]


def exactly(connection, count):  # type: (_socket.socket, int) -> bytes
    """So many bytes; none if the connection ends before."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            return b""
        data += more
    return data


def is_private(folder):  # type: (str) -> bool
    """Whether a folder is this user's alone, and no link."""
    found = os.lstat(folder)
    return (found.st_mode & 0o170777, found.st_uid) == (0o040700, os.getuid())
