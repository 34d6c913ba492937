"""What the pilots of a state directory have measured of Prologs and Epilogs, as findings of doctor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bftrainer.domain.checks import Check
from bftrainer_adapters.holding.node_times import read_times
from bftrainer_adapters.slurm.config import SlurmSettings

SLOW_END_S = 3.0
"""The holder asks every second when a node is idle; without an Epilog the answer is one or two."""


def measured(settings: SlurmSettings, holders: Path) -> Iterator[Check]:
    """A holder's start (a Prolog is a part of it), and the time from its end until its node is idle (the Epilog)."""
    times = read_times(holders)
    for name, start_s, end_s, ends in times.classes():
        of = f"nodes of class {name!r}" if name else "nodes"
        yield Check.ok("holder start", f"{of}: ready {start_s:.0f} s after sbatch; shorter windows are not taken")
        if ends and end_s >= SLOW_END_S:
            test = f'"$SLURM_JOB_PARTITION" = {settings.partition}' if settings.partition and not settings.qos else (
                f'"$SLURM_JOB_ACCOUNT" = {settings.account or "ACCOUNT"}'
            )  # fmt: skip
            yield Check.warning(
                "holder end",
                f"{of}: idle {end_s:.0f} s after a holder's end: a main job that preempts holders waits that long for the "
                "Epilog, and would not on an idle node",
                f"let the Epilog exit at once for holders: [ {test} ] && exit 0",
            )
        elif ends:
            yield Check.ok("holder end", f"{of}: idle {end_s:.0f} s after a holder's end")
