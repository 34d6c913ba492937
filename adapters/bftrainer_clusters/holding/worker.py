"""The prefix that starts a worker in a holder: ``python -m bftrainer_clusters.holding.worker
HOLDERS NODE JOB COMMAND...``.

It does for any scheduler what ``srun --jobid`` does for Slurm: it passes on standard input, output,
signals and the exit status of the worker. It leaves an order for starter.py in the holder and ends
when the worker does, or with 137 as soon as the payload marks that it leaves (or the holder's
folder is gone). :data:`ENDS_BY` kills the worker, and this process ends after it. After a SIGKILL
of this process the worker ends within ``starter.ALIVE_S``, so it may train beside its successor.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from bftrainer.fragment_names import fragment_name
from bftrainer.system.umask import private_files, users_umask
from bftrainer_clusters.on_node.starter import write

_POLL_S = 0.1
_ALIVE_EVERY_S = 1.0
_LOST_STATUS = 137
ENDS_BY = signal.SIGALRM
"""The signal that ends the worker and this process. Schedulers and trainers do not use it, and by
default it leaves no core file.
"""


def main(holders: Path, node: str, job: str, command: list[str]) -> int:
    """Run a command as a worker in the holder; return its exit status, or 137 if the holder is
    lost.
    """
    holder = holders / fragment_name(node, job)
    order = holder / "work" / f"{time.time_ns()}-{os.getpid()}"
    try:
        # Not with all parents: a holder that is gone must not get a folder again.
        order.parent.mkdir(mode=0o700, exist_ok=True)
        order.mkdir(mode=0o700)
        _pass_signals_to(order)
        _write_alive(order)
        worker = {
            "argv": command,
            "environment": dict(os.environ),
            "cwd": str(Path.cwd()),
            "umask": users_umask(),
        }
        write(str(order / "order"), json.dumps(worker))
    except OSError as error:
        print(f"bftrainer: no holder {holder.name}: {error}", file=sys.stderr)
        return _LOST_STATUS
    threading.Thread(target=_copy_input, args=(order,), daemon=True).start()
    status = _follow_worker(holder, order)
    signal.signal(ENDS_BY, signal.SIG_IGN)  # repeated until this process has ended
    shutil.rmtree(order, ignore_errors=True)
    return status


def _follow_worker(holder: Path, order: Path) -> int:
    """Copy the worker's output, and show that this process is alive, until the worker ends or the
    holder is lost; return the exit status.
    """
    next_alive_s, offset_bytes = 0.0, 0
    while True:
        if time.monotonic() >= next_alive_s:
            next_alive_s = time.monotonic() + _ALIVE_EVERY_S
            _write_alive(order)
        has_ended = (order / "exit").exists()
        is_lost = not has_ended and (_has_left(holder) or not holder.exists())
        # After these checks: the last output is there once they say that the worker is over.
        offset_bytes = _copy_output(order, offset_bytes)
        if has_ended:
            return int((order / "exit").read_text())
        if is_lost:
            return _LOST_STATUS
        time.sleep(_POLL_S)


def _has_left(holder: Path) -> bool:
    """Return whether the payload has marked that it leaves; before, the mark is empty."""
    try:
        return bool((holder / "leaving").read_bytes())
    except OSError:
        return False


def _copy_output(order: Path, offset_bytes: int) -> int:
    """Copy what the worker has written from ``offset_bytes`` on to standard output; return the next
    offset.
    """
    try:
        with (order / "out").open("rb") as file:
            file.seek(offset_bytes)
            data = file.read()
    except OSError:
        return offset_bytes
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return offset_bytes + len(data)


def _write_alive(order: Path) -> None:
    try:
        (order / "alive").write_text(f"{time.monotonic_ns()}\n", encoding="ascii")
    except OSError:
        return  # the holder is gone, which _follow_worker notices


def _copy_input(order: Path) -> None:
    """Copy this process's standard input to the worker's, by the file ``in`` of the order."""
    try:
        with (order / "in").open("ab", buffering=0) as file:
            while data := os.read(0, 65536):
                file.write(data)
        (order / "eof").touch()
    except OSError:
        return  # the order is over


def _pass_signals_to(order: Path) -> None:
    """Pass signals on to the worker, by a file in the folder of its order; :data:`ENDS_BY` becomes
    SIGKILL.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        worker_number = int(signal.SIGKILL) if number == ENDS_BY else number
        with suppress(OSError):  # the order is over
            write(str(order / "signal"), str(worker_number))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, ENDS_BY):
        signal.signal(number, pass_on)
    # Blocked before the thread below starts, which is then the only one to receive it.
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    threading.Thread(target=_wait_for_sigusr2, args=(pass_on, os.getppid()), daemon=True).start()


def _wait_for_sigusr2(pass_on: Callable[[int, FrameType | None], None], driver_pid: int) -> None:
    """Pass SIGUSR2 on to the worker if the driver has sent it. From a scheduler it announces the
    end of the *pilot's* job, and is ignored. Never returns.
    """
    while True:
        if signal.sigwaitinfo({signal.SIGUSR2}).si_pid == driver_pid:
            pass_on(signal.SIGUSR2, None)


if __name__ == "__main__":
    with private_files():
        sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
