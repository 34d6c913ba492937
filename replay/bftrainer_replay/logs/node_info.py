"""What nodes have, from ``scontrol show node``: a log only shows the most that its jobs used at
once.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from bftrainer.counted import counted
from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.job_needs import JobUse
from bftrainer_replay.logs.logged_nodes import LoggedNodes
from bftrainer_replay.logs.slurm_needs import use_of
from bftrainer_replay.logs.source import Source
from bftrainer_replay.text_files import read_text

_NODE = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
_TRES = re.compile(r"\bCfgTRES=(\S*)")
_GRES = re.compile(r"\bGres=(\S*)")
_DEVICE = re.compile(r"([\w.+-]+(?::[\w.+-]*[A-Za-z_][\w.+-]*)?):(\d{1,9})(?:\(|,|$)")


def with_node_info(source: Source, facts: LoggedNodes) -> LoggedNodes:
    """Return the facts with the cores and devices of nodes as the file of --node-info has them.

    Without this option, the facts are unchanged. A node that is not in the file keeps its facts (a
    remark says so). Raises :class:`UserError` if none of the log's nodes is in the file.
    """
    path = source.options.node_info
    if path is None:
        return facts
    text = read_text(path)
    matches = list(_NODE.finditer(text))
    if not matches:
        raise InputFileError(
            str(path), "has no line NodeName=..., expected the output of scontrol show node"
        )
    # A node's record extends to the next NodeName=.
    ends = [*(match.start() for match in matches[1:]), len(text)]
    amounts_of = {
        match[1]: _node_amounts(text[match.start() : end])
        for match, end in zip(matches, ends, strict=True)
    }
    missing = [name for name in facts.names if name not in amounts_of]
    if len(missing) == len(facts.names):
        raise UserError(
            f"none of the nodes in --node-info {path} is in {source.name}; its nodes have "
            f"names like {facts.names[0]}, those "
            f"have names like {next(iter(amounts_of))}"
        )
    if missing:
        source.remarks.append(
            f"{counted(len(missing), 'node is', 'nodes are')} not in --node-info, such as "
            f"{missing[0]}: "
            f"assuming the most that was in use"
        )
    is_listed = np.array([name in amounts_of for name in facts.names])
    amounts = [amounts_of.get(name, JobUse()) for name in facts.names]
    names = sorted({device for use in amounts for device, _ in use.devices} | set(facts.devices))
    devices = {
        name: np.where(
            is_listed,
            [dict(use.devices).get(name, 0.0) for use in amounts],
            facts.devices.get(name, np.zeros(len(amounts))),
        )
        for name in names
    }
    cores = np.where(is_listed, [use.cores for use in amounts], facts.cores)
    return replace(facts, cores=cores, devices=devices, is_told=True)


def _node_amounts(record: str) -> JobUse:
    """Return the cores and devices of a node from its record in the output of ``scontrol show
    node``.

    They are from CfgTRES or, if that has no devices (AccountingStorageTRES lacks them), from Gres.
    """
    tres = match[1] if (match := _TRES.search(record)) else ""
    amounts = use_of(tres, 1)
    if amounts.devices or not (gres := _GRES.search(record)):
        return amounts
    devices: dict[str, float] = {}
    for name, count in _DEVICE.findall(gres[1]):
        # gpu:a100:4 counts as 4 gpu:a100, and as 4 gpu.
        for device in {name, name.partition(":")[0]}:
            devices[device] = devices.get(device, 0.0) + int(count)
    return JobUse(amounts.cores, tuple(sorted(devices.items())[:8]))
