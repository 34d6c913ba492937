"""Stalls of several kinds of trainers, measured in turns, as one table."""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

CASES = ("up 1 to 2", "down 2 to 1", "rank 0 leaves", "worker killed")


def print_stalls(description: str | None, kinds: Mapping[str, Callable[[Path], dict[str, float]]]) -> None:
    """The command line of a script that measures: each kind runs in a folder of its own and gives seconds by case."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeat", type=int, default=3, help="trainers of each kind, in turns (default 3)")
    repeat = options.parse_args().repeat
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bftrainer-stalls-") as folder:
        for turn, (name, measure) in itertools.product(range(repeat), kinds.items()):
            print(f"{turn + 1} of {repeat}: {name} ...", file=sys.stderr, flush=True)
            for case, seconds in measure(Path(folder) / f"{turn}-{name.replace(' ', '-')}").items():
                found.setdefault((case, name), []).append(seconds)
    print(f"Stall in seconds, median (smallest to largest) of {repeat}")
    print(f"{'':<16}" + "".join(f"{name:>28}" for name in kinds))
    for case in CASES:
        cells = [found[case, name] for name in kinds]
        texts = [f"{statistics.median(cell):.2f} ({min(cell):.2f} to {max(cell):.2f})" for cell in cells]
        print(f"{case:<16}" + "".join(f"{text:>28}" for text in texts))
