"""What keeps the node in an LSF holder: ``python3 lsf_payload.py HOLDERS_DIR LEASE_S``. payload.py with LSF's signals.

One more thing than on Slurm: LSF sends a *parallel* job nothing but SIGKILL (unless the site sets LSB_USE_SEQUENTIAL_SIGNAL),
and without cgroups it reaches only the process groups that it knows. So a guardian in a session of its own waits for the
payload's end, however that comes, and then sweeps the node.

SIGUSR2 comes at the run limit, ten minutes before the kill; SIGTSTP when a parallel job is suspended: either means leave now.
Standard library, Python 3.6.
"""

import os
import signal
import sys

if __name__ != "__main__":
    from bftrainer_adapters.on_node import payload
else:  # -I leaves the script's own folder out; there is no package on a compute node that mypy could look at
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import payload  # type: ignore[import-not-found,no-redef]

ASKED_BACK = (*payload.ASKED_BACK, signal.SIGUSR2, signal.SIGTSTP)


class LsfSweep(payload.Sweep):
    """Kills every process of the job on this node but the payload, its guardian and what they came from."""

    def of_job(self, pid):  # type: (int) -> bool
        """A process with the job's id in its environment that is no ancestor of ours (res, the holder's script)."""
        return b"LSB_JOBID=" + self.job in read_variables(pid)

    def find(self):  # type: () -> set[int]
        """What is to die."""
        there = payload.processes(self.others)
        spared = {self.me, os.getpid(), *ancestors(there, self.me), *ancestors(there, os.getpid())}
        return {pid for pid in there if pid not in spared and self.of_job(pid)}


def read_variables(pid):  # type: (int) -> list[bytes]
    """The environment that a process was started with."""
    return payload.read(pid, "environ").split(b"\0")


def ancestors(there, pid):  # type: (dict[int, tuple[int, bytes, bytes]], int) -> set[int]
    """The parents of a process, up to where they are not seen."""
    found = set()  # type: set[int]
    while pid in there and pid not in found:
        found.add(pid)
        pid = there[pid][0]
    return found


def node_name():  # type: () -> str
    """The last host of the job: on machines with a launch node that one comes first."""
    return os.environ["LSB_MCPU_HOSTS"].split()[-2]


def start_guardian(job):  # type: (str) -> None
    """Fork what sweeps when this process ends. It holds only the reading end of a pipe that dies with us."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return  # ``writing`` stays open as long as we live
    os.close(writing)
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, ASKED_BACK)
    os.read(reading, 1)
    LsfSweep(job, os.getpid()).run()
    os._exit(0)


def main(holders, lease_s):  # type: (str, float) -> None
    """Hold the node."""
    job = os.environ["LSB_JOBID"]
    start_guardian(job)
    folder = os.path.join(holders, node_name() + "#" + job)
    payload.hold(folder, lease_s, LsfSweep(job, os.getpid()), ASKED_BACK)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
