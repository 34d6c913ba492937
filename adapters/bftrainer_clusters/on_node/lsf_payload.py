"""The payload of an LSF holder, which keeps the node: ``python3 lsf_payload.py HOLDERS_DIR
LEASE_S``.

It is payload.py with LSF's signals and a guardian. LSF sends a *parallel* job nothing but SIGKILL
(unless the site sets LSB_USE_SEQUENTIAL_SIGNAL), and without cgroups the signal reaches only the
process groups that LSF knows. So a guardian in a session of its own waits for any end of the
payload and then sweeps the node.

SIGUSR2 comes at the run limit, ten minutes before the kill; SIGTSTP when a parallel job is
suspended. Both mean: leave now. Standard library, Python 3.6.
"""

import os
import signal
import sys

if __name__ != "__main__":
    from bftrainer_clusters.on_node import payload
# -I leaves the script's own folder out; there is no package on a compute node that mypy could look
# at
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import payload  # type: ignore[import-not-found,no-redef]

PREEMPTED = (*payload.PREEMPTED, signal.SIGUSR2, signal.SIGTSTP)


class LsfSweep(payload.Sweep):
    """Kills every process of the job on this node except the payload, its guardian and their
    ancestors.
    """

    def of_job(self, pid):  # type: (int) -> bool
        """Whether a process has the job's id in its environment."""
        return b"LSB_JOBID=" + self.job in read_variables(pid)

    def find(self):  # type: () -> set[int]
        """The processes to kill: those of the job, without ancestors of this one (res, the holder's
        script).
        """
        there = payload.processes(self.others)
        spared = {self.me, os.getpid(), *ancestors(there, self.me), *ancestors(there, os.getpid())}
        return {pid for pid in there if pid not in spared and self.of_job(pid)}


def read_variables(pid):  # type: (int) -> list[bytes]
    """The environment that a process was started with."""
    return payload.read(pid, "environ").split(b"\0")


def ancestors(there, pid):  # type: (dict[int, tuple[int, bytes, bytes]], int) -> set[int]
    """The ancestors of a process, as far as they are listed."""
    found = set()  # type: set[int]
    while pid in there and pid not in found:
        found.add(pid)
        pid = there[pid][0]
    return found


def node_name():  # type: () -> str
    """The last host of the job: on machines with a launch node that one comes first."""
    return os.environ["LSB_MCPU_HOSTS"].split()[-2]


def start_guardian(job):  # type: (str) -> None
    """Fork a process that sweeps when this one ends. It reads from a pipe whose other end closes
    then.
    """
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return  # ``writing`` stays open until this process ends
    os.close(writing)
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, PREEMPTED)
    os.read(reading, 1)
    LsfSweep(job, os.getpid()).run()
    os._exit(0)


def main(holders, lease_s):  # type: (str, float) -> None
    """Hold the node."""
    job = os.environ["LSB_JOBID"]
    start_guardian(job)
    folder = os.path.join(holders, node_name() + "#" + job)
    payload.hold(folder, lease_s, LsfSweep(job, os.getpid()), PREEMPTED)


if __name__ == "__main__":
    os.umask(0o077)
    main(sys.argv[1], float(sys.argv[2]))
