"""Objectives against equal shares, from the results of a sweep: samples and one-node hours, in percent of equal shares'.

python tests/bench/_objectives.py build/objectives/results.csv

For each log, number of trainers, rescale cost and objective: the gain in samples and in one-node hours over the policy
equal-share, and the longest wait at 0 nodes. At the end, for each objective, the least gain and the mean.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

SETTINGS = ("log", "workload", "forward_s", "max_parallel", "cost_factor", "seed")
MEASURES = ("outcome_samples", "outcome_one_node_h")


def main(path: Path) -> None:
    """Print the table."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    equal = {tuple(row[name] for name in SETTINGS): row for row in rows if row["policy"] == "equal-share"}
    gains: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        baseline = equal[tuple(row[name] for name in SETTINGS)]
        if row["policy"] == "equal-share" or not float(baseline[MEASURES[0]]):
            continue
        gained = [100 * float(row[measure]) / float(baseline[measure]) - 100 for measure in MEASURES]
        gains[row["objective"]] += gained
        where = (
            f"{row['log']:<42} P_jmax {row['max_parallel']:>3}  cost x{row['cost_factor']:<3} {row['objective']:<19}"
        )
        shown = "".join(f"{gain:+8.2f} %" for gain in gained)
        print(f"{where}{shown}  waits {float(row['longest_wait_h']):.1f} h ({float(baseline['longest_wait_h']):.1f} h)")
    for objective, found in gains.items():
        print(f"{objective:<19} least {min(found):+.2f} %, mean {sum(found) / len(found):+.2f} %, {len(found)} figures")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
