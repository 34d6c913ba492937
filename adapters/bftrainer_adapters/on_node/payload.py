"""What runs in a holder's step and keeps the node: ``python3 payload.py HOLDERS_DIR LEASE_S SCRIPT_PID``.

One file, standard library, Python 3.6: it runs with the compute node's plain python3, without an environment.

On SIGTERM, or on the signal NOTICE that the holder asks Slurm to send instead, the main queue wants the node back, at once:
every other process of the job on this node is killed (SIGKILL, pass after pass until one finds nothing), the mark ``leaving``
is written and the program ends with status 0. Measured with Slurm 22.05.8: without the kill the node changes hands when the
workers are through with their handlers, 4 to 30 s later. Who is to die, and in which order: docs/decisions/0007.

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
ORDERLY_S = 0.2
CONTINUED_S = 0.05
REST_S = 0.005
PASS_S = 0.0003
MARK_S = 0.2
PUSH_S = 0.3
STEP_MANAGER = b"slurmstepd"
KERNEL_THREAD = 0x00200000
RELEASED = b"released"
NOTICE = 44  # a real-time signal: workers are started with it ignored; before this program listens it ends it
ASKED_BACK = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, NOTICE)


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
    return contents("/proc/{}/{}".format(pid, name))


def contents(path):  # type: (str) -> bytes
    """Of a file that may be gone; empty then."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def folder_of_job(job, lines, mounts):  # type: (str, str, str) -> str
    """Where Slurm keeps the processes of one of its jobs on this node; empty where it does not.

    ``lines`` is a /proc/PID/cgroup of the job's, ``mounts`` /proc/PID/mountinfo. Slurm's proctrack/cgroup uses the freezer of
    cgroup v1 (``/slurm/uid_7/job_12/step_0``) or cgroup v2 (``/system.slice/slurmstepd.scope/job_12/step_0/user/task_0``).
    """
    for line in lines.splitlines():
        kind, path = line.partition(":")[2].partition(":")[::2]
        before, its, _ = path.partition("/job_" + job + "/step_")
        if not its or kind not in ("", "freezer"):
            continue
        for mount in mounts.splitlines():
            (root, where), tail = mount.split()[3:5], mount.partition(" - ")[2].split()
            same = tail[:1] == ["cgroup"] and kind in tail[-1].split(",") if kind else tail[:1] == ["cgroup2"]
            root = root.rstrip("/")
            if same and (before + "/").startswith(root + "/"):
                return where + before[len(root) :] + "/job_" + job
    return ""


class Steps:
    """The job's processes by its cgroup, which none of them can leave; however many others the node has."""

    def __init__(self, folder, me):  # type: (str, int) -> None
        self.folder = folder
        self.me = me
        self.known = set()  # type: set[str]
        """Steps that have had a process."""

    def usable(self):  # type: () -> bool
        """Whether this process is listed there; so these are the right folders, and the pids are ours."""
        return bool(self.folder) and any(self.me in pids for pids in self.listed().values())

    def listed(self):  # type: () -> dict[str, set[int]]
        """Pids by step."""
        found = {}  # type: dict[str, set[int]]
        for place, _, files in os.walk(self.folder):
            step = place[len(self.folder) + 1 :].partition("/")[0]
            if "cgroup.procs" in files:
                found.setdefault(step, set()).update(map(int, contents(place + "/cgroup.procs").split()))
        return found

    def find(self):  # type: () -> tuple[set[int], bool]
        """What is to die, and whether that is all: a step that has had no process yet may be about to start one."""
        found = set()  # type: set[int]
        begins = False
        for step, pids in self.listed().items():
            if step == "step_batch":
                continue
            ours = {pid for pid in pids if not is_manager(pid)}
            if step == "step_extern":  # Slurm's own sleep there is to last: its end tells slurmctld to look for jobs
                ours = {pid for pid in ours if not is_task(pid)}
                self.known.add(step)
            if ours:
                self.known.add(step)
            begins = begins or (step not in self.known and step != "")
            found |= ours
        return found - {self.me}, not begins


class Sweep:
    """Kills every process of the job on this node but its own and those of Slurm and of the holder's batch script."""

    def __init__(self, job, me):  # type: (str, int) -> None
        self.job = job.encode()
        self.me = me
        # .../job_12/step_0/user/task_0 (cgroup v1 and v2); the holder's own script is in step_batch.
        self.place = b"/job_" + self.job + b"/step_"
        lines = read(me, "cgroup")
        self.has_cgroups = self.place in lines
        self.steps = Steps(folder_of_job(job, lines.decode(), read(me, "mountinfo").decode()), me)
        self.by_cgroup = self.steps.usable()
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
        """What is to die: by the job's cgroup if it has one, and if that may not be all, by looking at every process."""
        found, is_all = self.steps.find() if self.by_cgroup else (set(), False)
        return found if is_all else found | self.find_anywhere()

    def look(self):  # type: () -> None
        """While nobody asks: which steps there are, so that one that has just ended is not taken for one that begins."""
        if self.by_cgroup:
            self.steps.find()

    def find_anywhere(self):  # type: () -> set[int]
        """Members, children of other steps' managers, and everything below them."""
        there = processes(self.others)
        managers = {pid for pid, (_, name, _) in there.items() if name == STEP_MANAGER}
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
        """Kill until a pass finds nothing, for SWEEP_S at most (what sits in the kernel dies when it comes out).

        Steps' first processes, which Slurm has started and waits for, are to die last: with cgroups, slurmstepd (22.05.8)
        looks what they have left behind the moment they end, and if there is anything it looks again a second later. They
        are stopped meanwhile, or they would end, or start others, when their children die. Slurm's SIGCONT, which goes to all
        steps shortly before or after its notice, undoes that; so everything rests until it has come, and is stopped again.
        """
        begun_s = time.monotonic()
        killed = set()  # type: set[int]
        at_rest = False
        while True:
            found, waited_s = self.find(), time.monotonic() - begun_s
            if not found or waited_s > SWEEP_S:
                return len(killed)
            others = {pid for pid in found if not is_task(pid)} if self.has_cgroups else set()
            if others and waited_s < ORDERLY_S:
                send(found, signal.SIGSTOP)
                if not at_rest:
                    at_rest = True
                    signal.sigtimedwait((signal.SIGCONT,), CONTINUED_S)
                    time.sleep(REST_S)
                    continue
            else:
                others = found
            send(others, signal.SIGKILL)
            killed |= others
            time.sleep(PASS_S)


def send(pids, number):  # type: (set[int], int) -> None
    """A signal to those that are still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # gone by itself


def parent_of(pid):  # type: (int) -> int
    """0 if it is gone."""
    fields = read(pid, "stat").rpartition(b")")[2].split(None, 2)
    return int(fields[1]) if fields else 0


def is_manager(pid):  # type: (int) -> bool
    """A slurmstepd, of whichever job."""
    return read(pid, "comm").rstrip(b"\n") == STEP_MANAGER


def is_task(pid):  # type: (int) -> bool
    """What Slurm itself has started, and what everything else in the step comes from."""
    return is_manager(parent_of(pid))


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
    # type: (str, float, Sweep, tuple[int, ...], int) -> None
    """Hold the node until it is asked back by a signal, released, or nobody holds it any more."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*asked_back, signal.SIGCONT))
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
            why = "notice" if got.si_signo == NOTICE else signal.Signals(got.si_signo).name
        elif lease.released:
            why = "released"
        elif silent_s > limit_s(lease_s):
            why = "lease lapsed"
        else:
            signal.sigtimedwait((signal.SIGCONT,), 0)  # of some other time
            sweep.look()
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
