"""Reading a trainer's directory: ``trainer.json``, ``driver.json``, ``hosts``, ``control``. The gate: all is checked here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bftrainer.errors import InputFileError
from bftrainer.system.files import write_atomically

VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, order=True)
class HostSlots:
    """One line of ``hosts``: ``slots`` workers on ``host``, inside the holder ``fragment``."""

    host: str
    slots: int
    fragment: str


@dataclass(frozen=True, slots=True)
class TrainerOrder:
    """``trainer.json``: what was accepted."""

    id: str
    command: tuple[str, ...]
    cwd: Path
    environment: tuple[tuple[str, str], ...]
    setup: tuple[str, ...]
    min_nodes: int
    max_nodes: int
    stop_s: float
    stop_signal: str | None


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """``driver.json``: how to start workers."""

    driver: str
    prefix: tuple[str, ...]
    interface: str
    allow_from: tuple[str, ...]
    drop_environment: tuple[str, ...]
    keep_environment: tuple[str, ...]
    poll_s: float
    hang_s: float
    warm: bool
    log_bytes: int
    allow_stock_horovodrun: bool


@dataclass(frozen=True, slots=True)
class TrainerDirectory:
    """The paths of ``trainers/ID/`` and what a driver reads from them."""

    path: Path

    @property
    def hosts(self) -> Path:
        """The order: which nodes to be on."""
        return self.path / "hosts"

    @property
    def control(self) -> Path:
        """The pilot's stop requests."""
        return self.path / "control"

    @property
    def leave(self) -> Path:
        """The driver's stop request."""
        return self.path / "leave"

    @property
    def events(self) -> Path:
        """The driver's report."""
        return self.path / "events.jsonl"

    @property
    def progress(self) -> Path:
        """Rank 0's report."""
        return self.path / "progress.jsonl"

    @property
    def pid(self) -> Path:
        """Where the driver says who it is."""
        return self.path / "driver.pid"

    @property
    def logs(self) -> Path:
        """One folder per incarnation."""
        return self.path / "logs"

    def read_trainer(self) -> TrainerOrder:
        """``trainer.json``. Raises :class:`InputFileError`."""
        fields = _Fields(self.path / "trainer.json")
        return TrainerOrder(
            id=fields.text("id"),
            command=fields.texts("command"),
            cwd=Path(fields.text("cwd")),
            environment=fields.pairs("environment"),
            setup=fields.texts("setup", ()),
            min_nodes=fields.integer("min_nodes"),
            max_nodes=fields.integer("max_nodes"),
            stop_s=fields.number("stop_s", 30.0),
            stop_signal=fields.text("stop_signal", "") or None,
        )

    def read_driver(self) -> DriverSettings:
        """``driver.json``. Raises :class:`InputFileError`."""
        fields = _Fields(self.path / "driver.json")
        return DriverSettings(
            driver=fields.text("driver"),
            prefix=fields.texts("prefix", ()),
            interface=fields.text("interface", "lo"),
            allow_from=fields.texts("allow_from", ("127.0.0.0/8",)),
            drop_environment=fields.texts("drop_environment", ("SLURM_", "SBATCH_", "SRUN_")),
            keep_environment=fields.texts("keep_environment", ("SLURM_CONF",)),
            poll_s=fields.number("poll_s", 0.2),
            hang_s=fields.number("hang_s", 120.0),
            warm=fields.flag("warm", True),
            log_bytes=fields.integer("log_bytes", 20_000_000),
            allow_stock_horovodrun=fields.flag("allow_stock_horovodrun", False),
        )

    def read_hosts(self) -> tuple[HostSlots, ...]:
        """``hosts``, in the file's order. Raises :class:`InputFileError`."""
        return parse_hosts(_read(self.hosts), str(self.hosts))

    def stop_requested(self) -> bool:
        """Whether the pilot's ``control`` says stop."""
        if not self.control.exists():
            return False
        fields = _Fields(self.control)
        if (request := fields.text("request")) not in ("run", "stop"):
            raise InputFileError(f"{self.control}: request", f"expected 'run' or 'stop', found {request!r}")
        return request == "stop"

    def ask_to_leave(self, incarnation: int) -> None:
        """Tell the training program of this incarnation to checkpoint and exit."""
        request = {"version": VERSION, "request": "stop", "number": incarnation}
        write_atomically(self.leave, json.dumps(request).encode())

    def new_incarnation(self) -> int:
        """Make the next ``logs/N/`` and return its number: one more than the highest there is."""
        self.logs.mkdir(exist_ok=True)
        number = 1 + max((int(p.name) for p in self.logs.iterdir() if p.name.isdecimal()), default=0)
        (self.logs / str(number)).mkdir()
        return number


def parse_hosts(text: str, where: str) -> tuple[HostSlots, ...]:
    """Lines ``host:slots:fragment``; blank lines are skipped. Raises :class:`InputFileError`."""
    found: dict[str, HostSlots] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        host, slots, fragment = (*line.strip().split(":"), "", "")[:3] if line.count(":") == 2 else ("", "", "")
        if not (_NAME.fullmatch(host) and _NAME.fullmatch(fragment) and slots.isdecimal() and int(slots) > 0):
            raise InputFileError(f"{where}:{number}", f"expected host:slots:fragment, found {line!r}")
        if host in found:
            raise InputFileError(f"{where}:{number}", f"host {host} is listed twice")
        found[host] = HostSlots(host, int(slots), fragment)
    return tuple(found.values())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(str(path), str(error)) from error


class _Fields:
    """The keys of one JSON file, each with its type; a default makes a key optional."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            found = json.loads(_read(path))
        except ValueError as error:
            raise InputFileError(str(path), f"not JSON: {error}") from error
        if not isinstance(found, dict):
            raise InputFileError(str(path), f"expected an object, found {type(found).__name__}")
        if found.get("version") != VERSION:
            raise InputFileError(f"{path}: version", f"expected {VERSION}, found {found.get('version')!r}")
        self.found: dict[str, Any] = found

    def text(self, key: str, default: str | None = None) -> str:
        return str(self._typed(key, (str,), "a string", default))

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._typed(key, (bool,), "true or false", default))

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self._typed(key, (int,), "an integer", default))

    def number(self, key: str, default: float) -> float:
        return float(self._typed(key, (int, float), "a number", default))

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self._typed(key, (list, tuple), "a list of strings", default)
        if not all(isinstance(item, str) for item in value):
            raise InputFileError(f"{self.path}: {key}", "expected a list of strings")
        return tuple(value)

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        value = self._typed(key, (dict,), "an object of strings", {})
        if not all(isinstance(item, str) for item in value.values()):
            raise InputFileError(f"{self.path}: {key}", "expected an object of strings")
        return tuple(sorted(value.items()))

    def _typed(self, key: str, types: tuple[type, ...], expected: str, default: object) -> Any:
        value = self.found.get(key)
        if value is None:
            value = default
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            problem = "missing" if value is None else f"expected {expected}, found {value!r}"
            raise InputFileError(f"{self.path}: {key}", problem)
        return value
