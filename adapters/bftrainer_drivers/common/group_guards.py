"""How a driver keeps strangers out of the groups of its trainer's workers (``vouching.py``)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from bftrainer.errors import InvalidValueError
from bftrainer.system.network import interface_address
from bftrainer.wires.messages import DriverSettings
from bftrainer_drivers.common.vouching import SHARED_INTERFACE, VOUCH
from bftrainer_drivers.common.warm_command import warm_command

AddressOf = Callable[[str], str]
"""The address of an interface of this host."""


def is_shared(settings: DriverSettings, address_of: AddressOf = interface_address) -> bool:
    """Whether users of other hosts may reach the interface of the workers. Raises
    :class:`InvalidValueError` where this host has no such interface.
    """
    if settings.private_interface:
        return False
    return not ipaddress.ip_address(address_of(settings.interface)).is_loopback


def guard_variables(
    settings: DriverSettings, address_of: AddressOf = interface_address
) -> dict[str, str]:
    """Return the environment variables by which a worker learns how to guard its groups
    (``vouching.py``).
    """
    return {
        VOUCH: "" if settings.private_interface else "1",
        SHARED_INTERFACE: settings.interface if is_shared(settings, address_of) else "",
    }


def refuse_unguarded(
    command: Sequence[str], settings: DriverSettings, address_of: AddressOf = interface_address
) -> None:
    """Raise :class:`InvalidValueError` for a command whose groups cannot be guarded, where users of
    other hosts may reach the interface: only Python can be told to guard them.
    """
    if warm_command(command) is None and is_shared(settings, address_of):
        raise InvalidValueError(
            f"command {command[0]}: bftrainer guards the groups of `python SCRIPT` and `python -m "
            f"MODULE` only, and other users may reach {settings.interface}; start the script so, "
            "or set workers.private_interface = true if no other user can (docs/security.md)"
        )
