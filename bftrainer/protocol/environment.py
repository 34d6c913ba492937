"""Environment variables of a worker: where its trainer directory is, and what it is a part of."""

from __future__ import annotations

from pathlib import Path

TRAINER_DIR = "BFTRAINER_TRAINER_DIR"
INCARNATION = "BFTRAINER_INCARNATION"
FRAGMENT = "BFTRAINER_FRAGMENT"
NODE = "BFTRAINER_NODE"
HOSTS = "BFTRAINER_HOSTS"
"""``node:slots,node:slots``: all hosts of the trainer (launchers ``restart`` and ``torchrun``)."""
REPORT_EVERY_S = "BFTRAINER_REPORT_EVERY_S"
"""Set by users: seconds between two lines of ``progress.jsonl``; 0: every step."""


def worker_variables(directory: Path, incarnation: int, fragment: str, node: str) -> dict[str, str]:
    """What every worker gets, whatever its launcher."""
    return {TRAINER_DIR: str(directory), INCARNATION: str(incarnation), FRAGMENT: fragment, NODE: node}
