"""``discover_hosts.sh``: the hosts that a driver announces to Horovod, for
``horovodrun --host-discovery-script``.

The hosts stand in the script itself, so one atomic rename replaces all of them. The driver
``horovod`` reads the same lines in its own process (:mod:`.elastic_driver`): Horovod asks once a
second, and no process is started for that.
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bftrainer.errors import InputFileError, InvalidValueError
from bftrainer.system.files import write_atomically
from bftrainer.system.processes import ProcessId, this_process
from bftrainer.system.regular import read_regular
from bftrainer.wires.hosts_file import MAX_BYTES, HostSlots, is_host_name, is_slot_count
from bftrainer.wires.paths import TrainerDirectory

_FIRST, _LAST = "cat <<'HOSTS'", "HOSTS"


def format_script(hosts: Iterable[HostSlots], host: str, driver: ProcessId) -> str:
    """Format the script that prints ``node:slots`` for each node of ``hosts``, in their order.

    On ``host``, the script prints nothing once the process ``driver`` has ended, even if another
    process has its pid by then: the nodes may have other jobs. Raises :class:`InvalidValueError`
    for a node's name that Horovod's shell commands could misread.
    """
    started = driver.started.partition("@")[0]  # clock ticks since boot
    lines = [f"{node}:{slots}" for node, slots in slots_by_node(hosts).items()]
    return "\n".join(
        [
            "#!/bin/sh",
            "# Prints the hosts that bftrainer's driver announces to Horovod. The driver replaces",
            "# this file at each change.",
            f'if [ "$(uname -n)" = {shlex.quote(host)} ]; then',
            f"    {{ read -r stat < /proc/{driver.pid}/stat; }} 2>/dev/null || exit 0",
            "    set -f -- ${stat##*) }  # the fields after the name of the program",
            # Z: it has ended, and its parent has not noticed.
            f'    [ "$1" != Z ] && [ "${{20}}" = {started} ] || exit 0',
            "fi",
            _FIRST,
            *lines,
            _LAST,
            "",
        ]
    )


def slots_by_node(hosts: Iterable[HostSlots]) -> dict[str, int]:
    """Return the slots of each node: the sum over its hosts, which are several where trainers have
    single GPUs. Raises :class:`InvalidValueError` for a name that ``hosts`` could not have.
    """
    slots: dict[str, int] = {}
    for host in hosts:
        if not is_host_name(host.node):
            raise InvalidValueError(f"{host.node!r:.200} cannot be the name of a node")
        slots[host.node] = slots.get(host.node, 0) + host.slots
    return slots


def parse_script(text: str, where: str) -> dict[str, int]:
    """Return the slots of each node that a script of :func:`format_script` prints while its driver
    runs. Raises :class:`InputFileError` (``where:line``) for any other text.
    """
    lines = text.splitlines()
    if _FIRST not in lines or lines[-1] != _LAST:
        raise InputFileError(where, f"expected {_FIRST}, lines node:slots, and {_LAST}")
    first = lines.index(_FIRST) + 1
    slots_of: dict[str, int] = {}
    for number, line in enumerate(lines[first:-1], first + 1):
        node, _, slots = line.partition(":")
        if not (is_host_name(node) and is_slot_count(slots)):
            raise InputFileError(f"{where}:{number}", f"expected node:slots; found {line!r:.200}")
        slots_of[node] = int(slots)
    return slots_of


class DiscoveryScript:
    """The script in one trainer directory, written by this driver."""

    def __init__(self, directory: TrainerDirectory) -> None:
        self.path: Path = directory.path / "discover_hosts.sh"

    def publish(self, hosts: Iterable[HostSlots]) -> None:
        """Let the script print these hosts from now on. Raises ``OSError``."""
        text = format_script(hosts, socket.gethostname(), this_process())
        write_atomically(self.path, text.encode(), mode=0o755)

    def options(self) -> list[str]:
        """Return the options of ``horovodrun`` that let it go by the script.

        Horovod gives the value to a shell: the path is quoted, and ``sh`` reads the script on file
        systems as well that execute none (``noexec``).
        """
        return ["--host-discovery-script", f"sh {shlex.quote(str(self.path))}"]

    def read(self) -> dict[str, int]:
        """Return the slots of each node that the script prints. Raises :class:`InputFileError`."""
        try:
            text = read_regular(self.path, MAX_BYTES).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise InputFileError(str(self.path), str(error)) from error
        return parse_script(text, str(self.path))

    def clear(self) -> None:
        """Let the script print no host: the driver ends. Raises nothing."""
        with suppress(OSError):
            if self.path.exists():
                self.publish(())
