"""Stands for ``sacct`` on a login node in Zurich: four days of jobs, first come first served, on
twelve CPU and four GPU nodes.

The values are written as Slurm 22.05.8 writes them: ``None`` for a job that never started, TRES in
alphabetical order, the reason that is kept (never Priority or Resources), ``SchedMain`` for a start
by the main scheduler.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

ZONE = ZoneInfo("Europe/Zurich")
JOBS = 150
CORES, GPUS = 64, 4
LIMITS_MIN = (30, 60, 120, 240, 480)


@dataclass(frozen=True)
class Partition:
    name: str
    nodes: tuple[str, ...]
    sizes: tuple[int, ...]
    node_tres: dict[str, int]

    def tres(self, nodes: int) -> str:
        total = {name: count * nodes for name, count in self.node_tres.items()} | {"node": nodes}
        return ",".join(
            f"{name}={count}{'G' * (name == 'mem')}" for name, count in sorted(total.items())
        )


CPU = Partition(
    "normal",
    tuple(f"cn{number:02d}" for number in range(1, 13)),
    (1, 1, 2, 3, 4, 8),
    {"billing": CORES, "cpu": CORES, "mem": 250},
)
GPU = Partition(
    "gpu",
    tuple(f"gpu{number:02d}" for number in range(1, 5)),
    (1, 1, 2),
    {"billing": CORES, "cpu": CORES, "gres/gpu": GPUS, "mem": 500},
)


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag in ("-a", "-D", "-X", "-P"):
        parser.add_argument(flag, action="store_true", required=True)
    parser.add_argument("-S", type=datetime.fromisoformat, required=True)
    parser.add_argument("-E", type=datetime.fromisoformat, required=True)
    parser.add_argument("-o", type=lambda text: text.split(","), required=True)
    asked = parser.parse_args()
    print("|".join(asked.o))
    for job in jobs(asked.S.replace(tzinfo=ZONE) + timedelta(days=2)):
        assert asked.S.replace(tzinfo=ZONE) <= job["End"] <= asked.E.replace(tzinfo=ZONE)  # type: ignore[operator]
        print("|".join(_shown(job[column]) for column in asked.o))


def jobs(begin: datetime) -> Iterator[dict[str, object]]:
    rng = random.Random(7)
    submit = begin.astimezone(UTC)
    free_at = dict.fromkeys((*CPU.nodes, *GPU.nodes), submit)
    for number in range(1, JOBS + 1):
        submit += timedelta(seconds=round(rng.expovariate(1 / 2000)))
        partition = rng.choice([CPU, CPU, CPU, GPU])
        size = rng.choice(partition.sizes)
        limit_min = rng.choice(LIMITS_MIN)
        asked = {
            "JobID": str(number),
            "Cluster": "site",
            "User": f"u{number % 7}",
            "Account": "science",
            "Submit": submit,
            "Eligible": submit,
            "TimelimitRaw": limit_min,
            "NNodes": size,
            "Partition": partition.name,
            "QOS": "normal",
            "Reason": "None",
            "ReqTRES": partition.tres(size),
            "Constraints": "",
        }
        if number % 40 == 0:  # sbatch --begin=now+1hour
            asked |= {"Eligible": submit + timedelta(hours=1), "Reason": "BeginTime"}
        nodes = sorted(sorted(partition.nodes, key=lambda node: (free_at[node], node))[:size])
        start = max(asked["Eligible"], *(free_at[node] for node in nodes)) + timedelta(seconds=2)  # type: ignore[type-var]
        if number % 50 == 0:
            yield asked | {
                "Start": "None",
                "End": submit + timedelta(seconds=1),
                "ElapsedRaw": 0,
                "NodeList": "None assigned",
                "State": "CANCELLED by 1000",
                "AllocTRES": "",
                "Flags": "None",
            }
            continue
        wanted_s = rng.randrange(300, 14_400)
        ran_s = min(wanted_s, limit_min * 60 + 12)  # Slurm ends jobs some seconds after their limit
        end = start + timedelta(seconds=ran_s)
        free_at.update(dict.fromkeys(nodes, end))
        yield asked | {
            "Start": start,
            "End": end,
            "ElapsedRaw": ran_s,
            "State": "COMPLETED" if ran_s == wanted_s else "TIMEOUT",
            "NodeList": str(NodeSet(",".join(nodes), resolver=RESOLVER_NOGROUP)),
            "AllocTRES": asked["ReqTRES"],
            "Flags": "SchedMain",
        }


def _shown(value: object) -> str:
    return (
        value.astimezone(ZONE).strftime("%Y-%m-%dT%H:%M:%S")
        if isinstance(value, datetime)
        else str(value)
    )


main()
