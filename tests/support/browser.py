"""A headless Chromium to look at pages with: its debugging protocol over two pipes, no port and no
library.

The protocol: https://chromedevtools.github.io/devtools-protocol/ (NUL-terminated JSON on
descriptors 3 and 4).
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from support.needs import need
from support.patience import PATIENCE

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/snap/bin/chromium",
)
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


def find_browser() -> str:
    """The browser's path: the first that starts (Ubuntu's is a stub until its snap is there).
    Without one the test is skipped, in CI it fails.
    """
    for name in NAMES:
        path = shutil.which(name)
        if path is not None and _starts(path):
            return path
    need(f"no browser to look at the page with: {', '.join(NAMES)}")
    raise AssertionError  # not reached


def _starts(path: str) -> bool:
    try:
        return (
            subprocess.run(
                [path, "--version"], capture_output=True, timeout=60 * PATIENCE, check=False
            ).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _is_snap(path: str) -> bool:
    return path.startswith("/snap/") or b"/snap/" in Path(path).read_bytes()[:10_000]


class Browser:
    """One page in one browser. ``requested`` lists every address that it asked for."""

    def __init__(self, timeout_s: float = 60.0 * PATIENCE) -> None:
        binary = find_browser()
        # A snap does not see /tmp: its profile and the page go to the home folder then.
        self._is_snap = _is_snap(binary)
        home = str(Path.home()) if self._is_snap else None
        self._profile = tempfile.TemporaryDirectory(
            prefix="bftrainer-browser-", dir=home, ignore_cleanup_errors=True
        )
        self._timeout_s = timeout_s
        self._number = 0
        self._buffer = b""
        self.requested: list[str] = []
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs_in, theirs_out)]
        null = os.open(os.devnull, os.O_RDWR)
        self._pid = os.posix_spawn(
            binary,
            [binary, *_OPTIONS, f"--user-data-dir={self._profile.name}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, null, 2),
                (os.POSIX_SPAWN_DUP2, high[0], 3),
                (os.POSIX_SPAWN_DUP2, high[1], 4),
            ],
            setpgroup=0,
        )
        for fd in (theirs_in, theirs_out, null, *high):
            os.close(fd)
        os.set_blocking(self._in, False)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._in)
        os.close(self._out)
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol and its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, (method, told["error"])
                result: dict[str, Any] = told["result"]
                return result

    def open(self, path: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Show a file that needs no other, at a width in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        if self._is_snap:
            path = Path(shutil.copy(path, self._profile.name))
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; an exception in it fails the test."""
        told = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until a JavaScript expression is true."""
        until = time.monotonic() + self._timeout_s
        while not self.evaluate(expression):
            assert time.monotonic() < until, f"never true: {expression}"
            time.sleep(0.05)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """mouseMoved, mousePressed or mouseReleased at a place in the window."""
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def key(self, name: str) -> None:
        """Press a key and let it go."""
        text = {"text": name} if len(name) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name)

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(told["data"])

    def pdf(self) -> bytes:
        """What a printer would get."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + self._timeout_s
        while b"\0" not in self._buffer:
            assert time.monotonic() < until, "the browser does not answer"
            try:
                read = os.read(self._in, 1 << 20)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            assert read, "the browser has ended"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        if told.get("method") == "Network.requestWillBeSent":
            self.requested.append(told["params"]["request"]["url"])
        return told
