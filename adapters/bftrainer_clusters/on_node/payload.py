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
    """Return (parent's pid, name, start time) of every live process that may belong to the job, by
    pid.

    ``others`` are pids to skip; kernel threads (a thousand on a large node) and other users'
    processes are added to it.
    """
    uid = os.getuid()
    others = set() if others is None else others
    uids = (uid, 0)  # including root's: step managers are the parents of steps
    live = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in others:
            continue
        try:
            if uid != 0 and os.stat("/proc/" + name).st_uid not in uids:
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
    """Return a file of /proc/PID; empty if the process is gone or unreadable."""
    return contents("/proc/{}/{}".format(pid, name))


def contents(path):  # type: (str) -> bytes
    """Return the content of a file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def name_of_folder(job, sluid, lines):  # type: (str, str, str) -> str
    """Return the name of a Slurm job's cgroup folder: ``job_12``, or with cgroup v2 of 26.05 the
    SLUID, unless CgroupJobIdPaths is set. ``lines`` is a /proc/PID/cgroup of the job's, which
    shows the SLUID only where it names the folder.
    """
    return sluid if sluid and "/" + sluid + "/step_" in lines else "job_" + job


def folder_of_job(name, lines, mounts):  # type: (str, str, str) -> str
    """Return the cgroup folder of a Slurm job on this node; empty if there is none.

    ``lines`` is a /proc/PID/cgroup of the job's, ``mounts`` /proc/PID/mountinfo. Slurm's
    proctrack/cgroup uses the freezer of cgroup v1 (``/slurm/uid_7/job_12/step_0``) or cgroup v2
    (``/system.slice/slurmstepd.scope/job_12/step_0/user/task_0``).
    """
    for line in lines.splitlines():
        # ``4:freezer:/slurm/uid_7/job_12/step_0`` (v1), ``0::/system.slice/...`` (v2)
        controller, path = line.partition(":")[2].partition(":")[::2]
        parent_path, separator, _ = path.partition("/" + name + "/step_")
        if not separator or controller not in ("", "freezer"):
            continue
        for mount in mounts.splitlines():
            root, mount_point = mount.split()[3:5]
            root = root.rstrip("/")
            is_above = (parent_path + "/").startswith(root + "/")
            if is_above and is_mount_of(mount, controller):
                return mount_point + parent_path[len(root) :] + "/" + name
    return ""


def is_mount_of(mount, controller):  # type: (str, str) -> bool
    """Return whether a line of /proc/PID/mountinfo mounts a controller of cgroup v1, or cgroup v2
    if the controller is empty.
    """
    tail = mount.partition(" - ")[2].split()  # type, source, options
    if controller:
        return tail[:1] == ["cgroup"] and controller in tail[-1].split(",")
    return tail[:1] == ["cgroup2"]


class Steps:
    """Lists the job's processes by its cgroup, which none of them can leave; this takes no longer
    on a node with many other processes. ``folder`` is the cgroup's, or empty; ``me`` is this
    process's pid.
    """

    def __init__(self, folder, me):  # type: (str, int) -> None
        self.folder = folder
        self.me = me
        self.started_steps = set()  # type: set[str]
        """Steps that have had a process."""

    def is_usable(self):  # type: () -> bool
        """Return whether the cgroup lists this process, which shows that folders and pids are the
        right ones.
        """
        return bool(self.folder) and any(self.me in pids for pids in self.listed().values())

    def listed(self):  # type: () -> dict[str, set[int]]
        """Return the pids in the job's cgroup, by step."""
        pids_by_step = {}  # type: dict[str, set[int]]
        for folder, _, files in os.walk(self.folder):
            step = folder[len(self.folder) + 1 :].partition("/")[0]
            if "cgroup.procs" in files:
                pids_by_step.setdefault(step, set()).update(
                    map(int, contents(folder + "/cgroup.procs").split())
                )
        return pids_by_step

    def find(self):  # type: () -> tuple[set[int], bool]
        """Return the processes to kill, and whether these are all: a step that has had no process
        so far may be about to start one. The batch script's step is left out.
        """
        workers = set()  # type: set[int]
        is_step_starting = False
        for step, pids in self.listed().items():
            if step == "step_batch":
                continue
            step_workers = {pid for pid in pids if not is_manager(pid)}
            # Spare Slurm's own sleep there: its end makes slurmctld schedule.
            if step == "step_extern":
                step_workers = {pid for pid in step_workers if not is_task(pid)}
                self.started_steps.add(step)
            if step_workers:
                self.started_steps.add(step)
            # The empty name is the job's folder itself.
            if step != "" and step not in self.started_steps:
                is_step_starting = True
            workers |= step_workers
        return workers - {self.me}, not is_step_starting


class Sweep:
    """Kills every process of the job on this node except this one, Slurm's own and those of the
    holder's batch script. ``me`` is this process's pid; ``node`` is set where the job has several
    nodes.
    """

    def __init__(self, job, me, node=""):  # type: (str, int, str) -> None
        self.job = job.encode()
        self.me = me
        # A host may have several nodes of the job, each with a slurmd.
        self.node = b"SLURMD_NODENAME=" + node.encode() if node else b""
        # /proc/PID/cgroup of a process of the job: .../job_12/step_0/user/task_0 (v1 and v2); the
        # holder's script is in step_batch.
        lines = read(me, "cgroup")
        name = name_of_folder(job, os.environ.get("SLURM_JOB_SLUID", ""), lines.decode())
        self.steps_path = ("/" + name + "/step_").encode()
        self.has_cgroups = self.steps_path in lines
        self.steps = Steps(folder_of_job(name, lines.decode(), read(me, "mountinfo").decode()), me)
        self.has_usable_steps = self.steps.is_usable()
        # (pid, start time) of processes of which :meth:`belongs` knows that they are not the job's.
        self.foreign = set()  # type: set[tuple[int, bytes]]
        # Pids that a pass has ruled out: the next pass, milliseconds later, skips them.
        self.others = set()  # type: set[int]
        # Processes that this program itself has started, as of the last pass: no workers, but they
        # would keep the step.
        self.own_children = set()  # type: set[int]

    def belongs(self, pid, start):  # type: (int, bytes) -> bool
        """Return whether a process belongs to a step of the job, by its environment or its cgroup.
        ``start`` is its start time: with it, a pid that is used again is another process.
        """
        if (pid, start) in self.foreign:
            return False
        environ = read(pid, "environ")
        variables = environ.split(b"\0")
        if b"SLURM_JOB_ID=" + self.job in variables:
            # Negative: the holder's script (-5 since 26.05) and Slurm's other steps that are no
            # workers.
            return any(
                variable.startswith(b"SLURM_STEP_ID=") and variable[14:15] != b"-"
                for variable in variables
            )
        lines = read(pid, "cgroup").split(b"\n") if self.has_cgroups else []
        if any(self.steps_path in line and b"/step_batch" not in line for line in lines):
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
        job_title = b"slurmstepd: [" + self.job + b"."
        return (
            title.startswith(job_title)
            and not title.startswith(job_title + b"batch")
            and pid != os.getppid()
        )

    def find(self):  # type: () -> set[int]
        """Return the workers to kill: by the job's cgroup, if it has one, and where these may not
        be all, by a search of all processes.

        The scontrol that this program runs (see was_preempted) has the job's environment and cgroup
        as well, so the processes that this program has started are kept apart, in
        ``own_children``.
        """
        workers, is_complete = self.steps.find() if self.has_usable_steps else (set(), False)
        if not is_complete:
            workers |= {pid for pid in self.find_anywhere() if not self.node or self.is_here(pid)}
        self.own_children = {pid for pid in workers if self.has_started(pid)}
        return workers - self.own_children

    def has_started(self, pid):  # type: (int) -> bool
        """Return whether this program has started the process, or the first process of its
        session.
        """
        return self.me != 0 and self.me in (parent_of(pid), parent_of(session_of(pid)))

    def is_here(self, pid):  # type: (int) -> bool
        """Return whether a process of the job belongs to this node: its environment names this
        node, or none.
        """
        variables = read(pid, "environ").split(b"\0")
        return self.node in variables or not any(
            variable.startswith(b"SLURMD_NODENAME=") for variable in variables
        )

    def look(self):  # type: () -> None
        """Record in quiet times which steps have processes: a step whose processes have ended would
        later look like a step that has yet to start its first process.
        """
        if self.has_usable_steps:
            self.steps.find()

    def find_anywhere(self):  # type: () -> set[int]
        """Return the job's processes, the children of other steps' managers, and all descendants of
        both, by a search of all processes. Pids that are ruled out are added to ``others``.
        """
        live = processes(self.others)
        managers = {pid for pid, (_, name, _) in live.items() if name == STEP_MANAGER}
        spared = managers | {self.me}
        workers = {
            pid
            for pid, (_, _, start) in live.items()
            if pid not in spared and self.belongs(pid, start)
        }
        ancestors = workers | {pid for pid in managers if self.manager_of_other_step(pid)}
        generation = ancestors
        while generation:
            children = {
                pid
                for pid, (parent, _, _) in live.items()
                if parent in generation and pid not in spared
            }
            generation = children - ancestors
            ancestors = ancestors | generation
            workers |= generation
        # Managers and their children are looked at again in each pass.
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
        start_s = time.monotonic()
        killed = set()  # type: set[int]
        has_waited = False  # for Slurm's SIGCONT
        while True:
            if workers is None:
                workers = self.find()
            passed_s = time.monotonic() - start_s
            if self.own_children:
                send(self.own_children, signal.SIGKILL)
            if not (workers or self.own_children) or passed_s > SWEEP_S:
                return len(killed)
            # Without cgroups nothing is checked at the end of first processes: all die at once.
            descendants = set()
            if self.has_cgroups:
                descendants = {pid for pid in workers if not is_task(pid)}
            if descendants and passed_s < ORDERLY_S:
                send(workers, signal.SIGSTOP)
                if not has_waited:
                    has_waited = True
                    signal.sigtimedwait((signal.SIGCONT,), CONTINUED_S)
                    time.sleep(REST_S)
                    workers = None
                    continue
                victims = descendants
            else:
                victims = workers
            send(victims, signal.SIGKILL)
            killed |= victims
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
    """Return the pid of a process's parent; 0 if the process is gone."""
    fields = read(pid, "stat").rpartition(b")")[2].split(None, 2)
    return int(fields[1]) if fields else 0


def session_of(pid):  # type: (int) -> int
    """Return the session of a process, by the pid of the session's first process; 0 if the process
    is gone.
    """
    fields = read(pid, "stat").rpartition(b")")[2].split(None, 4)
    return int(fields[3]) if fields else 0


def is_alive(pid):  # type: (int) -> bool
    """Return whether a process runs; one that its parent has not yet reaped does not."""
    state = read(pid, "stat").rpartition(b")")[2].split(None, 1)[:1]
    return state not in ([], [b"Z"], [b"X"])


def is_manager(pid):  # type: (int) -> bool
    """Return whether a process is a slurmstepd, of any job."""
    return read(pid, "comm").rstrip(b"\n") == STEP_MANAGER


def is_task(pid):  # type: (int) -> bool
    """Return whether Slurm itself has started a process, as the first process of a step: all others
    descend from these.
    """
    return is_manager(parent_of(pid))


def limit_s(lease_s):  # type: (float) -> float
    """Return the seconds of silence after which the lease lapses."""
    return lease_s + lease_s / RENEWALS + GRACE_S


class Silence:
    """Measures how long a text has not changed. A gap between two looks counts for ``max_gap_s`` at
    most: time in which this program was stopped does not count.
    """

    def __init__(self, max_gap_s):  # type: (float) -> None
        self.max_gap_s = max_gap_s
        self.text = None  # type: object
        self.latest_look_s = time.monotonic()
        self.silent_s = 0.0

    def look(self, text):  # type: (object) -> float
        """Compare the text with that of the last look; return for how many seconds it has not
        changed.
        """
        now_s = time.monotonic()
        self.silent_s += min(now_s - self.latest_look_s, self.max_gap_s)
        self.latest_look_s = now_s
        if text != self.text:
            self.text = text
            self.silent_s = 0.0
        return self.silent_s


class Lease:
    """The state of the lease, by the files ``lease`` and ``renewed``, which a thread of its own
    reads: the latest renewal of this lease (``text``), and whether the fragment is released.
    """

    def __init__(self, folder):  # type: (str) -> None
        self.lease_path = os.path.join(folder, "lease")
        self.renewed_path = os.path.join(os.path.dirname(folder), "renewed")
        self.text = b""
        self.released = False

    def watch(self):  # type: () -> None
        """Read the two files once a second, for ever.

        The lease exists before it is looked for: a host that once found no file may believe that
        for a minute (NFS).
        """
        exists = False
        while True:
            exists = exists or ensure_exists(self.lease_path)
            pilot = line_of(self.lease_path)
            renewal = line_of(self.renewed_path)
            # A renewal by another pilot than that of the lease does not count.
            if pilot and renewal.split()[:1] == [pilot]:
                self.text = renewal
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
    """Return the text of a short file; empty if it is missing or the file system fails."""
    try:
        with open(path, "rb") as file:
            return file.read(64).strip()
    except OSError:
        return b""


def mark(folder, name, text):  # type: (str, str, str) -> None
    """Write a mark into the fragment's folder in a thread, and wait only MARK_S for it: a file
    system that hangs must not keep the node.
    """
    is_writing = _thread.allocate_lock()
    is_writing.acquire()

    def write():  # type: () -> None
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            path = os.path.join(folder, name)
            with open(path + ".new", "w") as file:
                file.write(text + "\n")
            os.rename(path + ".new", path)
        except OSError as error:
            sys.stderr.write("payload: {}: {}\n".format(name, error))
        is_writing.release()

    _thread.start_new_thread(write, ())
    is_writing.acquire(True, MARK_S)


def wants_to_save(pid):  # type: (int) -> bool
    """Return whether a worker asks for time to save."""
    variables = read(pid, "environ").split(b"\0")
    return any(variable.startswith(b"BFTRAINER_NOTICE_S=") for variable in variables)


def let_save(pids, most_s=MOST_NOTICE_S):  # type: (set[int], float) -> bool
    """Tell the drivers of workers that may save (BFTRAINER_NOTICE_S), and wait until these workers
    have ended or their time is over. Returns whether there were any.

    ``pids`` are the workers. All wait as long as the one with the most time, ``most_s`` at most.
    """
    limit_s = 0.0
    trainers = set()  # type: set[tuple[bytes, bytes]]  # (folder, fragment)
    waiting = set()  # type: set[int]
    for pid in pids:
        variables = dict(item.partition(b"=")[::2] for item in read(pid, "environ").split(b"\0"))
        seconds = variables.get(b"BFTRAINER_NOTICE_S", b"")
        if seconds.replace(b".", b"", 1).isdigit():
            limit_s = max(limit_s, min(float(seconds), most_s))
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
    """Append preempted fragments, given as (trainer's folder, fragment), to their trainers'
    ``preempted.jsonl``. Errors are ignored: a trainer that cannot be told repeats work, and
    nothing is printed at the end.
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
    text = ""
    if indices:
        text += " gpus=" + indices
    if cores:
        text += " cores=" + cores
    return text


def was_preempted(job):  # type: (str) -> bool
    """Return whether Slurm is preempting the job, by asking Slurm: its notice reaches only the
    steps that exist at that moment, and this one may have begun later. False if Slurm does not
    answer.

    The command has a session of its own, by which a sweep tells its processes from workers.
    """
    import subprocess  # takes 10 ms; the payload is ready by now

    argv = ["scontrol", "-o", "show", "job", job]
    try:
        text = subprocess.check_output(  # noqa: S603  # Slurm's own command
            argv,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60.0,
            start_new_session=True,
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
    """Hold the node, or one of the nodes, of a Slurm job. The arguments are those of the command,
    in its order (see above).
    """
    job, node = os.environ["SLURM_JOB_ID"], os.environ["SLURMD_NODENAME"]
    folder = os.path.join(holders, node + "#" + job)
    if script_node:
        # Only the payload on the script's node can signal it; a lapse ends the other nodes' too.
        script_here = script if node == script_node else 0
        sweep = Sweep(job, os.getpid(), node)
        hold(
            folder + "." + node,
            lease_s,
            sweep,
            PREEMPTED,
            script=script_here,
            lapse_status=1,
            job=job,
        )
    else:
        hold(folder, lease_s, Sweep(job, os.getpid()), PREEMPTED, script=script, job=job)


def hold(
    folder,
    lease_s,
    sweep,
    preempted,
    script=0,
    lapse_status=0,
    job="",
    notice_s=MOST_NOTICE_S,
):
    # type: (str, float, Sweep, tuple[int, ...], int, int, str, float) -> None
    """Hold the node until a signal preempts it, it is released, or its lease lapses; then kill the
    workers, write the mark ``leaving`` and exit, with status ``lapse_status`` after a lapse, else
    0. Never returns.

    ``folder`` is the fragment's, ``preempted`` are the signals that preempt. ``script`` is the pid
    of the job script, which is signaled at the end; 0: none. ``job`` is Slurm's job, and empty on
    other schedulers. ``notice_s`` is the most time that workers may have to save; 0: they have
    none, whatever they ask for, and the mark says so.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (*preempted, signal.SIGCONT))
    lease = Lease(folder)
    mark(folder, "ready", "{:.6f}".format(time.time()) + gpus())
    _thread.start_new_thread(lease.watch, ())
    if job:
        _thread.start_new_thread(hear_earlier, (job,))
    silence = Silence(2 * CHECK_S)
    while True:
        info = signal.sigtimedwait(preempted, CHECK_S)  # None: no signal has come
        noticed_s = time.time()
        silent_s = silence.look(lease.text)
        # After SIGSTOP and SIGCONT, CPython (3.11) may return an uninitialized siginfo at the
        # timeout.
        if info is not None and info.si_signo in preempted:
            number = info.si_signo
            why = "notice" if number == NOTICE else signal.Signals(number).name
        elif lease.released:
            why = "released"
        elif silent_s > limit_s(lease_s):
            why = LAPSED
        else:
            signal.sigtimedwait((signal.SIGCONT,), 0)  # discard an earlier one
            sweep.look()
            continue
        workers = sweep.find()
        # Only a preemption lets workers save; they may have started others, or ended, meanwhile.
        if why not in ("released", LAPSED):
            if notice_s > 0 and let_save(workers, notice_s):
                workers = sweep.find()
            elif notice_s <= 0 and any(map(wants_to_save, workers)):
                why += " (BFTRAINER_NOTICE_S is ignored here)"
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
        os._exit(lapse_status if why == LAPSED else 0)


if __name__ == "__main__":
    os.umask(0o077)
    main(
        sys.argv[1],
        float(sys.argv[2]),
        int(sys.argv[3]) if len(sys.argv) > 3 else 0,
        *sys.argv[4:5],
    )
