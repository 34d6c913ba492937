"""A worker and its parent, both forked from the server: what a new process has of its own, and how it ends."""

import _socket  # noqa: F401 - used by the comments that give types, which ruff does not read
import ctypes
import io
import os
import select
import signal
import sys

import fork_facts
import warm_start

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)


def adopt_orphans():  # type: () -> None
    """Be the parent of descendants whose parent has ended."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent():  # type: () -> None
    """SIGKILL when the parent has ended."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def keep(connection, descriptors):  # type: (_socket.socket, list[int]) -> None
    """Fork the worker once the client is ready, and stay until it has ended. Returns in the worker."""
    os.setsid()
    adopt_orphans()
    try:
        connection.sendall(fork_facts.pack(fork_facts.READY))
        begins = connection.recv(1) == fork_facts.GO
    except OSError:
        begins = False
    if not begins:
        os._exit(0)
    worker = os.fork()
    if worker == 0:
        die_with_parent()
        os.setsid()
        connection.close()
        _take_streams(descriptors)
        return
    for descriptor in (*descriptors, 0, 1, 2):
        os.close(descriptor)
    status = _follow(connection, worker)
    end_descendants()
    try:
        connection.sendall(fork_facts.pack(status))
    except OSError:
        pass  # the client has ended, and therefore the worker
    os._exit(0)


def _take_streams(descriptors):  # type: (list[int]) -> None
    low = [os.dup(number) if number < len(descriptors) else number for number in descriptors]
    for number, descriptor in enumerate(low):
        os.dup2(descriptor, number)
    for descriptor in {*low, *descriptors} - {0, 1, 2}:
        os.close(descriptor)


def _follow(connection, worker):  # type: (_socket.socket, int) -> int
    """Until the worker ends: its status, or minus the number of a signal."""
    ended = os.pidfd_open(worker)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(connection, select.POLLIN)
    while True:
        ready = [number for number, _ in poll.poll()]
        if ended in ready:
            return os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        try:
            numbers = connection.recv(64)
        except OSError:
            numbers = b""
        for number in numbers:
            os.kill(worker, number)
        if not numbers:  # the client has ended
            os.kill(worker, signal.SIGKILL)
            poll.unregister(connection)


def end_descendants():  # type: () -> None
    """SIGKILL the processes that are left, until there are none: orphans become children of this process."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        with open("/proc/self/task/{}/children".format(os.getpid())) as file:
            for pid in file.read().split():
                os.kill(int(pid), signal.SIGKILL)
        select.select([], [], [], 0.002)


def until_input_ends(server):  # type: (int) -> int
    """Wait until standard input ends, or the server and the last of its workers; the status."""
    ended = os.pidfd_open(server)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLHUP | select.POLLIN)
    status = 0
    while True:
        for number, _ in poll.poll(1000):
            if number == 0:
                return status
            poll.unregister(ended)
            found = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
            status = found if found >= 0 else 1
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == server:
                return 1
        except ChildProcessError:
            return status


def run_worker(request):  # type: (fork_facts.ForkRequest) -> None
    """Be what the request asks for."""
    words, command = request.words, request.command
    try:
        os.chdir(request.cwd)
        os.environ.clear()
        os.environ.update(request.environment)
        _show_as(command)
        _open_streams("-u" in command[: -len(words)] or bool(request.environment.get("PYTHONUNBUFFERED")))
        _forget_the_server()
        sys.orig_argv = command
        sys.argv = words
    except Exception as error:  # no statement of the script has run yet
        os.write(2, "bftrainer: started without the fork server: {!r}\n".format(error).encode())
        # The user's own command, word by word as its list has it. A shell would read the words a second time.
        os.execvpe(command[0], command, request.environment)  # noqa: S606 - no shell on purpose
    if os.path.basename(words[0]) == "warm_start.py":
        warm_start.main()
    else:
        warm_start.put_first(words)
        warm_start.run(words)


def _show_as(command):  # type: (list[str]) -> None
    """Show the worker's command line to ps, in the room that the server's has."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"\0".join(os.fsencode(word) for word in command) + b"\0"
    room = end - start
    if room > 1:
        ctypes.memmove(start, text[: room - 1].ljust(room, b"\0"), room)


def _open_streams(unbuffered):  # type: (bool) -> None
    """Standard streams as a new interpreter opens them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, "__" + name + "__")
        writes = number > 0
        raw = open(number, "wb" if writes else "rb", buffering=0 if unbuffered and writes else -1, closefd=False)
        getattr(raw, "raw", raw).name = "<" + name + ">"
        interactive = raw.isatty()
        new = io.TextIOWrapper(
            raw, old.encoding, old.errors, newline="\n",
            line_buffering=not unbuffered and (interactive or number == 2), write_through=unbuffered,
        )  # fmt: skip
        new.mode = "w" if writes else "r"
        setattr(sys, name, new)
        setattr(sys, "__" + name + "__", new)


def _forget_the_server():  # type: () -> None
    """What each new interpreter draws at random, and this program's own modules."""
    for name in [name for name in sys.modules if name.startswith("fork_")] + ["warm_start"]:
        sys.modules.pop(name, None)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # `random` does so itself; torch's first seed is a constant
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)
