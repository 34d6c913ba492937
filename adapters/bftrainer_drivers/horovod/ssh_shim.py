"""The program that stock horovodrun finds as ``ssh``: runs a command on a node through the
trainer's prefix.

``python -m bftrainer_drivers.horovod.ssh_shim TRAINER_DIR INCARNATION [options] HOST
COMMAND``. Horovod 0.28.1 calls ``ssh -o PasswordAuthentication=no -o StrictHostKeyChecking=no HOST
[-p PORT] [-i FILE] 'cd ...; env ... COMMAND'``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bftrainer.wires.control import STOPPED_STATUS
from bftrainer.wires.hosts_file import HostSlots, read_hosts
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import read_json
from bftrainer_drivers.common.event_writer import EventWriter
from bftrainer_drivers.common.workers import WorkerStarter, exit_code

_WITH_VALUE = ("-o", "-p", "-i", "-l", "-F")


def host_and_command(arguments: Sequence[str]) -> tuple[str, str]:
    """Split arguments as ssh does: ``-p 22 n1 cd /home ; ls`` -> ``n1`` and ``cd /home ; ls``. The
    first word that is no option is the host, the rest is one shell command.
    """
    words, position = [], 0
    while position < len(arguments):
        if arguments[position] in _WITH_VALUE:
            position += 2
        else:
            words.append(arguments[position])
            position += 1
    return words[0], " ".join(words[1:])


def announced(directory: TrainerDirectory) -> tuple[HostSlots, ...]:
    """The hosts that the discovery script prints, with their fragments."""
    return read_hosts(announced_path(directory))


def announced_path(directory: TrainerDirectory) -> Path:
    """Return the driver's file with the announced hosts, which are those without withheld
    fragments.
    """
    return directory.path / "horovodrun.hosts"


def main(argv: Sequence[str]) -> int:
    """Run one worker for horovodrun, and return its exit status: 0 after a requested stop, which
    horovodrun would take for a failure.
    """
    directory = TrainerDirectory(Path(argv[1]))
    node, command = host_and_command(argv[3:])
    host = next((host for host in announced(directory) if host.node == node), None)
    if host is None:
        print(f"{node}: this host has left the trainer", file=sys.stderr)
        return 255
    trainer = read_json(TrainerMessage, directory.trainer)
    settings = read_json(DriverSettings, directory.driver)
    events = EventWriter(directory.events, int(argv[2]))
    starter = WorkerStarter(directory, trainer, settings, events)
    slot = int(command.partition("HOROVOD_LOCAL_RANK=")[2].partition(" ")[0] or 0)
    # "cd ... ; env ... COMMAND": with exec the worker, not a shell above it, is watched and
    # signaled.
    worker = starter.start(
        host, slot, ["/bin/sh", "-c", command.replace(" ; env ", " ; exec env ", 1)], {}
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.kill())
    os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)
    # horovodrun ends the workers of a host that the driver no longer announces.
    worker.is_planned = host not in announced(directory)
    status = starter.wait(worker)
    starter.close()
    return 0 if status == STOPPED_STATUS else exit_code(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
