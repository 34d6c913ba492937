"""The network interfaces of this host."""

from __future__ import annotations

import fcntl
import socket
import struct

from bftrainer.errors import InvalidValueError


def interface_address(interface: str) -> str:
    """The IPv4 address of a network interface of this host. Raises :class:`InvalidValueError`."""
    siocgifaddr = 0x8915  # netdevice(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, siocgifaddr, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            raise InvalidValueError(f"interface {interface!r} has no IPv4 address on this host: {error}") from error
    return socket.inet_ntoa(answer[20:24])
