"""A pre-imported interpreter on a node, which forks workers: ``python [options] fork_server.py SETTINGS`` (JSON).

Three kinds of processes: this one, which imports nothing and outlives the others, because Slurm ends a step with its first
process; the server, which imports the modules, has no thread and listens on a socket; and a keeper for each worker, which
is its parent, hands on its signals and its status, and ends with it. A server that dies costs no worker.

Settings: ``socket`` (its folder is this fragment's), ``modules``, ``variables`` (set before the imports), ``late`` (names of
variables that workers get later), ``most`` (servers per fragment), ``memory_bytes`` (limit for the server), ``idle_s``,
``tied`` (ends with standard input).
Status 0: another one serves, or nobody needed it; REFUSES: these modules cannot be served.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time

_HERE = os.path.dirname(os.path.abspath(__file__))
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]
sys.path[:0] = [_HERE, os.path.dirname(_HERE)]
import fork_checks
import fork_facts
import fork_keeper
import warm_start

del sys.path[:2]

_LOOK_S = 2.0
_REFUSING_S = 3.0
_TRIES = 50
_TRY_AGAIN_S = 0.005


class ForkSettings:
    """What the driver has chosen. Raises KeyError and ValueError where the text is something else."""

    def __init__(self, text):  # type: (str) -> None
        found = json.loads(text)
        self.socket = str(found["socket"])
        self.modules = [str(name) for name in found["modules"]]
        self.variables = [(str(name), str(value), bool(always)) for name, value, always in found["variables"]]
        self.late = [str(name) for name in found["late"]]
        self.most = int(found["most"])
        self.memory_bytes = int(found["memory_bytes"])
        self.idle_s = float(found["idle_s"])
        self.tied = bool(found["tied"])


class Server:
    """The socket, its lock, and the workers' keepers."""

    def __init__(self, settings):  # type: (ForkSettings) -> None
        self.settings = settings
        self.path = settings.socket
        self.ends = False
        self.keepers = set()  # type: set[int]
        self.environment = dict(os.environ)
        self.facts = fork_facts.facts()
        self.lock = -1
        self.listener = socket.socket(socket.AF_UNIX)
        self.checks = fork_checks.Checks()

    def is_first(self):  # type: () -> bool
        """Whether no other server has this socket; then listen on it, and make room among the fragment's servers.

        A server elsewhere on this node may be removing what ended ones have left: it has a lock for a moment, or removes
        one that is not locked yet, with the folder. So this takes several tries.
        """
        for _ in range(_TRIES):
            if self._has_lock():
                break
            time.sleep(_TRY_AGAIN_S)
        else:
            return False
        os.truncate(self.lock, 0)
        os.pwrite(self.lock, str(os.getpid()).encode(), 0)
        if os.path.lexists(self.path):
            os.unlink(self.path)
        self.listener.bind(self.path)
        self.listener.listen(128)
        fork_checks.make_room(os.path.dirname(self.path), self.path, self.settings.most)
        return True

    def _has_lock(self):  # type: () -> bool
        """Whether the lock in the socket's folder is there and ours."""
        folder = os.path.dirname(self.path)
        try:
            for each in (os.path.dirname(folder), folder):
                try:
                    os.mkdir(each, 0o700)
                except FileExistsError:
                    pass
                if not fork_facts.is_private(each):
                    raise SystemExit("bftrainer: {} is not private to this user".format(each))
            self.lock = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # the folder was empty, and has just been removed
            return False
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if fork_checks.is_at(self.lock, self.path + ".lock"):
                return True
        except OSError:
            pass
        os.close(self.lock)
        return False

    def warm_up(self):  # type: () -> str
        """Do what the script begins with; why this interpreter must not be forked, or nothing."""
        for name, value, always in self.settings.variables:
            if always or name not in os.environ:
                os.environ[name] = value  # the worker's script sets it again
        with warm_start.uncollected():  # so a worker's garbage collector also writes to fewer shared pages
            for name in self.settings.modules:
                fork_checks.import_installed(name)
            if "torch" in sys.modules:
                fork_checks.import_installed("torch._dynamo")
        return self.checks.problem(self.settings.memory_bytes)

    def refuse(self, reason, seconds):  # type: (str, float) -> None
        """Answer those who wait already."""
        sys.stderr.write("bftrainer: fork server: {}\n".format(reason))
        until_s = time.monotonic() + seconds
        while select.select([self.listener], [], [], max(0.0, until_s - time.monotonic()))[0]:
            connection, _ = self.listener.accept()
            with contextlib.suppress(OSError, ValueError):
                for descriptor in _request(connection)[1]:
                    os.close(descriptor)
            _answer(connection, reason)
            connection.close()
        self.leave()

    def leave(self):  # type: () -> None
        fork_checks.remove(self.path)

    def serve(self):  # type: () -> fork_facts.ForkRequest | None
        """Serve until idle, or told to end. Returns in each worker, with its request; None in the server."""
        used_s = time.monotonic()
        while True:
            self._reap()
            if self.keepers:
                used_s = time.monotonic()
            if self.ends or time.monotonic() - used_s > self.settings.idle_s:
                break
            if not select.select([self.listener], [], [], _LOOK_S)[0]:
                continue
            problem = self.checks.problem(self.settings.memory_bytes)
            if not problem and fork_checks.have_changed(self.checks.files):
                problem = "installed modules have changed since the server imported them"
            self.ends = self.ends or bool(problem)
            connection, _ = self.listener.accept()
            used_s = time.monotonic()
            worker = self._start(connection, problem)
            if worker is not None:
                return worker
        self.leave()
        self.listener.close()
        while self.keepers:
            time.sleep(_LOOK_S)
            self._reap()
        return None

    def _start(self, connection, problem):  # type: (socket.socket, str) -> fork_facts.ForkRequest | None
        descriptors = []  # type: list[int]
        try:
            message, descriptors = _request(connection)
            request = None if message is None else fork_facts.ForkRequest(message)
            reason = problem or ("no request" if request is None else self._reason_against(request))
        except (OSError, ValueError, EOFError, TypeError, KeyError) as error:
            request, reason = None, repr(error)
        if not reason:
            os.utime(self.path)
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid == 0:
                self.listener.close()
                os.close(self.lock)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                fork_keeper.keep(connection, descriptors)  # returns in the worker alone
                return request
            self.keepers.add(pid)
        else:
            _answer(connection, reason)
        connection.close()
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _reason_against(self, request):  # type: (fork_facts.ForkRequest) -> str
        """Why a worker cannot come from this server; empty if it can."""
        late = request.late + self.settings.late
        ours = fork_facts.early(self.environment, late)
        names = fork_facts.difference(ours, fork_facts.early(request.environment, late))
        if names:
            return "the environment differs from the server's: " + names
        names = fork_facts.difference(self.facts, request.facts)
        if names:
            return "the process differs from the server: " + names
        return fork_checks.shadowed(request.words, request.cwd)

    def _reap(self):  # type: () -> None
        for pid in list(self.keepers):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.keepers.discard(pid)


def _request(connection):  # type: (socket.socket) -> tuple[object, list[int]]
    """What the client sends, and its standard streams."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    if int.from_bytes(peer[4:8], sys.byteorder) != os.getuid():
        raise ValueError("another user's request")
    connection.settimeout(5.0)
    size, descriptors, _, _ = socket.recv_fds(connection, 4, fork_facts.FD_COUNT)
    if len(size) != 4 or len(descriptors) != fork_facts.FD_COUNT:
        return None, list(descriptors)
    rest = fork_facts.exactly(connection, int.from_bytes(size, "little"))
    if not rest:
        return None, list(descriptors)
    connection.settimeout(None)
    return fork_facts.unpack(rest), list(descriptors)


def _answer(connection, text):  # type: (socket.socket, str) -> None
    try:
        connection.sendall(fork_facts.pack(text))
    except OSError:
        pass  # the client has left


def serve(settings):  # type: (ForkSettings) -> fork_facts.ForkRequest | None
    """The server's life; returns in workers alone."""
    server = Server(settings)
    if not server.is_first():
        os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: setattr(server, "ends", True))
    reason = server.warm_up()
    if reason:
        server.refuse(reason, _REFUSING_S)
        os._exit(fork_facts.REFUSES)
    request = server.serve()
    if request is None:
        os._exit(0)
    return request


def main():  # type: () -> fork_facts.ForkRequest | None
    """Start the server and wait for the last process; returns in workers alone."""
    settings = ForkSettings(sys.argv[1])
    fork_keeper.adopt_orphans()
    server = os.fork()
    if server == 0:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        fork_keeper.die_with_parent()
        return serve(settings)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(server, signal.SIGTERM))
    status = 0
    if settings.tied:
        status = fork_keeper.until_input_ends(server)
        fork_keeper.end_descendants()
        fork_checks.remove_if_unused(os.path.dirname(settings.socket))
        os._exit(status)
    while True:
        try:
            pid, got = os.wait()
        except ChildProcessError:
            fork_checks.remove_if_unused(os.path.dirname(settings.socket))
            os._exit(status)
        if pid == server:
            status = os.waitstatus_to_exitcode(got)
            status = status if status >= 0 else 1


if __name__ == "__main__":
    fork_keeper.run_worker(main())
