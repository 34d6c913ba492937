"""An outsider at a real trainer's port, while it trains."""

from __future__ import annotations

import base64
import http.client
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.horovod_trainer import Trainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]


class Touch:
    """A pickle that makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def listening(pid: int) -> list[tuple[str, int]]:
    import psutil

    found = psutil.Process(pid).net_connections(kind="inet")
    return [(c.laddr.ip, c.laddr.port) for c in found if c.status == psutil.CONN_LISTEN]


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_an_outsider_runs_no_code_reads_no_key_and_ends_nothing(
    trainer: Trainer, tmp_path: Path
) -> None:
    import psutil

    trainer.start("a:1:1 b:1:2")
    trainer.steps(2)
    assert trainer.process is not None
    ((address, port),) = listening(trainer.process.pid)
    assert address == "127.0.0.1", "one server, on the configured interface"
    # What stock Horovod lets anybody do, in its own words.
    payload = base64.b64encode(pickle.dumps((Touch(tmp_path / "pwned"), b"k" * 32)))
    attempts = [
        ("PUT", "/worker_addresses/a.1.1:0", payload),
        ("GET", "/worker_addresses/a.1.1:0", None),
        ("GET", "/rank_and_size/a.1.1:0", None),
        ("GET", "/global/0", None),
        ("PUT", "/global/0", b"elsewhere"),
        ("DELETE", "/global/0", None),
        ("DELETE", "/global/1", None),
        ("GET", f"/guess:{port}/global/0", None),
    ]
    for method, path, body in attempts:
        assert ask(port, method, path, body) == (403, b""), (method, path)
    assert not (tmp_path / "pwned").exists()
    for process in (trainer.worker("1"), trainer.process.pid):
        assert "GLOO_RENDEZVOUS" not in " ".join(psutil.Process(process).cmdline()), (
            "it has the token"
        )
    for log in ("logs/1/a.1.0.log", "driver.log", "events.jsonl", "progress.jsonl"):
        assert f":{port}/" not in (trainer.path / log).read_text(), "before the token"
    asked_s = trainer.hosts("a:1:1")
    trainer.event("running", asked_s, fragments=["1"])
    asked_s = trainer.hosts("a:1:1 b:1:2")
    trainer.event("running", asked_s, fragments=["1", "2"])
    trainer.steps(2)
    trainer.check_continuity()
