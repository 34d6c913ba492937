"""What runs in a holder's step and keeps the node: ``python3 payload.py HOLDERS_DIR LEASE_S SCRIPT_PID``.

One file, standard library, Python 3.6: it runs with the compute node's plain python3, without an environment.

On SIGTERM the main queue wants the node back, at once: every other process of the job on this node is killed (SIGKILL, pass
after pass until one finds nothing), the mark ``leaving`` is written and the program ends with status 0. Measured with Slurm
22.05.8: without the kill the node changes hands when the workers are through with their handlers, 4 to 30 s later.

SCRIPT_PID, if it is not 0, is the job script: it is signalled to end first, see holder.slurm.

Nothing here may stand in the signal's way. All files are read and written by other threads than the main one, which only
waits for signals: a shared file system that hangs must not keep a node.

Two files are read once a second. ``lease``, in the fragment's own folder, names the pilot that holds it. ``renewed``, one file
in HOLDERS_DIR for all fragments, is rewritten by that pilot, six times in ``LEASE_S``: its name and a number. So thousands of
fragments cost a pilot no more than one, and a fragment that it has given up, or never knew, does not live on them.

Only *changes* of ``renewed`` count, on this node's own monotonic clock, so no two clocks are ever compared. A pilot may be
silent for ``LEASE_S`` (stopped, or starting again): its last sign of life may be a sixth of that old when it falls silent, so
the lease lapses a sixth and ``GRACE_S`` later, and the holder ends as for SIGTERM. Time in which this program itself was
stopped does not count. ``released`` in place of the pilot's name ends it at once (the pilot's way while Slurm's controller is
down).
"""

import _thread
import os
import signal
import sys
import time

CHECK_S = 1.0
GRACE_S = 5.0
RENEWALS = 6.0
SWEEP_S = 3.0
MARK_S = 0.2
PUSH_S = 0.3
KERNEL_THREAD = 0x00200000
RELEASED = b"released"
ASKED_BACK = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def processes(others=None):  # type: (set[int] | None) -> dict[int, tuple[int, bytes, bytes]]
    """Parent, name and start of every living process that may be ours, by pid.

    ``others`` are pids that are not looked at; kernel threads (a thousand on a large node) and other users' processes are
    added to it.
    """
    uid = os.getuid()
    others = set() if others is None else others
    ours = (uid, 0)  # root's too: the step managers are its children's parents
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in others:
            continue
        try:
            if uid != 0 and os.stat("/proc/" + name).st_uid not in ours:
                others.add(int(name))
                continue
            with open("/proc/" + name + "/stat", "rb") as file:
                head, _, tail = file.read().rpartition(b")")
            fields = tail.split(None, 20)
        except OSError:
            continue
        if int(fields[6]) & KERNEL_THREAD:
            others.add(int(name))
        elif fields[0] not in (b"Z", b"X"):
            found[int(name)] = (int(fields[1]), head.partition(b"(")[2], fields[19])
    return found


def read(pid, name):  # type: (int, str) -> bytes
    """A file of /proc/PID; empty for what is gone or not ours to read."""
    try:
        with open("/proc/{}/{}".format(pid, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


class Sweep:
    """Kills every process of the job on this node but its own and those of Slurm and of the holder's batch script."""

    def __init__(self, job, me):  # type: (str, int) -> None
        self.job = job.encode()
        self.me = me
        # .../job_12/step_0/user/task_0 (cgroup v1 and v2); the holder's own script is in step_batch.
        self.place = b"/job_" + self.job + b"/step_"
        self.has_cgroups = self.place in read(me, "cgroup")
        self.foreign = set()  # type: set[tuple[int, bytes]]
        # Pids that a pass has settled: the next pass, milliseconds later, looks only at what is new, or ours, or undecided.
        self.others = set()  # type: set[int]

    def belongs(self, pid, start):  # type: (int, bytes) -> bool
        """A process of one of the job's steps: by its environment, or by the cgroup that Slurm put it in."""
        if (pid, start) in self.foreign:
            return False
        environ = read(pid, "environ")
        variables = environ.split(b"\0")
        if b"SLURM_JOB_ID=" + self.job in variables:
            return any(v.startswith(b"SLURM_STEP_ID=") for v in variables)
        lines = read(pid, "cgroup").split(b"\n") if self.has_cgroups else []
        if any(self.place in line and b"/step_batch" not in line for line in lines):
            return True
        # No environment may be one between fork and exec: to be looked at again.
        if environ:
            self.foreign.add((pid, start))
        return False

    def manager_of_other_step(self, pid):  # type: (int) -> bool
        """A slurmstepd of this job that is neither ours nor the batch script's: its children are workers."""
        title = read(pid, "cmdline").replace(b"\0", b" ").strip()
        wanted = b"slurmstepd: [" + self.job + b"."
        return title.startswith(wanted) and not title.startswith(wanted + b"batch") and pid != os.getppid()

    def find(self):  # type: () -> set[int]
        """What is to die: members, children of other steps' managers, and everything below them."""
        there = processes(self.others)
        managers = {pid for pid, (_, name, _) in there.items() if name == b"slurmstepd"}
        spared = managers | {self.me}
        found = {pid for pid, (_, _, start) in there.items() if pid not in spared and self.belongs(pid, start)}
        roots = found | {pid for pid in managers if self.manager_of_other_step(pid)}
        below = roots
        while below:
            below = {pid for pid, (parent, _, _) in there.items() if parent in below and pid not in spared} - roots
            roots = roots | below
            found |= below
        for pid, (parent, _, start) in there.items():
            if (pid, start) in self.foreign and pid not in found and not {pid, parent} & managers:
                self.others.add(pid)
        return found

    def run(self):  # type: () -> int
        """Kill until a pass finds nothing, for SWEEP_S at most (what sits in the kernel dies when it comes out)."""
        until = time.monotonic() + SWEEP_S
        killed = set()  # type: set[int]
        while True:
            found = self.find()
            if not found or time.monotonic() > until:
                return len(killed)
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # gone by itself
            killed |= found
            time.sleep(0.001)


def limit_s(lease_s):  # type: (float) -> float
    """After how long a silence the lease lapses."""
    return lease_s + lease_s / RENEWALS + GRACE_S


class Silence:
    """For how long a text has not changed while somebody watched; a gap between two looks counts as ``most_s``."""

    def __init__(self, most_s):  # type: (float) -> None
        self.most_s = most_s
        self.heard = None  # type: object
        self.before_s = time.monotonic()
        self.seconds = 0.0

    def look(self, text):  # type: (object) -> float
        """One more look; the seconds of silence."""
        now_s = time.monotonic()
        self.seconds += min(now_s - self.before_s, self.most_s)
        self.before_s = now_s
        if text != self.heard:
            self.heard, self.seconds = text, 0.0
        return self.seconds


class Lease:
    """What the pilot has said; watched by a thread of its own."""

    def __init__(self, folder):  # type: (str) -> None
        self.own = os.path.join(folder, "lease")
        self.common = os.path.join(os.path.dirname(folder), "renewed")
        self.text = b""
        self.released = False

    def watch(self):  # type: () -> None
        """Look at the files for ever."""
        while True:
            pilot, renewed = line_of(self.own), line_of(self.common)
            if pilot and renewed.split()[:1] == [pilot]:
                self.text = renewed
            self.released = self.released or pilot == RELEASED
            time.sleep(CHECK_S)


def line_of(path):  # type: (str) -> bytes
    """A short file's text; empty where it is not written yet, or the file system is gone: no sign of life."""
    try:
        with open(path, "rb") as file:
            return file.read(64).strip()
    except OSError:
        return b""


def mark(folder, name, text):  # type: (str, str, str) -> None
    """Write a mark in a thread, and wait for it a moment only."""
    done = _thread.allocate_lock()
    done.acquire()

    def write():  # type: () -> None
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            path = os.path.join(folder, name)
            with open(path + ".new", "w") as file:
                file.write(text + "\n")
            os.rename(path + ".new", path)
        except OSError as error:
            sys.stderr.write("payload: {}: {}\n".format(name, error))
        done.release()

    _thread.start_new_thread(write, ())
    done.acquire(True, MARK_S)


def main(holders, lease_s, script=0):  # type: (str, float, int) -> None
    """Hold the node of a Slurm job."""
    job = os.environ["SLURM_JOB_ID"]
    folder = os.path.join(holders, os.environ["SLURMD_NODENAME"] + "#" + job)
    hold(folder, lease_s, Sweep(job, os.getpid()), ASKED_BACK, script)


def hold(folder, lease_s, sweep, asked_back, script=0):
    # type: (str, float, Sweep, tuple[signal.Signals, ...], int) -> None
    """Hold the node until it is asked back by a signal, released, or nobody holds it any more."""
    signal.pthread_sigmask(signal.SIG_BLOCK, asked_back)
    lease = Lease(folder)
    mark(folder, "ready", "{:.6f}".format(time.time()))
    _thread.start_new_thread(lease.watch, ())
    silence = Silence(2 * CHECK_S)
    while True:
        got = signal.sigtimedwait(asked_back, CHECK_S)
        noticed_s = time.time()
        silent_s = silence.look(lease.text)
        # After SIGSTOP and SIGCONT, when its time is over, CPython (3.11) answers with a siginfo that nobody has filled in.
        if got is not None and got.si_signo in asked_back:
            why = signal.Signals(got.si_signo).name
        elif lease.released:
            why = "released"
        elif silent_s > limit_s(lease_s):
            why = "lease lapsed"
        else:
            continue
        killed = sweep.run()
        text = "{:.6f} {} killed={} took_s={:.6f}".format(noticed_s, why, killed, time.time() - noticed_s)
        mark(folder, "leaving", text)
        sys.stderr.write("payload: leaving: " + text + "\n")
        sys.stderr.flush()
        if script:
            try:
                os.kill(script, signal.SIGUSR1)
            except OSError:
                os._exit(0)
            signal.sigtimedwait(asked_back, PUSH_S)
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
