"""The payload of a holder, which keeps a node: ``python3 payload.py HOLDERS_DIR LEASE_S SCRIPT_PID
[SCRIPT_NODE]``.

One file on purpose, long as it is: a node opens this file on a shared file system, and no package.
Standard library, Python 3.6: it runs with the compute node's plain python3, outside of any
environment.

SIGTERM, or the signal NOTICE that holders ask Slurm to send instead, means that the holder is
preempted. Workers whose environment has ``BFTRAINER_NOTICE_S`` may take that many seconds to save.
Then the payload kills every other process of the job on this node (SIGKILL, pass after pass until
one finds nothing), writes the mark ``leaving`` and ends with status 0. Measured with Slurm 22.05.8:
without the kill the node is free only when the workers' signal handlers have returned, 4 to 30 s
later. docs/decisions/0007 says which processes are killed, and in which order.

SCRIPT_PID, if it is not 0, is the job script: it is signaled to end first, see holder.slurm.
SCRIPT_NODE is given where the job has several nodes. Each has a payload then; the one on this node
signals the script. A payload whose lease lapses ends with status 1, which ends the others as well.

Nothing here may delay the signal. Threads read and write all files, and the main thread only waits
for signals: a shared file system that hangs must not keep a node. At the end nothing is printed:
srun would wait for the holder's log (22.05.8).

Two files are read once a second. ``lease``, in the fragment's own folder, names the pilot that
holds the fragment. ``renewed``, one file in HOLDERS_DIR for all fragments, is rewritten by that
pilot six times in ``LEASE_S``: its name and a number. So thousands of fragments cost a pilot no
more than one, and a fragment that was released, or that the pilot does not know, is not renewed.

Only *changes* of ``renewed`` count, on this node's own monotonic clock, so clocks of two hosts are
never compared. A pilot may be silent for ``LEASE_S`` (stopped, or starting again). Its latest
renewal may be a sixth of that old when it falls silent, so the lease lapses a sixth and ``GRACE_S``
later, and the holder ends as on SIGTERM. Time in which this program itself was stopped does not
count. ``released`` in place of the pilot's name ends the payload at once (used while Slurm's
controller is down).
"""

import _thread
import os
import signal
import sys
import time

CHECK_S = 1.0
GRACE_S = 5.0
RENEWALS = 6.0
MOST_NOTICE_S = 60.0
NOTICE_POLL_S = 0.01
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
LAPSED = "lease lapsed"
NOTICE = 44  # a real-time signal; workers ignore it. Until this program waits for it, it is fatal
PREEMPTED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, NOTICE)


def processes(others=None):  # type: (set[int] | None) -> dict[int, tuple[int, bytes, bytes]]
    """Return parent, name and start time of every live process that may belong to the
    job, by pid.

    ``others`` are pids to skip; kernel threads (a thousand on a large node) and other users'
    processes are added to it.
    """
    uid = os.getuid()
    others = set() if others is None else others
    ours = (uid, 0)  # including root's: step managers are the parents of steps
    live = {}
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
            live[int(name)] = (int(fields[1]), head.partition(b"(")[2], fields[19])
    return live


def read(pid, name):  # type: (int, str) -> bytes
    """A file of /proc/PID; empty if the process is gone or unreadable."""
    return contents("/proc/{}/{}".format(pid, name))


def contents(path):  # type: (str) -> bytes
    """The content of a file; empty if it is gone."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def name_of_folder(job, sluid, lines):  # type: (str, str, str) -> str
    """Return the name of a Slurm job's cgroup folder: ``job_12``, or with cgroup v2 of 26.05 the
    SLUID, unless CgroupJobIdPaths is set.
    """
    return sluid if sluid and "/" + sluid + "/step_" in lines else "job_" + job


def folder_of_job(name, lines, mounts):  # type: (str, str, str) -> str
    """Return the cgroup folder of a Slurm job on this node; empty if there is none.

    ``lines`` is a /proc/PID/cgroup of the job's, ``mounts`` /proc/PID/mountinfo. Slurm's
    proctrack/cgroup uses the freezer of cgroup v1 (``/slurm/uid_7/job_12/step_0``) or cgroup v2
    (``/system.slice/slurmstepd.scope/job_12/step_0/user/task_0``).
    """
    for line in lines.splitlines():
        kind, path = line.partition(":")[2].partition(":")[::2]
        before, its, _ = path.partition("/" + name + "/step_")
        if not its or kind not in ("", "freezer"):
            continue
        for mount in mounts.splitlines():
            (root, where), tail = mount.split()[3:5], mount.partition(" - ")[2].split()
            same = (
                tail[:1] == ["cgroup"] and kind in tail[-1].split(",")
                if kind
                else tail[:1] == ["cgroup2"]
            )
            root = root.rstrip("/")
            if same and (before + "/").startswith(root + "/"):
                return where + before[len(root) :] + "/" + name
    return ""


class Steps:
    """Lists the job's processes by its cgroup, which none of them can leave; this takes no longer
    on a node with many other processes.
    """

    def __init__(self, folder, me):  # type: (str, int) -> None
        self.folder = folder
        self.me = me
        self.begun = set()  # type: set[str]
        """Steps that have had a process."""

    def usable(self):  # type: () -> bool
        """Return whether the cgroup lists this process, which shows that folders and pids are the
        right ones.
        """
        return bool(self.folder) and any(self.me in pids for pids in self.listed().values())

    def listed(self):  # type: () -> dict[str, set[int]]
        """Return the pids in the job's cgroup, by step."""
        pids = {}  # type: dict[str, set[int]]
        for place, _, files in os.walk(self.folder):
            step = place[len(self.folder) + 1 :].partition("/")[0]
            if "cgroup.procs" in files:
                pids.setdefault(step, set()).update(
                    map(int, contents(place + "/cgroup.procs").split())
                )
        return pids

    def find(self):  # type: () -> tuple[set[int], bool]
        """Return the processes to kill, and whether these are all: a step that has had no process
        so far may be about to start one.
        """
        workers = set()  # type: set[int]
        begins = False
        for step, pids in self.listed().items():
            if step == "step_batch":
                continue
            ours = {pid for pid in pids if not is_manager(pid)}
            # Spare Slurm's own sleep there: its end makes slurmctld schedule.
            if step == "step_extern":
                ours = {pid for pid in ours if not is_task(pid)}
                self.begun.add(step)
            if ours:
                self.begun.add(step)
            begins = begins or (step not in self.begun and step != "")
            workers |= ours
        return workers - {self.me}, not begins


class Sweep:
    """Kills every process of the job on this node except this one, Slurm's own and those of the
    holder's batch script.
    """

    def __init__(self, job, me, node=""):  # type: (str, int, str) -> None
        self.job = job.encode()
        self.me = me
        # A host may have several nodes of the job, each with a slurmd.
        self.node = b"SLURMD_NODENAME=" + node.encode() if node else b""
        # .../job_12/step_0/user/task_0 (cgroup v1 and v2); the holder's script is in step_batch.
        lines = read(me, "cgroup")
        name = name_of_folder(job, os.environ.get("SLURM_JOB_SLUID", ""), lines.decode())
        self.place = ("/" + name + "/step_").encode()
        self.has_cgroups = self.place in lines
        self.steps = Steps(folder_of_job(name, lines.decode(), read(me, "mountinfo").decode()), me)
        self.by_cgroup = self.steps.usable()
        self.foreign = set()  # type: set[tuple[int, bytes]]
        # Pids that a pass has ruled out: the next pass, milliseconds later, skips them.
        self.others = set()  # type: set[int]
        # What this program itself has started, as of the last pass: no worker, but it would keep
        # the step.
        self.own = set()  # type: set[int]

    def belongs(self, pid, start):  # type: (int, bytes) -> bool
        """Return whether a process belongs to a step of the job, by its environment or
        its cgroup.
        """
        if (pid, start) in self.foreign:
            return False
        environ = read(pid, "environ")
        variables = environ.split(b"\0")
        if b"SLURM_JOB_ID=" + self.job in variables:
            # Negative: the holder's script (-5 since 26.05) and Slurm's other steps that are no
            # workers.
            return any(v.startswith(b"SLURM_STEP_ID=") and v[14:15] != b"-" for v in variables)
        lines = read(pid, "cgroup").split(b"\n") if self.has_cgroups else []
        if any(self.place in line and b"/step_batch" not in line for line in lines):
            return True
        # A process without an environment may be between fork and exec, and is checked again.
        if environ:
            self.foreign.add((pid, start))
        return False

    def manager_of_other_step(self, pid):  # type: (int) -> bool
        """Return whether a process is a slurmstepd of this job whose children are workers: not that
        of this step or of the batch script.
        """
        title = read(pid, "cmdline").replace(b"\0", b" ").strip()
        wanted = b"slurmstepd: [" + self.job + b"."
        return (
            title.startswith(wanted)
            and not title.startswith(wanted + b"batch")
            and pid != os.getppid()
        )

    def find(self):  # type: () -> set[int]
        """Return the workers to kill: by the job's cgroup, if it has one, and where these may not
        be all, by a search of all processes.

        The question that this program asks Slurm (see was_preempted) has the job's environment and
        cgroup as well, so what this program has started is kept apart, in ``own``.
        """
        workers, is_all = self.steps.find() if self.by_cgroup else (set(), False)
        if not is_all:
            workers |= {pid for pid in self.find_anywhere() if not self.node or self.is_here(pid)}
        self.own = {pid for pid in workers if self.has_started(pid)}
        return workers - self.own

    def has_started(self, pid):  # type: (int) -> bool
        """Whether this program has started the process, or the first process of its session."""
        return self.me != 0 and self.me in (parent_of(pid), parent_of(session_of(pid)))

    def is_here(self, pid):  # type: (int) -> bool
        """Whether a process of the job belongs to this node."""
        variables = read(pid, "environ").split(b"\0")
        return self.node in variables or not any(
            v.startswith(b"SLURMD_NODENAME=") for v in variables
        )

    def look(self):  # type: () -> None
        """Note in quiet times which steps there are, so that a step that ends is later not taken
        for one that begins.
        """
        if self.by_cgroup:
            self.steps.find()

    def find_anywhere(self):  # type: () -> set[int]
        """Return the job's processes, the children of other steps' managers, and all their
        descendants.
        """
        live = processes(self.others)
        managers = {pid for pid, (_, name, _) in live.items() if name == STEP_MANAGER}
        spared = managers | {self.me}
        workers = {
            pid
            for pid, (_, _, start) in live.items()
            if pid not in spared and self.belongs(pid, start)
        }
        roots = workers | {pid for pid in managers if self.manager_of_other_step(pid)}
        below = roots
        while below:
            below = {
                pid for pid, (parent, _, _) in live.items() if parent in below and pid not in spared
            } - roots
            roots = roots | below
            workers |= below
        for pid, (parent, _, start) in live.items():
            if (pid, start) in self.foreign and pid not in workers and not {pid, parent} & managers:
                self.others.add(pid)
        return workers

    def run(self, workers=None):  # type: (set[int] | None) -> int
        """Kill the workers until a pass finds none, for SWEEP_S at most (what sits in the kernel
        dies when it comes out). Returns how many were killed.

        ``workers``: what :meth:`find` has just returned, for the first pass.

        The first processes of steps, which Slurm has started and waits for, are killed last: with
        cgroups, slurmstepd (22.05.8) checks for remaining processes the moment they end, and if
        there are any it checks again only a second later. They are stopped until then; otherwise
        they would end, or start others, when their children die. Slurm's SIGCONT, which all steps
        get shortly before or after the notice, would undo that, so the sweep waits for it and stops
        them again.
        """
        begun_s = time.monotonic()
        killed = set()  # type: set[int]
        at_rest = False
        while True:
            if workers is None:
                workers = self.find()
            waited_s = time.monotonic() - begun_s
            if self.own:
                send(self.own, signal.SIGKILL)
            if not (workers or self.own) or waited_s > SWEEP_S:
                return len(killed)
            others = set()
            if self.has_cgroups:
                others = {pid for pid in workers if not is_task(pid)}
            if others and waited_s < ORDERLY_S:
                send(workers, signal.SIGSTOP)
                if not at_rest:
                    at_rest = True
                    signal.sigtimedwait((signal.SIGCONT,), CONTINUED_S)
                    time.sleep(REST_S)
                    workers = None
                    continue
            else:
                others = workers
            send(others, signal.SIGKILL)
            killed |= others
            workers = None
            time.sleep(PASS_S)


def send(pids, number):  # type: (set[int], int) -> None
    """Send a signal to the processes that still exist."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass  # gone by itself


def parent_of(pid):  # type: (int) -> int
    """The pid of a process's parent; 0 if the process is gone."""
    fields = read(pid, "stat").rpartition(b")")[2].split(None, 2)
    return int(fields[1]) if fields else 0


def session_of(pid):  # type: (int) -> int
    """The session of a process, by the pid of its first process; 0 if the process is gone."""
    fields = read(pid, "stat").rpartition(b")")[2].split(None, 4)
    return int(fields[3]) if fields else 0


def is_alive(pid):  # type: (int) -> bool
    """Whether a process runs; one that its parent has not yet reaped does not."""
    return read(pid, "stat").rpartition(b")")[2].split(None, 1)[:1] not in ([], [b"Z"], [b"X"])


def is_manager(pid):  # type: (int) -> bool
    """Return whether a process is a slurmstepd, of any job."""
    return read(pid, "comm").rstrip(b"\n") == STEP_MANAGER


def is_task(pid):  # type: (int) -> bool
    """Return whether Slurm itself has started a process: all other processes of a step descend from
    such.
    """
    return is_manager(parent_of(pid))


def limit_s(lease_s):  # type: (float) -> float
    """Return the seconds of silence after which the lease lapses."""
    return lease_s + lease_s / RENEWALS + GRACE_S


class Silence:
    """Measures how long a text has not changed. A gap between two looks counts for ``most_s`` at
    most.
    """

    def __init__(self, most_s):  # type: (float) -> None
        self.most_s = most_s
        self.heard = None  # type: object
        self.before_s = time.monotonic()
        self.seconds = 0.0

    def look(self, text):  # type: (object) -> float
        """Compare the text with the one before; return for how many seconds it has not changed."""
        now_s = time.monotonic()
        self.seconds += min(now_s - self.before_s, self.most_s)
        self.before_s = now_s
        if text != self.heard:
            self.heard, self.seconds = text, 0.0
        return self.seconds


class Lease:
    """The state of the lease, by the files ``lease`` and ``renewed``, which a thread of its own
    reads.
    """

    def __init__(self, folder):  # type: (str) -> None
        self.own = os.path.join(folder, "lease")
        self.common = os.path.join(os.path.dirname(folder), "renewed")
        self.text = b""
        self.released = False

    def watch(self):  # type: () -> None
        """Read the two files once a second, for ever.

        The lease exists before it is looked for: a host that once found no file may believe that
        for a minute (NFS).
        """
        exists = False
        while True:
            exists = exists or ensure_exists(self.own)
            pilot, renewed = line_of(self.own), line_of(self.common)
            if pilot and renewed.split()[:1] == [pilot]:
                self.text = renewed
            self.released = self.released or pilot == RELEASED
            time.sleep(CHECK_S)


def ensure_exists(path):  # type: (str) -> bool
    """Make an empty file where there is none; return whether there is one now."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        return True
    except OSError:
        return False


def line_of(path):  # type: (str) -> bytes
    """The text of a short file; empty if it is missing or the file system fails."""
    try:
        with open(path, "rb") as file:
            return file.read(64).strip()
    except OSError:
        return b""


def mark(folder, name, text):  # type: (str, str, str) -> None
    """Write a mark into the fragment's folder in a thread, and wait only MARK_S for it: a file
    system that hangs must not keep the node.
    """
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


def let_save(pids):  # type: (set[int]) -> bool
    """Tell the drivers of workers that may save (BFTRAINER_NOTICE_S), and wait until these workers
    have ended or their time is over. Returns whether there were any.
    """
    limit_s, trainers, waiting = 0.0, set(), set()
    for pid in pids:
        variables = dict(item.partition(b"=")[::2] for item in read(pid, "environ").split(b"\0"))
        seconds = variables.get(b"BFTRAINER_NOTICE_S", b"")
        if seconds.replace(b".", b"", 1).isdigit():
            limit_s = max(limit_s, min(float(seconds), MOST_NOTICE_S))
            trainers.add(
                (
                    variables.get(b"BFTRAINER_TRAINER_DIR", b""),
                    variables.get(b"BFTRAINER_FRAGMENT", b""),
                )
            )
            waiting.add(pid)
    # Only the topmost: what they have started dies with them.
    waiting = {pid for pid in waiting if parent_of(pid) not in waiting}
    if not waiting:
        return False
    end_s = time.monotonic() + limit_s
    _thread.start_new_thread(tell, (trainers,))
    while waiting and time.monotonic() < end_s:
        time.sleep(NOTICE_POLL_S)
        waiting = {pid for pid in waiting if is_alive(pid)}
    return True


def tell(trainers):  # type: (set[tuple[bytes, bytes]]) -> None
    """Append preempted fragments to their trainers' ``preempted.jsonl``. Errors are ignored: a
    trainer that cannot be told repeats work, and nothing is printed at the end.
    """
    for folder, fragment in trainers:
        try:
            file = os.open(
                folder + b"/preempted.jsonl",
                os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK,
            )
            os.write(file, b'{"fragment": "' + fragment + b'"}\n')
            os.close(file)
        except OSError:
            pass


def gpus():  # type: () -> str
    """Return the end of the mark ``ready``: the job's GPUs, as its script sees them, and its cores
    where it has only a part of the node (``gpus=1,2 cores=6``, after a blank).
    """
    indices = os.environ.get("BFTRAINER_GPUS") or os.environ.get("SLURM_JOB_GPUS", "")
    cores = os.environ.get("BFTRAINER_CORES", "")
    return "".join([" gpus=" + indices if indices else "", " cores=" + cores if cores else ""])


def was_preempted(job):  # type: (str) -> bool
    """Return whether Slurm is preempting the job, by asking it: its notice reaches only the steps
    that there are at that moment, and this one may have begun later.

    The question has a session of its own, by which a sweep tells it and what it starts from
    workers.
    """
    import subprocess  # takes 10 ms; the payload is ready by now

    argv, no = ["scontrol", "-o", "show", "job", job], subprocess.DEVNULL
    try:
        text = subprocess.check_output(  # noqa: S603  # Slurm's own command
            argv, stdin=no, stderr=no, timeout=60.0, start_new_session=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return b" PreemptTime=" in text and b" PreemptTime=None" not in text


def hear_earlier(job):  # type: (str) -> None
    """Send this program the notice if Slurm gave it before the program could hear it: the main job
    would wait for all of GraceTime.
    """
    if was_preempted(job):
        os.kill(os.getpid(), NOTICE)


def main(holders, lease_s, script=0, script_node=""):  # type: (str, float, int, str) -> None
    """Hold the node, or one of the nodes, of a Slurm job."""
    job, node = os.environ["SLURM_JOB_ID"], os.environ["SLURMD_NODENAME"]
    folder = os.path.join(holders, node + "#" + job)
    if script_node:
        here = script if node == script_node else 0
        hold(folder + "." + node, lease_s, Sweep(job, os.getpid(), node), PREEMPTED, here, 1, job)
    else:
        hold(folder, lease_s, Sweep(job, os.getpid()), PREEMPTED, script, job=job)


def hold(folder, lease_s, sweep, preempted, script=0, lapsed=0, job=""):
    # type: (str, float, Sweep, tuple[int, ...], int, int, str) -> None
    """Hold the node until a signal preempts it, it is released, or its lease lapses; then kill the
    workers, write the mark ``leaving`` and exit, with status ``lapsed`` after a lapse, else 0.

    ``job`` is Slurm's job, and empty on other schedulers.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (*preempted, signal.SIGCONT))
    lease = Lease(folder)
    mark(folder, "ready", "{:.6f}".format(time.time()) + gpus())
    _thread.start_new_thread(lease.watch, ())
    if job:
        _thread.start_new_thread(hear_earlier, (job,))
    silence = Silence(2 * CHECK_S)
    while True:
        got = signal.sigtimedwait(preempted, CHECK_S)
        noticed_s = time.time()
        silent_s = silence.look(lease.text)
        # After SIGSTOP and SIGCONT, CPython (3.11) may return an uninitialized siginfo at the
        # timeout.
        if got is not None and got.si_signo in preempted:
            why = "notice" if got.si_signo == NOTICE else signal.Signals(got.si_signo).name
        elif lease.released:
            why = "released"
        elif silent_s > limit_s(lease_s):
            why = LAPSED
        else:
            signal.sigtimedwait((signal.SIGCONT,), 0)  # discard an earlier one
            sweep.look()
            continue
        workers = sweep.find()
        if why not in ("released", LAPSED) and let_save(workers):
            workers = sweep.find()
        killed = sweep.run(workers)
        text = "{:.6f} {} killed={} took_s={:.6f}".format(
            noticed_s, why, killed, time.time() - noticed_s
        )
        mark(folder, "leaving", text)
        if script:
            try:
                os.kill(script, signal.SIGUSR1)
            except OSError:
                os._exit(0)
            signal.sigtimedwait(preempted, PUSH_S)
        os._exit(lapsed if why == LAPSED else 0)


if __name__ == "__main__":
    os.umask(0o077)
    main(
        sys.argv[1],
        float(sys.argv[2]),
        int(sys.argv[3]) if len(sys.argv) > 3 else 0,
        *sys.argv[4:5],
    )
