"""The trainer directory: what trainers, drivers and workers write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz.readers.reader import RECORDED, Reader, of_file
from support.horovod_trainer import SITE


def _recorded(name: str) -> tuple[bytes, ...]:
    found = sorted((RECORDED / "trainer-directory-1").glob(f"*/{name}"))
    return tuple(path.read_bytes() for path in found) or (b"{}",)


def _progress(path: Path) -> None:
    from bftrainer.system.json_tail import JsonTail
    from bftrainer.wires.reports import DriverView, after_progress

    view = after_progress(DriverView(on=frozenset({"1"})), JsonTail(path).read())
    for value in (view.samples, view.loss, view.rank_0_reported_s, view.step):
        assert value is None or -1e31 < value < 1e31, f"an unbounded number {str(value)[:40]}"


def _events(path: Path) -> None:
    from bftrainer.system.json_tail import JsonTail
    from bftrainer.wires.reports import DriverView, after_events

    view = after_events(DriverView(), JsonTail(path).read())
    for value in (view.driver_reported_s, view.world_size, view.incarnation):
        assert -1e18 < value < 1e18, f"an unbounded number {str(value)[:40]}"


def _hosts(path: Path) -> None:
    from bftrainer.wires.hosts_file import read_hosts

    read_hosts(path)


def _driver_pid(path: Path) -> None:
    from bftrainer.wires.driver_pid import read_driver_pid

    read_driver_pid(path)


def _control(path: Path) -> None:
    from bftrainer.wires.control import is_stop_requested

    is_stop_requested(path)


def _message(kind: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        from bftrainer.wires import messages
        from bftrainer.wires.typed_json import read_json

        read_json(getattr(messages, kind), path)

    return read


def readers() -> Iterator[Reader]:
    """The readers of a trainer directory."""
    yield Reader(
        "progress", of_file(_progress, "progress.jsonl"), _recorded("progress.jsonl"), is_json=True
    )
    yield Reader(
        "events.jsonl", of_file(_events, "events.jsonl"), _recorded("events.jsonl"), is_json=True
    )
    yield Reader("hosts", of_file(_hosts, "hosts"), _recorded("hosts"))
    yield Reader(
        "driver.pid", of_file(_driver_pid, "driver.pid"), _recorded("driver.pid"), is_json=True
    )
    yield Reader("control", of_file(_control, "control"), _recorded("control"), is_json=True)
    yield Reader(
        "trainer.json",
        of_file(_message("TrainerMessage"), "t"),
        _recorded("trainer.json"),
        is_json=True,
    )
    settings = json.dumps(
        {"version": 1, "driver": "restart", **SITE, "prefix": ["srun", "--jobid={job_id}"]}
    ).encode()
    yield Reader("driver.json", of_file(_message("DriverSettings"), "t"), (settings,), is_json=True)
