"""The longest time limit that holders may have here: a QOS, an account or a partition may allow less than slurm.longest_s."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system import command
from bftrainer_adapters.slurm.associations import RunCommand, read_accounting
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.setup import parse_config, parse_partitions, partitions_argv
from bftrainer_adapters.slurm.site_limits import Holders, holders_of

AGAIN_S = 60.0
EVERY_S = 3600.0
FAILED_S = 600.0
_TOO_LONG = re.compile(r"Wall|TimeLimit\b|Requested time limit is invalid")


def limits_here(settings: SlurmSettings, config_text: str, user: str, ask: RunCommand) -> Holders:
    """What limits holders here. Raises CommandError or SchedulerError if that cannot be found out."""
    partitions = command.parsed(partitions_argv(), ask(partitions_argv()), parse_partitions)
    accounts = read_accounting(settings, config_text, user, ask)
    return holders_of(settings, parse_config(config_text), partitions, accounts.qos or {}, accounts.associations)


@dataclass
class TimeLimit:
    """Read at the start, every :data:`EVERY_S`, and when Slurm says that one is too long (every :data:`AGAIN_S` at most)."""

    read: Callable[[], float]
    elapsed_s: Callable[[], float] = time.monotonic
    longest_s: float = math.inf
    _next_s: float = field(default=-math.inf)
    _due_s: float = field(default=-math.inf)

    def update(self) -> None:
        """What cannot be found out stays as it was: a holder with too long a limit is pending, and does no harm."""
        self._due_s = self.elapsed_s() + FAILED_S
        with suppress(CommandError, SchedulerError):
            self.longest_s = self.read()
            self._due_s = self.elapsed_s() + EVERY_S

    def update_if_due(self) -> None:
        """Sites change limits while a pilot runs."""
        if self.elapsed_s() >= self._due_s:
            self.update()

    def noted(self, reason: str) -> None:
        """Why a holder does not start, or was refused."""
        if _TOO_LONG.search(reason) and self.elapsed_s() >= self._next_s:
            self._next_s = self.elapsed_s() + AGAIN_S
            self.update()
