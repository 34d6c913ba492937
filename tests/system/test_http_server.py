"""The one HTTP server: what a client gets, and what strangers cannot do to the process that
serves.
"""

from __future__ import annotations

import http.client
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from support.patience import PATIENCE
from support.strangers import crowd

from bftrainer.system.http_server import HttpAnswer, HttpRequest, http_port, is_same_token
from bftrainer.system.listening_ports import Limits, Port, PortServer
from bftrainer.system.network import tcp_listener, unix_listener

LIMITS = Limits(strangers=3, clients=2, request_s=60.0, head_bytes=1000, body_bytes=100)


@dataclass
class Echo:
    """Answers with the body. The token is a header. ``slow`` requests wait for ``go``."""

    hosts: str = "127.0.0.1"
    seen: list[HttpRequest] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)

    def welcomes(self, host: str) -> bool:
        return host in (self.hosts, "")

    def refusal(self, head: HttpRequest) -> HttpAnswer | None:
        assert head.body == b""
        return (
            None
            if is_same_token(head.headers.get("token", ""), "secret")
            else HttpAnswer(403, b"no")
        )

    def blocks(self, request: HttpRequest) -> bool:
        return request.target == "/slow"

    def answer(self, request: HttpRequest) -> HttpAnswer:
        self.seen.append(request)
        if request.target == "/slow":
            self.go.wait(60 * PATIENCE)
        if request.target == "/broken":
            raise RuntimeError("a mistake of ours")
        return HttpAnswer(200, request.body, (("X-Method", request.method),))


class Anyone(Echo):
    """Every host is welcome."""

    def welcomes(self, host: str) -> bool:
        return True


def ask(
    number: int, target: str = "/", body: bytes | None = None, token: str = "secret"
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=60 * PATIENCE)
    try:
        connection.request("GET" if body is None else "PUT", target, body, {"Token": token})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@dataclass
class Served:
    echo: Echo
    port: Port
    number: int

    def ask(
        self, target: str = "/", body: bytes | None = None, token: str = "secret"
    ) -> tuple[int, bytes]:
        return ask(self.number, target, body, token)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.number), timeout=60 * PATIENCE)


@contextmanager
def served_by(limits: Limits, echo: Echo, *, keeps_clients: bool = False) -> Iterator[Served]:
    listener = tcp_listener("127.0.0.1", 0, 1024)
    port = http_port(listener, echo, limits, keeps_clients=keeps_clients)
    server = PortServer("test", [port])
    server.start()
    try:
        yield Served(echo, port, listener.getsockname()[1])
    finally:
        echo.go.set()
        server.stop()


@pytest.fixture
def served() -> Iterator[Served]:
    with served_by(LIMITS, Echo()) as found:
        yield found


def until(what: object, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds * PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_a_client_is_answered(served: Served) -> None:
    assert served.ask() == (200, b"")
    assert served.ask(body=b"x" * 100) == (200, b"x" * 100)
    assert served.ask("/broken") == (500, b"")
    assert served.ask() == (200, b""), "a mistake of the service ends nothing"


def test_without_the_token_only_the_head_is_looked_at(served: Served) -> None:
    assert served.ask(token="secreT") == (403, b"no")
    assert served.ask(body=b"x" * 100, token="") == (403, b"no")
    assert served.ask(body=b"x" * 100_000, token="é") == (403, b"no"), "an answer, not a reset"
    assert served.echo.seen == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 2000, b"HTTP/1.1 431"),
        (b"no http\r\n\r\n", b"HTTP/1.1 400"),
        (b"\0" * 50 + b"\r\n\r\n", b"HTTP/1.1 400"),
        (
            b"PUT / HTTP/1.1\r\nHost: h\r\nToken: secret\r\nContent-Length: 101\r\n\r\n",
            b"HTTP/1.1 413",
        ),
        (
            b"PUT / HTTP/1.1\r\nHost: h\r\nToken: secret\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n"
            + b"x" * 101,
            b"HTTP/1.1 413",
        ),
    ],
)
def test_what_is_too_large_or_no_http_is_rejected(
    served: Served, sent: bytes, status: bytes
) -> None:
    with served.connect() as connection:
        connection.sendall(sent)
        assert connection.recv(1000).startswith(status)
    assert served.echo.seen == []
    assert served.ask() == (200, b"")


def test_a_stranger_too_many_ends_the_one_who_has_waited_longest(served: Served) -> None:
    with ExitStack() as held:
        waiting = [held.enter_context(served.connect()) for _ in range(LIMITS.strangers)]
        until(lambda: len(served.port.strangers) == LIMITS.strangers)
        assert served.ask() == (200, b""), "a client finds room"
        assert hung_up(waiting[0])
        waiting[2].sendall(b"GET / HTTP/1.1\r\nHost: h\r\nToken: secret\r\n\r\n")
        assert waiting[2].recv(1000).startswith(b"HTTP/1.1 200"), "the others were left alone"


def test_one_who_follows_ends_no_stranger_before_the_time_for_a_first_message() -> None:
    with served_by(Limits(strangers=3, least_s=60.0), Echo()) as found, ExitStack() as held:
        waiting = [held.enter_context(found.connect()) for _ in range(3)]
        until(lambda: len(found.port.strangers) == 3)
        late = held.enter_context(found.connect())
        for one in (*waiting, late):  # the late one has its turn once there is room
            one.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nToken: secret\r\n\r\n")
            assert one.recv(1000).startswith(b"HTTP/1.1 200")


def test_a_crowd_on_one_host_keeps_nobody_on_another_host_out() -> None:
    """However long each of the crowd may wait for its first message, and however many of them wait
    behind.
    """
    with served_by(Limits(strangers=20, least_s=60.0), Anyone()) as found, ExitStack() as held:
        crowd_of_one_host = [held.enter_context(found.connect()) for _ in range(50)]
        until(lambda: len(found.port.strangers) == 20)
        for _ in range(30):
            with socket.create_connection(
                ("127.0.0.1", found.number), 60, source_address=("127.0.0.9", 0)
            ) as other:
                other.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nToken: secret\r\n\r\n")
                assert other.recv(1000).startswith(b"HTTP/1.1 200")
        assert len(crowd_of_one_host) == 50


def test_a_client_that_is_kept_asks_again_over_its_connection_and_waits_behind_no_crowd() -> None:
    limits = Limits(strangers=3, least_s=60.0)
    with served_by(limits, Echo(), keeps_clients=True) as found, ExitStack() as held:
        client = http.client.HTTPConnection("127.0.0.1", found.number, timeout=60)
        for place in range(5):
            client.request("GET", f"/{place}", headers={"Token": "secret"})
            assert client.getresponse().read() == b""
            if place == 0:
                own = client.sock
                for _ in range(20):
                    held.enter_context(found.connect())
        assert client.sock is own
        client.close()


def test_a_client_is_no_stranger_and_there_is_a_limit_for_clients_too(served: Served) -> None:
    asking = [threading.Thread(target=served.ask, args=("/slow",)) for _ in range(LIMITS.clients)]
    for thread in asking:
        thread.start()
    until(lambda: len(served.echo.seen) == LIMITS.clients)
    assert len(served.port.strangers) == 0
    assert served.ask() == (503, b"")
    served.echo.go.set()
    for thread in asking:
        thread.join()
    until(lambda: served.port.clients == 0)
    assert served.ask() == (200, b"")


def test_bytes_that_trickle_in_do_not_extend_the_time() -> None:
    with served_by(Limits(request_s=0.5, body_bytes=100), Echo()) as found:
        for head in (
            b"GET / HTTP/1.1\r\nX: ",
            b"PUT / HTTP/1.1\r\nHost: h\r\nToken: secret\r\nContent-Length: 90\r\n\r\n",
        ):
            with found.connect() as connection:
                connection.sendall(head)
                connection.settimeout(0.1)
                for _ in range(int(600 * PATIENCE)):
                    try:
                        connection.sendall(b"x")
                        over = connection.recv(1000) == b""
                    except TimeoutError:
                        continue
                    except OSError:
                        over = True
                    if over:
                        break
                else:
                    pytest.fail("still connected")
        assert found.echo.seen == []
        slow = threading.Thread(target=found.ask, args=("/slow",))
        slow.start()
        until(lambda: len(found.echo.seen) == 1)
        slow.join(2.0)
        assert slow.is_alive(), "the time does not run while the process is busy with the request"
        found.echo.go.set()
        slow.join()


def test_a_client_that_does_not_read_its_answer_is_hung_up_on() -> None:
    with (
        served_by(Limits(request_s=0.5, body_bytes=50_000_000), Echo()) as found,
        found.connect() as connection,
    ):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = b"x" * 20_000_000
        connection.sendall(
            b"PUT / HTTP/1.1\r\nHost: h\r\nToken: secret\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        until(lambda: found.port.clients == 1 or bool(found.echo.seen))
        until(lambda: found.port.clients == 0)


def test_hosts_that_are_not_welcome_are_closed_without_a_byte() -> None:
    with served_by(LIMITS, Echo(hosts="192.0.2.1")) as found:
        with found.connect() as connection:
            assert hung_up(connection)
        assert found.port.strangers == {}


def test_a_unix_socket_is_its_owners_even_below_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    path = folder / "a.sock"
    unix_listener(path, 16).close()
    listener = unix_listener(path, 16)  # in place of what the first one has left
    assert path.stat().st_mode & 0o777 == 0o600
    echo = Echo()
    server = PortServer("test", [http_port(listener, echo, LIMITS)])
    server.start()
    here = os.open(folder, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"/proc/self/fd/{here}/a.sock")
            connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nToken: secret\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    finally:
        os.close(here)
        server.stop()


def test_a_server_that_was_never_started_closes_its_port() -> None:
    listener = tcp_listener("127.0.0.1", 0, 16)
    server = PortServer("test", [http_port(listener, Echo(), LIMITS)])
    server.stop()
    assert listener.fileno() == -1
    server.stop()


SERVES = """
import os, sys, time
sys.path[:0] = sys.argv[1:]
from test_http_server import Echo, served_by
from bftrainer.system.listening_ports import Limits
serving = served_by(Limits(), Echo())
print(serving.__enter__().number, flush=True)
for line in sys.stdin:  # each line: use ten descriptors, as a pilot does
    handles = [os.open("/proc/self/stat", os.O_RDONLY) for _ in range(10)]
    print(len(os.listdir("/proc/self/fd")), flush=True)
    for handle in handles:
        os.close(handle)
"""


def test_a_crowd_of_strangers_takes_neither_descriptors_nor_threads() -> None:
    tests = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", SERVES, str(tests), str(tests / "system")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            number = int(process.stdout.readline())
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (100, 100))
            with crowd("127.0.0.1", number) as strangers:
                until(lambda: strangers.made() >= 2000, 120)
                for _ in range(20):
                    process.stdin.write("\n")
                    process.stdin.flush()
                    assert int(process.stdout.readline()) < 60
                    assert psutil.Process(process.pid).num_threads() < 20
                until(lambda: ask(number) == (200, b""))
                assert strangers.is_there()
        finally:
            process.kill()
