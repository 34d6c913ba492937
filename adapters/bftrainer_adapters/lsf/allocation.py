"""The LSF job around a pilot: its nodes are in LSB_DJOB_HOSTFILE, and blaunch starts workers on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bftrainer.errors import InputFileError, UserError

HOSTFILE = "LSB_DJOB_HOSTFILE"


def nodes_of_job(environment: Mapping[str, str], launch_node: bool) -> tuple[str, ...]:
    """The hosts of the job, each once, without the launch node, which comes first where there is one (CSM)."""
    path = Path(environment[HOSTFILE])
    try:
        hosts = tuple(dict.fromkeys(path.read_text(encoding="utf-8").split()))
    except OSError as error:
        raise InputFileError(str(path), f"cannot be read: {error.strerror}") from error
    nodes = hosts[1:] if launch_node else hosts
    if not nodes:
        raise UserError(f"{path} lists no compute node")
    return nodes


def prefix_of_job(settings: Mapping[str, Any]) -> list[str]:
    """The prefix that starts a worker: ``lsf.worker_prefix``, else blaunch, which does not work from a launch node."""
    prefix = [str(word) for word in settings.get("worker_prefix", ())]
    if not prefix and settings.get("launch_node"):
        raise UserError("if lsf.launch_node is set, lsf.worker_prefix is required; it must start a worker on {node}")
    return prefix or ["blaunch", "{node}"]
