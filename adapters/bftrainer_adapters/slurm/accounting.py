"""What accounting says of holders: QOSes and associations, asked by sacctmgr of slurmdbd, not of slurmctld."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bftrainer.errors import CommandError
from bftrainer.system import command
from bftrainer_adapters.slurm import associations
from bftrainer_adapters.slurm.associations import Association
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.setup import Qos, parse_config, parse_qos, qos_argv

Ask = Callable[[list[str]], str]
"""Runs a command; its standard output."""


@dataclass(frozen=True, slots=True)
class Accounting:
    """``qos`` is None where there is no accounting, or it does not answer. ``associations``: the user's, then those above."""

    qos: dict[str, Qos] | None = None
    associations: tuple[Association, ...] = ()
    error: str = field(default="", compare=False)


def read_accounting(settings: SlurmSettings, config_text: str, user: str, ask: Ask) -> Accounting:
    """Raises SchedulerError if an answer is not understood."""
    config = parse_config(config_text)
    if "slurmdbd" not in config.get("AccountingStorageType", ""):
        return Accounting()
    try:
        qos = command.parsed(qos_argv(), ask(qos_argv()), parse_qos)
        above = associations.chain(ask, config.get("ClusterName", ""), user, settings.account, settings.partition)
    except CommandError as error:
        return Accounting(error=str(error))
    return Accounting(qos, above)
