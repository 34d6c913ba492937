"""Stands where ``python SCRIPT ...`` would: has the node's fork server start the worker, and is its proxy.

    python -S -s fork_client.py SOCKET APPEAR_S PATIENCE_S LATE OPTIONS COMMAND ...

LATE are names of variables (with commas), OPTIONS is the number of words before the script. Standard streams, environment and
folder are handed over; signals are passed on; the end of either process is the end of both. Whatever fails before the
worker exists leads to the plain command, with a line in the log that says why.
"""

import _socket
import os
import signal
import sys
import time

import fork_facts

_PASSED_ON = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGWINCH", "SIGCONT")
_LOST = 128 + signal.SIGKILL


class RefusedError(Exception):
    """The server does not start this worker; the text says why."""


def connect(path, appear_s, patience_s):  # type: (str, float, float) -> _socket.socket
    """A connection to a server of the same user. Raises RefusedError and OSError."""
    deadline_s = time.monotonic() + appear_s
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    while True:
        try:
            connection.connect(path)
            break
        except OSError as error:
            if time.monotonic() > deadline_s:
                raise RefusedError("no fork server has started ({})".format(error.strerror)) from None
            time.sleep(0.01)
    for folder in (os.path.dirname(path), os.path.dirname(os.path.dirname(path))):
        if not fork_facts.is_private(folder):
            raise RefusedError(folder + " is not private")
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    if int.from_bytes(peer[4:8], sys.byteorder) != os.getuid():
        raise RefusedError("the fork server is another user's")
    connection.settimeout(patience_s)
    return connection


def ask(connection, late, options, command):  # type: (_socket.socket, list[str], int, list[str]) -> None
    """Have the worker started. Raises RefusedError and OSError: then it has not been, and will not be."""
    request = {
        "words": command[options:], "command": command, "environment": dict(os.environ), "cwd": os.getcwd(),
        "late": late, "facts": fork_facts.facts(),
    }  # fmt: skip
    data = fork_facts.pack(request)
    descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in range(fork_facts.FD_COUNT))
    try:
        sent = connection.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
        connection.sendall(data[sent:])
    except (BrokenPipeError, ConnectionResetError):
        pass  # a server that serves nobody does not wait for the request; what it answered can still be read
    answer = fork_facts.receive(connection)
    if answer != fork_facts.READY:
        raise RefusedError(str(answer or "the fork server has ended"))
    connection.sendall(fork_facts.GO)


def follow(connection):  # type: (_socket.socket) -> int
    """Pass signals on until the worker ends; its exit status, or minus the number of a signal."""
    connection.settimeout(None)
    for name in _PASSED_ON:
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda got, _: connection.send(bytes([got])))
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(fork_facts.FD_COUNT):  # the worker alone decides how long its pipes are open
        os.dup2(null, number)
    try:
        answer = fork_facts.receive(connection)
    except OSError:
        answer = None
    return answer if isinstance(answer, int) else _LOST


def end(status):  # type: (int) -> None
    """End as the worker did."""
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 128 - status)


def main():  # type: () -> None
    """Have the worker started and follow it; or be it."""
    path, appear_s, patience_s, late, options = sys.argv[1:6]
    command = sys.argv[6:]
    try:
        connection = connect(path, float(appear_s), float(patience_s))
        ask(connection, late.split(","), int(options), command)
    except (RefusedError, OSError) as error:
        sys.stderr.write("bftrainer: started without the fork server: {}\n".format(error))
        sys.stderr.flush()
        # The user's own command, word by word as its list has it. A shell would read the words a second time.
        os.execvp(command[0], command)  # noqa: S606 - no shell on purpose
    end(follow(connection))


if __name__ == "__main__":
    main()
