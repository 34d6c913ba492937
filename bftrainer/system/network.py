"""The network interfaces of this host, and sockets that listen."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from bftrainer.errors import InvalidValueError

_DATAGRAM_BYTES = 65_536
"""The kernel's memory for datagrams that wait; one of one byte counts as about 800."""


def interface_address(interface: str) -> str:
    """Return the IPv4 address of a network interface of this host. Raises
    :class:`InvalidValueError` if it has none.
    """
    siocgifaddr = 0x8915  # netdevice(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, siocgifaddr, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            raise InvalidValueError(
                f"interface {interface!r} has no IPv4 address on this host: {error}"
            ) from error
    return socket.inet_ntoa(answer[20:24])


def route_to(host: str) -> tuple[str, IPv4Network]:
    """Return the interface by which this host reaches another one, and the interface's network;
    nothing is sent. Raises :class:`InvalidValueError` if there is no route, or no such interface
    with an IPv4 address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # of UDP: the kernel only chooses the route
        except OSError as error:
            raise InvalidValueError(f"no route to {host}: {error}") from error
        address = probe.getsockname()[0]  # of this host
        for _, name in socket.if_nameindex():
            with suppress(InvalidValueError):  # an interface without an IPv4 address
                if interface_address(name) == address:
                    return name, IPv4Network(
                        f"{address}/{_interface_netmask(probe, name)}", strict=False
                    )
    raise InvalidValueError(f"no interface of this host has the address {address}")


def _interface_netmask(probe: socket.socket, interface: str) -> str:
    siocgifnetmask = 0x891B  # netdevice(7)
    name = struct.pack("256s", interface.encode()[:15])
    return socket.inet_ntoa(fcntl.ioctl(probe, siocgifnetmask, name)[20:24])


def tcp_listener(address: str, port: int, backlog: int) -> socket.socket:
    """Open a TCP socket that listens on an IPv4 or IPv6 address; port 0: any free one. Raises
    ``OSError``.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener


def datagram_listener(
    address: str, port: int, networks: Iterable[IPv4Network | IPv6Network]
) -> socket.socket:
    """Open a UDP socket that never blocks; port 0: any free one. Raises ``OSError``.

    The kernel keeps a few datagrams and drops the others; where the address is IPv4, it drops those
    from outside of these networks as well.
    """
    is_v6 = ":" in address
    listener = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _DATAGRAM_BYTES)
        if not is_v6:
            _receive_only_from(
                listener, [network for network in networks if isinstance(network, IPv4Network)]
            )
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    return listener


def unix_listener(path: Path, backlog: int) -> socket.socket:
    """Open a Unix socket that only its owner can connect to, in place of what a dead process left
    there. Raises ``OSError``.

    It is bound by a path below /proc, because sun_path has 108 bytes, and state directories may be
    longer.
    """
    path.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), 0o600)  # Linux gives the file this mode from the beginning
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        path.chmod(0o600)
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


def _receive_only_from(listener: socket.socket, networks: Iterable[IPv4Network]) -> None:
    """Let the kernel drop all datagrams from outside of these IPv4 networks. Raises ``OSError``.

    The filter is a classic BPF program (socket(7), SO_ATTACH_FILTER). It needs no privilege for
    UDP; for TCP it does, since Linux 6.18.
    """
    load = 0x20  # BPF_LD|W|ABS
    mask = 0x54  # BPF_ALU|AND|K
    compare = 0x15  # BPF_JMP|JEQ|K
    leave = 0x06  # BPF_RET|K: the number of bytes to keep of the datagram, 0 to drop it
    source_offset = 0xFFF00000 + 12  # SKF_NET_OFF, and where an IPv4 header has its source address
    program = b""
    for network in networks:
        # An address of another network skips the instruction that keeps the datagram.
        for code, skip_if_not, value in (
            (load, 0, source_offset),
            (mask, 0, int(network.netmask)),
            (compare, 1, int(network.network_address)),
            (leave, 0, 0xFFFFFFFF),
        ):
            program += struct.pack("HBBI", code, 0, skip_if_not, value)
    program += struct.pack("HBBI", leave, 0, 0, 0)
    memory = ctypes.create_string_buffer(program, len(program))
    so_attach_filter = 26
    instruction_bytes = 8
    listener.setsockopt(
        socket.SOL_SOCKET,
        so_attach_filter,
        struct.pack("HL", len(program) // instruction_bytes, ctypes.addressof(memory)),
    )
