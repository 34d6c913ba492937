"""The files of a trainer directory. Who writes and who reads each of them:
docs/trainer-directory.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bftrainer.system.shared_files import ensure_exists

TRAINERS = "trainers"
"""The folder of a state directory that holds one trainer directory per trainer."""


@dataclass(frozen=True)
class TrainerDirectory:
    """``trainers/ID/`` of a state directory."""

    path: Path

    @classmethod
    def of(cls, state_dir: Path, name: str) -> TrainerDirectory:
        """Return the directory of the trainer ``name`` in a state directory."""
        return cls(state_dir / TRAINERS / name)

    @property
    def trainer(self) -> Path:
        """The file with the submission, a :class:`~bftrainer.wires.messages.TrainerMessage`."""
        return self.path / "trainer.json"

    @property
    def driver(self) -> Path:
        """The file that says how to start and watch workers,
        :class:`~bftrainer.wires.messages.DriverSettings`.
        """
        return self.path / "driver.json"

    @property
    def hosts(self) -> Path:
        """The nodes to use (``wires.hosts_file``)."""
        return self.path / "hosts"

    @property
    def control(self) -> Path:
        """The pilot's request to train or to stop, a
        :class:`~bftrainer.wires.control.ControlMessage`.
        """
        return self.path / "control"

    @property
    def leave(self) -> Path:
        """The driver's request to the workers of one incarnation, a
        :class:`~bftrainer.wires.control.ControlMessage`.
        """
        return self.path / "leave"

    def leave_of(self, fragment: str) -> Path:
        """Return the file with the driver's request to the workers of one fragment (launcher
        ``pool``).
        """
        return self.path / f"leave.{fragment}"

    @property
    def preempted(self) -> Path:
        """The fragments whose nodes are preempted, a JSON object per line (``on_node.payload``
        writes them, and the pilot for nodes that main jobs wait for).
        """
        return self.path / "preempted.jsonl"

    @property
    def events(self) -> Path:
        """The driver's reports (``wires.driver_events``)."""
        return self.path / "events.jsonl"

    @property
    def progress(self) -> Path:
        """Rank 0's reports (``wires.progress_line``)."""
        return self.path / "progress.jsonl"

    @property
    def ranks(self) -> Path:
        """The folder of the ranks' own reports, a file per rank (``wires.rank_line``)."""
        return self.path / "ranks"

    def rank(self, number: int) -> Path:
        """Return the file in which one rank reports of itself."""
        return self.ranks / f"{number}.jsonl"

    @property
    def gpu_use(self) -> Path:
        """The ``GpuUse`` of each worker, one file per rank (``wires.gpu_use``)."""
        return self.path / "gpu_use"

    @property
    def meeting(self) -> Path:
        """Where replicas of torchft or workers of a pool meet, with the key; mode 0600
        (``wires.replicas``).
        """
        return self.path / "meeting.json"

    @property
    def tasks(self) -> Path:
        """The ``TaskCounts`` of a pool (``wires.task_board``)."""
        return self.path / "tasks.json"

    @property
    def failures(self) -> Path:
        """The failures of a pool's tasks, with their tracebacks."""
        return self.path / "failures.jsonl"

    @property
    def driver_pid(self) -> Path:
        """Which process the driver is (``wires.driver_pid``)."""
        return self.path / "driver.pid"

    @property
    def driver_lock(self) -> Path:
        """Locked (flock) as long as a driver lives; its content means nothing."""
        return self.path / "driver.lock"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def driver_log(self) -> Path:
        """The driver's own stdout and stderr."""
        return self.logs / "driver.log"

    def incarnation_logs(self, incarnation: int) -> Path:
        """Return the folder of one incarnation's logs."""
        return self.logs / str(incarnation)

    def worker_log(self, incarnation: int, host: str, fragment: str, slot: int) -> Path:
        """Return the file with a worker's stdout and stderr."""
        return self.incarnation_logs(incarnation) / f"{host}.{fragment}.{slot}.log"

    def last_incarnation(self) -> int:
        """Return the number of the latest incarnation with logs; 0 where there is none."""
        folders = self.logs.iterdir() if self.logs.is_dir() else ()
        return max((int(path.name) for path in folders if path.name.isdecimal()), default=0)

    def new_incarnation(self) -> int:
        """Make the log folder of the next incarnation and return its number.

        Also make the files that hosts wait for: workers wait for ``leave``, the driver for
        ``preempted.jsonl``, and both it and the pilot for ``progress.jsonl``.
        """
        for path in (self.leave, self.preempted, self.progress):
            ensure_exists(path)
        self.logs.mkdir(exist_ok=True)
        number = self.last_incarnation() + 1
        self.incarnation_logs(number).mkdir()
        return number

    def latest_logs(self) -> list[Path]:
        """Return the workers' logs of the latest incarnation; empty where nothing was
        written yet.
        """
        return sorted(self.incarnation_logs(self.last_incarnation()).glob("*.log"))


def older_part(path: Path) -> Path:
    """Return the path to which a file is renamed when it has grown too long: ``progress.jsonl.1``,
    ``driver.log.1``.
    """
    return path.with_name(f"{path.name}.1")
