"""The payload of a holder on a scheduler without job steps: ``python3 job_payload.py HOLDERS_DIR
LEASE_S NODE JOB_VARIABLE``.

It keeps the node as payload.py does, by the environment of processes and with a guardian.
JOB_VARIABLE names the variable in which the scheduler puts a job's id: every process of the job has
it in its environment.

Some schedulers may end a job by SIGKILL alone (LSF does so with parallel jobs, unless the site sets
LSB_USE_SEQUENTIAL_SIGNAL), and without cgroups the signal reaches only the processes that they
know. So a guardian in a session of its own waits for any end of the payload and then sweeps the
node.

SIGUSR2 is what LSF sends at the run limit, ten minutes before the kill, and what OAR sends before a
besteffort job is killed; SIGTSTP comes when LSF suspends a parallel job. All mean: leave now.
Standard library, Python 3.6.
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


class JobSweep(payload.Sweep):
    """Kills every process of the job on this node except the payload, its guardian and their
    ancestors. ``variable`` is the environment variable with the job's id, ``me`` the pid of the
    process that sweeps.
    """

    def __init__(self, variable, job, me):  # type: (str, str, int) -> None
        payload.Sweep.__init__(self, job, me)
        self.mark = (variable + "=" + job).encode()

    def of_job(self, pid):  # type: (int) -> bool
        """Return whether a process has the job's id in its environment."""
        return self.mark in read_variables(pid)

    def find(self):  # type: () -> set[int]
        """Return the processes to kill: all of the job, without the process that sweeps, this one
        and the ancestors of both, such as the holder's script and the scheduler's own processes.
        """
        live = payload.processes(self.others)
        spared = {self.me, os.getpid(), *ancestors(live, self.me), *ancestors(live, os.getpid())}
        return {pid for pid in live if pid not in spared and self.of_job(pid)}


def read_variables(pid):  # type: (int) -> list[bytes]
    """Return the environment that a process was started with, as NAME=VALUE."""
    return payload.read(pid, "environ").split(b"\0")


def ancestors(live, pid):  # type: (dict[int, tuple[int, bytes, bytes]], int) -> set[int]
    """Return the pids of a process and of its ancestors, as far as they are listed in ``live``,
    which has each process's parent first (see payload.processes).
    """
    pids = set()  # type: set[int]
    while pid in live and pid not in pids:
        pids.add(pid)
        pid = live[pid][0]
    return pids


def start_guardian(variable, job):  # type: (str, str) -> None
    """Fork a process that sweeps the node when this one ends: it reads from a pipe whose other end
    closes then. Only this process returns.
    """
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(read_end)
        return  # ``write_end`` stays open until this process ends
    os.close(write_end)
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, PREEMPTED)
    os.read(read_end, 1)
    JobSweep(variable, job, os.getpid()).run()
    os._exit(0)


def main(holders, lease_s, node, variable):  # type: (str, float, str, str) -> None
    """Hold the node, with a guardian that sweeps it if this process is killed."""
    job = os.environ[variable]
    start_guardian(variable, job)
    folder = os.path.join(holders, node + "#" + job)
    payload.hold(folder, lease_s, JobSweep(variable, job, os.getpid()), PREEMPTED)


if __name__ == "__main__":
    os.umask(0o077)
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4])
