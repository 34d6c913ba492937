"""GET /metrics on a Unix socket in the state directory, and on a TCP port with a token.

A port on loopback needs the token as well: every user of a login node can connect there, and the
page names trainers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bftrainer.config.pilot import MetricsConfig
from bftrainer.errors import UserError
from bftrainer.pilot.metrics import Metrics, without_client
from bftrainer.system.files import remove_file
from bftrainer.system.http_server import HttpAnswer, HttpRequest, http_port, is_same_token
from bftrainer.system.listening_ports import Port, PortServer
from bftrainer.system.network import tcp_listener, unix_listener
from bftrainer.system.regular import read_regular

SOCKET = "metrics.sock"
"""The socket in the state directory; its mode is 0600, so no token is needed."""
MIN_TOKEN = 16
_BACKLOG = 16
_OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_TEXT = ("Content-Type", "text/plain")


@dataclass(frozen=True, slots=True)
class _MetricsPage:
    """Answers GET /metrics. ``token`` is what a scrape must send; empty where only the owner can
    connect.
    """

    metrics: Metrics
    token: str

    def welcomes(self, host: str) -> bool:
        return True

    def refusal(self, head: HttpRequest) -> HttpAnswer | None:
        """Return the answer to a scrape without the right token; None if it may go on."""
        token = head.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.token or is_same_token(token, self.token):
            return None
        text = b"expected the pilot's token: Authorization: Bearer ...\n"
        return HttpAnswer(401, text, (("WWW-Authenticate", "Bearer"), _TEXT))

    def blocks(self, request: HttpRequest) -> bool:
        return False

    def answer(self, request: HttpRequest) -> HttpAnswer:
        if (request.method, request.target.partition("?")[0]) != ("GET", "/metrics"):
            return HttpAnswer(404, b"not found; expected GET /metrics\n", (_TEXT,))
        return HttpAnswer(200, self.metrics.text(), (("Content-Type", _OPEN_METRICS),))


class MetricsServer:
    """Serves the page in a thread from its creation to :meth:`end`.

    ``places`` are the addresses where it is served, for the event log. Raises ``UserError`` if the
    configured port cannot be served, or its token file cannot be used. A socket that the file
    system does not allow is no error, but one of ``places`` with the reason: it is a default, not a
    request.
    """

    def __init__(self, metrics: Metrics, config: MetricsConfig, state_dir: Path) -> None:
        """Open the TCP port and the Unix socket that ``config`` asks for, and serve ``metrics``
        there. Raises ``UserError``, as the class says.
        """
        places: list[str] = []
        ports: list[Port] = []
        if config.port is not None:
            page = _MetricsPage(metrics, read_token(config.token_file))
            try:
                listener = tcp_listener(config.address, config.port, _BACKLOG)
            except OSError as error:
                raise UserError(
                    f"metrics: cannot listen on {config.address}:{config.port}: {error.strerror}"
                ) from error
            host = f"[{config.address}]" if ":" in config.address else config.address
            places.append(f"http://{host}:{listener.getsockname()[1]}/metrics")
            ports.append(http_port(listener, page))
        self._socket = state_dir / SOCKET if config.socket else None
        if self._socket is not None:
            try:
                ports.append(
                    http_port(unix_listener(self._socket, _BACKLOG), _MetricsPage(metrics, ""))
                )
                places.append(str(self._socket))
            except OSError as error:
                places.append(f"{self._socket}: not served: {error.strerror}")
                # Not ours to remove at the end.
                self._socket = None
        self.places = tuple(places)
        self._server = PortServer("metrics", ports)
        self._server.start()

    def end(self) -> None:
        self._server.stop()
        if self._socket is not None:
            remove_file(self._socket)


def is_served(config: MetricsConfig) -> bool:
    """Whether there is anything to serve: the socket, which is a default, needs the package
    prometheus-client.
    """
    return config.port is not None or (config.socket and not without_client())


def read_token(path: Path | None) -> str:
    """Return the token in the file at ``path``. Raises ``UserError`` if no path is given, for a
    file that cannot be read or that others can read, and for a short token.
    """
    if path is None:
        raise UserError("metrics.token_file: a port needs a token; expected a file of mode 0600")
    try:
        mode = path.stat().st_mode
        token = read_regular(path, follow_links=True).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise UserError(f"metrics.token_file: {path}: {problem}") from error
    # Any right of the group or of others.
    if mode & 0o077:
        raise UserError(f"metrics.token_file: {path}: readable by other users, expected mode 0600")
    if len(token) < MIN_TOKEN:
        raise UserError(
            f"metrics.token_file: {path}: expected {MIN_TOKEN} characters or more, found "
            f"{len(token)}"
        )
    return token
