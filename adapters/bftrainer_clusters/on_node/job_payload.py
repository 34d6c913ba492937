"""The payload of a holder on a scheduler without job steps: ``python3 job_payload.py HOLDERS_DIR
LEASE_S NOTICE_S NODE JOB_VARIABLE``.

It keeps the node as payload.py does, by the environment of processes and with a guardian.
JOB_VARIABLE names the variable in which the scheduler puts a job's id: every process of the job has
it in its environment. The folder of the holder has the id without the name of a server
(``445`` of PBS's ``445.head``). NOTICE_S is the most time that workers may have to save.

The payload ends as the last process of the job, and leaves no zombie: orphans become its children,
and it reaps them. PBS takes a job whose first process has ended, and of which a process or zombie
of the same session is left, for one that hangs, and waits for its kill_delay; with it waits the
scheduler of the site (measured with OpenPBS 23.06.06: 8 to 26 s in place of 1).

A job that was requeued finds the mark of its first run, and ends at once.

Some schedulers may end a job by SIGKILL alone (LSF does so with parallel jobs, unless the site sets
LSB_USE_SEQUENTIAL_SIGNAL), and without cgroups the signal reaches only the processes that they
know. So a guardian in a session of its own waits for any end of the payload and then sweeps the
node.

SIGUSR2 is what LSF sends at the run limit, ten minutes before the kill, and what OAR sends before a
besteffort job is killed; SIGTSTP comes when LSF suspends a parallel job. All mean: leave now.
Standard library, Python 3.6.
"""

import ctypes
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

ONE_OF_SEVERAL = "BFTRAINER_HOLDER_NODE"
"""Where the job has several nodes, the name of this one: a variable that holder.sh sets."""
PREEMPTED = (*payload.PREEMPTED, signal.SIGUSR2, signal.SIGTSTP)
_PR_SET_CHILD_SUBREAPER = 36


class JobSweep(payload.Sweep):
    """Kills every process of the job on this node except the payload, its guardian and their
    ancestors. ``variable`` is the environment variable with the job's id, ``me`` the pid of the
    process that sweeps. In a job of several nodes, a process that names another one is none of this
    node's: a host may have several nodes.
    """

    def __init__(self, variable, job, me):  # type: (str, str, int) -> None
        payload.Sweep.__init__(self, job, me)
        self.mark = (variable + "=" + job).encode()
        self.of_node = (ONE_OF_SEVERAL + "=").encode()
        self.here = self.of_node + os.environ.get(ONE_OF_SEVERAL, "").encode()

    def look(self):  # type: () -> None
        """Reap what has ended in quiet times."""
        reap()

    def run(self, workers=None):  # type: (set[int] | None) -> int
        """Kill the workers as :meth:`payload.Sweep.run` does, and reap them."""
        killed = payload.Sweep.run(self, workers)
        reap()
        return killed

    def of_job(self, pid):  # type: (int) -> bool
        """Return whether a process has the job's id in its environment, and names no other node of
        a job of several. Where the job has one node, a name has come along from another job.
        """
        variables = read_variables(pid)
        nodes = [value for value in variables if value.startswith(self.of_node)]
        is_elsewhere = self.here != self.of_node and nodes not in ([], [self.here])
        return self.mark in variables and not is_elsewhere

    def find(self):  # type: () -> set[int]
        """Return the processes to kill: all of the job, without the process that sweeps, this one
        and the ancestors of both, such as the holder's script and the scheduler's own processes.
        """
        live = payload.processes(self.others)
        spared = {self.me, os.getpid(), *ancestors(live, self.me), *ancestors(live, os.getpid())}
        return {pid for pid in live if pid not in spared and self.of_job(pid)}


def folder_of(holders, node, job):  # type: (str, str, str) -> str
    """Return the folder of a fragment: it has the job's id without the name of a server, and the
    node where the job has several.
    """
    suffix = "." + node if ONE_OF_SEVERAL in os.environ else ""
    return os.path.join(holders, node + "#" + job.partition(".")[0] + suffix)


def become_reaper():  # type: () -> None
    """Let orphans of the job become children of this process, and not of the node's init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap():  # type: () -> None
    """Reap all children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # there are none


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


def main(holders, lease_s, notice_s, node, variable):
    # type: (str, float, float, str, str) -> None
    """Hold the node, with a guardian that sweeps it if this process is killed. A job that has held
    the node before ends.
    """
    job = os.environ[variable]
    folder = folder_of(holders, node, job)
    if payload.contents(os.path.join(folder, "leaving")):
        sys.stderr.write("payload: this job was started again; it ends\n")
        return
    become_reaper()
    start_guardian(variable, job)
    sweep = JobSweep(variable, job, os.getpid())
    # A lapse ends the payloads of the job's other nodes too (holder.sh).
    status = 1 if ONE_OF_SEVERAL in os.environ else 0
    payload.hold(folder, lease_s, sweep, PREEMPTED, lapse_status=status, notice_s=notice_s)


if __name__ == "__main__":
    os.umask(0o077)
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5])
