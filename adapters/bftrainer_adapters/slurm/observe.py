"""The Scheduler port on Slurm's commands: a batch of four short calls, each 10 ms on an idle 22.05.8; and rarely a fifth.

Slurm's manual asks not to call squeue in tight loops; every 10 s is often enough. Text is the default because one format serves
all versions from 22.05 on; JSON needs 23.11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from bftrainer.domain.cluster import NodeView, Observation, PendingJob
from bftrainer.system import command
from bftrainer.system.users import own_name
from bftrainer_adapters.slurm import json as slurm_json
from bftrainer_adapters.slurm import text as slurm_text
from bftrainer_adapters.slurm.configuration import KeptConfig
from bftrainer_adapters.slurm.records import marked, new_mark
from bftrainer_adapters.slurm.setup import config_argv

# Times in seconds of the epoch, whatever the user has set.
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC"}

_Parsed = TypeVar("_Parsed")


class AnswerFormat(Enum):
    """The output format of the commands."""

    TEXT = "text"
    JSON = "json"


def nodes_argv(form: AnswerFormat) -> list[str]:
    """All nodes, including those of hidden partitions."""
    return (
        ["scontrol", "-a", "show", "nodes", "--json"]
        if form is AnswerFormat.JSON
        else ["scontrol", "-a", "-o", "show", "node"]
    )


def pending_argv(form: AnswerFormat, mark: str) -> list[str]:
    """All pending jobs, in text with ``mark`` after each. --noconvert: 1024 nodes would be ``1K``."""
    argv = ["squeue", "-a", "-t", "PD"]
    if form is AnswerFormat.JSON:
        return [*argv, "--json"]
    return [*argv, "--noconvert", "-o", marked(slurm_text.JOB_FORMAT, mark)]


def reservations_argv(form: AnswerFormat) -> list[str]:
    """All reservations."""
    if form is AnswerFormat.JSON:
        return ["scontrol", "-a", "show", "reservations", "--json"]
    return ["scontrol", "-a", "-o", "show", "reservation"]


@dataclass
class SlurmScheduler:
    """Slurm as its commands show it. ``env`` is added to the environment of each."""

    format: AnswerFormat = AnswerFormat.TEXT
    timeout_s: float = 10.0
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = field(default_factory=own_name)
    _config: KeptConfig = field(default_factory=KeptConfig)

    def observe(self) -> Observation:
        """Jobs are read before nodes: a job that starts in between shows on its nodes. The time is read last, so windows may
        look shorter than they are, but never longer.
        """
        parsers = slurm_json if self.format is AnswerFormat.JSON else slurm_text
        mark = new_mark()
        pending = self._ask(pending_argv(self.format, mark), lambda text: parsers.parse_pending(text, mark))
        nodes = self._ask(nodes_argv(self.format), parsers.parse_nodes)
        return self.observe_rest(nodes, pending)

    def observe_rest(self, nodes: tuple[NodeView, ...], pending: tuple[PendingJob, ...]) -> Observation:
        """Complete an observation of nodes and jobs that were read just before."""
        parsers = slurm_json if self.format is AnswerFormat.JSON else slurm_text
        reservations = self._ask(reservations_argv(self.format), parsers.parse_reservations)
        config = self._config.text(self.timeout_s, {**self.env, **ENVIRONMENT})
        hidden = command.parsed(config_argv(), config, lambda text: slurm_text.parse_hidden(text, self.user))
        at_s, planned_s = self._ask(["sdiag"], slurm_text.parse_times)
        return Observation(at_s, nodes, pending, reservations, hidden, planned_s)

    def _ask(self, argv: list[str], parse: Callable[[str], _Parsed]) -> _Parsed:
        text = command.run(argv, timeout_s=self.timeout_s, env={**self.env, **ENVIRONMENT})
        return command.parsed(argv, text, parse)
