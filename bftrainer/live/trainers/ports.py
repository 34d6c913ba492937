"""Ports of the manager of trainers: a launcher, and the classes of fragments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bftrainer.config.pilot import NodeClassConfig
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.reports import DriverView


class Launcher(Protocol):
    """Starts, rescales and stops trainers, and reports what their drivers say."""

    def start(self, spec: TrainerSpec, hosts: Iterable[HostSlots], interface: str | None = None) -> None:
        """Start a driver on these hosts. ``interface``: of their node class, where it has its own."""

    def order(self, name: str, hosts: Iterable[HostSlots]) -> None:
        """Tell a running driver its new hosts."""

    def ask_to_stop(self, name: str) -> None:
        """Request a checkpoint and the end of the driver."""

    def kill(self, name: str) -> None:
        """Kill the driver."""

    def look(self, name: str) -> DriverView:
        """The driver as of now. A driver that runs already is adopted."""


class ClassLookup(Protocol):
    """Classes of fragments."""

    def of(self, fragment: str) -> str | None:
        """The fragment's class; None while it is not known."""

    def configured(self, node_class: str | None) -> NodeClassConfig | None:
        """The configuration of a class, if it has a table."""
