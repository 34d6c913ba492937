"""Starts workers inside a holder: ``python3 starter.py HOLDERS_DIR NODE JOB_VARIABLE KEPT_VARIABLES
WORKER_PREFIX...``. Its other end is holding/worker.py.

On most schedulers nothing outside a running job can start a process in it (LSF's blaunch and jsrun
work only inside), so orders arrive as folders in the folder of the holder, ``work/ORDER/``:

  order     written by worker.py, by rename: argv, environment, cwd and umask, in JSON
  alive     rewritten by worker.py; without a change for ALIVE_S the worker is killed
  in, eof   the worker's standard input, and a mark for its end
  signal    the number of a signal to send to the worker
  out       the worker's standard output and error
  exit      the worker's exit status, or 128 + signal, by rename: the order is over

Workers stay in the job's process group, so the scheduler's signals to the job reach them, and have
JOB_VARIABLE, with the job's id, in their environment, which the payload's sweep looks for.
KEPT_VARIABLES are prefixes of further variables that workers have from this job and not from their
driver, joined by commas; it may be empty. Standard library, Python 3.6: it runs with the compute
(or launch) node's plain python3.
"""

import contextlib
import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import time

POLL_S = 0.1
ALIVE_S = 10.0
PRIVATE = 0o077
ONE_OF_SEVERAL = "BFTRAINER_HOLDER_NODE"  # as in job_payload.py
_PR_SET_PDEATHSIG = 1


def become_worker(umask):  # type: (int) -> None
    """Prepare the process that becomes the worker, between fork and exec: it dies with the starter,
    and its files have the modes that its user wants.
    """
    os.umask(umask)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def read(path):  # type: (str) -> bytes
    """Return the content of a file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def write(path, text):  # type: (str, str) -> None
    """Write a file by rename, so that a reader never sees half of it. Raises OSError if the folder
    is gone.
    """
    part = path + "." + os.urandom(6).hex()
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.rename(part, path)


def kill_all_of(order):  # type: (str) -> None
    """Kill every process of an order (SIGKILL), in whatever session it is: its environment names
    the order. ``order`` is the name of the order's folder.
    """
    variable = ("BFTRAINER_ORDER=" + order).encode()
    for name in os.listdir("/proc"):
        if name.isdigit() and variable in read("/proc/" + name + "/environ").split(b"\0"):
            try:
                os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass  # gone by itself


class StartedWorker:
    """The worker of one order, which is started now. ``folder`` is the order's folder; ``prefix``
    are the words before the worker's own, with the node filled in; ``variables`` are the job's, and
    replace those of its driver. Raises OSError, ValueError or KeyError if it cannot be started.
    """

    def __init__(self, folder, prefix, variables):  # type: (str, list[str], dict[str, str]) -> None
        self.folder = folder
        self.alive = b""  # the latest content of the file ``alive``
        self.alive_s = time.monotonic()  # when it last changed
        self.input_bytes = 0  # as many bytes of ``in`` were passed on
        with open(os.path.join(folder, "order")) as file:
            order = json.load(file)
        env = dict(order["environment"])
        env.update(variables)
        env["BFTRAINER_ORDER"] = os.path.basename(folder)
        argv = prefix + order["argv"]
        with open(os.path.join(folder, "out"), "ab") as out:
            self.process = subprocess.Popen(  # noqa: S603
                argv,
                env=env,
                cwd=order["cwd"] if os.path.isdir(order["cwd"]) else None,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=functools.partial(become_worker, order.get("umask", PRIVATE)),
            )

    def look(self):  # type: () -> bool
        """Pass on signals and input to the worker, and kill it if worker.py no longer shows that it
        is alive; return whether the worker has ended. Its exit status is written then.
        """
        status = self.process.poll()
        if status is not None:
            shell_status = status if status >= 0 else 128 - status
            try:
                write(os.path.join(self.folder, "exit"), str(shell_status))
            except OSError:
                pass  # nothing waits for it any more
            return True
        alive = read(os.path.join(self.folder, "alive"))
        if alive != self.alive:
            self.alive, self.alive_s = alive, time.monotonic()
        elif time.monotonic() - self.alive_s > ALIVE_S:
            kill_all_of(os.path.basename(self.folder))
        self.pass_signal_on()
        self.pass_input_on()
        return False

    def pass_signal_on(self):  # type: () -> None
        """Send the signal in the file ``signal``, if there is one, to the worker, and delete the
        file. SIGKILL goes to all processes that the worker has started.
        """
        path = os.path.join(self.folder, "signal")
        number = read(path)
        if not number.strip().isdigit():
            return
        if int(number) == signal.SIGKILL:
            kill_all_of(os.path.basename(self.folder))
        else:
            self.process.send_signal(int(number))
        with contextlib.suppress(OSError):
            os.unlink(path)

    def pass_input_on(self):  # type: () -> None
        """Pass on what has come for the worker's standard input, and close that at the end of the
        input.
        """
        pipe = self.process.stdin
        if pipe is None or pipe.closed:
            return
        # Looked up before the input is read, which is complete where the mark exists.
        is_complete = os.path.exists(os.path.join(self.folder, "eof"))
        data = read(os.path.join(self.folder, "in"))[self.input_bytes :]
        try:
            if data:
                pipe.write(data)
                pipe.flush()
                self.input_bytes += len(data)
            if is_complete:
                pipe.close()
        except OSError:
            pass  # the worker has closed its input


def start(folder, prefix, variables):
    # type: (str, list[str], dict[str, str]) -> StartedWorker | None
    """Start the worker of an order; if that fails, end the order with status 127 and the reason in
    ``out``, and return None. An order whose folder is gone is over, and gets no files.
    """
    try:
        return StartedWorker(folder, prefix, variables)
    except (OSError, ValueError, KeyError) as error:
        if not os.path.isdir(folder):
            return None
        with open(os.path.join(folder, "out"), "a") as out:
            out.write(f"bftrainer: cannot start the worker: {error}\n")
        write(os.path.join(folder, "exit"), "127")
        return None


def main(holders, node, variable, kept, prefix):  # type: (str, str, str, str, list[str]) -> None
    """Poll for orders, and start their workers, until the payload ends this process. The arguments
    are those of the command, in its order (see above).
    """
    several = "." + node if ONE_OF_SEVERAL in os.environ else ""
    folder = os.path.join(holders, node + "#" + os.environ[variable].partition(".")[0] + several)
    if read(os.path.join(folder, "leaving")):
        return  # the job was started again, and its payload ends it
    work = os.path.join(folder, "work")
    words = [word.replace("{node}", node) for word in prefix]
    # Programs that start processes on the nodes of a job need the variables of this job, not those
    # of the job that the pilot runs in.
    kept_prefixes = tuple(kept_prefix for kept_prefix in kept.split(",") if kept_prefix)
    variables = {
        name: value
        for name, value in os.environ.items()
        if name in (variable, ONE_OF_SEVERAL) or name.startswith(kept_prefixes)
    }
    workers = {}  # type: dict[str, StartedWorker | None]  # by order; None: it has ended
    while True:
        try:
            names = sorted(os.listdir(work))
        except OSError:
            names = []  # no order yet
        for name in names:
            folder = os.path.join(work, name)
            if name not in workers and os.path.exists(os.path.join(folder, "order")):
                workers[name] = start(folder, words, variables)
        for name, worker in workers.items():
            if worker is not None and worker.look():
                workers[name] = None
        time.sleep(POLL_S)


if __name__ == "__main__":
    os.umask(PRIVATE)
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
