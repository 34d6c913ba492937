"""Stands for ``sacct`` on a login node in Zurich: four days of jobs, first come first served, on sixteen nodes."""

from __future__ import annotations

import argparse
import random
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

ZONE = ZoneInfo("Europe/Zurich")
NODES = [f"cn{number:02d}" for number in range(1, 17)]


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag in ("-a", "-X", "-P"):
        parser.add_argument(flag, action="store_true", required=True)
    parser.add_argument("-S", type=datetime.fromisoformat, required=True)
    parser.add_argument("-E", type=datetime.fromisoformat, required=True)
    parser.add_argument("-o", type=lambda text: text.split(","), required=True)
    asked = parser.parse_args()
    print("|".join(asked.o))
    for job in jobs(asked.S.replace(tzinfo=ZONE) + timedelta(days=2)):
        assert asked.S.replace(tzinfo=ZONE) <= job["End"] <= asked.E.replace(tzinfo=ZONE)  # type: ignore[operator]
        print("|".join(_shown(job[column]) for column in asked.o))


def jobs(begin: datetime) -> list[dict[str, object]]:
    rng = random.Random(7)
    free_at = dict.fromkeys(NODES, begin.astimezone(timezone.utc))
    found = []
    submit = begin.astimezone(timezone.utc)
    for number in range(1, 151):
        submit += timedelta(seconds=round(rng.expovariate(1 / 2000)))
        size = rng.choice([1, 1, 2, 3, 4, 8])
        nodes = sorted(sorted(NODES, key=lambda node: (free_at[node], node))[:size])
        start = max(submit, *(free_at[node] for node in nodes)) + timedelta(seconds=2)
        end = start + timedelta(seconds=rng.randrange(300, 14_400))
        free_at.update(dict.fromkeys(nodes, end))
        found.append(
            {
                "JobID": str(number), "State": "COMPLETED", "Submit": submit, "Eligible": submit, "Start": start, "End": end,
                "NNodes": str(size), "NodeList": str(NodeSet(",".join(nodes), resolver=RESOLVER_NOGROUP)),
            }
        )  # fmt: skip
    return found


def _shown(value: object) -> str:
    return value.astimezone(ZONE).strftime("%Y-%m-%dT%H:%M:%S") if isinstance(value, datetime) else str(value)


main()
