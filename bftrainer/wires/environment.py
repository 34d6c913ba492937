"""Environment variables of a worker: where its trainer directory is, and what it is a part of."""

from __future__ import annotations

import os
import runpy
from collections.abc import MutableMapping
from pathlib import Path

TRAINER_DIR = "BFTRAINER_TRAINER_DIR"
INCARNATION = "BFTRAINER_INCARNATION"
FRAGMENT = "BFTRAINER_FRAGMENT"
NODE = "BFTRAINER_NODE"
PART = "BFTRAINER_PART"
"""The holder's job, where the fragment is one of its GPUs (``nodes.unit = "gpu"``)."""
HOSTS = "BFTRAINER_HOSTS"
"""``node:slots,node:slots``: all hosts of the trainer (launchers ``restart`` and ``torchrun``)."""
WORKER = "BFTRAINER_WORKER"
"""The name of a worker of a pool, which no other worker of the trainer ever has (launcher
``pool``).
"""
NOTICE_S = "BFTRAINER_NOTICE_S"
"""Seconds that the worker may take to save when its node is preempted; not set: none."""
SLOT = "BFTRAINER_SLOT"
"""Its slot on the node, from 0: which GPU to take."""
REPORT_EVERY_S = "BFTRAINER_REPORT_EVERY_S"
"""Set by users: seconds between two lines of ``progress.jsonl``; 0: every step."""

PREEMPTION_SIGNAL = 44
"""The real-time signal that a scheduler sends to the holder of a preempted node. Workers ignore
it.
"""
IN_WORKER = "BFTRAINER_IN_WORKER"
"""A Python file of the driver's installation, which runs once inside a Horovod worker, before the
script.
"""


def run_in_worker(environment: MutableMapping[str, str] = os.environ) -> None:
    """Run the file that IN_WORKER names. The variable is removed: the worker's own child processes
    do not inherit it.
    """
    path = environment.pop(IN_WORKER, None)
    if path is not None:
        runpy.run_path(path, run_name="__main__")


def worker_variables(directory: Path, incarnation: int, fragment: str, node: str) -> dict[str, str]:
    """Return the environment variables that every worker gets, whatever its launcher."""
    return {
        TRAINER_DIR: str(directory),
        INCARNATION: str(incarnation),
        FRAGMENT: fragment,
        NODE: node,
    }
